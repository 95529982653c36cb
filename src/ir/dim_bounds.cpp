// Bounds of dims: interval arithmetic over the non-negative symbols, sharpened where the same atom occurs twice.
#include <algorithm>
#include <limits>

#include "ir/dim_internal.h"

namespace camshaft {

namespace {

using dim_detail::attempt;

// Interval ends in 128 bits: beyond int64 means unbounded.
constexpr Int128 beyond_int64 = Int128{1} << 64;

struct Range {
  Int128 low = -beyond_int64, high = beyond_int64;
};

Range clamp(Range r) {
  if (r.low < std::numeric_limits<int64_t>::min() || r.low > std::numeric_limits<int64_t>::max()) r.low = -beyond_int64;
  if (r.high < std::numeric_limits<int64_t>::min() || r.high > std::numeric_limits<int64_t>::max())
    r.high = beyond_int64;
  return r;
}

Range from(const DimInterval& i) {
  Range r;
  if (i.low) r.low = *i.low;
  if (i.high) r.high = *i.high;
  return r;
}

DimInterval to_interval(Range r) {
  r = clamp(r);
  DimInterval i;
  if (r.low != -beyond_int64) i.low = static_cast<int64_t>(r.low);
  if (r.high != beyond_int64) i.high = static_cast<int64_t>(r.high);
  return i;
}

// Zero times unbounded is zero: the values themselves are finite.
Int128 multiply(Int128 a, Int128 b) {
  if (a == 0 || b == 0) return 0;
  const bool unbounded = a == beyond_int64 || a == -beyond_int64 || b == beyond_int64 || b == -beyond_int64;
  if (unbounded) return (a < 0) == (b < 0) ? beyond_int64 : -beyond_int64;
  return a * b;
}

Range multiply(const Range& a, const Range& b) {
  const Int128 p[] = {multiply(a.low, b.low), multiply(a.low, b.high), multiply(a.high, b.low),
                      multiply(a.high, b.high)};
  return clamp({*std::min_element(p, p + 4), *std::max_element(p, p + 4)});
}

Range add(const Range& a, const Range& b) {
  return clamp({a.low == -beyond_int64 || b.low == -beyond_int64 ? -beyond_int64 : a.low + b.low,
                a.high == beyond_int64 || b.high == beyond_int64 ? beyond_int64 : a.high + b.high});
}

Range intersect(const Range& a, const Range& b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

Int128 floor_div_128(Int128 a, Int128 b) {
  const Int128 q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

Range floor_div_range(Range a, Range b) {
  // A zero divisor has no value, so the divisor may be taken to be at least 1, or at most -1.
  if (b.low == 0) b.low = 1;
  if (b.high == 0) b.high = -1;
  if (b.high < 0) {
    a = {a.high == beyond_int64 ? -beyond_int64 : -a.high, a.low == -beyond_int64 ? beyond_int64 : -a.low};
    b = {b.high == beyond_int64 ? -beyond_int64 : -b.high, b.low == -beyond_int64 ? beyond_int64 : -b.low};
  }
  if (b.low < 1) {  // of unknown sign: the quotient is no larger than the dividend
    if (a.low == -beyond_int64 || a.high == beyond_int64) return {};
    const Int128 largest = std::max(a.low < 0 ? -a.low : a.low, a.high < 0 ? -a.high : a.high);
    return {-largest, largest};
  }
  Range r;
  if (a.low != -beyond_int64) {
    if (a.low < 0) {
      r.low = floor_div_128(a.low, b.low);
    } else {
      r.low = b.high == beyond_int64 ? 0 : a.low / b.high;
    }
  }
  if (a.high != beyond_int64) {
    if (a.high >= 0) {
      r.high = a.high / b.low;
    } else {
      r.high = b.high == beyond_int64 ? -1 : floor_div_128(a.high, b.high);
    }
  }
  return r;
}

Range either(const Range& a, const Range& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Range of_kind(AtomKind kind, const Range& a, const Range& b) {
  switch (kind) {
    case AtomKind::symbol:
      return {0, beyond_int64};
    case AtomKind::floor_div:
      return floor_div_range(a, b);
    case AtomKind::min:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case AtomKind::max:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case AtomKind::broadcast:
      // Of two that are at least 1, the result is the larger.
      if (a.low >= 1 && b.low >= 1) return {std::max(a.low, b.low), std::max(a.high, b.high)};
      return either(a, b);
  }
  return {};
}

Range direct(const Dim& d) {
  Range total{DimBuilder::constant(d), DimBuilder::constant(d)};
  for (const auto& t : DimBuilder::terms(d)) {
    Range product{t.coefficient, t.coefficient};
    for (const auto& f : t.factors) product = multiply(product, from(f->interval));
    total = add(total, product);
  }
  return total;
}

// x - floor_div(x, 2) is never negative, which intervals of the two terms alone cannot tell. So an atom that stands in
// a term by itself is also replaced by what is known of it in terms of its operands, and the terms may then cancel. The
// budget bounds the number of expressions tried.
Range sharpened(const Dim& d, int depth, int& budget) {
  constexpr size_t few_terms = 12;
  constexpr int deepest = 3;
  Range best = direct(d);
  const auto& terms = DimBuilder::terms(d);
  if (terms.size() > few_terms || depth == deepest) return best;
  for (size_t i = 0; i < terms.size() && budget > 0; ++i) {
    const auto* atom = DimBuilder::linear_atom(terms[i]);
    if (!atom || atom->kind == AtomKind::symbol) continue;
    const int64_t k = terms[i].coefficient;
    const auto rest = [&] {
      auto others = terms;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      return DimBuilder::make(DimBuilder::constant(d), std::move(others));
    };
    if (atom->kind == AtomKind::floor_div) {
      // floor_div(p, c) = (p - m) / c with m in [0, c - 1].
      const auto c = atom->b.as_constant();
      if (!c || *c < 1) continue;
      --budget;
      const auto scaled = attempt([&] { return Dim(*c) * rest() + Dim(k) * atom->a; });
      if (!scaled) continue;
      const Range m = multiply({0, *c - 1}, multiply({-1, -1}, {k, k}));
      const Range r = add(sharpened(*scaled, depth + 1, budget), m);
      best = intersect(best, {r.low == -beyond_int64 ? r.low : -floor_div_128(-r.low, *c),
                              r.high == beyond_int64 ? r.high : floor_div_128(r.high, *c)});
    } else {
      budget -= 2;
      const auto with_a = attempt([&] { return rest() + Dim(k) * atom->a; });
      const auto with_b = attempt([&] { return rest() + Dim(k) * atom->b; });
      if (!with_a || !with_b) continue;
      const Range a = sharpened(*with_a, depth + 1, budget), b = sharpened(*with_b, depth + 1, budget);
      // The atom is one of its operands; k·min is at most both, k·max at least both (the other way for k < 0).
      Range r = either(a, b);
      if (atom->kind != AtomKind::broadcast) {
        if ((atom->kind == AtomKind::min) == (k > 0)) {
          r.high = std::min(a.high, b.high);
        } else {
          r.low = std::max(a.low, b.low);
        }
      }
      best = intersect(best, r);
    }
  }
  return best;
}

Range sharpened(const Dim& d) {
  int budget = 24;
  return sharpened(d, 0, budget);
}

}  // namespace

DimInterval DimBuilder::interval(const Dim& d) {
  return to_interval(sharpened(d));
}

DimInterval DimBuilder::interval(const Atom& atom) {
  if (atom.kind == AtomKind::symbol) return {0, std::nullopt};
  return to_interval(of_kind(atom.kind, sharpened(atom.a), sharpened(atom.b)));
}

std::optional<int64_t> Dim::lower_bound() const {
  return DimBuilder::interval(*this).low;
}
std::optional<int64_t> Dim::upper_bound() const {
  return DimBuilder::interval(*this).high;
}

}  // namespace camshaft
