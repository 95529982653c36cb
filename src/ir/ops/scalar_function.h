// The closed set of scalar functions that pointwise expressions are made of.
//
// One list serves the operator `pointwise`, the scalar programs of fused regions, and the executors of both
// backends. Composite activations (relu, gelu, silu, hard-swish, …) are lowered to these by the importer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace camshaft {

enum class ScalarFunction : uint8_t {
  // unary
  neg,
  abs,
  sign,
  ceil,
  floor,
  round,  ///< half to even
  sqrt,
  reciprocal,
  exp,
  log,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  sigmoid,
  is_nan,      ///< float -> bool
  is_inf_pos,  ///< float -> bool
  is_inf_neg,  ///< float -> bool
  logical_not,
  bitwise_not,
  // binary
  add,
  sub,
  mul,
  div,   ///< integers truncate towards zero
  mod,   ///< integers: the result has the divisor's sign
  fmod,  ///< C's fmod / %: the result has the dividend's sign
  pow,
  min,            ///< NaN if either is NaN
  max,            ///< NaN if either is NaN
  equal,          ///< -> bool
  less,           ///< -> bool
  less_or_equal,  ///< -> bool
  logical_and,
  logical_or,
  logical_xor,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  shift_left,
  shift_right,
  // ternary
  select,  ///< (bool condition, a, b) -> condition ? a : b
};

constexpr int scalar_function_count = static_cast<int>(ScalarFunction::select) + 1;

/// The name used in text form, e.g. "add".
std::string_view to_string(ScalarFunction function);
/// The inverse; throws Error(invalid_argument).
ScalarFunction parse_scalar_function(std::string_view name);
std::vector<std::string> scalar_function_names();
inline void parse_enum(std::string_view name, ScalarFunction& out) {
  out = parse_scalar_function(name);
}
/// 1, 2 or 3.
int arity(ScalarFunction function);

/// Whether reals, and integers, have this function.
bool takes_reals(ScalarFunction function);
bool takes_integers(ScalarFunction function);
/// bool for predicates, else the dtype of the (last) operand.
DType result_dtype(ScalarFunction function, DType operand);

}  // namespace camshaft
