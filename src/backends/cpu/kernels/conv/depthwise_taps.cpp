#include "backends/cpu/kernels/conv/depthwise_taps.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/depthwise_taps.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

// R rows from `row` on, channels [c, c + count) of at most a vector, whose weights are `weights_step` apart.
template <int R>
HWY_INLINE void sum_rows(const DepthwiseTaps& t, const Epilogue& e, int64_t row, int64_t c, size_t count,
                         const float* weights, int64_t weights_step) {
  const Tag d;
  const bool is_whole = count == HWY_LANES(float);
  const auto mask = hn::FirstN(d, count);
  const auto load = [&](const float* from)
                        HWY_ATTR { return is_whole ? hn::LoadU(d, from) : masked_load(mask, d, from); };
  hn::Vec<Tag> sum[R];
  const auto start = e.bias ? load(e.bias + c) : hn::Zero(d);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sum[r] = start;
  const float* const* tap = t.pointers + row;
  for (int64_t k = 0; k < t.layout.k; ++k, weights += weights_step, tap += t.pointer_stride) {
    const auto w = load(weights);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sum[r] = hn::MulAdd(load(tap[r] + c), w, sum[r]);
  }
  const auto lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const int64_t to = t.out_rows[row + r];
    if (e.residual) sum[r] = hn::Add(sum[r], load(e.residual + to * e.residual_ld + c));
    sum[r] = clamp_keeping_nan(sum[r], lo, hi);
    float* const out = t.out + to * t.out_step + c;
    is_whole ? hn::StoreU(sum[r], d, out) : masked_store(sum[r], mask, d, out);
  }
}

void sum_taps(const DepthwiseTaps& t, const Epilogue& e) {
  constexpr int kRows = 8;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t row = 0; row < t.rows; row += kRows) {
    for (int64_t p = 0; p < t.layout.panels(); ++p) {
      const float* packed = t.packed + t.layout.offset(p);
      const int64_t stored = t.layout.columns(p), first = p * t.layout.width;
      const int64_t past = std::min(t.layout.n, first + t.layout.width);
      for (int64_t c = first; c < past; c += lanes) {
        const auto count = static_cast<size_t>(std::min(lanes, past - c));
        if (row + kRows <= t.rows) {
          sum_rows<kRows>(t, e, row, c, count, packed + c - first, stored);
        } else {
          for (int64_t r = row; r < t.rows; ++r) sum_rows<1>(t, e, r, c, count, packed + c - first, stored);
        }
      }
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(sum_taps);

void depthwise_taps(const DepthwiseTaps& taps, const Epilogue& epilogue) {
  HWY_DYNAMIC_DISPATCH(sum_taps)(taps, epilogue);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
