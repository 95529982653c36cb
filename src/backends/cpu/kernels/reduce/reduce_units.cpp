#include "backends/cpu/kernels/reduce/reduce_units.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/kernels/element_types.h"
#include "backends/cpu/kernels/reduce/reduce_rows.h"
#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/reduce_units.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/reduce/with_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

// Units whose columns are lanes of a vector of totals. Vectors reach beyond a row into the next ones, but for the last
// few units.
template <ReduceKind kKind, class T>
void units_in_lanes(const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals) {
  using P = Partial<T>;
  const hn::ScalableTag<P> d;
  const hn::Rebind<T, decltype(d)> stored;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(P));
  // f32 has its short sums in f32; all else is as wide as its totals at once.
  constexpr bool is_narrow = std::is_same_v<T, float> && kKind != ReduceKind::prod;
  const auto widened = [&](auto v) HWY_ATTR {
    if constexpr (std::is_same_v<T, P>) {
      return v;
    } else {
      return hn::PromoteTo(d, v);
    }
  };
  const auto start = hn::Set(d, identity<T>(kKind));
  const auto mask = hn::FirstN(d, static_cast<size_t>(columns));
  const auto add_unit = [&](const auto& row) HWY_ATTR {
    auto total = start;
    if constexpr (is_narrow) {
      auto part = hn::Set(stored, static_cast<T>(identity<T>(kKind)));
      for (int64_t r = 0; r < n; ++r, x += columns) part = with_vector<kKind>(part, row(x));
      total = widened(part);
    } else {
      for (int64_t r = 0; r < n; ++r, x += columns) total = with_vector<kKind>(total, widened(row(x)));
    }
    masked_store(with_vector<merged_by(kKind)>(masked_load(mask, d, totals), total), mask, d, totals);
    totals += columns;
  };
  const int64_t unit = n * columns, whole = std::max<int64_t>(0, units - divide_up(lanes, unit));
  const auto mask_of_row = hn::FirstN(stored, static_cast<size_t>(columns));
  for (int64_t u = 0; u < whole; ++u) add_unit([&](const T* from) HWY_ATTR { return hn::LoadU(stored, from); });
  for (int64_t u = whole; u < units; ++u)
    add_unit([&](const T* from) HWY_ATTR { return masked_load(mask_of_row, stored, from); });
}

// By kind: run<kKind, T>(arguments...); of integers magnitudes have no vectors.
template <class T>
void units_of(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals) {
  // Of f32 sums of more rows are added in double by blocks.
  constexpr int64_t most_rows = 64;
  if constexpr (sizeof(T) >= 4 && HWY_TARGET != HWY_SCALAR && kTarget.conversions) {
    if (n <= most_rows && columns <= static_cast<int64_t>(HWY_LANES(Partial<T>))) {
      switch (kind) {
        case ReduceKind::sum:
        case ReduceKind::mean:
          return units_in_lanes<ReduceKind::sum>(x, units, n, columns, totals);
        case ReduceKind::max:
          return units_in_lanes<ReduceKind::max>(x, units, n, columns, totals);
        case ReduceKind::min:
          return units_in_lanes<ReduceKind::min>(x, units, n, columns, totals);
        case ReduceKind::prod:
          return units_in_lanes<ReduceKind::prod>(x, units, n, columns, totals);
        case ReduceKind::sum_square:
          return units_in_lanes<ReduceKind::sum_square>(x, units, n, columns, totals);
        case ReduceKind::sum_abs:
          if constexpr (std::is_floating_point_v<T>)
            return units_in_lanes<ReduceKind::sum_abs>(x, units, n, columns, totals);
          break;
      }
    }
  }
  for (int64_t u = 0; u < units; ++u)
    reduce_columns(kind, x + u * n * columns, n, columns, columns, totals + u * columns);
}

