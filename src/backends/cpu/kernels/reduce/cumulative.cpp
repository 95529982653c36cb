#include "backends/cpu/kernels/reduce/cumulative.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/pieces.h"

#ifndef CAMSHAFT_CPU_CUMULATIVE_ONCE
#define CAMSHAFT_CPU_CUMULATIVE_ONCE
namespace camshaft::cpu {
namespace {
constexpr int64_t max_block = 1024;  // elements; of rows of 1000, 256 at a time took three times as long from memory
}  // namespace
}  // namespace camshaft::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/cumulative.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Adds rows of neighbours, `step` apart, to the totals of as many vectors of columns as registers hold, so that memory
// is read and written in long pieces: 100 rows of 1000 f32 took 16 us by a cache line of each of 8 rows, and 12 this
// way.
constexpr int kStrip = HWY_LANES(float) >= 16 ? 8 : 4;  // vectors, of 32 or 16 registers
// `load` and `store` move a vector, or a part of one. With kAhead memory is asked for what lies a row further on:
// nothing finds rows that are gone through from the last one, nor blocks of longer ones.
template <int kVectors, bool kExclusive, bool kAhead, class D, class Load, class Store, class T = hn::TFromD<D>>
HWY_INLINE void add_vectors(D d, const T* in, int64_t rows, int64_t step, T* total, T* out, Load load, Store store) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sum[kVectors];
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) sum[v] = load(total + v * lanes);
  for (int64_t r = 0; r < rows; ++r, in += step, out += step) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      if constexpr (kAhead) {
        __builtin_prefetch(in + step + v * lanes);
        __builtin_prefetch(out + step + v * lanes, 1);
      }
      const auto before = sum[v];
      sum[v] = hn::Add(before, load(in + v * lanes));
      store(kExclusive ? before : sum[v], out + v * lanes);
    }
  }
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) store(sum[v], total + v * lanes);
}

// Highway's own makes the largest number of an infinity where there are no vectors.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<float, D>> narrowed(D /*d*/, hn::Vec<D> v) {
  const hn::Rebind<float, D> narrow;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(narrow, static_cast<float>(hn::GetLane(v)));
#else
  return hn::DemoteTo(narrow, v);
#endif
}

// f32: totals in double, and the sums of the rows at hand beside them, for as few conversions.
template <bool kExclusive, class D>
HWY_INLINE void add_vector(D d, const float* in, int64_t rows, int64_t step, double* total, float* out) {
  const hn::Rebind<float, D> narrow;
  const auto until = hn::LoadU(d, total);
  const auto rounded = narrowed(d, until);
  auto sum = hn::Zero(narrow);
  for (int64_t r = 0; r < rows; ++r, in += step, out += step) {
    const auto before = sum;
    sum = hn::Add(sum, hn::LoadU(narrow, in));
    hn::StoreU(hn::Add(rounded, kExclusive ? before : sum), narrow, out);
  }
  hn::StoreU(hn::Add(until, hn::PromoteTo(d, sum)), d, total);
}

#if HWY_TARGET != HWY_SCALAR
template <int kVectors, bool kExclusive>
HWY_INLINE void add_vectors(const float* in, int64_t rows, int64_t step, double* total, float* out) {
  const hn::ScalableTag<float> d;
  const hn::Half<decltype(d)> half;
  const hn::Rebind<double, decltype(half)> wide;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  hn::Vec<decltype(d)> rounded[kVectors], sum[kVectors];
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) {
    const double* until = total + v * lanes;
    rounded[v] =
        hn::Combine(d, narrowed(wide, hn::LoadU(wide, until + lanes / 2)), narrowed(wide, hn::LoadU(wide, until)));
    sum[v] = hn::Zero(d);
  }
  for (int64_t r = 0; r < rows; ++r, in += step, out += step) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto before = sum[v];
      sum[v] = hn::Add(before, hn::LoadU(d, in + v * lanes));
      hn::StoreU(hn::Add(rounded[v], kExclusive ? before : sum[v]), d, out + v * lanes);
    }
  }
#pragma GCC unroll 8
  for (int64_t v = 0; v < kVectors; ++v) {
    double *low = total + v * lanes, *high = low + lanes / 2;
    hn::StoreU(hn::Add(hn::LoadU(wide, low), hn::PromoteTo(wide, hn::LowerHalf(half, sum[v]))), wide, low);
    hn::StoreU(hn::Add(hn::LoadU(wide, high), hn::PromoteTo(wide, hn::UpperHalf(half, sum[v]))), wide, high);
  }
}
#endif

