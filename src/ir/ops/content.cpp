#include "ir/ops/content.h"

#include <algorithm>

#include "base/error.h"

namespace camshaft::ops {

namespace {

using F = ScalarFunction;
using Known = std::optional<Dim>;

bool at_least(const Dim& d, int64_t bound) {
  const auto low = d.lower_bound();
  return low && *low >= bound;
}
bool at_most(const Dim& d, int64_t bound) {
  const auto high = d.upper_bound();
  return high && *high <= bound;
}

Known truth(std::optional<bool> value) {
  return value ? Known(Dim(*value ? 1 : 0)) : std::nullopt;
}
std::optional<bool> is_less(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  if (at_most(difference, -1)) return true;
  if (at_least(difference, 0)) return false;
  return std::nullopt;
}
std::optional<bool> is_equal(const Dim& a, const Dim& b) {
  if (a == b) return true;
  const Dim difference = a - b;
  if (at_most(difference, -1) || at_least(difference, 1)) return false;
  return std::nullopt;
}
std::optional<bool> is_true(const Dim& a) {
  const auto zero = is_equal(a, 0);
  return zero ? std::optional<bool>(!*zero) : std::nullopt;
}

Known fold_unary(F function, const Dim& a) {
  switch (function) {
    case F::neg:
      return Dim(-1) * a;
    case F::abs:
      if (at_least(a, 0)) return a;
      if (at_most(a, 0)) return Dim(-1) * a;
      return std::nullopt;
    case F::sign:
      if (at_least(a, 1)) return Dim(1);
      if (at_most(a, -1)) return Dim(-1);
      if (a == Dim(0)) return Dim(0);
      return std::nullopt;
    case F::logical_not:
      if (const auto t = is_true(a)) return truth(!*t);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// Division truncates and Dim's rounds down: they agree when neither side is negative. A symbolic divisor is taken to be
// positive where the model divides by it: a size of 0 there has no meaning.
Known fold_div(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    if (b.value() == 0) return std::nullopt;
    return b.value() == -1 ? Dim(-1) * a : Dim(a.value() / b.value());
  }
  if (b == Dim(0) || !at_least(a, 0) || !at_least(b, 0)) return std::nullopt;
  return floor_div(a, b);
}

Known fold_binary(F function, const Dim& a, const Dim& b) {
  switch (function) {
    case F::add:
      return a + b;
    case F::sub:
      return a - b;
    case F::mul:
      return a * b;
    case F::div:
      return fold_div(a, b);
    case F::fmod:
      if (!at_least(a, 0)) return std::nullopt;
      [[fallthrough]];
    case F::mod:
      if (b == Dim(0) || !at_least(b, 0)) return std::nullopt;
      return mod(a, b);
    case F::min:
      return min(a, b);
    case F::max:
      return max(a, b);
    case F::equal:
      return truth(is_equal(a, b));
    case F::less:
      return truth(is_less(a, b));
    case F::less_or_equal:
      if (const auto greater = is_less(b, a)) return truth(!*greater);
      return std::nullopt;
    case F::logical_and:
    case F::logical_or: {
      const auto x = is_true(a), y = is_true(b);
      const bool decides = function == F::logical_or;  // one operand with this value is enough
      if ((x && *x == decides) || (y && *y == decides)) return truth(decides);
      return x && y ? truth(!decides) : std::nullopt;
    }
    case F::logical_xor: {
      const auto x = is_true(a), y = is_true(b);
      return x && y ? truth(*x != *y) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

// Whether a constant is in the dtype's range; expressions are sizes, which every dtype that models use for them holds.
bool fits(DType dtype, const Dim& d) {
  const auto value = d.as_constant();
  if (!value) return dtype == DType::i64 || dtype == DType::i32;
  if (dtype == DType::boolean) return *value == 0 || *value == 1;
  const int bits = bit_width(dtype);
  if (bits == 64) return is_signed(dtype);
  const int64_t range = int64_t{1} << (is_signed(dtype) ? bits - 1 : bits);
  return *value < range && *value >= (is_signed(dtype) ? -range : 0);
}

bool foldable(DType dtype) {
  return (is_integer(dtype) && dtype != DType::u64) || dtype == DType::boolean;
}

// A value that overflows is none: the expression would mean something else than the wrapped element.
template <class Fold>
Known guarded(Fold&& fold) {
  try {
    return fold();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Content fold_pointwise(ScalarFunction function, DType operand, const std::vector<Content>& operands) {
  if (!foldable(operand)) return std::nullopt;
  const bool is_select = function == F::select;
  size_t size = 1;
  for (const Content& c : operands) {
    if (!c && !is_select) return std::nullopt;
    if (c && c->size() != 1) size = c->size();
  }
  if (is_select && !operands[0]) return std::nullopt;
  const auto element = [&](size_t operand_index, size_t i) -> Known {
    const Content& c = operands[operand_index];
    if (!c || (c->size() != 1 && c->size() != size)) return std::nullopt;
    return (*c)[c->size() == 1 ? 0 : i];
  };
  const DType result = result_dtype(function, operand);
  std::vector<Dim> out;
  for (size_t i = 0; i < size; ++i) {
    const Known value = guarded([&]() -> Known {
      const Known a = element(0, i);
      if (!a) return std::nullopt;
      if (is_select) {
        const auto condition = is_true(*a);
        return condition ? element(*condition ? 1 : 2, i) : std::nullopt;
      }
      if (operands.size() == 1) return fold_unary(function, *a);
      const Known b = element(1, i);
      return b ? fold_binary(function, *a, *b) : std::nullopt;
    });
    if (!value || !fits(result, *value)) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

Content fold_cast(DType from, DType to, const Content& elements) {
  if (!elements || !foldable(from) || !foldable(to)) return std::nullopt;
  std::vector<Dim> out;
  for (const Dim& d : *elements) {
    Known value = d;
    if (to == DType::boolean) {
      const auto t = is_true(d);
      value = t ? truth(*t) : std::nullopt;
    }
    if (!value || !fits(to, *value)) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

}  // namespace camshaft::ops
