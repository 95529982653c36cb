#include "backends/cpu/kernels/reduce/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/move/transpose_tile.h"
#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/softmax.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/pointwise/vector_math_f64-inl.h"
#include "backends/cpu/kernels/reduce/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

template <class D, class V>
HWY_INLINE V exp_nonpositive(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return exp_nonpositive_f32(d, x);
  } else {
    return exp_nonpositive_f64(d, x);
  }
}

// The sum of exp(x - top), and, if kKeep, y = exp(x - top). x may be y. What lies `ahead` elements further is asked
// for.
template <bool kKeep, class T>
HWY_NOINLINE T exponentials(const T* x, T* y, int64_t n, T top, int64_t ahead) {
  using Tag = hn::ScalableTag<T>;
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  constexpr int vectors = 4;  // under way at a time
  const auto shift = hn::Set(d, top);
  hn::Vec<Tag> sum[vectors] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + vectors * lanes <= n; i += vectors * lanes) {
    hn::Vec<Tag> e[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      __builtin_prefetch(x + i + v * lanes + ahead);
      e[v] = hn::Sub(hn::LoadU(d, x + i + v * lanes), shift);
    }
    if constexpr (sizeof(T) == 4) {
      exp_nonpositive_f32(d, e, e);
    } else {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) e[v] = exp_nonpositive_f64(d, e[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      if constexpr (kKeep) hn::StoreU(e[v], d, y + i + v * lanes);
      sum[v] = hn::Add(sum[v], e[v]);
    }
  }
  for (; i < n; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
    const auto e = hn::IfThenElseZero(mask, exp_nonpositive(d, hn::Sub(masked_load(mask, d, x + i), shift)));
    if constexpr (kKeep) masked_store(e, mask, d, y + i);
    sum[0] = hn::Add(sum[0], e);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
}

// y[i] = step(x[i]); x may be y.
template <class T, class Step>
HWY_INLINE void each(const T* x, T* y, int64_t n, Step step) {
  const hn::ScalableTag<T> d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto first = step(hn::LoadU(d, x + i)), second = step(hn::LoadU(d, x + i + lanes));
    hn::StoreU(first, d, y + i);
    hn::StoreU(second, d, y + i + lanes);
  }
  for (; i < n; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
    masked_store(step(masked_load(mask, d, x + i)), mask, d, y + i);
  }
}

// The sum over a whole row, of pieces added in double. What lies `ahead` elements further, the next row or block where
// L1 holds both, is asked for: its largest element is looked for first, which leaves nothing to wait with. 1000 rows of
// 1000 took 323 us without.
template <bool kKeep, class T>
double sum_of_exponentials(const T* x, T* y, int64_t n, T top, int64_t ahead) {
  constexpr int64_t piece = 1024;
  double sum = 0;
  for (int64_t i = 0; i < n; i += piece)
    sum += exponentials<kKeep, T>(x + i, kKeep ? y + i : nullptr, std::min(piece, n - i), top, ahead);
  return sum;
}

// The blocks of a long row. Their number is bounded, as each has a place to remember its largest element.
constexpr int64_t least_block = 4096, most_blocks = 256;