// Few rows that are all there are: sums of T begin with 0, and no totals are kept. Memory is read and written in long
// pieces, as above.
template <int kVectors, bool kExclusive, class D, class Load, class Store, class T = hn::TFromD<D>>
HWY_INLINE void add_few_vectors(D d, const T* in, int64_t rows, int64_t step, T* out, Load load, Store store) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sum[kVectors];
#pragma GCC unroll 8
  for (auto& v : sum) v = hn::Zero(d);
  for (int64_t r = 0; r < rows; ++r, in += step, out += step) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto before = sum[v];
      // Nothing is made of the last row where sums leave out what they stand at.
      if (!kExclusive || r + 1 < rows) sum[v] = hn::Add(before, load(in + v * lanes));
      store(kExclusive ? before : sum[v], out + v * lanes);
    }
  }
}

template <bool kExclusive, class T>
void add_few_rows(const T* in, int64_t rows, int64_t step, int64_t n, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [d](const T* from) HWY_ATTR { return hn::LoadU(d, from); };
  const auto store = [d](auto v, T* to) HWY_ATTR { hn::StoreU(v, d, to); };
  int64_t i = 0;
  for (; i + kStrip * lanes <= n; i += kStrip * lanes)
    add_few_vectors<kStrip, kExclusive>(d, in + i, rows, step, out + i, load, store);
  for (; i + lanes <= n; i += lanes) add_few_vectors<1, kExclusive>(d, in + i, rows, step, out + i, load, store);
  if (i == n) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
  add_few_vectors<1, kExclusive>(
      d, in + i, rows, step, out + i, [d, mask](const T* from) HWY_ATTR { return masked_load(mask, d, from); },
      [d, mask](auto v, T* to) HWY_ATTR { masked_store(v, mask, d, to); });
}

template <bool kExclusive, bool /*kAhead*/>
void add_at_once(const float* in, int64_t rows, int64_t step, int64_t n, double* total, float* out) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + 2 * kStrip * lanes <= n; i += 2 * kStrip * lanes)
    add_vectors<kStrip, kExclusive>(in + i, rows, step, total + i, out + i);
  for (; i + 2 * lanes <= n; i += 2 * lanes) add_vectors<1, kExclusive>(in + i, rows, step, total + i, out + i);
#endif
  for (; i + lanes <= n; i += lanes) add_vector<kExclusive>(d, in + i, rows, step, total + i, out + i);
  for (; i < n; ++i) add_vector<kExclusive>(one, in + i, rows, step, total + i, out + i);
}

template <bool kExclusive, bool kAhead, class T>
void add_at_once(const T* in, int64_t rows, int64_t step, int64_t n, T* total, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [d](const T* from) HWY_ATTR { return hn::LoadU(d, from); };
  const auto store = [d](auto v, T* to) HWY_ATTR { hn::StoreU(v, d, to); };
  int64_t i = 0;
  for (; i + kStrip * lanes <= n; i += kStrip * lanes)
    add_vectors<kStrip, kExclusive, kAhead>(d, in + i, rows, step, total + i, out + i, load, store);
  for (; i + lanes <= n; i += lanes)
    add_vectors<1, kExclusive, kAhead>(d, in + i, rows, step, total + i, out + i, load, store);
  if (i == n) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
  add_vectors<1, kExclusive, kAhead>(
      d, in + i, rows, step, total + i, out + i,
      [d, mask](const T* from) HWY_ATTR { return masked_load(mask, d, from); },
      [d, mask](auto v, T* to) HWY_ATTR { masked_store(v, mask, d, to); });
}

constexpr int64_t some_rows = 16;

