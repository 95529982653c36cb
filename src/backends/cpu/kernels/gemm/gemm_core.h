// The engine under gemm.h, conv.h and conv_transpose.h: one thread's share of a product whose rows of A are found
// through pointers. Internal to the kernels.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/gemm/product_shares.h"

namespace camshaft::cpu {

/// Where the rows of an M block come from. K is `taps` pieces of `depth` contiguous floats.
struct RowSource {
  /// Plain matrix, if `fill` is null: one tap, row m at base + m * row_stride, elements k_stride apart.
  const float* base = nullptr;
  int64_t row_stride = 0;
  int64_t k_stride = 1;
  /// Of a plain matrix whose k_stride is 1, or none: element k of row m counts factors[m / factor_rows * K + k] times.
  const float* factors = nullptr;
  int64_t factor_rows = 1;
  /// Otherwise: writes the pointer of tap t of row row0 + r to pointers[t * stride + r], and, if `scatter` is set, the
  /// row of C (and of the residual) to out_rows[r].
  void (*fill)(const void* context, int64_t row0, int64_t rows, const float** pointers, int64_t stride,
               int64_t* out_rows) = nullptr;
  const void* context = nullptr;
  /// What `fill` writes for rows of zeros, if there are such. A register tile leaves out the taps of which it sees only
  /// those: padding costs nothing, be the dilation ever so large.
  const float* zeros = nullptr;
  bool scatter = false;  ///< rows of C do not follow each other, though in order; no callback in the epilogue then
};

struct CoreProblem {
  int64_t m = 0, n = 0;
  int64_t taps = 1, depth = 0;
  Words words = Words::f32;  ///< pairs: rows have no factors, and elements that follow each other
  RowSource rows;
  const float* packed_b = nullptr;
  float* c = nullptr;
  int64_t ldc = 0;
  Epilogue epilogue;
  int64_t callback_row0 = 0;  ///< added to the rows that the callback sees
  int64_t callback_col0 = 0;  ///< and to the columns
  /// Where the m rows are some of a larger product's: how many that has. They choose how sums are made, which are then
  /// the same however its rows are handed out. 0: m.
  int64_t whole_m = 0;
  bool batch_invariant = false;  ///< of a plain matrix: sums are made alike for all m
  /// A block of K (core_k_blocks) whose sums alone go to C, without the epilogue; -1: the whole product.
  int64_t k_block = -1;
};

/// Element `i` of a batch, with B packed, as a product.
CoreProblem batch_element(const BatchGemmArgs& args, int64_t i, const float* packed);

/// What RowSource::fill does for one tap of `count` neighbours in a line: to[i] = line + offsets[i * step], and `zeros`
/// where that offset is negative, or where `line` is null.
template <class T>
void fill_line(const T* line, const int64_t* offsets, int64_t step, int64_t count, const T* zeros, const T** to) {
  if (!line) {
    for (int64_t i = 0; i < count; ++i) to[i] = zeros;
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = offsets[i * step] < 0 ? zeros : line + offsets[i * step];
  }
}

/// Scratch bytes for one thread, whatever its share of the m rows; a multiple of 64.
int64_t core_workspace_bytes(int64_t m, int64_t taps);

/// Computes rows [m0, m1) of panels [p0, p1).
void core_run(const CoreProblem& problem, int64_t m0, int64_t m1, int64_t p0, int64_t p1, void* workspace);

/// The blocks that K is cut into, whatever the threads. A product is the sum of theirs in order, bit by bit. Dot
/// products have one.
int64_t core_k_blocks(const CoreProblem& problem);
/// K steps of all of them but the last, of a plain matrix of k that has more rows than a register tile.
int64_t core_block_depth(int64_t k);
/// Whether the product is taken as dot products.
bool core_runs_dots(const CoreProblem& problem);

/// c = activation(c) + addend, in place.
void core_activate(const Activation& activation, const ActivationBlock& block);

/// A product as this machine cuts it, with K in one block.
ProductShape core_product_shape(int64_t m, int64_t n, int64_t taps, int64_t depth);
/// The part of a thread in the best grid for `threads` threads: for products that are cut in no other way.
Share core_share(int64_t m, int64_t n, int64_t taps, int threads, int thread);

/// Rows of the register tile for full panels on this machine (6 with AVX-512); the grain for cutting M.
int64_t core_tile_rows();

}  // namespace camshaft::cpu