// A row that L1 does not hold, in blocks that it does: each is gone through for its largest element and at once for its
// exponentials, which are relative to the largest of the row so far, and are brought to that of all as they are divided
// by the sum. 393,000 f32, gone through once more for the largest before, took 83 us from L3.
template <class T>
void long_row(const T* x, T* y, int64_t n, bool logarithm) {
  const hn::ScalableTag<T> d;
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const int64_t block = std::max(least_block, round_up(divide_up(n, most_blocks), 64));
  T tops[most_blocks];
  T top = lowest;
  double sum = 0;
  // Nothing is known of a row of -inf so far but that its exponentials beside what follows are 0.
  const auto shift = [&] { return top == lowest ? T(0) : top; };
  const auto each_block = [&](const auto& visit) HWY_ATTR {
    for (int64_t i = 0, b = 0; i < n; i += block, ++b) visit(i, b, std::min(block, n - i));
  };
  each_block([&](int64_t i, int64_t b, int64_t count) HWY_ATTR {
    const T before = top;
    top = std::max(top, row_extreme<true, false>(x + i, count));
    tops[b] = top;
    if (top != before) sum *= std::exp(static_cast<double>(before - top));
    const int64_t ahead = block <= 2 * least_block ? block : 0;
    sum += logarithm ? sum_of_exponentials<false, T>(x + i, nullptr, count, shift(), ahead)
                     : sum_of_exponentials<true>(x + i, y + i, count, shift(), ahead);
  });
  if (top == lowest) sum = std::numeric_limits<double>::quiet_NaN();
  if (logarithm) {
    const auto log_sum = hn::Set(d, static_cast<T>(std::log(sum))), by = hn::Set(d, top);
    return each(x, y, n, [&](auto v) HWY_ATTR { return hn::Sub(hn::Sub(v, by), log_sum); });
  }
  each_block([&](int64_t i, int64_t b, int64_t count) HWY_ATTR {
    const auto factor = hn::Set(d, static_cast<T>(std::exp(static_cast<double>(tops[b] - top)) / sum));
    each(y + i, y + i, count, [&](auto e) HWY_ATTR { return hn::Mul(e, factor); });
  });
}

template <class T>
void row(const T* x, T* y, int64_t n, bool logarithm) {
  if (n > least_block) return long_row(x, y, n, logarithm);
  const hn::ScalableTag<T> d;
  const T top = row_extreme<true, false>(x, n);
  if (!logarithm) {
    const auto factor = hn::Set(d, 1 / static_cast<T>(sum_of_exponentials<true>(x, y, n, top, n)));
    return each(y, y, n, [&](auto e) HWY_ATTR { return hn::Mul(e, factor); });
  }
  const auto log_sum = hn::Set(d, std::log(static_cast<T>(sum_of_exponentials<false, T>(x, nullptr, n, top, n)))),
             shift = hn::Set(d, top);
  // In two steps: top + log_sum would lose the digits of log_sum where top is large.
  each(x, y, n, [&](auto v) HWY_ATTR { return hn::Sub(hn::Sub(v, shift), log_sum); });
}

// Rows of up to kVectors vectors, more than one less, which stay in registers from the maximum to the quotient: 4056
// rows of 13 f32 took 189 us on a Zen 3 when each was gone through three times. The next row is read before one is
// written: in place its first vector reaches over the last, masked one of that, and would wait for it to be in cache
// (7692 rows of 13: 260 us).
template <int kVectors, class T>
void short_rows(const T* x, T* y, int64_t count, int64_t n, bool logarithm) {
  using Tag = hn::ScalableTag<T>;
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  constexpr int64_t last = (kVectors - 1) * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(n - last));
  const bool is_whole = n == kVectors * lanes;
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  hn::Vec<Tag> next[kVectors];
  const auto read = [&](const T* from) HWY_ATTR {
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i)
      next[i] = i + 1 < kVectors || is_whole ? hn::LoadU(d, from + i * lanes)
                                             : hn::IfThenElse(mask, masked_load(mask, d, from + last), lowest);
  };
  if (count > 0) read(x);
  for (int64_t r = 0; r < count; ++r, x += n, y += n) {
    hn::Vec<Tag> v[kVectors];
    auto top = lowest;
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      v[i] = next[i];
      top = max_or_second(v[i], top);
    }
    if (r + 1 < count) read(x + n);
    top = hn::MaxOfLanes(d, top);
    auto sum = hn::Zero(d);
    hn::Vec<Tag> e[kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      v[i] = hn::Sub(v[i], top);
      e[i] = exp_nonpositive(d, v[i]);
      if (i + 1 == kVectors) e[i] = hn::IfThenElseZero(mask, e[i]);
      sum = hn::Add(sum, e[i]);
    }
    sum = hn::SumOfLanes(d, sum);
    const auto shift = logarithm ? hn::Set(d, std::log(hn::GetLane(sum))) : hn::Div(hn::Set(d, T(1)), sum);
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      const auto result = logarithm ? hn::Sub(v[i], shift) : hn::Mul(e[i], shift);
      if (i + 1 < kVectors || is_whole) {
        hn::StoreU(result, d, y + i * lanes);
      } else {
        masked_store(result, mask, d, y + last);
      }
    }
  }
}

