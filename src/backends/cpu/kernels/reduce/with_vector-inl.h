// How the reductions combine vectors, included once per instruction set after highway.h.
#if defined(CAMSHAFT_CPU_WITH_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_WITH_VECTOR_INL_H
#undef CAMSHAFT_CPU_WITH_VECTOR_INL_H
#else
#define CAMSHAFT_CPU_WITH_VECTOR_INL_H
#endif

#include "backends/cpu/kernels/pointwise/vector_math-inl.h"
#include "backends/cpu/kernels/reduce/reduce_rule.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What partial results are combined by: squares and magnitudes are taken already.
constexpr ReduceKind merged_by(ReduceKind kind) {
  return kind == ReduceKind::sum_square || kind == ReduceKind::sum_abs ? ReduceKind::sum : kind;
}

/// Totals with one more element each, as combine() has it.
template <ReduceKind kKind, class V>
HWY_INLINE V with_vector(V total, V x) {
  if constexpr (!hwy::IsFloat<hn::TFromV<V>>()) {
    if constexpr (kKind == ReduceKind::max) return hn::Max(total, x);
    if constexpr (kKind == ReduceKind::min) return hn::Min(total, x);
    if constexpr (kKind == ReduceKind::sum_square) return hn::Add(total, hn::Mul(x, x));
  } else {
    if constexpr (kKind == ReduceKind::max) return hn::IfThenElse(hn::IsNaN(x), x, max_or_second(x, total));
    if constexpr (kKind == ReduceKind::min) return hn::IfThenElse(hn::IsNaN(x), x, min_or_second(x, total));
  }
  if constexpr (kKind == ReduceKind::prod) return hn::Mul(total, x);
  if constexpr (kKind == ReduceKind::sum_square && hwy::IsFloat<hn::TFromV<V>>()) return hn::MulAdd(x, x, total);
  if constexpr (kKind == ReduceKind::sum_abs && hwy::IsSigned<hn::TFromV<V>>()) return hn::Add(total, hn::Abs(x));
  return hn::Add(total, x);
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
