// f32 matrix multiplication: C[m,n] = epilogue(sum_k A[m,k] * B[k,n]) on raw pointers.
//
// The constant operand (weights) is packed once; A is read in place, C is written in place, nothing is allocated.
// Method: a register tile of rows x panel width, the K axis cut into blocks so that one block of one panel stays in L2
// while all rows of an M block pass over it (Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", 2008, with the roles of A and B exchanged because B is the operand that can be packed in advance).
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernels/pointwise/activation.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// What the elements of A and of packed B are: 4-byte words all. With pairs (bf16_pairs.h) a word holds two neighbours
/// along K, the earlier one in its lower half, and all sizes and strides of K count words; sums are f32.
enum class Words : uint8_t { f32, bf16_pairs };

/// How a K x N matrix lies in memory once packed. Panels of `width` columns follow each other; a panel is K rows of
/// `width` contiguous floats. The last panel holds only the remaining columns, rounded up to a multiple of `lanes` and
/// filled with zeros. Plain data: store it beside the packed bytes, so that a machine with another vector length can
/// unpack them and pack its own.
struct PackedLayout {
  int64_t k = 0;
  int64_t n = 0;
  int32_t width = 0;
  int32_t lanes = 0;

  int64_t panels() const { return (n + width - 1) / width; }
  /// Columns stored for panel p: `width`, or fewer (a multiple of `lanes`) for the last.
  int64_t columns(int64_t p) const {
    const int64_t rest = n - p * width;
    return rest >= width ? width : (rest + lanes - 1) / lanes * lanes;
  }
  /// Floats before panel p.
  int64_t offset(int64_t p) const { return p * width * k; }
  /// Size of the whole packed matrix in floats.
  int64_t floats() const { return n == 0 ? 0 : offset(panels() - 1) + columns(panels() - 1) * k; }
  /// Panels as some machine may have them: what a file says is held against this before anything is computed from it.
  bool has_possible_panels() const { return width > 0 && width <= 4096 && lanes > 0 && width % lanes == 0; }
  bool operator==(const PackedLayout&) const = default;
};

/// The layout that `gemm` wants on this machine (64 columns and 16 lanes with AVX-512, 16 and 8 with AVX2).
PackedLayout packed_layout(int64_t k, int64_t n);
/// packed_layout(k, n).floats() * 4.
int64_t packed_b_bytes(int64_t k, int64_t n);

/// Packs B, element (k, n) at b[k * k_stride + n * n_stride], into `packed` (layout.floats() floats; 64-byte aligned
/// for speed). Any strides: pass (1, ld) for a transposed matrix. Works for a layout of any machine.
void pack_b(const PackedLayout& layout, const float* b, int64_t k_stride, int64_t n_stride, float* packed);
/// The exact inverse of pack_b: writes the K x N elements, and nothing else, to b[k * k_stride + n * n_stride].
void unpack_b(const PackedLayout& layout, const float* packed, float* b, int64_t k_stride, int64_t n_stride);

/// Copies a packed matrix with row k multiplied by factors[k], on all threads.
void scale_packed_rows(const PackedLayout& layout, const float* packed, const float* factors, float* out,
                       ThreadPool& pool);

/// Called on a finished block of C, rows [row0, row0 + rows) x columns [col0, col0 + cols), while it is still in cache,
/// by the thread that computed it. Blocks are disjoint and cover C. May be cancelled.
using BlockCallback = void (*)(void* context, int64_t row0, int64_t rows, int64_t col0, int64_t cols);

/// Called in place of BlockCallback on blocks that are not in C, but at `block`, `ld` floats from row to row: it stores
/// the result itself, in whatever type that is.
using BlockStore = void (*)(void* context, const float* block, int64_t ld, int64_t row0, int64_t rows, int64_t col0,
                            int64_t cols);

/// A matrix that is added to the sums.
struct Residual {
  const float* data = nullptr;
  int64_t ld = 0;  ///< floats from one row to the next
};

