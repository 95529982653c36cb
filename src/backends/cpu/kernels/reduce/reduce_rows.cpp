#include "backends/cpu/kernels/reduce/reduce_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/reduce_rows.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/join_lanes-inl.h"
#include "backends/cpu/kernels/reduce/row_reduce-inl.h"
#include "backends/cpu/kernels/reduce/short_rows-inl.h"
#include "backends/cpu/kernels/reduce/with_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

float extreme(bool largest, const float* x, int64_t n) {
  return largest ? row_extreme<true, true>(x, n) : row_extreme<false, true>(x, n);
}

// Where the first or the last element that equals `value` is; -1: nowhere.
int64_t position(const float* x, int64_t n, float value, bool last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), whole = n / lanes * lanes;
  const auto wanted = hn::Set(d, value);
  const auto is_in = [&](int64_t i) HWY_ATTR { return !hn::AllFalse(d, hn::Eq(hn::LoadU(d, x + i), wanted)); };
  if (last) {
    int64_t end = n;
    for (; end > whole; --end)
      if (x[end - 1] == value) return end - 1;
    while (end > 0 && !is_in(end - lanes)) end -= lanes;
    for (; end > 0; --end)
      if (x[end - 1] == value) return end - 1;
    return -1;
  }
  // Where in a vector it is, by its mask: one by one, that took as long as the rest of a row of 97.
  for (int64_t begin = 0; begin < whole; begin += lanes)
    if (const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + begin), wanted)); at >= 0) return begin + at;
  for (int64_t i = whole; i < n; ++i)
    if (x[i] == value) return i;
  return -1;
}

// Extremes of rows of integers, of a vector's length at least: its last elements are looked at twice. With totals in
// memory that are compared one by one behind each row, 100 rows of 1000 bytes took twice as long.
template <ReduceKind kKind, class D, class T = hn::TFromD<D>>
void extremes_of_rows(D d, const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T line[hn::MaxLanes(D())];
  for (int64_t r = 0; r < rows; ++r, x += n) {
    auto a = hn::LoadU(d, x + n - lanes), b = a, c = a, e = a;
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      a = with_vector<kKind>(a, hn::LoadU(d, x + i));
      b = with_vector<kKind>(b, hn::LoadU(d, x + i + lanes));
      c = with_vector<kKind>(c, hn::LoadU(d, x + i + 2 * lanes));
      e = with_vector<kKind>(e, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= n; i += lanes) a = with_vector<kKind>(a, hn::LoadU(d, x + i));
    hn::Store(with_vector<kKind>(with_vector<kKind>(a, b), with_vector<kKind>(c, e)), d, line);
    for (int64_t half = lanes / 2; half > 0; half /= 2)
      for (int64_t k = 0; k < half; ++k) line[k] = with_element<kKind>(line[k], line[k + half]);
    totals[r] = with_element<kKind>(totals[r], static_cast<Partial<T>>(line[0]));
  }
}