template <class T>
void rows(const T* x, T* y, int64_t begin, int64_t end, int64_t n, bool logarithm) {
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  if constexpr (lanes > 1) {
    const T* from = x + begin * n;
    T* to = y + begin * n;
    switch ((n + lanes - 1) / lanes) {
      case 1:
        return short_rows<1>(from, to, end - begin, n, logarithm);
      case 2:
        return short_rows<2>(from, to, end - begin, n, logarithm);
      case 3:
        return short_rows<3>(from, to, end - begin, n, logarithm);
      case 4:
        return short_rows<4>(from, to, end - begin, n, logarithm);
      default:
        break;
    }
  }
  for (int64_t r = begin; r < end; ++r) row(x + r * n, y + r * n, n, logarithm);
}

// All of fewer neighbours than a vector has: as many vectors as they are begin with the same column again, so that each
// of these has its largest elements and sums by lanes. Masked, a row each, 10,613 rows of 7 took 395 us.
template <class T>
void few_columns(const T* x, T* y, int64_t inner, int64_t axis, bool logarithm) {
  const hn::ScalableTag<T> d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  const int64_t n = axis * inner, group = inner * lanes, filled = std::min(n, group);
  alignas(64) T top[lanes * lanes], sum[lanes * lanes];
  double total[lanes] = {};
  // visit(an element, its place in a group, lanes that there are) for whole vectors and the last, masked one.
  const auto each_vector = [&](int64_t first, int64_t past, const auto& visit) HWY_ATTR {
    for (int64_t i = first; i < past; i += group) {
      const int64_t here = std::min(group, past - i);
      int64_t v = 0;
      for (; v + lanes <= here; v += lanes)
        visit(
            i + v, v, [d](const T* from) HWY_ATTR { return hn::LoadU(d, from); },
            [d](auto value, T* to) HWY_ATTR { hn::StoreU(value, d, to); });
      if (v == here) continue;
      const auto mask = hn::FirstN(d, static_cast<size_t>(here - v));
      visit(
          i + v, v, [d, mask](const T* from) HWY_ATTR { return masked_load(mask, d, from); },
          [d, mask](auto value, T* to) HWY_ATTR { masked_store(value, mask, d, to); });
    }
  };
  std::fill_n(top, group, -std::numeric_limits<T>::infinity());
  each_vector(0, n, [&](int64_t i, int64_t v, const auto& load, const auto& store) HWY_ATTR {
    const auto value = load(x + i), before = hn::Load(d, top + v);
    store(hn::IfThenElse(hn::Gt(value, before), value, before), top + v);
  });
  for (int64_t k = inner; k < filled; k += inner)
    for (int64_t c = 0; c < inner; ++c) top[c] = top[k + c] > top[c] ? top[k + c] : top[c];
  for (int64_t k = inner; k < filled; ++k) top[k] = top[k - inner];
  // Terms of some groups are added up apart, so that the sum of many is not a long one.
  const int64_t some = 256 * group;
  for (int64_t first = 0; first < n; first += some) {
    std::fill_n(sum, group, T(0));
    each_vector(first, std::min(n, first + some),
                [&](int64_t i, int64_t v, const auto& load, const auto& store) HWY_ATTR {
                  const auto e = exp_nonpositive(d, hn::Sub(load(x + i), hn::Load(d, top + v)));
                  store(hn::Add(hn::Load(d, sum + v), e), sum + v);
                  if (!logarithm) store(e, y + i);
                });
    for (int64_t k = 0; k < filled; k += inner)
      for (int64_t c = 0; c < inner; ++c) total[c] += sum[k + c];
  }
  for (int64_t k = 0; k < inner; ++k) {
    const T all = static_cast<T>(total[k]);
    sum[k] = logarithm ? std::log(all) : 1 / all;
  }
  for (int64_t k = inner; k < filled; ++k) sum[k] = sum[k - inner];
  each_vector(0, n, [&](int64_t i, int64_t v, const auto& load, const auto& store) HWY_ATTR {
    const auto by = hn::Load(d, sum + v);
    store(logarithm ? hn::Sub(hn::Sub(load(x + i), hn::Load(d, top + v)), by) : hn::Mul(load(y + i), by), y + i);
  });
}