// Some rows at once: the totals are read and written once for them, and sums of f32 that are in f32 are short.
// What L2 does not hold is gone through as it lies in memory: 1000 rows of 1000 f64 took 250 us by 16. Not so short
// rows, whose totals would wait for themselves: 15,040 of 60 i32 took 280 us one by one.
template <bool kExclusive, class T, class Sum>
void add_all_rows(const T* in, int64_t rows, int64_t step, int64_t n, T* out) {
  if (rows <= some_rows) return add_few_rows<kExclusive>(in, rows, step, n, out);
  alignas(64) Sum total[max_block];
  std::fill_n(total, n, Sum(0));
  constexpr int64_t most_cached = 512 << 10, least_row = 2048;
  const int64_t row = n * static_cast<int64_t>(sizeof(T));
  const bool is_long = std::is_same_v<T, Sum> && row >= least_row && rows * row > most_cached;
  const int64_t most = is_long ? 1 : some_rows;
  for (; rows > 0; rows -= most, in += most * step, out += most * step)
    is_long ? add_at_once<kExclusive, true>(in, std::min(rows, most), step, n, total, out)
            : add_at_once<kExclusive, false>(in, std::min(rows, most), step, n, total, out);
}

// `items` of them one behind the other: a call for each took longer than 2 rows of 12 f64.
template <class T, class Sum>
void add_rows(const T* in, int64_t items, int64_t rows, int64_t step, int64_t n, bool exclusive, T* out) {
  const int64_t next = rows * (step < 0 ? -step : step);
  for (int64_t i = 0; i < items; ++i, in += next, out += next)
    exclusive ? add_all_rows<true, T, Sum>(in, rows, step, n, out)
              : add_all_rows<false, T, Sum>(in, rows, step, n, out);
}

void add_f32(const float* in, int64_t items, int64_t rows, int64_t step, int64_t n, bool exclusive, float* out) {
  add_rows<float, double>(in, items, rows, step, n, exclusive, out);
}
void add_f64(const double* in, int64_t items, int64_t rows, int64_t step, int64_t n, bool exclusive, double* out) {
  add_rows<double, double>(in, items, rows, step, n, exclusive, out);
}
void add_u32(const uint32_t* in, int64_t items, int64_t rows, int64_t step, int64_t n, bool exclusive, uint32_t* out) {
  add_rows<uint32_t, uint32_t>(in, items, rows, step, n, exclusive, out);
}
void add_u64(const uint64_t* in, int64_t items, int64_t rows, int64_t step, int64_t n, bool exclusive, uint64_t* out) {
  add_rows<uint64_t, uint64_t>(in, items, rows, step, n, exclusive, out);
}

// A line of consecutive elements: sums within a vector by doubling distances, to which the sum of all before it is
// added. Only that addition waits for the vector before: lines of 1000, 10^5 i64, took 25 us one by one, f32 by eight
// lines at once 34, and 10^7 of them from memory, where eight lines are far apart, 7 ms.
template <bool kReverse, bool kExclusive, class T, class Sum>
void add_line(const T* in, int64_t n, T* out) {
#if HWY_TARGET == HWY_SCALAR
  Sum sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = kReverse ? n - 1 - k : k;
    const Sum before = sum;
    sum += static_cast<Sum>(in[i]);
    out[i] = static_cast<T>(kExclusive ? before : sum);
  }