template <ReduceKind kKind, class T>
void long_rows(const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  using R = Running<kKind, T>;
  constexpr int64_t width = 128 / static_cast<int64_t>(sizeof(R));  // totals beside each other: two vectors
  if constexpr (std::is_integral_v<R> && std::is_same_v<R, T> && sizeof(T) <= 4) {
    const auto bytes = n * static_cast<int64_t>(sizeof(T));
    if (n > 1 && bytes == 8) return rows_in_lanes<kKind, T, uint64_t>(x, rows, totals);
    if constexpr (sizeof(T) <= 2) {
      if (n > 1 && bytes == 4) return rows_in_lanes<kKind, T, uint32_t>(x, rows, totals);
    }
    if constexpr (sizeof(T) == 1) {
      if (bytes == 2) return rows_in_lanes<kKind, T, uint16_t>(x, rows, totals);
    }
  }
  if constexpr (std::is_integral_v<R> && (kKind == ReduceKind::max || kKind == ReduceKind::min)) {
    const hn::ScalableTag<T> d;
    const hn::CappedTag<T, 16 / sizeof(T)> narrow;
    if (n >= static_cast<int64_t>(hn::Lanes(d)) && hn::Lanes(d) > 1)
      return extremes_of_rows<kKind>(d, x, rows, n, totals);
    if (n >= static_cast<int64_t>(hn::Lanes(narrow)) && hn::Lanes(narrow) > 1)
      return extremes_of_rows<kKind>(narrow, x, rows, n, totals);
  }
  if (n < 2 * width) return short_rows<kKind>(x, rows, n, totals);
  constexpr ReduceKind merging = merged_by(kKind);
  for (int64_t r = 0; r < rows; ++r, x += n) {
    alignas(64) R part[width];
    const R start = static_cast<R>(identity<T>(kKind));
    for (int64_t k = 0; k < width; ++k) part[k] = start;
    int64_t i = 0;
    for (; i + width <= n; i += width)
      for (int64_t k = 0; k < width; ++k) part[k] = with_element<kKind>(part[k], static_cast<R>(x[i + k]));
    auto total = static_cast<R>(totals[r]);
    for (; i < n; ++i) total = with_element<kKind>(total, static_cast<R>(x[i]));
    for (int64_t k = 0; k < width; ++k) total = with_element<merging>(total, part[k]);
    totals[r] = static_cast<Partial<T>>(total);
  }
}

template <ReduceKind kKind, class T>
void typed_columns(const T* x, int64_t rows, int64_t stride, int64_t columns, Partial<T>* totals) {
  using R = Running<kKind, T>;
  if constexpr (std::is_same_v<R, Partial<T>>) {
    for (int64_t r = 0; r < rows; ++r, x += stride)
      for (int64_t c = 0; c < columns; ++c) totals[c] = with_element<kKind>(totals[c], static_cast<R>(x[c]));
  } else {
    alignas(64) R best[most_columns];
    for (int64_t c = 0; c < columns; ++c) best[c] = static_cast<R>(totals[c]);
    for (int64_t r = 0; r < rows; ++r, x += stride)
      for (int64_t c = 0; c < columns; ++c) best[c] = with_element<kKind>(best[c], x[c]);
    for (int64_t c = 0; c < columns; ++c) totals[c] = static_cast<Partial<T>>(best[c]);
  }
}

// By kind: run<kKind, T>(arguments...).
#define CAMSHAFT_BY_KIND(run)             \
  switch (kind) {                         \
    case ReduceKind::sum:                 \
    case ReduceKind::mean:                \
      return run(ReduceKind::sum);        \
    case ReduceKind::max:                 \
      return run(ReduceKind::max);        \
    case ReduceKind::min:                 \
      return run(ReduceKind::min);        \
    case ReduceKind::prod:                \
      return run(ReduceKind::prod);       \
    case ReduceKind::sum_square:          \
      return run(ReduceKind::sum_square); \
    case ReduceKind::sum_abs:             \
      return run(ReduceKind::sum_abs);    \
  }
#define CAMSHAFT_ROWS(k) long_rows<k>(x, rows, n, totals)
#define CAMSHAFT_SHORT_ROWS(k) short_rows<k>(x, rows, n, totals)
#define CAMSHAFT_COLUMNS(k) typed_columns<k>(x, rows, stride, columns, totals)
#define CAMSHAFT_TYPED_ROWS(name, T)                                                           \
  void rows_##name(ReduceKind kind, const T* x, int64_t rows, int64_t n, Partial<T>* totals) { \
    CAMSHAFT_BY_KIND(CAMSHAFT_ROWS)                                                            \
  }
#define CAMSHAFT_TYPED_COLUMNS(name, T)                                                                               \
  void columns_##name(ReduceKind kind, const T* x, int64_t rows, int64_t stride, int64_t columns, Partial<T>* totals, \
                      bool) {                                                                                         \
    CAMSHAFT_BY_KIND(CAMSHAFT_COLUMNS)                                                                                \
  }
