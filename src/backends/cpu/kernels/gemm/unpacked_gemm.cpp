#include "backends/cpu/kernels/gemm/unpacked_gemm.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/unpacked_gemm.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

#ifndef CAMSHAFT_CPU_UNPACKED_ROWS
#define CAMSHAFT_CPU_UNPACKED_ROWS
namespace camshaft::cpu {
namespace {

constexpr int kTileRows = 4;

/// One element of the batch.
struct UnpackedProblem {
  const float *a, *b, *residual;
  float* c;
};

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using UnpackedTag = hn::ScalableTag<float>;
using UnpackedVec = hn::Vec<UnpackedTag>;

HWY_INLINE constexpr int64_t unpacked_lanes() {
  return static_cast<int64_t>(HWY_LANES(float));
}

HWY_INLINE bool is_plain_sum(const Epilogue& e) {
  return !e.bias && e.lo == -std::numeric_limits<float>::infinity() && e.hi == std::numeric_limits<float>::infinity();
}

HWY_INLINE void finish(const BatchGemmArgs& args, const UnpackedProblem& p, UnpackedVec sum, int64_t row, int64_t col,
                       int64_t count) {
  const UnpackedTag d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  const int64_t at = row * args.c_row_stride + col;
  if (args.epilogue.bias) sum = hn::Add(sum, masked_load(mask, d, args.epilogue.bias + col));
  if (p.residual) sum = hn::Add(sum, masked_load(mask, d, p.residual + at));
  sum = clamp_keeping_nan(sum, hn::Set(d, args.epilogue.lo), hn::Set(d, args.epilogue.hi));
  if (count == unpacked_lanes()) {
    hn::StoreU(sum, d, p.c + at);
  } else {
    masked_store(sum, mask, d, p.c + at);
  }
}

// Columns are contiguous: MR rows x NV vectors, the last one of `tail` lanes.
template <int MR, int NV>
void tile_of_columns(const BatchGemmArgs& args, const UnpackedProblem& p, int64_t row, int64_t col, int64_t tail) {
  const UnpackedTag d;
  constexpr int64_t lanes = unpacked_lanes();
  // Enough sums in flight to hide the latency of the multiply-add.
  constexpr int split = MR * NV >= 8 ? 1 : MR * NV >= 4 ? 2 : 4;
  UnpackedVec sum[split][MR][NV];
#pragma GCC unroll 4
  for (int s = 0; s < split; ++s) {
#pragma GCC unroll 4
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) sum[s][r][v] = hn::Zero(d);
    }
  }
  const bool masked = tail != lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(tail));
  const float* a = p.a + row * args.a_row_stride;
  const float* b = p.b + col;
  const auto step = [&](int64_t k, UnpackedVec(&into)[MR][NV]) HWY_ATTR {
    const float* from = b + k * args.b_k_stride;
    UnpackedVec bv[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v)
      bv[v] = v == NV - 1 && masked ? masked_load(mask, d, from + v * lanes) : hn::LoadU(d, from + v * lanes);
#pragma GCC unroll 4
    for (int r = 0; r < MR; ++r) {
      const UnpackedVec x = hn::Set(d, a[r * args.a_row_stride + k * args.a_k_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) into[r][v] = hn::MulAdd(x, bv[v], into[r][v]);
    }
  };
  int64_t k = 0;
  for (; k + split <= args.k; k += split) {
#pragma GCC unroll 4
    for (int s = 0; s < split; ++s) step(k + s, sum[s]);
  }
  for (; k < args.k; ++k) step(k, sum[0]);
#pragma GCC unroll 4
  for (int s = 1; s < split; ++s) {
#pragma GCC unroll 4
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) sum[0][r][v] = hn::Add(sum[0][r][v], sum[s][r][v]);
    }
  }
  // What follows the sums is looked at once for a tile.
  const bool is_plain = is_plain_sum(args.epilogue) && !p.residual;
  float* to = p.c + row * args.c_row_stride + col;
  const int64_t stride = args.c_row_stride;