// `count` <= Softmax::most_narrow neighbours in the inner dim, all of the axis, `step` apart.
template <class T>
void columns(const T* x, T* y, int64_t count, int64_t axis, int64_t step, bool logarithm) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count == step && count < lanes && axis >= 4) return few_columns(x, y, count, axis, logarithm);
  alignas(64) T top[Softmax::most_narrow], sum[Softmax::most_narrow];
  static_assert(Softmax::most_narrow % HWY_LANES(T) == 0);
  for (int64_t i = 0; i < count; ++i) top[i] = x[i];
  std::fill(top + count, top + round_up(count, lanes), T(0));
  std::fill_n(sum, round_up(count, lanes), T(0));
  for (int64_t a = 1; a < axis; ++a) {
    const T* from = x + a * step;
    for (int64_t i = 0; i < count; ++i) top[i] = from[i] > top[i] ? from[i] : top[i];
  }
  for (int64_t a = 0; a < axis; ++a) {
    const T* from = x + a * step;
    T* to = y + a * step;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, from + i), hn::Load(d, top + i)));
      hn::Store(hn::Add(hn::Load(d, sum + i), e), d, sum + i);
      if (!logarithm) hn::StoreU(e, d, to + i);
    }
    // One by one, 8 of 40 columns took a third of the time.
    if (i < count) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
      const auto e = exp_nonpositive(d, hn::Sub(masked_load(mask, d, from + i), hn::Load(d, top + i)));
      hn::Store(hn::Add(hn::Load(d, sum + i), e), d, sum + i);
      if (!logarithm) masked_store(e, mask, d, to + i);
    }
  }
  for (int64_t i = 0; i < count; ++i) sum[i] = logarithm ? std::log(sum[i]) : 1 / sum[i];
  for (int64_t a = 0; a < axis; ++a) {
    const T* from = x + a * step;
    T* to = y + a * step;
    if (logarithm) {
      for (int64_t i = 0; i < count; ++i) to[i] = (from[i] - top[i]) - sum[i];
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] *= sum[i];
    }
  }
}

