// Reductions of rows that are shorter than some vectors, many at once. Included once per instruction set after
// highway.h.
#if defined(CAMSHAFT_CPU_SHORT_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_SHORT_ROWS_INL_H
#undef CAMSHAFT_CPU_SHORT_ROWS_INL_H
#else
#define CAMSHAFT_CPU_SHORT_ROWS_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backends/cpu/kernels/join_lanes-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/reduce/reduce_rule.h"
#include "backends/cpu/kernels/reduce/with_vector-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"
#include "base/divide_up.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Total of one more element, as combine() has it, but with the kind known: loops over it become vectors.
template <ReduceKind kKind, class P>
HWY_INLINE P with_element(P total, P x) {
  // Without branches, none of which could be predicted.
  if constexpr (kKind == ReduceKind::max) return ((x > total) | (x != x)) ? x : total;
  if constexpr (kKind == ReduceKind::min) return ((x < total) | (x != x)) ? x : total;
  if constexpr (std::is_floating_point_v<P>) {
    if constexpr (kKind == ReduceKind::prod) return total * x;
    if constexpr (kKind == ReduceKind::sum_square) return total + x * x;
    if constexpr (kKind == ReduceKind::sum_abs) return total + std::fabs(x);
    return total + x;
  } else {
    // This file is compiled with -fwrapv (CMakeLists.txt): sums wrap without a way through unsigned types. Beside those
    // GCC 12 widens i8 and i16 as if they had no sign, in vectors of AVX2 and AVX-512.
    if constexpr (kKind == ReduceKind::prod) return total * x;
    if constexpr (kKind == ReduceKind::sum_square) return total + x * x;
    if constexpr (kKind == ReduceKind::sum_abs) {
      const P sign = x < P(0) ? P(-1) : P(0);
      return total + ((x ^ sign) - sign);
    }
    return total + x;
  }
}

// What is kept of a row while it is read: extremes as they are stored, so that as many as possible share a vector.
template <ReduceKind kKind, class T>
using Running = std::conditional_t<kKind == ReduceKind::max || kKind == ReduceKind::min, T, Partial<T>>;

// One row by one: for rows shorter than vectors, of which the processor works on several at once.
template <ReduceKind kKind, class T>
HWY_INLINE void short_rows(const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  for (int64_t r = 0; r < rows; ++r, x += n) {
    auto total = static_cast<Running<kKind, T>>(totals[r]);
    for (int64_t i = 0; i < n; ++i) total = with_element<kKind>(total, static_cast<Running<kKind, T>>(x[i]));
    totals[r] = static_cast<Partial<T>>(total);
  }
}

// The larger or smaller of the halves of each lane, then of their halves, down to one element in its lowest bits.
template <ReduceKind kKind, int kBits, class D, class V>
HWY_INLINE V folded(D lanes, V v) {
  const hn::DFromV<V> d;
  const V half = hn::BitCast(d, hn::ShiftRight<kBits>(hn::BitCast(lanes, v)));
  const V best = kKind == ReduceKind::max ? hn::Max(v, half) : hn::Min(v, half);
  if constexpr (kBits > 8 * sizeof(hn::TFromV<V>)) {
    return folded<kKind, kBits / 2>(lanes, best);
  } else {
    return best;
  }
}

// Extremes of rows that are together an integer of the type Lane: a vector takes as many as it has of these.
template <ReduceKind kKind, class T, class Lane>
void rows_in_lanes(const T* x, int64_t rows, Partial<T>* totals) {
  constexpr auto n = static_cast<int64_t>(sizeof(Lane) / sizeof(T));
  int64_t r = 0;
  if constexpr (kTarget.conversions) {
    const hn::ScalableTag<Lane> d;
    const hn::Repartition<T, decltype(d)> dt;
    const hn::Rebind<std::make_unsigned_t<T>, decltype(d)> narrow;
    constexpr auto lanes = static_cast<int64_t>(HWY_LANES(Lane));
    HWY_ALIGN std::make_unsigned_t<T> line[lanes];
    for (; r + lanes <= rows; r += lanes, x += lanes * n) {
      const auto best = folded<kKind, 4 * sizeof(Lane)>(d, hn::LoadU(dt, x));
      hn::StoreU(hn::TruncateTo(narrow, hn::BitCast(d, best)), narrow, line);
      for (int64_t k = 0; k < lanes; ++k)
        totals[r + k] = with_element<kKind>(totals[r + k], static_cast<Partial<T>>(static_cast<T>(line[k])));
    }
  }
  short_rows<kKind>(x, rows - r, n, totals + r);
}