#define CAMSHAFT_TYPED(name, T) CAMSHAFT_TYPED_ROWS(name, T) CAMSHAFT_TYPED_COLUMNS(name, T)
CAMSHAFT_TYPED_COLUMNS(i64, int64_t)
CAMSHAFT_TYPED_COLUMNS(i32, int32_t)
CAMSHAFT_TYPED(i16, int16_t)
CAMSHAFT_TYPED(i8, int8_t)
CAMSHAFT_TYPED_COLUMNS(u64, uint64_t)
CAMSHAFT_TYPED_COLUMNS(u32, uint32_t)
CAMSHAFT_TYPED(u16, uint16_t)
CAMSHAFT_TYPED(u8, uint8_t)
#undef CAMSHAFT_TYPED
#undef CAMSHAFT_TYPED_ROWS
#undef CAMSHAFT_TYPED_COLUMNS

#define CAMSHAFT_BESIDE(k) rows_beside_each_other<k>(x, rows, n, totals)
#define CAMSHAFT_JOINED(k) joined_rows<k>(x, rows, n, totals)

// Integers of 32 bits, whose sums may wrap as their results do; not those that means are of. Pairs have a way of their
// own (rows_in_lanes()).
template <class T>
void rows_of_words(ReduceKind kind, const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  constexpr int64_t few = 8;
  constexpr bool has_short = kTarget.partial_moves && kTarget.conversions;
  const bool is_wide = kind == ReduceKind::mean, is_extreme = kind == ReduceKind::max || kind == ReduceKind::min;
  // Gathers of 5 and more took longer.
  if (has_short && n > 4 && n < few && (is_wide || kind == ReduceKind::sum))
    return short_rows_in_vectors<ReduceKind::sum>(x, rows, n, totals);
  if (is_wide && n > 1 && n < few && rows >= 8) return wide_sums_beside_each_other(x, rows, n, totals);
  if (!is_wide && n > (is_extreme ? 2 : 1) && n <= 4 && rows >= 8) CAMSHAFT_BY_KIND(CAMSHAFT_BESIDE)
  if (!is_wide && n > 4 && n <= longest_joined<T> && HWY_LANES(T) > 1) CAMSHAFT_BY_KIND(CAMSHAFT_JOINED)
  CAMSHAFT_BY_KIND(CAMSHAFT_ROWS)
}
void rows_i32(ReduceKind kind, const int32_t* x, int64_t rows, int64_t n, int64_t* totals) {
  rows_of_words(kind, x, rows, n, totals);
}
void rows_u32(ReduceKind kind, const uint32_t* x, int64_t rows, int64_t n, uint64_t* totals) {
  rows_of_words(kind, x, rows, n, totals);
}

// Of 64 bits, whose sums wrap as their totals do.
template <class T>
void rows_of_wide(ReduceKind kind, const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  const bool is_sum = kind == ReduceKind::sum || kind == ReduceKind::mean;
  if (n > 1 && n <= 4 && rows >= 8) {
    if (is_sum) return wide_sums_beside_each_other(x, rows, n, totals);
    CAMSHAFT_BY_KIND(CAMSHAFT_BESIDE)
  }
  if (n > 4 && n <= longest_joined<T> && HWY_LANES(T) > 1) CAMSHAFT_BY_KIND(CAMSHAFT_JOINED)
  CAMSHAFT_BY_KIND(CAMSHAFT_ROWS)
}
void rows_i64(ReduceKind kind, const int64_t* x, int64_t rows, int64_t n, int64_t* totals) {
  rows_of_wide(kind, x, rows, n, totals);
}
void rows_u64(ReduceKind kind, const uint64_t* x, int64_t rows, int64_t n, uint64_t* totals) {
  rows_of_wide(kind, x, rows, n, totals);
}

