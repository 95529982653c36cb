// Loops that the compiler makes vectors of, over rows that are in cache or in memory. Included once per instruction
// set.
#if defined(CAMSHAFT_CPU_FILL_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_FILL_VECTORS_INL_H
#undef CAMSHAFT_CPU_FILL_VECTORS_INL_H
#else
#define CAMSHAFT_CPU_FILL_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/cache_line.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

/// o[i] = f(i) for all of n elements, by vectors. The compiler's leave the last of a row to single elements, which of
/// 1000 bytes take a fifth of the time: where nothing is overwritten, the last vectors are done once more instead.
/// `far`: an operand whose lines are asked for ahead.
template <class Out, class T, class Each>
HWY_INLINE void fill_vectors(Out* o, int64_t n, bool overwrites, const T* far, const Each& f) {
  constexpr int64_t whole = 64;
  int64_t i = 0;
  for (; i + whole <= n; i += whole) {
    fetch_ahead<whole>(far + i);
#pragma GCC ivdep
    for (int64_t k = i; k < i + whole; ++k) o[k] = f(k);
  }
  if (overwrites || n < whole || i == n) {
#pragma GCC ivdep
    for (; i < n; ++i) o[i] = f(i);
    return;
  }
#pragma GCC ivdep
  for (int64_t k = n - whole; k < n; ++k) o[k] = f(k);
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