// Rows of a few elements: a vector takes one of each of its rows. One row by one, 25,000 rows of 4 took 140 us.
template <ReduceKind kKind, class T>
void rows_beside_each_other(const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto places = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(n)));
  const auto start = hn::Set(d, static_cast<T>(identity<T>(kKind)));
  constexpr ReduceKind merging = merged_by(kKind);
  HWY_ALIGN T line[hn::MaxLanes(hn::ScalableTag<T>())];
  int64_t r = 0;
  for (; r + lanes <= rows; r += lanes, x += lanes * n) {
    auto total = start;
    if (n == 2) {
      hn::Vec<decltype(d)> a, b;
      hn::LoadInterleaved2(d, x, a, b);
      total = with_vector<kKind>(with_vector<kKind>(total, a), b);
    } else if (n == 3) {
      hn::Vec<decltype(d)> a, b, c;
      hn::LoadInterleaved3(d, x, a, b, c);
      total = with_vector<kKind>(with_vector<kKind>(with_vector<kKind>(total, a), b), c);
    } else if (n == 4) {
      hn::Vec<decltype(d)> a, b, c, e;
      hn::LoadInterleaved4(d, x, a, b, c, e);
      total = with_vector<kKind>(with_vector<kKind>(total, a), b);
      total = with_vector<kKind>(with_vector<kKind>(total, c), e);
    } else {
      for (int64_t i = 0; i < n; ++i) total = with_vector<kKind>(total, hn::GatherIndex(d, x + i, places));
    }
    hn::Store(total, d, line);
    for (int64_t k = 0; k < lanes; ++k)
      totals[r + k] = with_element<merging>(totals[r + k], static_cast<Partial<T>>(line[k]));
  }
  short_rows<kKind>(x, rows - r, n, totals + r);
}

// Sums of rows of a few integers in 64 bits, likewise.
template <class T>
void wide_sums_beside_each_other(const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  const hn::ScalableTag<Partial<T>> d;
  const hn::Rebind<T, decltype(d)> narrow;
  const hn::RebindToSigned<decltype(narrow)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto places = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<hn::TFromD<decltype(di)>>(n)));
  const auto wide = [&](auto v) HWY_ATTR {
    if constexpr (sizeof(T) == 8) {
      return v;
    } else {
      return hn::PromoteTo(d, v);
    }
  };
  int64_t r = 0;
  for (; r + lanes <= rows; r += lanes, x += lanes * n) {
    auto total = hn::LoadU(d, totals + r);
    if (n == 2) {
      hn::Vec<decltype(narrow)> a, b;
      hn::LoadInterleaved2(narrow, x, a, b);
      total = hn::Add(total, hn::Add(wide(a), wide(b)));
    } else if (n == 3) {
      hn::Vec<decltype(narrow)> a, b, c;
      hn::LoadInterleaved3(narrow, x, a, b, c);
      total = hn::Add(total, hn::Add(hn::Add(wide(a), wide(b)), wide(c)));
    } else if (n == 4) {
      hn::Vec<decltype(narrow)> a, b, c, e;
      hn::LoadInterleaved4(narrow, x, a, b, c, e);
      total = hn::Add(total, hn::Add(hn::Add(wide(a), wide(b)), hn::Add(wide(c), wide(e))));
    } else {
      for (int64_t i = 0; i < n; ++i) total = hn::Add(total, wide(hn::GatherIndex(narrow, x + i, places)));
    }
    hn::StoreU(total, d, totals + r);
  }
  short_rows<ReduceKind::sum>(x, rows - r, n, totals + r);
}

