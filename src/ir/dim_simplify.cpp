// floor_div, min, max and broadcast of dims: what can be simplified is, the rest becomes an atom.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/dim_internal.h"

namespace camshaft {

namespace {

using dim_detail::attempt;
using dim_detail::floor_div_int;
using Atom = DimBuilder::Atom;
using Term = DimBuilder::Term;

constexpr int64_t largest = std::numeric_limits<int64_t>::max();
constexpr int64_t smallest = std::numeric_limits<int64_t>::min();

// The monomial x / y, if y divides x.
std::optional<Term> divide_term(const Term& x, const Term& y) {
  if (y.coefficient == 0 || (y.coefficient == -1 && x.coefficient == smallest) || x.coefficient % y.coefficient != 0)
    return std::nullopt;
  Term quotient{x.coefficient / y.coefficient, {}};
  size_t j = 0;
  for (const auto& f : x.factors) {
    if (j < y.factors.size() && f->text == y.factors[j]->text) {
      ++j;
    } else {
      quotient.factors.push_back(f);
    }
  }
  if (j != y.factors.size()) return std::nullopt;
  return quotient;
}

// p / q by polynomial long division, if it leaves nothing.
std::optional<Dim> divide_exactly(Dim p, const Dim& q) {
  constexpr int most_steps = 256;
  const auto leading = [](const Dim& d) { return DimBuilder::all_terms(d).front(); };
  std::vector<Term> result;
  const Term divisor = leading(q);
  for (int steps = 0; steps < most_steps; ++steps) {
    if (p == Dim(0)) return DimBuilder::make(0, std::move(result));
    const auto t = divide_term(leading(p), divisor);
    if (!t) return std::nullopt;
    result.push_back(*t);
    const auto rest = attempt([&] { return p - DimBuilder::make(0, {*t}) * q; });
    if (!rest) return std::nullopt;
    p = *rest;
  }
  return std::nullopt;
}

DimInterval difference(const Dim& a, const Dim& b) {
  const auto d = attempt([&] { return a - b; });
  return d ? DimBuilder::interval(*d) : DimInterval{};
}

bool never_less(const Dim& a, const Dim& b) {
  const auto low = difference(a, b).low;
  return low && *low >= 0;
}

// inner is reduced: a constant in [0, c), coefficients below c in magnitude, the first one positive, no common factor.
Dim floor_div_reduced(const Dim& inner, int64_t c) {
  // floor((floor(p / m) + q) / c) = floor((p + m·q) / (m·c)): chains of strided windows become one division.
  const auto& terms = DimBuilder::terms(inner);
  const Atom* nested = nullptr;
  bool several = false;
  for (const Term& t : terms) {
    const Atom* atom = t.coefficient == 1 ? DimBuilder::linear_atom(t) : nullptr;
    if (!atom || atom->kind != AtomKind::floor_div || atom->b.as_constant().value_or(0) <= 0) continue;
    several = nested != nullptr;
    nested = atom;
    if (several) break;
  }
  if (nested && !several) {
    const auto merged = attempt([&] {
      const int64_t m = nested->b.value();
      const Dim others = inner - DimBuilder::of_function(AtomKind::floor_div, nested->a, nested->b);
      return floor_div(nested->a + Dim(m) * others, dim_detail::checked_mul(m, c));
    });
    if (merged) return *merged;
  }
  const DimInterval bounds = DimBuilder::interval(inner);
  if (bounds.low && bounds.high && floor_div_int(*bounds.low, c) == floor_div_int(*bounds.high, c))
    return floor_div_int(*bounds.low, c);
  return DimBuilder::of_function(AtomKind::floor_div, inner, c);
}

// c > 1
Dim floor_div_constant(const Dim& a, int64_t c) {
  // floor((c·q + r) / c) = q + floor(r / c): all that is divisible by c leaves the division.
  std::vector<Term> out, rest;
  for (const Term& t : DimBuilder::terms(a)) {
    if (t.coefficient / c != 0) out.push_back({t.coefficient / c, t.factors});
    if (t.coefficient % c != 0) rest.push_back({t.coefficient % c, t.factors});
  }
  const int64_t outside = floor_div_int(DimBuilder::constant(a), c);
  int64_t remainder = DimBuilder::constant(a) % c;
  if (remainder < 0) remainder += c;
  Dim quotient = DimBuilder::make(outside, std::move(out));
  if (rest.empty()) return quotient;
  int64_t g = c;
  for (const Term& t : rest) g = std::gcd(g, t.coefficient);
  for (Term& t : rest) t.coefficient /= g;
  const int64_t divisor = c / g;
  remainder /= g;
  if (divisor == 1) return quotient + DimBuilder::make(remainder, std::move(rest));
  if (rest.front().coefficient > 0) return quotient + floor_div_reduced(DimBuilder::make(remainder, rest), divisor);
  // floor(-p / c) = -floor((p + c - 1) / c), so that padding to a multiple reads the same however it is spelled.
  for (Term& t : rest) t.coefficient = -t.coefficient;
  return quotient - floor_div_reduced(DimBuilder::make(divisor - 1 - remainder, std::move(rest)), divisor);
}

// The largest monomial that divides every term of both.
Term common_factor(const Dim& a, const Dim& b) {
  Term common{0, {}};
  bool first = true;
  for (const Dim* d : {&a, &b}) {
    for (const Term& t : DimBuilder::all_terms(*d)) {
      common.coefficient = std::gcd(common.coefficient, t.coefficient == smallest ? 1 : t.coefficient);
      if (first) {
        common.factors = t.factors;
      } else {
        DimBuilder::Factors both;
        std::set_intersection(common.factors.begin(), common.factors.end(), t.factors.begin(), t.factors.end(),
                              std::back_inserter(both), [](const auto& x, const auto& y) { return x->text < y->text; });
        common.factors = std::move(both);
      }
      first = false;
    }
  }
  return common;
}

Dim divide_all(const Dim& d, const Term& by) {
  std::vector<Term> list;
  for (const Term& t : DimBuilder::all_terms(d)) list.push_back(*divide_term(t, by));
  return DimBuilder::make(0, std::move(list));
}

// b is not constant. A divisor of zero has no value at all, so here it counts as impossible.
Dim floor_div_symbolic(const Dim& a, const Dim& b) {
  if (const auto exact = divide_exactly(a, b)) return *exact;
  if (const Term g = common_factor(a, b); g.coefficient > 1 || !g.factors.empty())
    return floor_div(divide_all(a, g), divide_all(b, g));
  if (DimBuilder::terms(b).front().coefficient < 0) {
    const auto negated = attempt([&] { return floor_div(Dim(0) - a, Dim(0) - b); });
    if (negated) return *negated;
  }
  if (const auto& divisor = DimBuilder::terms(b); divisor.size() == 1 && DimBuilder::constant(b) == 0) {
    std::vector<Term> out, rest;
    for (const Term& t : DimBuilder::all_terms(a)) {
      auto q = divide_term(t, divisor[0]);
      (q ? out : rest).push_back(q ? *q : t);
    }
    if (!out.empty()) return DimBuilder::make(0, std::move(out)) + floor_div(DimBuilder::make(0, std::move(rest)), b);
  }
  const DimInterval top = DimBuilder::interval(a), bottom = DimBuilder::interval(b);
  if (bottom.low && *bottom.low >= 0) {
    // ceil_div(q·b, b) arrives as floor_div(q·b + b - 1, b).
    if (const auto q = attempt([&] { return divide_exactly(a - b + Dim(1), b); }); q && *q) return **q;
    if (top.low && *top.low >= 0 && difference(b, a).low.value_or(0) >= 1) return 0;
  }
  return DimBuilder::of_function(AtomKind::floor_div, a, b);
}

void gather(AtomKind kind, const Dim& d, std::vector<Dim>& operands) {
  const Atom* atom = DimBuilder::single_atom(d);
  if (atom && atom->kind == kind) {
    gather(kind, atom->a, operands);
    gather(kind, atom->b, operands);
  } else {
    operands.push_back(d);
  }
}

// A function of any number of operands, in an order of their own: min(min(a, b), c).
Dim fold(AtomKind kind, std::vector<Dim> operands) {
  std::sort(operands.begin(), operands.end(), [](const Dim& a, const Dim& b) { return a.str() < b.str(); });
  Dim result = operands.front();
  for (size_t i = 1; i < operands.size(); ++i) result = DimBuilder::of_function(kind, result, operands[i]);
  return result;
}

// Keeps of a and b, both made of `kind`, the operands that no other one makes superfluous.
template <class Superfluous>
Dim select(AtomKind kind, const Dim& a, const Dim& b, const Superfluous& superfluous) {
  std::vector<Dim> kept, added;
  gather(kind, a, kept);
  gather(kind, b, added);
  for (Dim& d : added) {
    if (std::any_of(kept.begin(), kept.end(), [&](const Dim& other) { return superfluous(d, other); })) continue;
    std::erase_if(kept, [&](const Dim& other) { return superfluous(other, d); });
    kept.push_back(std::move(d));
  }
  return fold(kind, std::move(kept));
}

bool is_constant(const Dim& d, int64_t value) {
  return d.as_constant() == value;
}

}  // namespace

Dim floor_div(const Dim& a, const Dim& b) {
  const auto c = b.as_constant();
  if (!c) return floor_div_symbolic(a, b);
  if (a.is_constant() || *c == 0) return floor_div_int(a.as_constant().value_or(1), *c);
  if (*c == 1) return a;
  if (*c > 1) return floor_div_constant(a, *c);
  if (const auto negated = attempt([&] { return floor_div(Dim(0) - a, Dim(0) - b); })) return *negated;
  return DimBuilder::of_function(AtomKind::floor_div, a, b);
}

Dim min(const Dim& a, const Dim& b) {
  // The extremes of int64 stand for "to the end" in slices.
  if (is_constant(a, largest) || is_constant(b, smallest)) return b;
  if (is_constant(b, largest) || is_constant(a, smallest)) return a;
  return select(AtomKind::min, a, b, [](const Dim& d, const Dim& other) { return never_less(d, other); });
}

Dim max(const Dim& a, const Dim& b) {
  if (is_constant(a, smallest) || is_constant(b, largest)) return b;
  if (is_constant(b, smallest) || is_constant(a, largest)) return a;
  return select(AtomKind::max, a, b, [](const Dim& d, const Dim& other) { return never_less(other, d); });
}

Dim broadcast(const Dim& a, const Dim& b) {
  if (a == b) return a;
  for (const auto* d : {&a, &b}) {
    const auto c = d->as_constant();
    if (!c) continue;
    const Dim& other = d == &a ? b : a;
    if (*c == 1) return other;
    if (!other.is_constant()) return *c;  // the other must be 1 or the same
    if (other.value() == 1) return *c;
    throw Error(ErrorCode::invalid_argument, "cannot broadcast " + a.str() + " with " + b.str());
  }
  // min(y, c) meets y when a table of c > 1 rows was sliced to y: they can only meet when they are equal.
  const auto sliced_from = [](const Dim& d, const Dim& y) {
    const Atom* atom = DimBuilder::single_atom(d);
    if (!atom || atom->kind != AtomKind::min) return false;
    std::vector<Dim> operands;
    gather(AtomKind::min, d, operands);
    bool has_y = false;
    for (const Dim& operand : operands) {
      has_y = has_y || operand == y;
      if (!(operand == y) && operand.as_constant().value_or(0) <= 1) return false;
    }
    return has_y;
  };
  return select(AtomKind::broadcast, a, b,
                [&](const Dim& d, const Dim& other) { return d == other || sliced_from(d, other); });
}

}  // namespace camshaft