// Of n elements, in double and in eight vectors, as an addition and a multiplication wait three or four cycles for the
// one before. With partial results in memory 10^5 elements took 30 us.
template <ReduceKind kKind, class T>
double row_total(const T* x, int64_t n) {
  constexpr ReduceKind merging = merged_by(kKind);
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](int64_t i) HWY_ATTR {
    if constexpr (std::is_same_v<T, float>) {
      return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, decltype(d)>(), x + i));
    } else {
      return hn::LoadU(d, x + i);
    }
  };
  constexpr int kVectors = 8;
  hn::Vec<decltype(d)> t[kVectors];
#pragma GCC unroll 8
  for (int k = 0; k < kVectors; ++k) t[k] = hn::Set(d, identity<double>(kKind));
  int64_t i = 0;
  for (; i + kVectors * lanes <= n; i += kVectors * lanes) {
#pragma GCC unroll 8
    for (int k = 0; k < kVectors; ++k) t[k] = with_vector<kKind>(t[k], load(i + k * lanes));
  }
  for (; i + lanes <= n; i += lanes) t[0] = with_vector<kKind>(t[0], load(i));
#pragma GCC unroll 8
  for (int half = kVectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int k = 0; k < half; ++k) t[k] = with_vector<merging>(t[k], t[k + half]);
  }
  HWY_ALIGN double line[hn::MaxLanes(hn::ScalableTag<double>())];
  hn::Store(t[0], d, line);
  double total = line[0];
  for (int64_t k = 1; k < lanes; ++k) total = with_element<merging>(total, line[k]);
  for (; i < n; ++i) total = with_element<kKind>(total, static_cast<double>(x[i]));
  return total;
}

template <ReduceKind kKind, class T>
void rows_in_double(const T* x, int64_t rows, int64_t n, double* totals) {
  if (n <= short_row && kTarget.partial_moves) return short_rows_in_vectors<kKind>(x, rows, n, totals);
  constexpr ReduceKind merging = merged_by(kKind);
  for (int64_t r = 0; r < rows; ++r, x += n) totals[r] = with_element<merging>(totals[r], row_total<kKind>(x, n));
}

// Compilers leave the comparisons with NaN as they are (10^5 elements took 57 us), and totals in memory.
void rows_f64(ReduceKind kind, const double* x, int64_t rows, int64_t n, double* totals) {
  constexpr int64_t few = kTarget.partial_moves ? 5 : 8;  // of more, gathers take longer than masked vectors
  if (n < few && rows >= 8) {
    CAMSHAFT_BY_KIND(CAMSHAFT_BESIDE)
  }
  if (n < few) CAMSHAFT_BY_KIND(CAMSHAFT_SHORT_ROWS)
  if (n <= longest_joined<double> && HWY_LANES(double) > 1) CAMSHAFT_BY_KIND(CAMSHAFT_JOINED)
  switch (kind) {
    case ReduceKind::max:
    case ReduceKind::min:
      for (int64_t r = 0; r < rows; ++r, x += n)
        totals[r] = combine<double>(
            kind, totals[r], kind == ReduceKind::max ? row_extreme<true, true>(x, n) : row_extreme<false, true>(x, n));
      return;
    case ReduceKind::sum:
    case ReduceKind::mean:
      return rows_in_double<ReduceKind::sum>(x, rows, n, totals);
    case ReduceKind::sum_square:
      return rows_in_double<ReduceKind::sum_square>(x, rows, n, totals);
    case ReduceKind::sum_abs:
      return rows_in_double<ReduceKind::sum_abs>(x, rows, n, totals);
    case ReduceKind::prod:
      return rows_in_double<ReduceKind::prod>(x, rows, n, totals);
  }
}