// Rows of a few vectors of totals, whose lanes are joined in registers: with totals in eight vectors, 40,000 rows of 12
// f64 took 150 us.
constexpr int64_t short_row = 4 * static_cast<int64_t>(HWY_LANES(double));
template <ReduceKind kKind, class T>
void short_rows_in_vectors(const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  constexpr ReduceKind merging = merged_by(kKind);
  const hn::ScalableTag<Partial<T>> d;
  const hn::Rebind<T, decltype(d)> stored;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(Partial<T>));
  const auto widened = [&](auto v) HWY_ATTR {
    if constexpr (std::is_same_v<T, Partial<T>>) {
      return v;
    } else {
      return hn::PromoteTo(d, v);
    }
  };
  const auto start = hn::Set(d, identity<T>(kKind));
  const int64_t last = (n - 1) / lanes * lanes;
  const auto mask = hn::FirstN(stored, static_cast<size_t>(n - last));
  const auto is_there = hn::FirstN(d, static_cast<size_t>(n - last));
  for (int64_t r = 0; r < rows; ++r, x += n) {
    // What is not there is as good as what a total begins with.
    const auto rest = hn::IfThenElse(is_there, widened(masked_load(mask, stored, x + last)), start);
    auto total = with_vector<kKind>(start, rest);
    for (int64_t i = 0; i < last; i += lanes) total = with_vector<kKind>(total, widened(hn::LoadU(stored, x + i)));
#if HWY_TARGET != HWY_SCALAR
    if constexpr (lanes >= 8) total = with_vector<merging>(total, hn::SwapAdjacentBlocks(total));
    if constexpr (lanes >= 4) total = with_vector<merging>(total, hn::ConcatLowerUpper(d, total, total));
    total = with_vector<merging>(total, hn::Shuffle01(total));
#endif
    totals[r] = with_element<merging>(totals[r], hn::GetLane(total));
  }
}

// Products of rows of a few numbers, in double: a vector takes one of each of its rows. One row by one, 2.5 million
// rows of 4 took 9.4 ms, and take 6.
void products_beside_each_other(const float* x, int64_t rows, int64_t n, double* totals) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const hn::RebindToSigned<decltype(narrow)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto places = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(n)));
  int64_t r = 0;
  for (; r + lanes <= rows; r += lanes, x += lanes * n) {
    auto total = hn::LoadU(d, totals + r);
    const auto take = [&](hn::Vec<decltype(narrow)> v) HWY_ATTR { total = hn::Mul(total, hn::PromoteTo(d, v)); };
    hn::Vec<decltype(narrow)> a, b, c, e;
    if (n == 2) {
      hn::LoadInterleaved2(narrow, x, a, b);
      take(a), take(b);
    } else if (n == 3) {
      hn::LoadInterleaved3(narrow, x, a, b, c);
      take(a), take(b), take(c);
    } else if (n == 4) {
      hn::LoadInterleaved4(narrow, x, a, b, c, e);
      take(a), take(b), take(c), take(e);
    } else {
      for (int64_t i = 0; i < n; ++i) take(hn::GatherIndex(narrow, x + i, places));
    }
    hn::StoreU(total, d, totals + r);
  }
  short_rows<ReduceKind::prod>(x, rows - r, n, totals + r);
}

template <ReduceKind kKind>
struct Joined {
  template <class D, class V>
  static HWY_INLINE V join(D, V a, V b) {
    return with_vector<merged_by(kKind)>(a, b);
  }
};

// Rows of up to some vectors, whose lanes are joined for several rows at once, in their own type. One row by one, 5000
// maxima of 20 f32 took 28 us, 25,000 sums of 8 75, and 104,687 minima of 5 f64 260.
template <class T>
constexpr int64_t longest_joined = 512 / static_cast<int64_t>(sizeof(T));
template <ReduceKind kKind, class T>
void joined_rows(const T* x, int64_t rows, int64_t n, Partial<T>* totals) {
  const hn::ScalableTag<T> d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  constexpr int64_t together = 16;
  HWY_ALIGN T vectors[together * lanes], results[together];
  const auto start = hn::Set(d, static_cast<T>(identity<T>(kKind)));
  const int64_t last = (n - 1) / lanes * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(n - last));
  std::fill_n(vectors, together * lanes, T(0));  // of the last rows there may be fewer
  for (int64_t r = 0; r < rows; r += together) {
    const int64_t count = std::min(together, rows - r);
    for (int64_t k = 0; k < count; ++k, x += n) {
      // What is not there is as good as what a total begins with.
      const auto rest = hn::IfThenElse(mask, masked_load(mask, d, x + last), start);
      auto total = with_vector<kKind>(start, rest);
      for (int64_t i = 0; i < last; i += lanes) total = with_vector<kKind>(total, hn::LoadU(d, x + i));
      hn::Store(total, d, vectors + k * lanes);
    }
    join_lanes<Joined<kKind>>(vectors, round_up(count, 4), results);
    for (int64_t k = 0; k < count; ++k)
      totals[r + k] = with_element<merged_by(kKind)>(totals[r + k], static_cast<Partial<T>>(results[k]));
  }
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
