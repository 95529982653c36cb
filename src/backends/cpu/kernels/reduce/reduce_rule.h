// What the reductions do with one element, by kind and type. Internal to the
// reductions.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/reduce/reduce.h"

namespace camshaft::cpu {

// What partial results are kept in: f32 in double, for its digits; integers in an unsigned type, so that they wrap.
template <class T>
using Partial =
    std::conditional_t<std::is_floating_point_v<T>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T>
Partial<T> identity(ReduceKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
    case ReduceKind::max:
      return Limits::has_infinity ? static_cast<Partial<T>>(-Limits::infinity())
                                  : static_cast<Partial<T>>(Limits::lowest());
    case ReduceKind::min:
      return static_cast<Partial<T>>(Limits::has_infinity ? Limits::infinity() : Limits::max());
    case ReduceKind::prod:
      return 1;
    default:
      return 0;
  }
}

template <class T>
T wrapping(T a, T b, bool multiply) {
  if constexpr (std::is_floating_point_v<T>) {
    return multiply ? a * b : a + b;
  } else {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(multiply ? x * y : x + y);
  }
}

// Combines one more element into a partial result.
template <class P>
P combine(ReduceKind kind, P a, P x) {
  switch (kind) {
    case ReduceKind::max:
      return x > a || x != x ? x : a;
    case ReduceKind::min:
      return x < a || x != x ? x : a;
    case ReduceKind::prod:
      return wrapping(a, x, true);
    case ReduceKind::sum_square:
      return wrapping(a, wrapping(x, x, true), false);
    case ReduceKind::sum_abs:
      return wrapping(a, x < P(0) ? wrapping(P(-1), x, true) : x, false);
    default:
      return wrapping(a, x, false);
  }
}

// Combines two partial results: squares and magnitudes are taken already.
template <class P>
P merge(ReduceKind kind, P a, P b) {
  const bool sums = kind == ReduceKind::sum_square || kind == ReduceKind::sum_abs;
  return combine(sums ? ReduceKind::sum : kind, a, b);
}

// total[i] = merge(total[i], x[i]).
template <class P>
void merge_into(ReduceKind kind, const P* x, int64_t n, P* total) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) total[i] = f(total[i], x[i]);
  };
  switch (kind) {
    case ReduceKind::max:
    case ReduceKind::min:
    case ReduceKind::prod:
      return each([kind](P a, P b) { return combine(kind, a, b); });
    default:  // its own loop, which is vectorised
      return each([](P a, P b) { return wrapping(a, b, false); });
  }
}

template <class T>
T finish(ReduceKind kind, Partial<T> total, int64_t count) {
  if (kind != ReduceKind::mean) return static_cast<T>(total);
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(total / static_cast<double>(count));
  } else {
    if (count == 0) return T(0);
    // By a division of doubles, a third of the other's time, where it cannot reach the next whole number: that is 1 /
    // count away, and the rounding less than total / count * 2^-52.
    constexpr int64_t exact = int64_t{1} << 51, lowest = std::is_signed_v<Partial<T>> ? -exact : -1;
    const auto whole = static_cast<int64_t>(total);
    if (whole > lowest && whole < exact && count < exact)
      return static_cast<T>(static_cast<int64_t>(static_cast<double>(whole) / static_cast<double>(count)));
    return static_cast<T>(total / static_cast<Partial<T>>(count));
  }
}

}  // namespace camshaft::cpu