void rows_f32(ReduceKind kind, const float* x, int64_t rows, int64_t n, double* totals) {
  // Elements that take longer to be made a vector; of more, gathers take longer than masked vectors.
  constexpr int64_t few = kTarget.partial_moves ? 5 : 8;
  if (n < few && rows >= 8) {
    switch (kind) {
      case ReduceKind::sum:
      case ReduceKind::mean:
        return rows_beside_each_other<ReduceKind::sum>(x, rows, n, totals);
      case ReduceKind::sum_square:
        return rows_beside_each_other<ReduceKind::sum_square>(x, rows, n, totals);
      case ReduceKind::sum_abs:
        return rows_beside_each_other<ReduceKind::sum_abs>(x, rows, n, totals);
      case ReduceKind::max:
        return rows_beside_each_other<ReduceKind::max>(x, rows, n, totals);
      case ReduceKind::min:
        return rows_beside_each_other<ReduceKind::min>(x, rows, n, totals);
      case ReduceKind::prod:
        return products_beside_each_other(x, rows, n, totals);
    }
  }
  if (n < few) CAMSHAFT_BY_KIND(CAMSHAFT_SHORT_ROWS)
  if (n <= longest_joined<float> && kind != ReduceKind::prod && HWY_LANES(float) > 1) CAMSHAFT_BY_KIND(CAMSHAFT_JOINED)
  const auto each_row = [&](auto take) HWY_ATTR {
    for (int64_t r = 0; r < rows; ++r, x += n) totals[r] = take(totals[r]);
  };
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      return each_row([&](double total) HWY_ATTR { return total + row_sum(x, n, 0, Plain()); });
    case ReduceKind::sum_square:
      return each_row([&](double total) HWY_ATTR { return total + row_sum(x, n, 0, Squared()); });
    case ReduceKind::sum_abs:
      return each_row([&](double total) HWY_ATTR { return total + row_sum(x, n, 0, Magnitude()); });
    case ReduceKind::max:
      return each_row([&](double total)
                          HWY_ATTR { return combine<double>(ReduceKind::max, total, row_extreme<true, true>(x, n)); });
    case ReduceKind::min:
      return each_row([&](double total)
                          HWY_ATTR { return combine<double>(ReduceKind::min, total, row_extreme<false, true>(x, n)); });
    case ReduceKind::prod:
      return rows_in_double<ReduceKind::prod>(x, rows, n, totals);
  }
}

// Rows that are added side by side, each into a sum of its own, in all columns: equal columns have equal sums, wherever
// they stand (a softmax of large numbers behind them magnifies the last bit).
constexpr int kSums = 4;

// V vectors of columns, whose sums stay in registers (in L1 they took three times as long where the rows are in cache).
// With kTail the last vector has `tail` columns.
// With kAhead memory is asked for what lies as many rows further on.
template <int V, bool kTail, bool kAhead, class Function>
HWY_INLINE void columns_of_block(const float* x, int64_t rows, int64_t stride, size_t tail, float* out,
                                 Function function) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, tail);
  hn::Vec<decltype(d)> sum[kSums][V];
#pragma GCC unroll 8
  for (int i = 0; i < kSums; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[i][v] = hn::Zero(d);
  }
  constexpr int64_t line = 64 / sizeof(float);
  const auto add = [&](hn::Vec<decltype(d)>(&to)[V], const float* from) HWY_ATTR {
#pragma GCC unroll 8
    for (int64_t at = 0; kAhead && at < V * lanes; at += line) __builtin_prefetch(from + rows * stride + at);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const bool part = kTail && v + 1 == V;
      to[v] = hn::Add(to[v], function(part ? masked_load(mask, d, from + v * lanes) : hn::LoadU(d, from + v * lanes)));
    }
  };
  int64_t r = 0;
  for (; r + kSums <= rows; r += kSums) {
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i) add(sum[i], x + (r + i) * stride);
  }
  for (; r < rows; ++r) add(sum[0], x + r * stride);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
