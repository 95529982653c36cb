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

// Units whose columns are lanes of a vector of totals, which are wider than what is stored. Vectors reach beyond a row
// into the next ones, but for the last few units.
template <ReduceKind kKind, class T>
void units_in_lanes(const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals) {
  using P = Partial<T>;
  const hn::ScalableTag<P> d;
  const hn::Rebind<T, decltype(d)> stored;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(P));
  const auto start = hn::Set(d, identity<T>(kKind));
  const auto mask = hn::FirstN(d, static_cast<size_t>(columns));
  const auto add_unit = [&](const auto& row) HWY_ATTR {
    auto total = start;
    for (int64_t r = 0; r < n; ++r, x += columns) total = with_vector<kKind>(total, hn::PromoteTo(d, row(x)));
    masked_store(with_vector<merged_by(kKind)>(masked_load(mask, d, totals), total), mask, d, totals);
    totals += columns;
  };
  const int64_t unit = n * columns, whole = std::max<int64_t>(0, units - divide_up(lanes, unit));
  const auto mask_of_row = hn::FirstN(stored, static_cast<size_t>(columns));
  for (int64_t u = 0; u < whole; ++u) add_unit([&](const T* from) HWY_ATTR { return hn::LoadU(stored, from); });
  for (int64_t u = whole; u < units; ++u)
    add_unit([&](const T* from) HWY_ATTR { return masked_load(mask_of_row, stored, from); });
}

// V vectors of columns; `count` in the last.
template <ReduceKind kKind, int V, class T, class Rows>
HWY_INLINE void few_rows(const T* x, Rows n, int64_t stride, int64_t count, T divisor, T* out) {
  const hn::ScalableTag<T> d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  const bool is_whole = count == lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  hn::Vec<decltype(d)> total[V];
#pragma GCC unroll 4
  for (auto& v : total) v = hn::Set(d, static_cast<T>(identity<T>(kKind)));
  int64_t r = 0;
  // Four rows side by side, each of which would wait for the one before it. Not what depends on the order: equal
  // columns have equal sums wherever they stand.
  if constexpr (V == 1 && (std::is_integral_v<T> || kKind == ReduceKind::max || kKind == ReduceKind::min)) {
    constexpr int64_t least_rows = 8;
    if (n >= least_rows) {
      hn::Vec<decltype(d)> beside[4] = {total[0], total[0], total[0], total[0]};
      for (; r + 4 <= n; r += 4, x += 4 * stride) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) beside[k] = with_vector<kKind>(beside[k], masked_load(mask, d, x + k * stride));
      }
      constexpr ReduceKind merging = merged_by(kKind);
      total[0] =
          with_vector<merging>(with_vector<merging>(beside[0], beside[1]), with_vector<merging>(beside[2], beside[3]));
    }
  }
  for (; r < n; ++r, x += stride) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const T* from = x + v * lanes;
      total[v] = with_vector<kKind>(total[v], v + 1 < V || is_whole ? hn::LoadU(d, from) : masked_load(mask, d, from));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    if constexpr (std::is_floating_point_v<T>) {
      if (divisor != T(1)) total[v] = hn::Div(total[v], hn::Set(d, divisor));
    }
    v + 1 < V || is_whole ? hn::StoreU(total[v], d, out + v * lanes) : masked_store(total[v], mask, d, out + v * lanes);
  }
}

template <ReduceKind kKind, class T, class Rows>
void few_rows_of_units(const T* x, int64_t units, Rows n, int64_t columns, int64_t stride, T divisor, T* out) {
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  for (int64_t u = 0; u < units; ++u, x += n * stride, out += columns) {
    int64_t c = 0;
    for (; c + 4 * lanes <= columns; c += 4 * lanes) few_rows<kKind, 4>(x + c, n, stride, lanes, divisor, out + c);
    for (; c < columns; c += lanes)
      few_rows<kKind, 1>(x + c, n, stride, std::min(lanes, columns - c), divisor, out + c);
  }
}