/// Residuals behind the first that a product adds in registers.
inline constexpr int kMoreResiduals = 2;

/// What happens to the sums: + bias[n], + residual[m, n], clamp to [lo, hi] (NaN stays NaN), in this order, in
/// registers; then `activation` and + addend[m, n] while the tile is in L1; then `callback` for whatever else. relu is
/// lo = 0, relu6 is lo = 0 and hi = 6.
struct Epilogue {
  const float* bias = nullptr;      ///< n floats, or none
  const float* residual = nullptr;  ///< or none; either C itself (same ld), or memory that does not overlap C
  int64_t residual_ld = 0;          ///< floats from one residual row to the next
  /// Added next, one after the other, up to the first without data; they do not overlap C. gemm() and conv() alone look
  /// at them.
  std::array<Residual, kMoreResiduals> more_residuals;
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();
  const Activation* activation = nullptr;  ///< or none
  const float* addend = nullptr;           ///< or none; only with an activation; must not overlap C
  int64_t addend_ld = 0;
  BlockCallback callback = nullptr;
  /// Instead of C and the callback, neither of which there is then. gemm() and conv() alone know it.
  BlockStore store = nullptr;
  void* context = nullptr;
};

/// A's element (m, k) is a[m * lda + k]. If lda is larger than k the gap is never read.
struct GemmArgs {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* packed_b = nullptr;  ///< from pack_b with packed_layout(k, n)
  float* c = nullptr;               ///< must not overlap A; null where the epilogue stores
  int64_t ldc = 0;
  Epilogue epilogue;
  Words words = Words::f32;
  /// A row of C has the same bits, whatever m is: K is cut by the blocks of many rows, where few rows would be cut into
  /// parts for many threads. (Not in pairs that a unit multiplies by tiles.)
  bool batch_invariant = false;
};

/// Bytes of scratch memory `gemm` needs for these sizes on `threads` threads and fewer; 64-byte aligned.
int64_t gemm_workspace_bytes(int64_t m, int64_t n, int64_t k, int threads, bool batch_invariant = false);
/// Runs on the threads of the pool that are worth waking. k == 0 gives epilogue(0); m == 0 or n == 0 does nothing.
void gemm(const GemmArgs& args, ThreadPool& pool, void* workspace);

/// `batch` independent products with a B that is not constant (attention, matmul of two activations). All strides are
/// in floats; operands of batch element i start at i * batch_stride, or, with two batch axes, see `inner_batch`.
struct BatchGemmArgs {
  int64_t batch = 1;
  /// Batch index i is split into (i / inner_batch, i % inner_batch), so that [batch, sequence, head, depth] tensors are
  /// multiplied in place: outer strides are the *_outer_stride, inner ones *_inner_stride. A stride of 0 broadcasts.
  int64_t inner_batch = 1;
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row_stride = 0, a_k_stride = 1, a_outer_stride = 0, a_inner_stride = 0;
  const float* b = nullptr;
  int64_t b_k_stride = 0, b_n_stride = 1, b_outer_stride = 0, b_inner_stride = 0;
  float* c = nullptr;  ///< columns are contiguous
  int64_t c_row_stride = 0, c_outer_stride = 0, c_inner_stride = 0;
  /// bias is shared by the batch; residual and addend follow c's strides (their ld is ignored). The
  /// callback's rows count through the batch: row0 = i * m + row; one call never spans two batch elements.
  Epilogue epilogue;
};

/// Copies the matrices A of `args`, whose columns are contiguous (a_row_stride is 1), so that their rows are: `turned`
/// has batch * m rows of k floats.
void turn_a(const BatchGemmArgs& args, float* turned, ThreadPool& pool);

/// Bytes of scratch memory `batch_gemm` needs; 64-byte aligned.
int64_t batch_gemm_workspace_bytes(const BatchGemmArgs& args, int threads);
void batch_gemm(const BatchGemmArgs& args, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
