// Loops whose index is a constant. Included once per instruction set.
#if defined(CAMSHAFT_CPU_FOR_EACH_OF_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_FOR_EACH_OF_INL_H
#undef CAMSHAFT_CPU_FOR_EACH_OF_INL_H
#else
#define CAMSHAFT_CPU_FOR_EACH_OF_INL_H
#endif

#include <hwy/highway.h>

#include <type_traits>
#include <utility>

#ifndef CAMSHAFT_INLINE_LAMBDA
#define CAMSHAFT_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {

// f(0), …, f(N - 1) as constants: what arrays hold that only these index stays in registers. Of loops that are unrolled
// later GCC 12 leaves it in memory too, which took products of rounded rows 1.2 times as long.
template <int N, class F>
HWY_INLINE void for_each_of(const F& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) CAMSHAFT_INLINE_LAMBDA {
    (f(std::integral_constant<int, i>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
