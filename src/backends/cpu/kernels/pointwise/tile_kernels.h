// The loops that pointwise programs are executed with: one function a (operation, element type), over one tile.
// Internal to the pointwise executor; see pointwise.h for the way in.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "ir/ops/scalar_function.h"

namespace camshaft::cpu {

/// The most operands that a loop has.
constexpr int most_operands = 8;

/// out[i] = f(in[0][i], in[1][i], in[2][i], ...) for i < n. Bit k of `uniform` says that operand k is one element for
/// all i. `out` may be one of the operands (same element width).
using TileKernel = void (*)(const void* const* in, void* out, int64_t n, unsigned uniform);

/// What a step of a tile program does beyond the scalar functions. Each of these, as one loop, saves a load and a store
/// an element for every instruction it replaces.
enum class FusedFunction : uint8_t {
  none,
  mul_add,        ///< a * b + c, rounded once where the machine has the instruction
  mul_sub,        ///< a * b - c
  square,         ///< a * a
  cube,           ///< a * a * a of f64
  silu,           ///< a * sigmoid(a)
  gelu,           ///< a * 0.5 * (1 + erf(a / sqrt 2))
  gelu_by_tanh,   ///< a * 0.5 * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 * a^3)))
  leaky_relu,     ///< a where it is not negative, else a * b
  softsign,       ///< a / (1 + |a|)
  above_or_zero,  ///< a where it is greater than b, else 0
  clamp,          ///< min(max(a, b), c), b and c not NaN; NaN stays NaN
  scaled_clamp,   ///< min(max(a * b + c, d), e), all but a one element each
  add_relu,       ///< max(a + b, 0)
  max_number,     ///< max(a, b), b known not to be NaN: NaN if a is, at the price of one instruction
  min_number,     ///< likewise
  // e^-(a - b) of integers that wrap, as f32: what sums of exponentials of integers are made of.
  exp_distance_32,
  exp_distance_64,
  round_to_f16,   ///< through f16 and back
  round_to_bf16,  ///< through bf16 and back
  // Quantisation: bytes and 16 bits from f32, bytes back.
  quantize_u8,   ///< round(a / b) + c to u8, saturated; NaN gives 0
  quantize_i8,   ///< likewise to i8
  quantize_u16,  ///< and to 16 bits
  quantize_i16,
  steps_u8,  ///< round(a / b) to u8, as with a zero point of 0
  steps_i8,
  steps_u16,
  steps_i16,
  dequantize_u8,   ///< (a - b) * c of u8
  dequantize_i8,   ///< likewise of i8
  dequantize_u16,  ///< likewise of u16
  dequantize_i16,  ///< likewise of i16
  scale_u8,        ///< a * b of u8 and f32, as with a zero point of 0
  scale_i8,
  scale_u16,
  scale_i16,
  scale_i32,
  // Of f16 by its bits: 10^6 tests for NaN took 122 us through f32, and take 92.
  is_nan_f16,
  is_inf_f16,  ///< of either sign
  is_inf_pos_f16,
  is_inf_neg_f16,
  abs_f16,  ///< these three to f16
  neg_f16,
  sign_f16,
  // Both around a sum or a product: round(((a - b) * c + (d - e) * f) / g) + h of bytes a and d and one each of the
  // others, of which the last may be left out.
  add_bytes_u8,
  add_bytes_i8,
  multiply_bytes_u8,
  multiply_bytes_i8,
};

/// The loop for a function whose operands are `lanes` in registers: f16 and bf16 are computed as f32, bool is uint8_t.
/// For select, `lanes` is the type of the values. Throws Error(unsupported) where the type has no such function.
TileKernel find_kernel(ScalarFunction function, DType lanes);

/// The loop for a fused function.
TileKernel find_kernel(FusedFunction function);

/// The loop for min(max(a, b), c) of integers or f64, b and c one element each and no NaN. Of f64 NaN stays NaN.
TileKernel find_clamp(DType lanes);

/// The loop for a * b + c of f64, rounded twice; a is no one element.
TileKernel find_multiply_add_f64();

/// The loop that converts between two types as stored in memory. Floats to integers truncate and saturate, NaN gives 0;
/// anything to bool is `!= 0`; integers to narrower integers wrap. From a type to itself copies.
TileKernel find_conversion(DType from, DType to);
/// The loop that converts f64 or integers of 32 bits and more to f32 such that rounding that to f16 or bf16 is the only
/// rounding there is; null for other types, whose conversion to f32 is exact.
TileKernel find_odd_conversion(DType from);

/// Relative cost of one element of a function, where 1 is an addition of f32 in L1.
int tile_cost(ScalarFunction function, DType lanes);

// Where the above look: the vectorised part, null where there is none.
TileKernel find_f32_kernel(ScalarFunction function);
TileKernel find_f64_kernel(ScalarFunction function);
TileKernel find_division(ScalarFunction function, DType lanes);  ///< of integers of 32 bits
TileKernel find_f32_fused(FusedFunction function);
TileKernel find_fused_conversion(FusedFunction function);
TileKernel find_half_kernel(FusedFunction function);
TileKernel find_distance_kernel(FusedFunction function);

}  // namespace camshaft::cpu
