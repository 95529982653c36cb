#include "backends/cpu/kernels/limits.h"

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/limits.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/pointwise/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains: enough for two units with a latency of four cycles, and with the two factors no more than the sixteen
// registers of AVX2.
double fma(int64_t rounds) {
  const hn::ScalableTag<float> d;
  // From memory, so that the compiler neither folds the chains nor sees that they are alike: x/2 + 1/2 tends to 1.
  volatile float half = 0.5f;
  const auto start = [&] { return hn::Set(d, half); };
  const auto a = start(), b = start();
  auto x0 = start(), x1 = start(), x2 = start(), x3 = start(), x4 = start(), x5 = start(), x6 = start(), x7 = start(),
       x8 = start(), x9 = start(), x10 = start(), x11 = start();
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b), x1 = hn::MulAdd(x1, a, b), x2 = hn::MulAdd(x2, a, b), x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b), x5 = hn::MulAdd(x5, a, b), x6 = hn::MulAdd(x6, a, b), x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b), x9 = hn::MulAdd(x9, a, b), x10 = hn::MulAdd(x10, a, b), x11 = hn::MulAdd(x11, a, b);
  }
  const auto sum =
      hn::Add(hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(hn::Add(x4, x5), hn::Add(x6, x7))),
              hn::Add(hn::Add(x8, x9), hn::Add(x10, x11)));
  volatile float keep = hn::GetLane(hn::SumOfLanes(d, sum));
  static_cast<void>(keep);
  return 2.0 * 12.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

float sum(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (int64_t i = 0; i < n; i += 8 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i)), s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * lanes)), s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * lanes));
    s4 = hn::Add(s4, hn::LoadU(d, x + i + 4 * lanes)), s5 = hn::Add(s5, hn::LoadU(d, x + i + 5 * lanes));
    s6 = hn::Add(s6, hn::LoadU(d, x + i + 6 * lanes)), s7 = hn::Add(s7, hn::LoadU(d, x + i + 7 * lanes));
  }
  const auto total = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::GetLane(hn::SumOfLanes(d, total));
}

float sum_of_exponentials(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i < n; i += 4 * lanes) {
    const hn::Vec<decltype(d)> from[4] = {hn::LoadU(d, x + i), hn::LoadU(d, x + i + lanes),
                                          hn::LoadU(d, x + i + 2 * lanes), hn::LoadU(d, x + i + 3 * lanes)};
    hn::Vec<decltype(d)> sum[4];
    activation::one_plus_exp_negative(from, sum);
    s0 = hn::Add(s0, sum[0]), s1 = hn::Add(s1, sum[1]), s2 = hn::Add(s2, sum[2]), s3 = hn::Add(s3, sum[3]);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(fma);
HWY_EXPORT(sum);
HWY_EXPORT(sum_of_exponentials);

double spin_fma(int64_t rounds) {
  return HWY_DYNAMIC_DISPATCH(fma)(rounds);
}

float sum_floats(const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(sum)(x, n);
}

float sum_exponentials(const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(sum_of_exponentials)(x, n);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