#pragma GCC unroll 4
  for (int r = 0; r < MR; ++r, to += stride) {
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) {
      if (!is_plain)
        finish(args, p, sum[0][r][v], row + r, col + v * lanes, v == NV - 1 ? tail : lanes);
      else if (v == NV - 1 && masked)
        masked_store(sum[0][r][v], mask, d, to + v * lanes);
      else
        hn::StoreU(sum[0][r][v], d, to + v * lanes);
    }
  }
}

// Rows of B's transpose are contiguous, and so are A's: MR rows x `lanes` columns as dot products, kColumns at a time.
template <int MR>
void tile_of_dots(const BatchGemmArgs& args, const UnpackedProblem& p, int64_t row, int64_t col, int64_t count) {
  const UnpackedTag d;
  constexpr int64_t lanes = unpacked_lanes();
  constexpr int kColumns = 4;
  HWY_ALIGN float sums[MR][unpacked_lanes() + kColumns - 1] = {};
  const float* a = p.a + row * args.a_row_stride;
  const int64_t whole = args.k / lanes * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(args.k - whole));
  for (int64_t j = 0; j < count; j += kColumns) {
    // The last columns again where fewer are left.
    const float* b[kColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) b[c] = p.b + (col + std::min(j + c, count - 1)) * args.b_n_stride;
    UnpackedVec sum[MR][kColumns];
#pragma GCC unroll 4
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::Zero(d);
    }
    for (int64_t k = 0; k < whole; k += lanes) {
      UnpackedVec bv[kColumns];
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) bv[c] = hn::LoadU(d, b[c] + k);
#pragma GCC unroll 4
      for (int r = 0; r < MR; ++r) {
        const UnpackedVec x = hn::LoadU(d, a + r * args.a_row_stride + k);
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(x, bv[c], sum[r][c]);
      }
    }
    if (whole < args.k) {
#pragma GCC unroll 4
      for (int r = 0; r < MR; ++r) {
        const UnpackedVec x = masked_load(mask, d, a + r * args.a_row_stride + whole);
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(x, masked_load(mask, d, b[c] + whole), sum[r][c]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) sums[r][j + c] = hn::GetLane(hn::SumOfLanes(d, sum[r][c]));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < MR; ++r) finish(args, p, hn::LoadU(d, sums[r]), row + r, col, count);
}

template <int MR>
void rows_of_columns(const BatchGemmArgs& args, const UnpackedProblem& p, int64_t row, int64_t begin, int64_t end) {
  constexpr int64_t lanes = unpacked_lanes();
  if (args.b_n_stride != 1) {
    for (int64_t col = begin; col < end; col += lanes) tile_of_dots<MR>(args, p, row, col, std::min(lanes, end - col));
    return;
  }
  constexpr int most = kTiles.unpacked_vectors[MR - 1];
  int64_t col = begin;
  for (; end - col >= most * lanes; col += most * lanes) tile_of_columns<MR, most>(args, p, row, col, lanes);
  for (; end - col >= 2 * lanes; col += 2 * lanes) tile_of_columns<MR, 2>(args, p, row, col, lanes);
  for (; col < end; col += lanes) tile_of_columns<MR, 1>(args, p, row, col, std::min(lanes, end - col));
}

