#include "backends/cpu/kernels/conv/plane_transpose_tile.h"

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/plane_transpose_tile.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/clamp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

// O output channels of V vectors of neighbours.
template <int O, int V>
HWY_NOINLINE void sums_of_tile(const PlaneTransposeBlock& b, int64_t x) {
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  hn::Vec<Tag> sum[O][V];
#pragma GCC unroll 4
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[o][v] = b.bias ? hn::Set(d, b.bias[o]) : hn::Zero(d);
  }
  const float* HWY_RESTRICT w = b.weights;
  for (int64_t l = 0; l < b.lines; ++l) {
    const float* plane = b.line[l];
    if (!plane) {
      w += b.channels * b.taps * O;
      continue;
    }
    plane += b.plane + x;
    for (int64_t c = 0; c < b.channels; ++c, plane += b.pitch) {
      for (int64_t t = 0; t < b.taps; ++t, w += O) {
        const float* from = plane + b.offset[t];
        hn::Vec<Tag> a[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) a[v] = hn::LoadU(d, from + v * lanes);
#pragma GCC unroll 4
        for (int o = 0; o < O; ++o) {
          const auto factor = hn::Set(d, w[o]);
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) sum[o][v] = hn::MulAdd(a[v], factor, sum[o][v]);
        }
      }
    }
  }
  const auto lo = hn::Set(d, b.lo), hi = hn::Set(d, b.hi);
#pragma GCC unroll 4
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      hn::StoreU(b.clamp ? clamp_keeping_nan(sum[o][v], lo, hi) : sum[o][v], d,
                 b.streams + o * b.stream_step + x + v * lanes);
  }
}

template <int O>
void sums_of_row(const PlaneTransposeBlock& b) {
  constexpr int vectors = kTiles.plane_vectors;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  int64_t x = 0, left = (b.count + lanes - 1) / lanes;
  for (; left >= vectors; left -= vectors, x += vectors * lanes) sums_of_tile<O, vectors>(b, x);
  if constexpr (vectors > 3)
    if (left == 3) return sums_of_tile<O, 3>(b, x);
  if constexpr (vectors > 2)
    if (left == 2) return sums_of_tile<O, 2>(b, x);
  for (; left > 0; --left, x += lanes) sums_of_tile<O, 1>(b, x);
}

void sums_of_block(const PlaneTransposeBlock& b) {
  switch (b.outputs) {
    case 1:
      return sums_of_row<1>(b);
    case 2:
      return sums_of_row<2>(b);
    case 3:
      return sums_of_row<3>(b);
    default:
      return sums_of_row<4>(b);
  }
}

void deal(const float* even, const float* odd, int64_t pairs, float* to) {
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes)
    hn::StoreInterleaved2(hn::LoadU(d, even + i), hn::LoadU(d, odd + i), d, to + 2 * i);
  for (; i < pairs; ++i) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(sums_of_block);
HWY_EXPORT(deal);

void plane_transpose_block(const PlaneTransposeBlock& block) {
  HWY_DYNAMIC_DISPATCH(sums_of_block)(block);
}

void deal_pairs(const float* even, const float* odd, int64_t pairs, float* to) {
  HWY_DYNAMIC_DISPATCH(deal)(even, odd, pairs, to);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
