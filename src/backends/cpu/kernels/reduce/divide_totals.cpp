#include "backends/cpu/kernels/reduce/divide_totals.h"

#include <type_traits>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/divide_totals.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

// of(name, T) for each integer type.
#define CAMSHAFT_OF_INTEGERS(of)                                                                        \
  of(i64, int64_t) of(i32, int32_t) of(i16, int16_t) of(i8, int8_t) of(u64, uint64_t) of(u32, uint32_t) \
      of(u16, uint16_t) of(u8, uint8_t)

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The compiler makes vectors of it: divisions one by one took longer than the sums of rows of four.
void quotients(const double* totals, int64_t n, double divisor, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(totals[i] / divisor);
}

// out[i] = totals[i] / divisor, truncated as finish() does it, where doubles have the totals exactly: by a reciprocal,
// and a look at what is left over. One by one, means of 25,000 rows of 4 took longer than their sums.
template <class T>
void whole_quotients(const Partial<T>* totals, int64_t n, int64_t divisor, T* out) {
  const hn::ScalableTag<int64_t> di;
  const hn::Rebind<double, decltype(di)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(di));
  constexpr int64_t most = int64_t{1} << 51;
  const auto limit = hn::Set(di, most), lowest = hn::Set(di, std::is_signed_v<T> ? -most : -1);
  const auto by = hn::Set(d, static_cast<double>(divisor)), inverse = hn::Set(d, 1 / static_cast<double>(divisor));
  const auto one = hn::Set(d, 1.0);
  HWY_ALIGN int64_t line[hn::MaxLanes(hn::ScalableTag<int64_t>())];
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto whole = hn::LoadU(di, reinterpret_cast<const int64_t*>(totals + i));
    if (!hn::AllTrue(di, hn::And(hn::Lt(whole, limit), hn::Gt(whole, lowest)))) {
      for (int64_t k = i; k < i + lanes; ++k) out[k] = finish<T>(ReduceKind::mean, totals[k], divisor);
      continue;
    }
    const auto total = hn::ConvertTo(d, whole), size = hn::Abs(total);
    auto quotient = hn::Trunc(hn::Mul(size, inverse));
    const auto left = hn::NegMulAdd(quotient, by, size);
    quotient = hn::Sub(quotient, hn::IfThenElseZero(hn::Lt(left, hn::Zero(d)), one));
    quotient = hn::Add(quotient, hn::IfThenElseZero(hn::Ge(left, by), one));
    hn::Store(hn::ConvertTo(di, hn::CopySign(quotient, total)), di, line);
    for (int64_t k = 0; k < lanes; ++k) out[i + k] = static_cast<T>(line[k]);
  }
  for (; i < n; ++i) out[i] = finish<T>(ReduceKind::mean, totals[i], divisor);
}

#define CAMSHAFT_WHOLE(name, T)                                                               \
  void whole_quotients_##name(const Partial<T>* totals, int64_t n, int64_t divisor, T* out) { \
    whole_quotients(totals, n, divisor, out);                                                 \
  }
CAMSHAFT_OF_INTEGERS(CAMSHAFT_WHOLE)
#undef CAMSHAFT_WHOLE

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(quotients);

void divide_totals(const double* totals, int64_t n, double divisor, float* out) {
  HWY_DYNAMIC_DISPATCH(quotients)(totals, n, divisor, out);
}

#define CAMSHAFT_WHOLE(name, T)                                                         \
  HWY_EXPORT(whole_quotients_##name);                                                   \
  template <>                                                                           \
  void divide_totals<T>(const Partial<T>* totals, int64_t n, int64_t divisor, T* out) { \
    HWY_DYNAMIC_DISPATCH(whole_quotients_##name)(totals, n, divisor, out);              \
  }
CAMSHAFT_OF_INTEGERS(CAMSHAFT_WHOLE)
#undef CAMSHAFT_WHOLE

}  // namespace camshaft::cpu
#endif