#pragma GCC unroll 8
    for (int i = 1; i < kSums; ++i) sum[0][v] = hn::Add(sum[0][v], sum[i][v]);
    hn::StoreU(sum[0][v], d, out + v * lanes);
  }
}

// How far ahead a row asks for memory, elements: processors by themselves stop at the end of a page. 40 MB in rows of
// 1000 took 1.4 ms without, and 1.2 with it.
constexpr int64_t ahead = 1024;

// out[c] += the sum of kRows rows.
template <int kRows, class Function>
HWY_INLINE void add_rows(const float* x, int64_t stride, int64_t columns, float* out, Function function) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto add = [&](int64_t c, auto load) HWY_ATTR {
    __builtin_prefetch(kRows == 1 ? x + c + ahead : x + kRows * stride + c);
    auto sum = function(load(x + c));
#pragma GCC unroll 8
    for (int r = 1; r < kRows; ++r) {
      __builtin_prefetch(x + (kRows + r) * stride + c);
      sum = hn::Add(sum, function(load(x + r * stride + c)));
    }
    hn::Store(hn::Add(hn::Load(d, out + c), sum), d, out + c);
  };
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) add(c, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); });
  if (c == columns) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(columns - c));
  add(c, [&](const float* from) HWY_ATTR { return masked_load(mask, d, from); });
}

// Rows read to their ends in the order of memory, with sums in L1: what fetches memory ahead follows them. By blocks of
// columns, 40 MB in rows of 1000 took 2.3 ms, and 1.4 this way. Of parts of wider rows several are read side by side:
// one by one they took twice as long.
template <class Function>
HWY_INLINE void columns_of_memory(const float* x, int64_t rows, int64_t stride, int64_t columns, float* out,
                                  Function function) {
  constexpr int kRows = 8;
  std::fill_n(out, columns + static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>())), 0.0f);
  int64_t r = 0;
  for (; columns < stride && r + kRows <= rows; r += kRows)
    add_rows<kRows>(x + r * stride, stride, columns, out, function);
  for (; r < rows; ++r) add_rows<1>(x + r * stride, stride, columns, out, function);
}

// Blocks of 256 rows are added in double.
template <bool kAhead, class Function>
HWY_INLINE void column_sums(const float* x, int64_t rows, int64_t stride, int64_t columns, double* out,
                            Function function) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kWide = hn::MaxLanes(hn::ScalableTag<float>()) >= 16 ? 4 : 2;  // of 32 or 16 registers
  constexpr int64_t cached = 32 * 1024 / sizeof(float);                        // a tile of computed elements
  HWY_ALIGN float partial[most_columns + hn::MaxLanes(hn::ScalableTag<float>())];
  for (int64_t begin = 0; begin < rows; begin += 256, x += 256 * stride) {
    const int64_t count = std::min<int64_t>(rows - begin, 256);
    // By the row alone, as all blocks of its columns must be added in the same order.
    if (stride > kWide * lanes && count * stride > cached) {
      columns_of_memory(x, count, stride, columns, partial, function);
    } else {
      int64_t c = 0;
      for (; c + kWide * lanes <= columns; c += kWide * lanes)
        columns_of_block<kWide, false, kAhead>(x + c, count, stride, 0, partial + c, function);
      // What is left, in one pass: rows of 40 in three passes took 1.4 times as long.
      const auto tail = static_cast<size_t>((columns - c) % lanes);
      const auto take = [&](auto vectors) HWY_ATTR {
        constexpr int V = decltype(vectors)::value;
        if (tail > 0) return columns_of_block<V + 1, true, kAhead>(x + c, count, stride, tail, partial + c, function);
        if constexpr (V > 0) columns_of_block<V, false, kAhead>(x + c, count, stride, 0, partial + c, function);
      };
      const int64_t whole = (columns - c) / lanes;
      if (whole == 0) take(std::integral_constant<int, 0>());
      if (whole == 1) take(std::integral_constant<int, 1>());
      if constexpr (kWide > 2) {
        if (whole == 2) take(std::integral_constant<int, 2>());
        if (whole == 3) take(std::integral_constant<int, 3>());
      }
    }
    for (int64_t i = 0; i < columns; ++i) out[i] += partial[i];
  }
}

