#include "llm/row_kernels.h"

#include <algorithm>
#include <limits>

#include "hwy/detect_compiler_arch.h"
// The instruction sets that the engine's kernels have, and that highway_runtime.cpp knows.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS ((HWY_AVX3 - 1) | HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "llm/row_kernels.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::llm::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
constexpr float infinity = std::numeric_limits<float>::infinity();

RowMaximum maxima_of(const float* logits, size_t size, float* maxima) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const auto least = hn::Set(d, -infinity), above = hn::Set(d, infinity);
  auto valid = hn::Eq(least, least);
  auto all = least;
  const size_t whole = size / chunk_size;
  for (size_t chunk = 0; chunk < whole; ++chunk) {
    const float* x = logits + chunk * chunk_size;
    auto largest = least;
    for (size_t i = 0; i < chunk_size; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      valid = hn::And(valid, hn::Lt(v, above));  // false for NaN
      largest = hn::Max(largest, v);
    }
    all = hn::Max(all, largest);
    maxima[chunk] = hn::GetLane(hn::MaxOfLanes(d, largest));
  }
  RowMaximum found{hn::GetLane(hn::MaxOfLanes(d, all)), !hn::AllTrue(d, valid)};
  if (whole * chunk_size == size) return found;
  float last = -infinity;
  for (size_t i = whole * chunk_size; i < size; ++i) {
    if (!(logits[i] < infinity)) found.has_invalid = true;
    last = std::max(last, logits[i]);
  }
  maxima[whole] = last;
  found.value = std::max(found.value, last);
  return found;
}

// e^x for x of 0 or less: 2^n times the series of e^r, of which the seventh power of r, at most 0.35, is 1e-7. Below
// -87 it is 0: 1e-38 of the largest. Half of a nanosecond an element (AVX2, a busy Zen 3).
template <class D, class V>
HWY_INLINE V exp_of_negative(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V least = hn::Set(d, -87.0f);
  const V inside = hn::Max(x, least);
  const V magic = hn::Set(d,
                          12582912.0f);  // 1.5 * 2^23: what is added to it is rounded to an integer
  const V sum = hn::MulAdd(inside, hn::Set(d, 1.442695041f), magic);
  const auto exponent = hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, magic));
  const V n = hn::Sub(sum, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.69314575195f), inside);  // ln 2 in two parts
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-06f), r);
  V p = hn::Set(d, 1.0f / 720);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::Add(hn::MulAdd(hn::Mul(p, r), r, r), hn::Set(d, 1.0f));
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(exponent)));
  return hn::IfThenElseZero(hn::Ge(x, least), scaled);
}

template <class D, class V>
HWY_INLINE V weight_of(D d, V x, V largest, V scale, V least) {
  return hn::IfThenElseZero(hn::Ge(x, least), exp_of_negative(d, hn::Mul(hn::Sub(x, largest), scale)));
}

// Where `kWrites`, each into `weights`, too.
template <bool kWrites>
double weigh(const float* logits, size_t size, float largest, float scale, float least, float* weights) {
  const Floats d;
  const size_t lanes = hn::Lanes(d), whole = size / lanes * lanes;
  const auto m = hn::Set(d, largest), s = hn::Set(d, scale), l = hn::Set(d, least);
  double total = 0;
  size_t i = 0;
  while (i < whole) {
    // f32 sums of so few that what is added has still its bits; two of them, as an addition takes 3 to 4 cycles.
    const size_t end = std::min(whole, i + 64 * lanes);
    auto sum = hn::Zero(d), other = hn::Zero(d);
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const auto a = weight_of(d, hn::LoadU(d, logits + i), m, s, l);
      const auto b = weight_of(d, hn::LoadU(d, logits + i + lanes), m, s, l);
      if constexpr (kWrites) hn::StoreU(a, d, weights + i), hn::StoreU(b, d, weights + i + lanes);
      sum = hn::Add(sum, a);
      other = hn::Add(other, b);
    }
    for (; i < end; i += lanes) {
      const auto a = weight_of(d, hn::LoadU(d, logits + i), m, s, l);
      if constexpr (kWrites) hn::StoreU(a, d, weights + i);
      sum = hn::Add(sum, a);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, other))));
  }
  const hn::CappedTag<float, 1> one;
  for (; i < size; ++i) {
    const auto a =
        weight_of(one, hn::LoadU(one, logits + i), hn::Set(one, largest), hn::Set(one, scale), hn::Set(one, least));
    if constexpr (kWrites) hn::StoreU(a, one, weights + i);
    total += static_cast<double>(hn::GetLane(a));
  }
  return total;
}

double sum_of(const float* logits, size_t size, float largest, float scale, float least) {
  return weigh<false>(logits, size, largest, scale, least, nullptr);
}
double weights_of(const float* logits, size_t size, float largest, float scale, float least, float* weights) {
  return weigh<true>(logits, size, largest, scale, least, weights);
}

size_t number_above(const float* logits, size_t size, float value) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const auto v = hn::Set(d, value);
  size_t number = 0, i = 0;
  for (; i + lanes <= size; i += lanes) number += hn::CountTrue(d, hn::Gt(hn::LoadU(d, logits + i), v));
  for (; i < size; ++i) number += logits[i] > value;
  return number;
}

}  // namespace
}  // namespace camshaft::llm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::llm {

HWY_EXPORT(maxima_of);
HWY_EXPORT(sum_of);
HWY_EXPORT(weights_of);
HWY_EXPORT(number_above);

RowMaximum find_maxima(const float* logits, size_t size, float* maxima) {
  return HWY_DYNAMIC_DISPATCH(maxima_of)(logits, size, maxima);
}
double sum_exponentials(const float* logits, size_t size, float largest, float scale, float least) {
  return HWY_DYNAMIC_DISPATCH(sum_of)(logits, size, largest, scale, least);
}
double write_exponentials(const float* logits, size_t size, float largest, float scale, float least, float* weights) {
  return HWY_DYNAMIC_DISPATCH(weights_of)(logits, size, largest, scale, least, weights);
}
size_t count_above(const float* logits, size_t size, float value) {
  return HWY_DYNAMIC_DISPATCH(number_above)(logits, size, value);
}

}  // namespace camshaft::llm
#endif