// V vectors of columns; `count` in the last.
template <ReduceKind kKind, int V, class Rows>
HWY_INLINE void few_rows(const float* x, Rows n, int64_t stride, int64_t count, float factor, float* out) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  const bool is_whole = count == lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  hn::Vec<decltype(d)> total[V];
#pragma GCC unroll 4
  for (auto& v : total) v = hn::Set(d, static_cast<float>(identity<float>(kKind)));
  for (int64_t r = 0; r < n; ++r, x += stride) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const float* from = x + v * lanes;
      total[v] = with_vector<kKind>(total[v], v + 1 < V || is_whole ? hn::LoadU(d, from) : masked_load(mask, d, from));
    }
  }
  const auto by = hn::Set(d, factor);
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    if (factor != 1.0F) total[v] = hn::Div(total[v], by);
    v + 1 < V || is_whole ? hn::StoreU(total[v], d, out + v * lanes) : masked_store(total[v], mask, d, out + v * lanes);
  }
}

template <ReduceKind kKind, class Rows>
void few_rows_of_units(const float* x, int64_t units, Rows n, int64_t columns, int64_t stride, float divisor,
                       float* out) {
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t u = 0; u < units; ++u, x += n * stride, out += columns) {
    int64_t c = 0;
    for (; c + 4 * lanes <= columns; c += 4 * lanes) few_rows<kKind, 4>(x + c, n, stride, lanes, divisor, out + c);
    for (; c < columns; c += lanes)
      few_rows<kKind, 1>(x + c, n, stride, std::min(lanes, columns - c), divisor, out + c);
  }
}

template <ReduceKind kKind>
void few_rows_of(const float* x, int64_t units, int64_t n, int64_t columns, int64_t stride, float divisor, float* out) {
  if (n == 2)
    return few_rows_of_units<kKind>(x, units, std::integral_constant<int64_t, 2>(), columns, stride, divisor, out);
  if (n == 3)
    return few_rows_of_units<kKind>(x, units, std::integral_constant<int64_t, 3>(), columns, stride, divisor, out);
  if (n == 4)
    return few_rows_of_units<kKind>(x, units, std::integral_constant<int64_t, 4>(), columns, stride, divisor, out);
  few_rows_of_units<kKind>(x, units, n, columns, stride, divisor, out);
}

void few_rows_f32(ReduceKind kind, const float* x, int64_t units, int64_t n, int64_t columns, int64_t stride,
                  float divisor, float* out) {
  switch (kind) {
    case ReduceKind::mean:
      return few_rows_of<ReduceKind::sum>(x, units, n, columns, stride, divisor, out);
    case ReduceKind::sum:
      return few_rows_of<ReduceKind::sum>(x, units, n, columns, stride, 1, out);
    case ReduceKind::max:
      return few_rows_of<ReduceKind::max>(x, units, n, columns, stride, 1, out);
    case ReduceKind::min:
      return few_rows_of<ReduceKind::min>(x, units, n, columns, stride, 1, out);
    case ReduceKind::sum_square:
      return few_rows_of<ReduceKind::sum_square>(x, units, n, columns, stride, 1, out);
    case ReduceKind::sum_abs:
      return few_rows_of<ReduceKind::sum_abs>(x, units, n, columns, stride, 1, out);
    case ReduceKind::prod:
      return;
  }
}

#define CAMSHAFT_UNITS(name, T)                                                                                   \
  void units_##name(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals) { \
    units_of(kind, x, units, n, columns, totals);                                                                 \
  }
CAMSHAFT_ELEMENT_TYPES(CAMSHAFT_UNITS)
#undef CAMSHAFT_UNITS

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(few_rows_f32);

void reduce_few_rows(ReduceKind kind, const float* x, int64_t units, int64_t n, int64_t columns, int64_t stride,
                     float divisor, float* out) {
  HWY_DYNAMIC_DISPATCH(few_rows_f32)(kind, x, units, n, columns, stride, divisor, out);
}

#define CAMSHAFT_UNITS(name, T)                                                                                      \
  HWY_EXPORT(units_##name);                                                                                          \
  template <>                                                                                                        \
  void reduce_units<T>(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals) { \
    HWY_DYNAMIC_DISPATCH(units_##name)(kind, x, units, n, columns, totals);                                          \
  }
CAMSHAFT_ELEMENT_TYPES(CAMSHAFT_UNITS)
#undef CAMSHAFT_UNITS

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
