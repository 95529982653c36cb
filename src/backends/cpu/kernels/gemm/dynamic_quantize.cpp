#include "backends/cpu/kernels/gemm/dynamic_quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/targets.h"
#include "base/pieces.h"
#include "base/thread_pool.h"
#include "reference/contract/quantized.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/dynamic_quantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/kernels/pack_bytes-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// The least and greatest of x and 0, or NaN. Those of each lane are kept in two parts, for the latency.
void find_range(const float* x, int64_t count, float* range) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec low[2] = {hn::Zero(d), hn::Zero(d)}, high[2] = {hn::Zero(d), hn::Zero(d)};
  // A number less itself is 0, and infinity counts as a number: NaN alone is not equal to itself.
  auto numbers = hn::Eq(hn::Zero(d), hn::Zero(d));
  const int64_t first = elements_before_line(x, sizeof(float), count);
  int64_t i = first;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    for (int p = 0; p < 2; ++p) {
      const Vec v = hn::LoadU(d, x + i + p * lanes);
      low[p] = hn::Min(low[p], v);
      high[p] = hn::Max(high[p], v);
      numbers = hn::And(numbers, hn::Eq(v, v));
    }
  }
  float least = hn::GetLane(hn::MinOfLanes(d, hn::Min(low[0], low[1])));
  float greatest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(high[0], high[1])));
  bool all = hn::AllTrue(d, numbers);
  const auto take = [&](float number) {
    least = std::min(least, number);
    greatest = std::max(greatest, number);
    all = all && !std::isnan(number);
  };
  for (int64_t k = 0; k < first; ++k) take(x[k]);
  for (; i < count; ++i) take(x[i]);
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  range[0] = all ? least : nan;
  range[1] = all ? greatest : nan;
}

// A product with the reciprocal is off by 3 roundings at most, that is by 255 · 2^-22: only near the middle between two
// steps it may round to another one than the quotient, which takes three times as long.
constexpr float least_doubtful = 0.4999f;

// Four vectors whose scale has a reciprocal. No step lies outside of [-255, 255], and what rounding leaves below 0 or
// above 255 the last conversion clamps. False, and nothing written, where one may round to another byte.
HWY_INLINE bool quantize_four(const float* x, Vec reciprocal, hn::Vec<hn::RebindToSigned<Tag>> zero, uint8_t* y) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(di)> bytes[4];
  Vec farthest = hn::Zero(d);
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    const Vec step = hn::Mul(hn::LoadU(d, x + v * lanes), reciprocal);
#if CAMSHAFT_HAS_BYTE_PRODUCT
    const auto whole = round_to_integers(di, step);  // NearestInt() takes care of numbers beyond i32
#else
    const auto whole = hn::NearestInt(step);
#endif
    farthest = hn::Max(farthest, hn::Abs(hn::Sub(step, hn::ConvertTo(d, whole))));
    bytes[v] = hn::Add(whole, zero);
  }
  if (!hn::AllTrue(d, hn::Lt(farthest, hn::Set(d, least_doubtful)))) return false;
  store_bytes(bytes, y);
  return true;
}

void quantize(const float* x, int64_t count, const ops::QuantizedRange& range, uint8_t* y) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const hn::Rebind<uint8_t, Tag> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Vec scale = hn::Set(d, range.scale), reciprocal = hn::Set(d, 1.0f / range.scale);
  const auto zero = hn::Set(di, static_cast<int32_t>(range.zero));
  // Added to a number between two bytes it leaves the nearest integer in the last bits.
  const Vec magic = hn::Set(d, 12582912.0f);  // 1.5 · 2^23
  const auto shift = hn::Sub(hn::BitCast(di, magic), zero);
  const float below = static_cast<float>(range.zero);
  const Vec lo = hn::Set(d, -below), hi = hn::Set(d, 255.0f - below);
  const auto divide = [&](int64_t i) HWY_ATTR {
    const Vec step = hn::Div(hn::LoadU(d, x + i), scale);
    const Vec whole = hn::Round(hn::IfThenElse(hn::Eq(step, step), step, lo));
    const auto moved = hn::Sub(hn::BitCast(di, hn::Add(hn::Min(hn::Max(whole, lo), hi), magic)), shift);
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(hn::RebindToUnsigned<Tag>(), moved)), d8, y + i);
  };
  // Where the reciprocal is a number, not so small that it has lost bits; infinite, denormal and NaN scales are divided
  // by.
  const bool multiplies = range.scale > 1e-30f && range.scale < 1e30f;
  int64_t i = elements_before_line(x, sizeof(float), count);
  for (int64_t k = 0; k < i; ++k) y[k] = ops::quantized(x[k], range);
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    if (multiplies && quantize_four(x + i, reciprocal, zero, y + i)) continue;
    for (int64_t v = 0; v < 4; ++v) divide(i + v * lanes);
  }
  for (; i + lanes <= count; i += lanes) divide(i);
  for (; i < count; ++i) y[i] = ops::quantized(x[i], range);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(find_range);
HWY_EXPORT(quantize);

namespace {

// A thread is woken for so many numbers at least.
constexpr int64_t kGrain = 16 * 1024;
// Ranges of threads lie a cache line apart.
constexpr int64_t kRangeBytes = 64;

}  // namespace

int64_t dynamic_quantize_workspace_bytes(int threads) {
  return threads * kRangeBytes;
}

void dynamic_quantize(const float* x, int64_t count, uint8_t* y, float* scale, uint8_t* zero, ThreadPool& pool,
                      void* workspace) {
  auto* ranges = static_cast<float*>(workspace);
  constexpr int64_t step = kRangeBytes / static_cast<int64_t>(sizeof(float));
  const int64_t parts = std::clamp<int64_t>(count / kGrain, 1, pool.size());
  const int64_t part = (count + parts - 1) / parts;
  pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      HWY_DYNAMIC_DISPATCH(find_range)(x + i * part, std::clamp<int64_t>(count - i * part, 0, part), ranges + i * step);
  });
  float low = 0, high = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const float* range = ranges + i * step;
    if (std::isnan(range[0]) || std::isnan(low)) {
      low = high = std::numeric_limits<float>::quiet_NaN();
      break;
    }
    low = std::min(low, range[0]);
    high = std::max(high, range[1]);
  }
  const ops::QuantizedRange range = ops::quantized_range(low, high);
  *scale = range.scale;
  *zero = range.zero;
  for_pieces(pool, count, kGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(quantize)(x + begin, end - begin, range, y + begin);
  });
}

}  // namespace camshaft::cpu
#endif