template <ReduceKind kKind, class T>
void few_rows_of(const T* x, int64_t units, int64_t n, int64_t columns, int64_t stride, T divisor, T* out) {
  if (n == 2)
    return few_rows_of_units<kKind>(x, units, std::integral_constant<int64_t, 2>(), columns, stride, divisor, out);
  if (n == 3)
    return few_rows_of_units<kKind>(x, units, std::integral_constant<int64_t, 3>(), columns, stride, divisor, out);
  if (n == 4)
    return few_rows_of_units<kKind>(x, units, std::integral_constant<int64_t, 4>(), columns, stride, divisor, out);
  few_rows_of_units<kKind>(x, units, n, columns, stride, divisor, out);
}

template <class T>
void few_rows_by_kind(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, int64_t stride, T* out) {
  switch (kind) {
    case ReduceKind::mean:
      return few_rows_of<ReduceKind::sum>(x, units, n, columns, stride, static_cast<T>(n), out);
    case ReduceKind::sum:
      return few_rows_of<ReduceKind::sum>(x, units, n, columns, stride, T(1), out);
    case ReduceKind::max:
      return few_rows_of<ReduceKind::max>(x, units, n, columns, stride, T(1), out);
    case ReduceKind::min:
      return few_rows_of<ReduceKind::min>(x, units, n, columns, stride, T(1), out);
    case ReduceKind::sum_square:
      return few_rows_of<ReduceKind::sum_square>(x, units, n, columns, stride, T(1), out);
    case ReduceKind::sum_abs:
      return few_rows_of<ReduceKind::sum_abs>(x, units, n, columns, stride, T(1), out);
    case ReduceKind::prod:
      if constexpr (!std::is_same_v<T, float>)
        return few_rows_of<ReduceKind::prod>(x, units, n, columns, stride, T(1), out);
  }
}

#define CAMSHAFT_FEW_ROWS(name, T)                                                                             \
  void few_rows_##name(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, int64_t stride, \
                       T* out) {                                                                               \
    few_rows_by_kind(kind, x, units, n, columns, stride, out);                                                 \
  }
CAMSHAFT_WIDE_TYPES(CAMSHAFT_FEW_ROWS)
#undef CAMSHAFT_FEW_ROWS

// Results of as many units at once, which are combined with their totals behind it: a vector that is read from where a
// part of another was just written waits for it, 6 ns for each unit of 2 rows of 3 f64.
template <class T>
void units_by_results(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals) {
  const hn::ScalableTag<Partial<T>> d;
  const hn::Rebind<T, decltype(d)> stored;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(Partial<T>));
  HWY_ALIGN T results[most_columns];
  const auto merge = [&](auto merging, int64_t count) HWY_ATTR {
    const auto with = [](auto total, auto v) HWY_ATTR {
      if constexpr (std::is_same_v<T, Partial<T>>) {
        return with_vector<decltype(merging)::value>(total, v);
      } else {
        return with_vector<decltype(merging)::value>(total, hn::PromoteTo(decltype(d)(), v));
      }
    };
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(with(hn::LoadU(d, totals + i), hn::LoadU(stored, results + i)), d, totals + i);
    const auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
    const auto rest = masked_load(hn::FirstN(stored, static_cast<size_t>(count - i)), stored, results + i);
    if (i < count) masked_store(with(masked_load(mask, d, totals + i), rest), mask, d, totals + i);
  };
  const int64_t together = most_columns / columns;
  for (int64_t u = 0; u < units; u += together) {
    const int64_t count = std::min(together, units - u);
    few_rows_by_kind(kind == ReduceKind::mean ? ReduceKind::sum : kind, x + u * n * columns, count, n, columns, columns,
                     results);
    if (kind == ReduceKind::max)
      merge(std::integral_constant<ReduceKind, ReduceKind::max>(), count * columns);
    else if (kind == ReduceKind::min)
      merge(std::integral_constant<ReduceKind, ReduceKind::min>(), count * columns);
    else if (kind == ReduceKind::prod)
      merge(std::integral_constant<ReduceKind, ReduceKind::prod>(), count * columns);
    else
      merge(std::integral_constant<ReduceKind, ReduceKind::sum>(), count * columns);
    totals += count * columns;
  }
}