// Neighbouring columns whose elements do not stay in L2 between passes: rows are read as they lie in memory, `group` of
// them side by side, and the sum follows the largest element so far. 10^4 rows of 1000 took 50 ms on a Zen 3 by blocks
// of 64 columns.
template <class T>
void wide_columns(const T* x, T* y, int64_t count, int64_t axis, int64_t step, bool logarithm) {
  constexpr int64_t group = 8, rows_apart = 256;
  if (count == step && count < static_cast<int64_t>(HWY_LANES(T))) return few_columns(x, y, count, axis, logarithm);
  // Terms of some rows are added up apart, so that the sum of many is not a long one.
  alignas(64) T top[Softmax::most_wide], sum[Softmax::most_wide], apart[Softmax::most_wide];
  static_assert(Softmax::most_wide % HWY_LANES(T) == 0);
  const int64_t filled = round_up(count, static_cast<int64_t>(HWY_LANES(T)));
  std::fill_n(top, filled, -std::numeric_limits<T>::infinity());
  std::fill_n(sum, filled, T(0));
  std::fill_n(apart, filled, T(0));
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), whole = count / lanes * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(count - whole));
  const auto load = [d](const T* from) HWY_ATTR { return hn::LoadU(d, from); };
  const auto load_rest = [d, mask](const T* from) HWY_ATTR { return masked_load(mask, d, from); };
  const auto join = [&](int64_t i, const T* from, int64_t rows, const auto& read) HWY_ATTR {
    const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
    const auto before = hn::Load(d, top + i);
    auto high = before;
    for (int64_t r = 0; r < rows; ++r) {
      const auto v = read(from + r * step + i);
      high = hn::IfThenElse(hn::Gt(v, high), v, high);
    }
    // While all are -inf nothing is added: what is left out here is no number in the end, as top is subtracted again.
    const auto shift = hn::IfThenZeroElse(hn::Eq(high, lowest), high);
    const auto factor = exp_nonpositive(d, hn::Sub(before, shift));
    auto terms = hn::Zero(d);
    for (int64_t r = 0; r < rows; ++r)
      terms = hn::Add(terms, exp_nonpositive(d, hn::Sub(read(from + r * step + i), shift)));
    hn::Store(high, d, top + i);
    hn::Store(hn::Mul(hn::Load(d, sum + i), factor), d, sum + i);
    hn::Store(hn::MulAdd(hn::Load(d, apart + i), factor, terms), d, apart + i);
  };
  const auto finished = [&](int64_t i, auto v) HWY_ATTR {
    const auto below = hn::Sub(v, hn::Load(d, top + i)), total = hn::Load(d, sum + i);
    return logarithm ? hn::Sub(below, total) : hn::Mul(exp_nonpositive(d, below), total);
  };
  for (int64_t a = 0; a < axis; a += group) {
    const int64_t rows = std::min(group, axis - a);
    int64_t i = 0;
    if (rows == group)
      for (; i < whole; i += lanes) join(i, x + a * step, group, load);
    for (; i < whole; i += lanes) join(i, x + a * step, rows, load);
    if (i < count) join(i, x + a * step, rows, load_rest);
    if ((a + group) % rows_apart != 0 && a + group < axis) continue;
    for (i = 0; i < count; ++i) sum[i] += apart[i], apart[i] = 0;
  }
  for (int64_t i = 0; i < count; ++i) sum[i] = logarithm ? std::log(sum[i]) : 1 / sum[i];
  for (int64_t a = 0; a < axis; ++a) {
    const T* from = x + a * step;
    T* to = y + a * step;
    int64_t i = 0;
    for (; i < whole; i += lanes) hn::StoreU(finished(i, load(from + i)), d, to + i);
    if (i < count) masked_store(finished(i, load_rest(from + i)), mask, d, to + i);
  }
}

void rows_f32(const float* x, float* y, int64_t begin, int64_t end, int64_t n, bool logarithm) {
  rows(x, y, begin, end, n, logarithm);
}
void rows_f64(const double* x, double* y, int64_t begin, int64_t end, int64_t n, bool logarithm) {
  rows(x, y, begin, end, n, logarithm);
}
void columns_f32(const float* x, float* y, int64_t count, int64_t axis, int64_t step, bool logarithm) {
  columns(x, y, count, axis, step, logarithm);
}
void columns_f64(const double* x, double* y, int64_t count, int64_t axis, int64_t step, bool logarithm) {
  columns(x, y, count, axis, step, logarithm);
}
void wide_columns_f32(const float* x, float* y, int64_t count, int64_t axis, int64_t step, bool logarithm) {
  wide_columns(x, y, count, axis, step, logarithm);
}
void wide_columns_f64(const double* x, double* y, int64_t count, int64_t axis, int64_t step, bool logarithm) {
  wide_columns(x, y, count, axis, step, logarithm);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);