#else
  const hn::ScalableTag<Sum> d;
  const hn::Rebind<T, decltype(d)> stored;
  const hn::RebindToSigned<decltype(d)> di;
  using Index = hn::TFromD<decltype(di)>;
  constexpr int64_t lanes = HWY_LANES(Sum);
  constexpr int steps = std::countr_zero(static_cast<unsigned>(lanes));
  const auto place = hn::Iota(di, 0);
  // For each lane the one so many before it, where there is one.
  const auto shift = [&](int64_t by) HWY_ATTR {
    alignas(64) Index from[lanes];
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t other = kReverse ? i + by : i - by;
      from[i] = static_cast<Index>(other >= 0 && other < lanes ? other : i);
    }
    return hn::SetTableIndices(d, from);
  };
  const auto has = [&](int64_t by) HWY_ATTR {
    return hn::RebindMask(d, kReverse ? hn::Lt(place, hn::Set(di, static_cast<Index>(lanes - by)))
                                      : hn::Gt(place, hn::Set(di, static_cast<Index>(by - 1))));
  };
  const auto by1 = shift(1), by2 = shift(2), by4 = shift(4), by8 = shift(8), last = [&]() HWY_ATTR {
    alignas(64) Index from[lanes];
    std::fill_n(from, lanes, static_cast<Index>(kReverse ? 0 : lanes - 1));
    return hn::SetTableIndices(d, from);
  }();
  const auto has1 = has(1), has2 = has(2), has4 = has(4), has8 = has(8);
  auto total = hn::Zero(d);
  const auto next = [&](hn::Vec<decltype(stored)> narrow) HWY_ATTR {
    hn::Vec<decltype(d)> sum;
    if constexpr (std::is_same_v<T, Sum>)
      sum = narrow;
    else
      sum = hn::PromoteTo(d, narrow);
    sum = hn::Add(sum, hn::IfThenElseZero(has1, hn::TableLookupLanes(sum, by1)));
    if constexpr (steps > 1) sum = hn::Add(sum, hn::IfThenElseZero(has2, hn::TableLookupLanes(sum, by2)));
    if constexpr (steps > 2) sum = hn::Add(sum, hn::IfThenElseZero(has4, hn::TableLookupLanes(sum, by4)));
    if constexpr (steps > 3) sum = hn::Add(sum, hn::IfThenElseZero(has8, hn::TableLookupLanes(sum, by8)));
    const auto own = kExclusive ? hn::IfThenElseZero(has1, hn::TableLookupLanes(sum, by1)) : sum;
    const auto until = hn::Add(total, own);
    total = hn::Add(total, hn::TableLookupLanes(sum, last));
    if constexpr (std::is_same_v<T, Sum>)
      return until;
    else
      return narrowed(d, until);
  };
  const int64_t whole = n / lanes * lanes;
  const auto rest = hn::FirstN(stored, static_cast<size_t>(n - whole));
  if constexpr (kReverse) {
    // Nothing finds the lines of rows that are gone through from their ends; those of the next row are its last ones.
    constexpr int64_t ahead = 4096 / sizeof(T);
    for (int64_t i = n - lanes; i >= 0; i -= lanes) {
      if (n >= ahead / 2) {
        const int64_t then = i >= ahead ? i - ahead : 2 * n + i - ahead;
        __builtin_prefetch(in + then);
        __builtin_prefetch(out + then, 1);
      }
      hn::StoreU(next(hn::LoadU(stored, in + i)), stored, out + i);
    }
    if (whole < n) masked_store(next(masked_load(rest, stored, in)), rest, stored, out);
  } else {
    for (int64_t i = 0; i < whole; i += lanes) hn::StoreU(next(hn::LoadU(stored, in + i)), stored, out + i);
    if (whole < n) masked_store(next(masked_load(rest, stored, in + whole)), rest, stored, out + whole);
  }
#endif
}

template <class T, class Sum>
void add_each_line(const T* in, int64_t lines, int64_t n, bool reverse, bool exclusive, T* out) {
  const auto add = reverse ? (exclusive ? add_line<true, true, T, Sum> : add_line<true, false, T, Sum>)
                           : (exclusive ? add_line<false, true, T, Sum> : add_line<false, false, T, Sum>);
  for (int64_t l = 0; l < lines; ++l) add(in + l * n, n, out + l * n);
}