// V vectors of columns, whose extremes stay in registers. With kTail the last vector has `tail` columns.
template <bool kLargest, int V, bool kTail, class T>
HWY_INLINE void extremes_of_block(const T* x, int64_t rows, int64_t stride, size_t tail, double* out) {
  constexpr ReduceKind kind = kLargest ? ReduceKind::max : ReduceKind::min;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, tail);
  hn::Vec<decltype(d)> best[V], nans[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    best[v] = hn::Set(d, static_cast<T>(identity<T>(kind)));
    nans[v] = hn::Zero(d);
  }
  for (int64_t r = 0; r < rows; ++r, x += stride) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const auto a = kTail && v + 1 == V ? masked_load(mask, d, x + v * lanes) : hn::LoadU(d, x + v * lanes);
      best[v] = kLargest ? max_or_second(a, best[v]) : min_or_second(a, best[v]);
      nans[v] = hn::IfThenElse(hn::IsNaN(a), a, nans[v]);  // beside the extremes: no vector waits for it
    }
  }
  HWY_ALIGN T line[V * hn::MaxLanes(hn::ScalableTag<T>())];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) hn::Store(hn::IfThenElse(hn::IsNaN(nans[v]), nans[v], best[v]), d, line + v * lanes);
  const int64_t count = kTail ? (V - 1) * lanes + static_cast<int64_t>(tail) : V * lanes;
  for (int64_t c = 0; c < count; ++c) out[c] = with_element<kind>(out[c], static_cast<double>(line[c]));
}

// Rows in the order of memory, as sums have it (columns_of_memory()), with the extremes in L1. Where rows are whole,
// NaN is looked for in what is read, and set aside: a vector that has some is rare.
template <bool kLargest, class T>
HWY_INLINE void extremes_of_memory(const T* x, int64_t rows, int64_t stride, int64_t columns, double* out) {
  constexpr ReduceKind kind = kLargest ? ReduceKind::max : ReduceKind::min;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T best[most_columns + hn::MaxLanes(hn::ScalableTag<T>())];
  std::fill_n(best, columns + lanes, static_cast<T>(identity<T>(kind)));
  const auto take = [&](int64_t c, auto a) HWY_ATTR {
    const auto before = hn::Load(d, best + c);
    auto now = kLargest ? max_or_second(a, before) : min_or_second(a, before);
    // What is NaN so far stays it; what is not becomes it by the new element.
    const auto is_nan = hn::Or(hn::IsNaN(a), hn::IsNaN(before));
    now = hn::IfThenElse(is_nan, hn::Add(a, before), now);
    hn::Store(now, d, best + c);
  };
  const auto mask = hn::FirstN(d, static_cast<size_t>(columns % lanes));
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      __builtin_prefetch(x + c + ahead);
      take(c, hn::LoadU(d, x + c));
    }
    if (c < columns) take(c, masked_load(mask, d, x + c));
  }
  for (int64_t c = 0; c < columns; ++c) out[c] = with_element<kind>(out[c], static_cast<double>(best[c]));
}