HWY_EXPORT(columns_f32);
HWY_EXPORT(columns_f64);
HWY_EXPORT(wide_columns_f32);
HWY_EXPORT(wide_columns_f64);

void Softmax::run(ThreadPool& pool, const float* x, float* y) const {
  run_with(pool, x, y, HWY_DYNAMIC_DISPATCH(rows_f32), HWY_DYNAMIC_DISPATCH(columns_f32),
           HWY_DYNAMIC_DISPATCH(wide_columns_f32));
}

void Softmax::run(ThreadPool& pool, const double* x, double* y) const {
  run_with(pool, x, y, HWY_DYNAMIC_DISPATCH(rows_f64), HWY_DYNAMIC_DISPATCH(columns_f64),
           HWY_DYNAMIC_DISPATCH(wide_columns_f64));
}

template <class T, class Rows, class Columns>
void Softmax::run_with(ThreadPool& pool, const T* x, T* y, Rows on_rows, Columns narrow, Columns wide) const {
  if (outer == 0 || axis == 0 || inner == 0) return;
  // 2000 elements take about a microsecond: no thread is woken for less than a few.
  const int64_t least = 8192;
  if (axis == 1) {  // 1, or its logarithm, but of what is no number or none: a logarithm of each took 10 ns
    const T of_number = logarithm ? T(0) : T(1);
    for_pieces(pool, outer * inner, least, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = of_number + (x[i] - x[i]);
    });
    return;
  }
  if (inner == 1) {
    for_pieces(pool, outer, (least + axis - 1) / axis,
               [&](int64_t begin, int64_t end) { on_rows(x, y, begin, end, axis, logarithm); });
    return;
  }
  // Short lines of few neighbours: elements of as many lines as stay in L1 are put side by side. 280 lines of 37 x 3
  // took 55 us where vectors held the neighbours of one.
  constexpr int64_t turned = 32 * 1024 / sizeof(T), most_neighbours = 15, vector = 64 / sizeof(T);
  const int64_t line = axis * inner, together = std::min(turned / line, most_narrow) / vector * vector;
  if (inner <= most_neighbours && together > 0 && outer >= vector / 2) {
    for_pieces(pool, outer, (least + line - 1) / line, [&](int64_t begin, int64_t end) {
      alignas(64) T lines[turned];
      for (int64_t first = begin; first < end; first += together) {
        const int64_t count = std::min(together, end - first);
        constexpr auto width = static_cast<int64_t>(sizeof(T));
        transpose_2d(width, {line, count, line * width, count * width}, reinterpret_cast<const char*>(x + first * line),
                     reinterpret_cast<char*>(lines));
        for (int64_t i = 0; i < inner; ++i)
          narrow(lines + i * count, lines + i * count, count, axis, inner * count, logarithm);
        transpose_2d(width, {count, line, count * width, line * width}, reinterpret_cast<const char*>(lines),
                     reinterpret_cast<char*>(y + first * line));
      }
    });
    return;
  }
  // Narrow blocks where a block then stays in L2 over the three passes.
  constexpr int64_t cached_bytes = 256 * 1024, least_columns = 64;
  const int64_t cached = cached_bytes / static_cast<int64_t>(sizeof(T)) / axis / 16 * 16;
  const bool is_narrow = cached >= std::min(least_columns, inner);
  const int64_t share = std::max(least_columns, round_up(divide_up(inner, int64_t{pool.size()}), 16));
  const int64_t block = std::min(is_narrow ? std::min(cached, most_narrow) : std::min(share, most_wide), inner);
  const int64_t blocks = (inner + block - 1) / block;
  for_pieces(pool, outer * blocks, (least + axis * block - 1) / (axis * block), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % blocks * block;
      const int64_t offset = item / blocks * axis * inner + first;
      (is_narrow ? narrow : wide)(x + offset, y + offset, std::min(block, inner - first), axis, inner, logarithm);
    }
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
