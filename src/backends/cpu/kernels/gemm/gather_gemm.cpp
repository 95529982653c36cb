#include "backends/cpu/kernels/gemm/gather_gemm.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/gather_gemm.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/attention/attention_few-inl.h"

#ifndef CAMSHAFT_CPU_GATHER_GEMM_TYPES
#define CAMSHAFT_CPU_GATHER_GEMM_TYPES
namespace camshaft::cpu {

// A row and the matrix that it chose.
struct GatheredRow {
  int64_t matrix = 0, row = 0;
};

// Rows of one matrix that are computed together.
struct GatheredChunk {
  int64_t begin = 0, end = 0;  // among the sorted rows
};

}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

// A step of a tile reads NV vectors of the matrix, and its sums and an element of each row are in registers, too.
constexpr int kMostRows = kTiles.registers / 8;
constexpr int kMostVectors = 4;

template <class T>
struct GatherTile {
  const T* w = nullptr;  // the matrix, from the tile's first column on
  int64_t in = 0, out = 0;
  int64_t columns = 0;   // of the tile
  int64_t readable = 0;  // elements from w on
};

// The sums of the steps k, k + Chains, … are apart, as few of them wait for each other then; which step is of which sum
// depends on the sizes of the product alone.
template <int MR, int NV, int Chains, class T>
HWY_NOINLINE void gather_tile(const GatherTile<T>& t, const float* const* x, float* const* y) {
  const PanelTag d;
  PanelVec sum[Chains][MR][NV];
#pragma GCC unroll 16
  for (int c = 0; c < Chains; ++c)
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) sum[c][r][v] = hn::Zero(d);
  const int64_t last = t.columns - (NV - 1) * panel_lanes();
  // Whole vectors read on into the next rows of the matrix, as long as there are some.
  const int64_t spare = t.readable - NV * panel_lanes(), whole = spare < 0 ? 0 : std::min(spare / t.out + 1, t.in);
  const auto step = [&](int c, int64_t k, bool is_whole) HWY_ATTR {
    const T* row = t.w + k * t.out;
    PanelVec w[NV];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v)
      w[v] = is_whole || v + 1 < NV ? load_widened(row + v * panel_lanes())
                                    : load_some_widened(row + v * panel_lanes(), last);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const PanelVec element = hn::Set(d, x[r][k]);
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) sum[c][r][v] = hn::MulAdd(element, w[v], sum[c][r][v]);
    }
  };
  int64_t k = 0;
  for (; k + Chains <= whole; k += Chains)
#pragma GCC unroll 16
    for (int c = 0; c < Chains; ++c) step(c, k + c, true);
  for (; k < t.in; ++k) {
    // Written out, as sums are registers.
    const int chain = static_cast<int>(k % Chains);
#pragma GCC unroll 16
    for (int c = 0; c < Chains; ++c)
      if (c == chain) step(c, k, k < whole);
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) {
      PanelVec all = sum[0][r][v];
#pragma GCC unroll 16
      for (int c = 1; c < Chains; ++c) all = hn::Add(all, sum[c][r][v]);
      float* const to = y[r] + v * panel_lanes();
      if (v + 1 < NV || last == panel_lanes())
        hn::StoreU(all, d, to);
      else
        masked_store(all, hn::FirstN(d, static_cast<size_t>(last)), d, to);
    }
}

template <int MR, class T>
HWY_INLINE void gather_rows(const GatherTile<T>& t, const float* const* x, float* const* y) {
  const int64_t lanes = panel_lanes(), vectors = (t.columns + lanes - 1) / lanes;
  if (t.out <= lanes) return gather_tile<MR, 1, 4>(t, x, y);
  if (t.out <= 2 * lanes) return gather_tile<MR, 2, 2>(t, x, y);
  if (vectors == kMostVectors) return gather_tile<MR, kMostVectors, 1>(t, x, y);
  for (int64_t first = 0; first < t.columns; first += lanes) {
    const GatherTile<T> one{t.w + first, t.in, t.out, std::min(lanes, t.columns - first), t.readable - first};
    float* to[MR];
    for (int r = 0; r < MR; ++r) to[r] = y[r] + first;
    gather_tile<MR, 1, 1>(one, x, to);
  }
}

template <class T>
void gather_chunk_of(const GatherGemm& p, const GatherGemm::Operands& operands, const GatheredRow* rows, int64_t count,
                     int64_t first, int64_t columns, float* y) {
  const int64_t at = rows[0].matrix * p.in * p.out + first;
  const GatherTile<T> tile{reinterpret_cast<const T*>(operands.w) + at, p.in, p.out, columns, p.in * p.out - first};
  const auto part = [&]<int MR>(std::integral_constant<int, MR>, int64_t r) HWY_ATTR {
    const float* from[MR];
    float* to[MR];
    for (int i = 0; i < MR; ++i) {
      from[i] = operands.x + rows[r + i].row * p.in;
      to[i] = y + rows[r + i].row * p.out + first;
    }
    gather_rows<MR>(tile, from, to);
  };
  int64_t r = 0;
  for (; r + kMostRows <= count; r += kMostRows) part(std::integral_constant<int, kMostRows>(), r);
  if constexpr (kMostRows > 2)
    for (; r + 2 <= count; r += 2) part(std::integral_constant<int, 2>(), r);
  for (; r < count; ++r) part(std::integral_constant<int, 1>(), r);
}