template <bool kLargest, class T>
HWY_INLINE void column_extremes(const T* x, int64_t rows, int64_t stride, int64_t columns, double* out) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Of as many rows as are taken at once, that do not come from a second-level cache: 10^6 elements in rows of 1000.
  constexpr int64_t far = (1 << 19) / sizeof(T);
  if (stride > 4 * lanes && rows * stride > far) return extremes_of_memory<kLargest>(x, rows, stride, columns, out);
  int64_t c = 0;
  for (; c + 4 * lanes <= columns; c += 4 * lanes)
    extremes_of_block<kLargest, 4, false>(x + c, rows, stride, 0, out + c);
  const int64_t left = columns - c, whole = left / lanes;
  const auto tail = static_cast<size_t>(left % lanes);
  const auto take = [&](auto vectors) HWY_ATTR {
    constexpr int V = decltype(vectors)::value;
    if (tail > 0) return extremes_of_block<kLargest, V + 1, true>(x + c, rows, stride, tail, out + c);
    if constexpr (V > 0) extremes_of_block<kLargest, V, false>(x + c, rows, stride, 0, out + c);
  };
  if (whole == 0) return take(std::integral_constant<int, 0>());
  if (whole == 1) return take(std::integral_constant<int, 1>());
  if (whole == 2) return take(std::integral_constant<int, 2>());
  take(std::integral_constant<int, 3>());
}

void columns_f64(ReduceKind kind, const double* x, int64_t rows, int64_t stride, int64_t columns, double* totals,
                 bool) {
  if (kind == ReduceKind::max) return column_extremes<true>(x, rows, stride, columns, totals);
  if (kind == ReduceKind::min) return column_extremes<false>(x, rows, stride, columns, totals);
  CAMSHAFT_BY_KIND(CAMSHAFT_COLUMNS)
}

void columns_f32(ReduceKind kind, const float* x, int64_t rows, int64_t stride, int64_t count, double* out,
                 bool ahead) {
  const auto sums = [&](auto function) HWY_ATTR {
    ahead ? column_sums<true>(x, rows, stride, count, out, function)
          : column_sums<false>(x, rows, stride, count, out, function);
  };
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::mean:
      return sums(Plain());
    case ReduceKind::sum_square:
      return sums(Squared());
    case ReduceKind::sum_abs:
      return sums(Magnitude());
    case ReduceKind::max:
      return column_extremes<true>(x, rows, stride, count, out);
    case ReduceKind::min:
      return column_extremes<false>(x, rows, stride, count, out);
    case ReduceKind::prod:
      typed_columns<ReduceKind::prod>(x, rows, stride, count, out);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(extreme);

float extreme_of_row(bool largest, const float* x, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(extreme)(largest, x, n);
}

HWY_EXPORT(position);

int64_t position_in_row(const float* x, int64_t n, float value, bool last) {
  return HWY_DYNAMIC_DISPATCH(position)(x, n, value, last);
}

#define CAMSHAFT_TYPED(name, T)                                                                      \
  HWY_EXPORT(rows_##name);                                                                           \
  HWY_EXPORT(columns_##name);                                                                        \
  template <>                                                                                        \
  void reduce_rows<T>(ReduceKind kind, const T* x, int64_t rows, int64_t n, Partial<T>* totals) {    \
    HWY_DYNAMIC_DISPATCH(rows_##name)(kind, x, rows, n, totals);                                     \
  }                                                                                                  \
  template <>                                                                                        \
  void reduce_columns<T>(ReduceKind kind, const T* x, int64_t rows, int64_t stride, int64_t columns, \
                         Partial<T>* totals, bool ahead) {                                           \
    HWY_DYNAMIC_DISPATCH(columns_##name)(kind, x, rows, stride, columns, totals, ahead);             \
  }
CAMSHAFT_TYPED(f32, float)
CAMSHAFT_TYPED(f64, double)
CAMSHAFT_TYPED(i64, int64_t)
CAMSHAFT_TYPED(i32, int32_t)
CAMSHAFT_TYPED(i16, int16_t)
CAMSHAFT_TYPED(i8, int8_t)
CAMSHAFT_TYPED(u64, uint64_t)
CAMSHAFT_TYPED(u32, uint32_t)
CAMSHAFT_TYPED(u16, uint16_t)
CAMSHAFT_TYPED(u8, uint8_t)
#undef CAMSHAFT_TYPED

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
