#include "cpu/kernels/reduce_rows.h"

#include <algorithm>

#include "cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/reduce_rows.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "cpu/kernels/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

double row_product(const float* x, int64_t n) {
  double product = 1;
  for (int64_t i = 0; i < n; ++i) product *= x[i];
  return product;
}

double row(ReduceKind kind, const float* x, int64_t n) {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      return row_sum(x, n, 0, Plain());
    case ReduceKind::sum_square:
      return row_sum(x, n, 0, Squared());
    case ReduceKind::sum_abs:
      return row_sum(x, n, 0, Magnitude());
    case ReduceKind::max:
      return row_extreme<true, true>(x, n);
    case ReduceKind::min:
      return row_extreme<false, true>(x, n);
    case ReduceKind::prod:
      break;
  }
  return row_product(x, n);
}

// The inner loops are over consecutive columns and vectorised by the compiler; the partial sums of 256 rows stay in L1.
template <class Function>
HWY_INLINE void column_sums(const float* x, int64_t rows, int64_t stride, int64_t columns, double* out,
                            Function function) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  alignas(64) float partial[512];
  for (int64_t begin = 0; begin < rows; begin += 256) {
    const int64_t end = std::min(rows, begin + 256);
    std::fill_n(partial, columns, 0.0f);
    for (int64_t r = begin; r < end; ++r) {
      const float* from = x + r * stride;
      int64_t c = 0;
      for (; c + lanes <= columns; c += lanes) {
        hn::Store(hn::Add(hn::Load(d, partial + c), function(hn::LoadU(d, from + c))), d, partial + c);
      }
      const hn::CappedTag<float, 1> one;
      for (; c < columns; ++c) partial[c] += hn::GetLane(function(hn::Set(one, from[c])));
    }
    for (int64_t c = 0; c < columns; ++c) out[c] += partial[c];
  }
}

template <bool kLargest>
HWY_INLINE void column_extremes(const float* x, int64_t rows, int64_t stride, int64_t columns, double* out) {
  alignas(64) float best[512];
  for (int64_t c = 0; c < columns; ++c) best[c] = static_cast<float>(out[c]);
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = x + r * stride;
    // A NaN in `best` fails every comparison, and one in `from` takes its place.
    for (int64_t c = 0; c < columns; ++c) {
      const float v = from[c];
      const bool wins = kLargest ? v > best[c] : v < best[c];
      best[c] = wins || v != v ? v : best[c];
    }
  }
  for (int64_t c = 0; c < columns; ++c) out[c] = best[c];
}

void columns(ReduceKind kind, const float* x, int64_t rows, int64_t stride, int64_t count, double* out) {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      return column_sums(x, rows, stride, count, out, Plain());
    case ReduceKind::sum_square:
      return column_sums(x, rows, stride, count, out, Squared());
    case ReduceKind::sum_abs:
      return column_sums(x, rows, stride, count, out, Magnitude());
    case ReduceKind::max:
      return column_extremes<true>(x, rows, stride, count, out);
    case ReduceKind::min:
      return column_extremes<false>(x, rows, stride, count, out);
    case ReduceKind::prod:
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < count; ++c) out[c] *= x[r * stride + c];
      }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(row);
HWY_EXPORT(columns);

double reduce_row(ReduceKind kind, const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(row)(kind, x, n);
}

void reduce_columns(ReduceKind kind, const float* x, int64_t rows, int64_t stride, int64_t count, double* out) {
  HWY_DYNAMIC_DISPATCH(columns)(kind, x, rows, stride, count, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