template <class T>
void units_of(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals) {
  if constexpr (sizeof(T) >= 4 && HWY_TARGET != HWY_SCALAR && kTarget.conversions) {
    // Of f32 sums of more rows are added in double by blocks.
    constexpr int64_t most_rows = 64;
    constexpr bool is_f32 = std::is_same_v<T, float>, is_whole = std::is_same_v<T, Partial<T>>;
    const bool in_lanes = columns <= static_cast<int64_t>(HWY_LANES(Partial<T>));
    const bool keeps_digits = is_whole || kind != (is_f32 ? ReduceKind::prod : ReduceKind::mean);
    if (n <= most_rows && keeps_digits && (in_lanes || (!is_f32 && columns <= most_columns)))
      return units_by_results(kind, x, units, n, columns, totals);
    if constexpr (!is_whole) {
      if (n <= most_rows && in_lanes)
        return units_in_lanes < is_f32 ? ReduceKind::prod : ReduceKind::sum > (x, units, n, columns, totals);
    }
  }
  for (int64_t u = 0; u < units; ++u)
    reduce_columns(kind, x + u * n * columns, n, columns, columns, totals + u * columns);
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

#define CAMSHAFT_FEW_ROWS(name, T)                                                                                \
  HWY_EXPORT(few_rows_##name);                                                                                    \
  template <>                                                                                                     \
  void reduce_few_rows<T>(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, int64_t stride, \
                          T* out) {                                                                               \
    HWY_DYNAMIC_DISPATCH(few_rows_##name)(kind, x, units, n, columns, stride, out);                               \
  }
CAMSHAFT_WIDE_TYPES(CAMSHAFT_FEW_ROWS)
#undef CAMSHAFT_FEW_ROWS

bool takes_few_rows(ReduceKind kind, DType dtype, int64_t n) {
  constexpr int64_t most_f32 = 8, most = 64;
  switch (dtype) {
    case DType::f32:
      return kind != ReduceKind::prod && n <= (kind == ReduceKind::max || kind == ReduceKind::min ? most : most_f32);
    case DType::f64:
      return n <= most;
    case DType::i32:
    case DType::u32:
    case DType::i64:
    case DType::u64:
      return kind != ReduceKind::mean && n <= most;
    default:
      return false;
  }
}

namespace {

// Extremes of units of few narrow elements, without a call for each: 1343 of 6 rows of 2 i8 took 19 us. Columns that
// fill half of an AVX-512 register are faster by vectors: 3 rows of 16 i16 three times.
constexpr int64_t small_unit = 64, vector_bytes = 32;
template <class T, class Better>
void extremes_of_small_units(const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals, Better better) {
  for (int64_t u = 0; u < units; ++u, x += n * columns)
    for (int64_t c = 0; c < columns; ++c, ++totals) {
      auto best = static_cast<int>(*totals);
      for (int64_t i = c; i < n * columns; i += columns) best = better(best, static_cast<int>(x[i]));
      *totals = static_cast<Partial<T>>(best);
    }
}

}  // namespace

#define CAMSHAFT_UNITS(name, T)                                                                                      \
  HWY_EXPORT(units_##name);                                                                                          \
  template <>                                                                                                        \
  void reduce_units<T>(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals) { \
    if constexpr (sizeof(T) <= 2) {                                                                                  \
      const bool is_small = n * columns <= small_unit && columns * int64_t{sizeof(T)} < vector_bytes;                \
      if (is_small && kind == ReduceKind::max)                                                                       \
        return extremes_of_small_units(x, units, n, columns, totals, [](int a, int b) { return std::max(a, b); });   \
      if (is_small && kind == ReduceKind::min)                                                                       \
        return extremes_of_small_units(x, units, n, columns, totals, [](int a, int b) { return std::min(a, b); });   \
    }                                                                                                                \
    HWY_DYNAMIC_DISPATCH(units_##name)(kind, x, units, n, columns, totals);                                          \
  }
CAMSHAFT_ELEMENT_TYPES(CAMSHAFT_UNITS)
#undef CAMSHAFT_UNITS

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
