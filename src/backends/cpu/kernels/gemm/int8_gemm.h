// Products of 8-bit matrices with exact sums in i32: C[m, n] = finish(Σ_k (a[m, k] - a_zero) · (b[k, n] - b_zero)).
//
// The weights are packed once, in quads of K: what `vpdpbusd` multiplies and adds up in one step. It takes unsigned
// numbers from one operand and signed ones from the other, so A is used as u8 and B as i8: the other kinds are moved by
// 128, their zero points with them. Zero points never touch the elements: with sums of rows and columns
//
//   Σ (a - za)(b - zb) = Σ a·b - zb·Σ a - za·Σ (b - zb).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "backends/cpu/kernels/gemm/product_shares.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// Weights of a product, or of one for each of several groups. K is [tap, depth].
struct Int8Weights {
  int64_t groups = 1;
  int64_t columns = 0;  ///< of a group
  int64_t taps = 1, depth = 0;
  /// K is packed in pieces of so many numbers, each filled up with zeros to whole quads: of rows that come in pieces as
  /// long, these can be read in place. A divisor of k().
  int64_t piece = 0;
  /// How the model stores them: [k, column], or, otherwise, [group, column, depth, tap].
  bool matrix = true;
  PackedLayout layout;  ///< of one group's quads, 4 bytes for each float that the layout speaks of

  int64_t k() const { return taps * depth; }
  int64_t piece_quads() const { return (piece + 3) / 4; }
  int64_t quads() const { return piece == 0 ? 0 : k() / piece * piece_quads(); }
  int64_t padded_columns() const { return layout.panels() * layout.width; }
  /// 4-byte words of a group: its quads, then the sum of each column's stored bytes, up to padded_columns().
  int64_t group_words() const { return layout.floats() + padded_columns(); }
  int64_t bytes() const { return groups * group_words() * 4; }
};

/// With the layout of this machine. `piece` 0: all of K.
Int8Weights int8_weights(int64_t groups, int64_t columns, int64_t taps, int64_t depth, bool matrix, int64_t piece = 0);

/// Packs weights as the model stores them into w.bytes() bytes. `flip`: they are u8.
void pack_int8(const Int8Weights& w, const uint8_t* from, bool flip, std::byte* packed);
/// The exact inverse.
void unpack_int8(const Int8Weights& w, const std::byte* packed, bool flip, uint8_t* to);

/// Where the rows of A come from: `taps` pieces of `depth` bytes, in the order of the weights, though they may be other
/// pieces (lines of a kernel, say, and not its points).
struct Int8Rows {
  int64_t taps = 1, depth = 0;
  /// A plain matrix, if `fill` is null: row m at base + m * row_stride.
  const uint8_t* base = nullptr;
  int64_t row_stride = 0;
  /// Otherwise: writes the pointer of tap t of row row0 + r to pointers[t * stride + r].
  void (*fill)(const void* context, int64_t row0, int64_t rows, const uint8_t** pointers, int64_t stride) = nullptr;
  const void* context = nullptr;
  bool flip = false;  ///< A is i8
  /// kRoom bytes behind every piece can be read.
  bool has_room = false;
  static constexpr int64_t kRoom = 32;
};

/// What becomes of the sums.
enum class Int8Result : uint8_t {
  sums,       ///< i32 to C, or to blocks for `finish`
  scaled,     ///< f32: sum · scale, then `epilogue`
  steps,      ///< 8 bits: round(sum · scale) + zero, saturated, or what Int8Steps says
  activated,  ///< 8 bits: x of Int8Steps, which rounds nothing of its own, is what `epilogue` makes of sum · scale
};