void add_lines_f32(const float* in, int64_t lines, int64_t n, bool reverse, bool exclusive, float* out) {
  add_each_line<float, double>(in, lines, n, reverse, exclusive, out);
}
void add_lines_f64(const double* in, int64_t lines, int64_t n, bool reverse, bool exclusive, double* out) {
  add_each_line<double, double>(in, lines, n, reverse, exclusive, out);
}
void add_lines_u32(const uint32_t* in, int64_t lines, int64_t n, bool reverse, bool exclusive, uint32_t* out) {
  add_each_line<uint32_t, uint32_t>(in, lines, n, reverse, exclusive, out);
}
void add_lines_u64(const uint64_t* in, int64_t lines, int64_t n, bool reverse, bool exclusive, uint64_t* out) {
  add_each_line<uint64_t, uint64_t>(in, lines, n, reverse, exclusive, out);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(add_f32);
HWY_EXPORT(add_f64);
HWY_EXPORT(add_u32);
HWY_EXPORT(add_u64);
HWY_EXPORT(add_lines_f32);
HWY_EXPORT(add_lines_f64);
HWY_EXPORT(add_lines_u32);
HWY_EXPORT(add_lines_u64);

namespace {

constexpr int64_t least_elements = 16 * 1024;

template <class T>
using Total =
    std::conditional_t<std::is_floating_point_v<T>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T>
T combined(bool product, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return product ? a * b : a + b;
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<T>(product ? x * y : x + y);
}

}  // namespace

namespace {

// Lines of consecutive elements, several side by side: each sum waits for the one before it.
template <int Lines, class T>
void run_lines(const RunningTotal& op, const T* x, T* y) {
  Total<T> total[Lines];
  std::fill_n(total, Lines, op.product ? Total<T>(1) : Total<T>(0));
  for (int64_t a = 0; a < op.axis; ++a) {
    const int64_t at = op.reverse ? op.axis - 1 - a : a;
#pragma GCC unroll 8
    for (int l = 0; l < Lines; ++l) {
      const Total<T> before = total[l];
      total[l] = combined(op.product, before, static_cast<Total<T>>(x[l * op.axis + at]));
      y[l * op.axis + at] = static_cast<T>(op.exclusive ? before : total[l]);
    }
  }
}

// What sums of a row are kept in, and the loop for it: integers in their own width, where they wrap alike whatever
// their sign. Void where there is none.
template <class T>
using RowSum = std::conditional_t<
    std::is_floating_point_v<T>, double,
    std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 8, uint64_t, void>>>;

template <class T>
auto row_adder() {
  if constexpr (std::is_same_v<T, float>) {
    return HWY_DYNAMIC_DISPATCH(add_f32);
  } else if constexpr (std::is_same_v<T, double>) {
    return HWY_DYNAMIC_DISPATCH(add_f64);
  } else if constexpr (sizeof(T) == 4) {
    return HWY_DYNAMIC_DISPATCH(add_u32);
  } else {
    return HWY_DYNAMIC_DISPATCH(add_u64);
  }
}

template <class T>
auto line_adder() {
  if constexpr (std::is_same_v<T, float>) {
    return HWY_DYNAMIC_DISPATCH(add_lines_f32);
  } else if constexpr (std::is_same_v<T, double>) {
    return HWY_DYNAMIC_DISPATCH(add_lines_f64);
  } else if constexpr (sizeof(T) == 4) {
    return HWY_DYNAMIC_DISPATCH(add_lines_u32);
  } else {
    return HWY_DYNAMIC_DISPATCH(add_lines_u64);
  }
}

// Rows of at most max_block neighbours are added to each other, `items` times one behind the other.
template <class T>
void run_columns(const RunningTotal& op, const T* x, T* y, int64_t items, int64_t n) {
  const auto row_at = [&](int64_t a) { return (op.reverse ? op.axis - 1 - a : a) * op.inner; };
  if constexpr (!std::is_void_v<RowSum<T>>) {
    if (!op.product) {
      using Stored = std::conditional_t<std::is_floating_point_v<T>, T, RowSum<T>>;
      const auto add = row_adder<T>();
      const int64_t first = row_at(0);
      add(reinterpret_cast<const Stored*>(x + first), items, op.axis, op.reverse ? -op.inner : op.inner, n,
          op.exclusive, reinterpret_cast<Stored*>(y + first));
      return;
    }
  }
  if (items > 1) {
    for (int64_t i = 0; i < items; ++i) run_columns(op, x + i * op.axis * op.inner, y + i * op.axis * op.inner, 1, n);
    return;
  }
  Total<T> total[max_block];
  std::fill_n(total, n, op.product ? Total<T>(1) : Total<T>(0));
  for (int64_t a = 0; a < op.axis; ++a) {
    const int64_t at = row_at(a);
    for (int64_t i = 0; i < n; ++i) {
      const Total<T> before = total[i];
      total[i] = combined(op.product, before, static_cast<Total<T>>(x[at + i]));
      y[at + i] = static_cast<T>(op.exclusive ? before : total[i]);
    }
  }
}

}  // namespace

namespace {

// Few neighbours, whose totals are kept in registers, without a call for each line: 2280 lines of 2 rows of 4 i64 took
// 59 us on a Zen 3 with one, 2500 lines of 10 rows of 4 f32 57 us on a Zen 4 with totals in memory.
constexpr int64_t few = 8;
template <int kInner, class T>
void run_few(const RunningTotal& op, const T* x, T* y, int64_t lines) {
  const int64_t step = op.reverse ? -kInner : kInner, first = op.reverse ? (op.axis - 1) * kInner : 0;
  for (int64_t l = 0; l < lines; ++l, x += op.axis * kInner, y += op.axis * kInner) {
    Total<T> total[kInner];
    std::fill_n(total, kInner, op.product ? Total<T>(1) : Total<T>(0));
    const auto add_rows = [&](auto product, auto exclusive) {
      const T* from = x + first;
      T* to = y + first;
      for (int64_t a = 0; a < op.axis; ++a, from += step, to += step) {
        const auto next = [&](T value, int i) {
          const Total<T> before = total[i];
          total[i] = combined(product.value, before, static_cast<Total<T>>(value));
          return static_cast<T>(exclusive.value ? before : total[i]);
        };
        if constexpr (std::has_single_bit(static_cast<unsigned>(kInner)) && sizeof(T) <= 4) {
          T row[kInner];  // read before any is written, as y may be x: a vector
          std::copy_n(from, kInner, row);
#pragma GCC unroll 8
          for (int i = 0; i < kInner; ++i) row[i] = next(row[i], i);
          std::copy_n(row, kInner, to);
        } else {
#pragma GCC unroll 8
          for (int i = 0; i < kInner; ++i) to[i] = next(from[i], i);
        }
      }
    };
    if (op.product)
      op.exclusive ? add_rows(std::true_type(), std::true_type()) : add_rows(std::true_type(), std::false_type());
    else
      op.exclusive ? add_rows(std::false_type(), std::true_type()) : add_rows(std::false_type(), std::false_type());
  }
}

template <class T>
auto few_adder(int64_t inner) {
  constexpr void (*adders[])(const RunningTotal&, const T*, T*, int64_t) = {
      run_few<2, T>, run_few<3, T>, run_few<4, T>, run_few<5, T>, run_few<6, T>, run_few<7, T>, run_few<8, T>};
  return adders[inner - 2];
}

}  // namespace

void RunningTotal::run(ThreadPool& pool, DType dtype, const void* in, void* out) const {
  if (outer * axis * inner == 0) return;
  const int64_t block = std::min(inner, max_block), blocks = (inner + block - 1) / block;
  with_type(dtype, "running total", [&](auto element) {
    using T = decltype(element);
    const T* x = static_cast<const T*>(in);
    T* y = static_cast<T*>(out);
    if (axis == 1) {  // nothing is before an element
      for_pieces(pool, outer * inner, least_elements, [&](int64_t begin, int64_t end) {
        if (exclusive && !product) {
          std::memset(y + begin, 0, static_cast<size_t>(end - begin) * sizeof(T));
        } else if (exclusive) {
          std::fill(y + begin, y + end, T(1));
        } else if (product) {
          if (y != x) std::copy(x + begin, x + end, y + begin);
        } else {
          // As sums that begin with 0 do: of -0 they are 0.
          for (int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(T(0) + x[i]);
        }
      });
      return;
    }
    for_pieces(pool, outer * blocks, least_elements / (axis * block) + 1, [&](int64_t begin, int64_t end) {
      int64_t item = begin;
      if (inner == 1) {
        constexpr int64_t least_line = 16;  // elements; of shorter ones most of a vector would be empty
        if constexpr (!std::is_void_v<RowSum<T>>) {
          if (!product && axis >= least_line) {
            using Stored = std::conditional_t<std::is_floating_point_v<T>, T, RowSum<T>>;
            return line_adder<T>()(reinterpret_cast<const Stored*>(x + begin * axis), end - begin, axis, reverse,
                                   exclusive, reinterpret_cast<Stored*>(y + begin * axis));
          }
        }
        // Of integers a sum is there a cycle later, and two lines are enough. From memory two take a fifth longer.
        constexpr int64_t most_cached = 16 << 20;
        const bool is_cached = outer * axis * static_cast<int64_t>(sizeof(T)) <= most_cached;
        if (!std::is_floating_point_v<T> && is_cached)
          for (; item + 2 <= end; item += 2) run_lines<2>(*this, x + item * axis, y + item * axis);
        for (; item + 8 <= end; item += 8) run_lines<8>(*this, x + item * axis, y + item * axis);
        for (; item < end; ++item) run_lines<1>(*this, x + item * axis, y + item * axis);
        return;
      }
      if (inner <= few) {
        return few_adder<T>(inner)(*this, x + item * axis * inner, y + item * axis * inner, end - item);
      }
      if (blocks == 1) return run_columns(*this, x + item * axis * inner, y + item * axis * inner, end - item, inner);
      for (; item < end; ++item) {
        const int64_t first = item % blocks * block, base = item / blocks * axis * inner + first;
        run_columns(*this, x + base, y + base, 1, std::min(block, inner - first));
      }
    });
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