// Columns [begin, end) of one element.
void unpacked_columns(const BatchGemmArgs& args, const UnpackedProblem& p, int64_t begin, int64_t end) {
  int64_t row = 0;
  for (; row + kTileRows <= args.m; row += kTileRows) rows_of_columns<kTileRows>(args, p, row, begin, end);
  switch (args.m - row) {
    case 1:
      return rows_of_columns<1>(args, p, row, begin, end);
    case 2:
      return rows_of_columns<2>(args, p, row, begin, end);
    case 3:
      return rows_of_columns<3>(args, p, row, begin, end);
    default:
      return;
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/gemm/product_sums.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

HWY_EXPORT(unpacked_columns);

namespace {

constexpr int64_t most_in_l2 = 128 << 10;  // elements of B

}  // namespace

bool is_read_unpacked(const BatchGemmArgs& args) {
  if (args.m <= kTileRows) return args.b_n_stride == 1 || (args.b_k_stride == 1 && args.a_k_stride == 1);
  // Many small ones, whose B stays in L1: 390 products of 16 x 16 took 134 us packed, and take 70.
  constexpr int64_t least_products = 8, most_rows = 32, least_columns = 4, most_elements = 4096;
  // Of few more rows than a tile has reading a B of L2 twice costs less than packing it.
  constexpr int64_t few_rows = 2 * kTileRows;
  if (args.b_n_stride != 1) return false;
  if (args.m <= few_rows && args.n * args.k <= most_in_l2) return true;
  return args.batch >= least_products && args.m <= most_rows && args.n >= least_columns &&
         args.n * args.k <= most_elements;
}

// Parts of K would cut B's columns short, where they are contiguous: 1000 x 1000 by a column took 71 us so from L3.
UnpackedCut::UnpackedCut(const BatchGemmArgs& args, int most)
    : chunk(args.b_n_stride == 1 ? 128 : 16), chunks(divide_up(args.n, chunk)) {
  const int64_t width = std::min(args.n, chunk), k = std::max<int64_t>(1, args.k);
  parts = row_product_parts(k, args.batch * chunks, width);
  // A thread is woken for 32 K elements of B, which four rows multiply, at least.
  constexpr int64_t least_elements = int64_t{1} << 15;
  const int64_t tiles = divide_up(args.m, kTileRows);
  threads = static_cast<int>(std::clamp<int64_t>(tiles * args.batch * chunks * k * width / least_elements, 1, most));
}

int64_t unpacked_gemm_workspace_bytes(const BatchGemmArgs& args) {
  const int64_t parts = UnpackedCut(args, 1).parts;
  return parts > 1 ? parts * args.batch * args.m * args.n * static_cast<int64_t>(sizeof(float)) : 0;
}

void unpacked_gemm(const BatchGemmArgs& args, ThreadPool& pool, void* workspace) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(unpacked_columns);
  const UnpackedCut cut(args, pool.size());
  const int64_t chunks = cut.chunks, parts = cut.parts, units = args.batch * parts * chunks;
  const int64_t of_element = args.m * args.n, of_part = args.batch * of_element;
  auto* const sums = static_cast<float*>(workspace);
  BatchGemmArgs of_sums = args;  // of a part
  of_sums.c_row_stride = args.n;
  of_sums.epilogue = {};
  pool.run(cut.threads, [&](int thread) {
    PacedCancellation cancellation;
    const int64_t end = units * (thread + 1) / cut.threads;
    for (int64_t unit = units * thread / cut.threads; unit < end;) {
      const int64_t i = unit / (parts * chunks), part = unit / chunks % parts, first = (i * parts + part) * chunks;
      const int64_t last = std::min(end, first + chunks);
      const int64_t col0 = (unit - first) * cut.chunk, col1 = std::min(args.n, (last - first) * cut.chunk);
      cancellation.did(args.m * args.k / parts * cut.chunk * (last - unit));
      unit = last;
      const int64_t outer = i / args.inner_batch, inner = i % args.inner_batch;
      const int64_t c = outer * args.c_outer_stride + inner * args.c_inner_stride;
      const float* a = args.a + outer * args.a_outer_stride + inner * args.a_inner_stride;
      const float* b = args.b + outer * args.b_outer_stride + inner * args.b_inner_stride;
      if (parts > 1) {
        const int64_t k0 = args.k * part / parts;
        BatchGemmArgs own = of_sums;
        own.k = args.k * (part + 1) / parts - k0;
        kernel(own,
               {a + k0 * args.a_k_stride, b + k0 * args.b_k_stride, nullptr, sums + part * of_part + i * of_element},
               col0, col1);
        continue;
      }
      kernel(args, {a, b, args.epilogue.residual ? args.epilogue.residual + c : nullptr, args.c + c}, col0, col1);
      if (args.epilogue.activation) {
        const float* addend = args.epilogue.addend ? args.epilogue.addend + c + col0 : nullptr;
        core_activate(*args.epilogue.activation,
                      {args.c + c + col0, args.c_row_stride, args.m, col1 - col0, addend, args.c_row_stride});
      }
      if (args.epilogue.callback) args.epilogue.callback(args.epilogue.context, i * args.m, args.m, col0, col1 - col0);
    }
  });
  if (parts == 1) return;
  finish_products(
      args.batch, args.m, args.n, {sums, parts, of_part},
      [&](int64_t i, const auto& use) { use(batch_element(args, i, nullptr)); }, pool);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