// Columns [first, first + columns) of rows that chose one matrix.
void gather_chunk(const GatherGemm& p, const GatherGemm::Operands& operands, const GatheredRow* rows, int64_t count,
                  int64_t first, int64_t columns, float* y) {
  if (p.type == DType::f32) return gather_chunk_of<float>(p, operands, rows, count, first, columns, y);
  if (p.type == DType::f16) return gather_chunk_of<Half>(p, operands, rows, count, first, columns, y);
  gather_chunk_of<BFloat>(p, operands, rows, count, first, columns, y);
}

int64_t gather_columns() {
  return kMostVectors * panel_lanes();
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(gather_chunk);
HWY_EXPORT(gather_columns);

namespace {

constexpr int64_t most_rows_of_chunk = 16;
constexpr int64_t flops_worth_a_thread = 200'000;

// Those that chose a matrix, by which; the others get their zeros.
template <class Index>
int64_t sort_rows(const GatherGemm& p, const Index* indices, GatheredRow* sorted) {
  int64_t count = 0;
  for (int64_t i = 0; i < p.rows; ++i)
    if (indices[i] >= 0 && indices[i] < p.matrices) sorted[count++] = {static_cast<int64_t>(indices[i]), i};
  const auto before = [](const GatheredRow& a, const GatheredRow& b) {
    return std::tie(a.matrix, a.row) < std::tie(b.matrix, b.row);
  };
  if (!std::is_sorted(sorted, sorted + count, before)) std::sort(sorted, sorted + count, before);
  return count;
}

int64_t make_chunks(const GatheredRow* sorted, int64_t count, GatheredChunk* chunks) {
  int64_t made = 0;
  for (int64_t begin = 0, end = 0; begin < count; begin = end, ++made) {
    while (end < count && end - begin < most_rows_of_chunk && sorted[end].matrix == sorted[begin].matrix) ++end;
    chunks[made] = {begin, end};
  }
  return made;
}

template <class Index>
void write_zeros(ThreadPool& pool, const GatherGemm& p, const Index* indices, float* y) {
  constexpr int64_t elements_worth_a_thread = 1 << 16;
  const int64_t grain = elements_worth_a_thread / std::max<int64_t>(p.out, 1) + 1;
  for_pieces(pool, p.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (indices[i] < 0 || indices[i] >= p.matrices) std::fill_n(y + i * p.out, p.out, 0.0F);
  });
}

template <class Index>
void run_of(ThreadPool& pool, const GatherGemm& p, const GatherGemm::Operands& operands, const Index* indices, float* y,
            std::byte* workspace) {
  auto* const sorted = reinterpret_cast<GatheredRow*>(workspace);
  auto* const chunks = reinterpret_cast<GatheredChunk*>(sorted + p.rows);
  const int64_t count = sort_rows(p, indices, sorted);
  if (count < p.rows) write_zeros(pool, p, indices, y);
  if (count == 0 || p.out == 0) return;
  const int64_t made = make_chunks(sorted, count, chunks);
  const int64_t width = HWY_DYNAMIC_DISPATCH(gather_columns)(), tiles = divide_up(p.out, width);
  const int64_t flops = 2 * divide_up(count, made) * std::max<int64_t>(p.in, 1) * std::min(width, p.out);
  for_pieces(pool, made * tiles, divide_up(flops_worth_a_thread, flops), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const GatheredChunk& chunk = chunks[i / tiles];
      const int64_t first = i % tiles * width;
      HWY_DYNAMIC_DISPATCH(gather_chunk)
      (p, operands, sorted + chunk.begin, chunk.end - chunk.begin, first, std::min(width, p.out - first), y);
    }
  });
}

}  // namespace

size_t GatherGemm::workspace_bytes() const {
  return static_cast<size_t>(rows) * (sizeof(GatheredRow) + sizeof(GatheredChunk));
}

void GatherGemm::run(ThreadPool& pool, const Operands& operands, DType index_type, float* y,
                     std::byte* workspace) const {
  if (index_type == DType::i32)
    return run_of(pool, *this, operands, static_cast<const int32_t*>(operands.indices), y, workspace);
  run_of(pool, *this, operands, static_cast<const int64_t*>(operands.indices), y, workspace);
}

}  // namespace camshaft::cpu
#endif