/// How x = sum · scale becomes steps:
///   q = rounds ? round(clamp(x, own_lo, own_hi)) : x
///   s = saturate(round(clamp(own · q + other · addend + shift, lo, hi)) + zero)
/// and s is looked up in a table, if there is one. A NaN becomes own_nan where it is rounded, 0 at the end otherwise.
struct Int8Steps {
  int32_t zero = 0;        ///< small
  bool is_signed = false;  ///< i8
  float lo = -std::numeric_limits<float>::infinity(), hi = std::numeric_limits<float>::infinity();
  bool is_plain = true;  ///< q is x, and there is nothing of the following
  bool rounds = false;
  float own_lo = 0, own_hi = 0, own_nan = 0;
  float own = 1, other = 0, shift = 0;
  const uint8_t* addend = nullptr;  ///< where the result is, in lines of `addend_ld`
  int64_t addend_ld = 0;
  bool addend_is_signed = false;
  const uint8_t* table = nullptr;  ///< 256 bytes, by the bits of the steps
  /// Every x is a number, and what is rounded lies within i32.
  bool is_small = false;
};

/// Called on a finished block of sums: element (row, column) of [row0, row0 + rows) x [col0, col0 + cols) is at
/// block[(row - row0) * ld + column - col0].
using SumsCallback = void (*)(void* context, const int32_t* block, int64_t ld, int64_t row0, int64_t rows, int64_t col0,
                              int64_t cols);

struct Int8Problem {
  int64_t m = 0;
  const Int8Weights* weights = nullptr;
  const std::byte* packed = nullptr;  ///< one group's
  Int8Rows rows;
  /// padded_columns() of each: what sums begin with, and the zero points of the stored columns, or none where all are
  /// 0.
  const int32_t* begin = nullptr;
  const int32_t* column_zeros = nullptr;
  /// Where the rows' zero points differ: m of them, to be multiplied with the columns' sums.
  const int32_t* row_zeros = nullptr;
  const int32_t* row_zero_sums = nullptr;

  Int8Result result = Int8Result::sums;
  void* c = nullptr;  ///< elements of the result's type; null: sums go to `finish`
  int64_t ldc = 0;
  SumsCallback finish = nullptr;
  void* finish_context = nullptr;
  const float* scale = nullptr;  ///< of all columns, and as many more as a panel has
  bool finite_scale = false;     ///< no infinity or NaN is among them
  Epilogue epilogue;             ///< bias, residuals, activation and so on
  Int8Steps steps;               ///< of `steps`
  int64_t row0 = 0, col0 = 0;    ///< where in the result, C and the operands of the epilogue the product lies

  bool gives_blocks() const { return result == Int8Result::sums && !c; }
  /// Whether rows are read in place, and not copied first: their quads are those of the weights, or what they have
  /// beside them are zeros.
  bool reads_in_place() const {
    if (rows.flip) return false;
    if (rows.depth % 4 == 0) return rows.taps == 1 || rows.depth >= 16;
    return rows.has_room && weights->piece == rows.depth && !column_zeros;
  }
};

/// Whether this machine multiplies quads in one instruction, for the instruction set in use.
bool has_int8_dots();
/// Whether it looks up bytes in a table of 256 by vectors.
bool has_byte_tables();

/// What multiplies bytes. Whatever it is, sums are the same.
struct Int8Instructions {
  bool dots = has_int8_dots();                  ///< quads at once, or products of 16 bits, which never saturate either
  MatrixUnit matrix_unit = byte_matrix_unit();  ///< of products of many rows
};

/// Whether the matrix unit computes products of m rows. With fewer rows or words of K dots do.
bool int8_takes_tiles(const Int8Weights& weights, int64_t m, MatrixUnit unit = byte_matrix_unit());

/// How the product is cut for threads: in steps of quads. Sums are exact wherever K is cut.
ProductShape int8_product_shape(const Int8Weights& weights, int64_t m, int64_t taps, bool in_place,
                                const Int8Instructions& by = {});
/// Computes the product on the threads that are worth waking. 64-byte aligned workspace of int8_workspace_bytes().
void int8_gemm(const Int8Problem& problem, ThreadPool& pool, void* workspace, const Int8Instructions& by = {});
/// `taps`: of the rows; `blocks`: Int8Problem::gives_blocks().
int64_t int8_workspace_bytes(const Int8Weights& weights, int64_t m, int64_t taps, bool blocks, int threads,
                             const Int8Instructions& by = {});

}  // namespace camshaft::cpu
