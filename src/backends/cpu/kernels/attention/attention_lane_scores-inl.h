// Scores of many rows with the bits that attention_few-inl.h gives those of few, so that a row has the same ones in
// whatever step it comes. Included once per instruction set.
#if defined(CAMSHAFT_CPU_ATTENTION_LANE_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ATTENTION_LANE_SCORES_INL_H
#undef CAMSHAFT_CPU_ATTENTION_LANE_SCORES_INL_H
#else
#define CAMSHAFT_CPU_ATTENTION_LANE_SCORES_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "backends/cpu/kernels/attention/attention_tile-inl.h"
#include "backends/cpu/kernels/for_each_of-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Few rows are multiplied a vector of elements at a time, whose lanes are added up at the end by join_lanes(). Here a
// vector has a key in each lane. `panel` has keys as columns, `stored` in a row.
struct LaneScores {
  const float* const* queries = nullptr;
  const float* panel = nullptr;
  int64_t stored = 0, size = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};

template <int MR, int NV>
struct LaneTile {
  PanelVec sum[MR][NV];

  HWY_INLINE void add(const LaneTile& other) {
    for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
      for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA { sum[r][v] = hn::Add(sum[r][v], other.sum[r][v]); });
    });
  }
};

// What lane `lane` of few rows' sums has.
template <int MR, int NV>
HWY_INLINE LaneTile<MR, NV> lane_sums(const LaneScores& t, const float* const (&queries)[MR], const float* panel,
                                      int64_t lane) {
  const PanelTag d;
  LaneTile<MR, NV> tile;
  for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
    for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA { tile.sum[r][v] = hn::Zero(d); });
  });
  for (int64_t i = lane; i < t.size; i += panel_lanes()) {
    PanelVec keys[NV];
    for_each_of<NV>([&](auto v)
                        CAMSHAFT_INLINE_LAMBDA { keys[v] = hn::LoadU(d, panel + i * t.stored + v * panel_lanes()); });
    for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
      const PanelVec query = hn::Set(d, queries[r][i]);
      for_each_of<NV>([&](auto v)
                          CAMSHAFT_INLINE_LAMBDA { tile.sum[r][v] = hn::MulAdd(query, keys[v], tile.sum[r][v]); });
    });
  }
  return tile;
}

// Lanes [first, first + Lanes) of them, in the order of join_lanes().
template <int MR, int NV, int Lanes>
HWY_INLINE LaneTile<MR, NV> joined_lane_sums(const LaneScores& t, const float* const (&queries)[MR], const float* panel,
                                             int64_t first) {
  if constexpr (Lanes == 1) {
    return lane_sums<MR, NV>(t, queries, panel, first);
  } else if constexpr (Lanes == 4) {
    auto even = lane_sums<MR, NV>(t, queries, panel, first);
    even.add(lane_sums<MR, NV>(t, queries, panel, first + 2));
    auto odd = lane_sums<MR, NV>(t, queries, panel, first + 1);
    odd.add(lane_sums<MR, NV>(t, queries, panel, first + 3));
    even.add(odd);
    return even;
  } else {
    auto tile = joined_lane_sums<MR, NV, Lanes / 2>(t, queries, panel, first);
    tile.add(joined_lane_sums<MR, NV, Lanes / 2>(t, queries, panel, first + Lanes / 2));
    return tile;
  }
}

template <int MR, int NV>
HWY_NOINLINE void lane_score_tile(const LaneScores& t, int64_t row, int64_t column) {
  const PanelTag d;
  const float* queries[MR];
  for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA { queries[r] = t.queries[row + r]; });
  const auto tile = joined_lane_sums<MR, NV, HWY_LANES(float)>(t, queries, t.panel + column, 0);
  for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
    for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA {
      hn::StoreU(tile.sum[r][v], d, t.out + (row + r) * t.out_stride + column + v * panel_lanes());
    });
  });
}

// out[r, k] = queries[r] · column k of the panel, for all that it has stored.
HWY_INLINE void lane_scores(int64_t rows, const LaneScores& t) {
  // As many sums as there are levels of lanes that wait for others, five with AVX-512, are in registers.
  constexpr int vectors = kTiles.registers >= 32 ? 2 : 1;
  int64_t row = 0;
  const auto run_rows = [&](auto mr) HWY_ATTR {
    constexpr int MR = decltype(mr)::value;
    int64_t column = 0;
    for (; column + vectors * panel_lanes() <= t.stored; column += vectors * panel_lanes())
      lane_score_tile<MR, vectors>(t, row, column);
    for (; column < t.stored; column += panel_lanes()) lane_score_tile<MR, 1>(t, row, column);
    row += MR;
  };
  while (row + 2 <= rows) run_rows(std::integral_constant<int, 2>());
  if (row < rows) run_rows(std::integral_constant<int, 1>());
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
