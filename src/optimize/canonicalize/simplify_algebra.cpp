#include "optimize/canonicalize/simplify_algebra.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::isfinite(value) && std::abs(std::frexp(value, &exponent)) == 0.5;
}

// Its reciprocal is a normal number of every float type down to f16.
bool has_exact_reciprocal(double value) {
  return is_power_of_two(value) && std::abs(value) <= 0x1p14 && std::abs(value) >= 0x1p-14;
}

// Every value of `from` is a value of `to`.
bool is_widening(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::string || to == DType::string) return false;
  if (from == DType::boolean) return bit_width(to) >= 8 && to != DType::f8e8m0;  // powers of two have no zero
  if (to == DType::boolean) return false;
  const int from_bits = bit_width(from), to_bits = bit_width(to);
  if (is_floating(from)) {
    if (to == DType::f64) return true;
    return to == DType::f32 && from_bits <= 16;
  }
  if (is_floating(to)) return (to == DType::f64 && from_bits <= 32) || (to == DType::f32 && from_bits <= 16);
  if (is_signed(from) == is_signed(to)) return to_bits > from_bits;
  return is_signed(to) && to_bits > from_bits;
}

// Whether a value becomes the same of type `to` where it is widened first. Beyond what an integer holds, an integer
// wraps and a float does not; and a text shows how wide its number is.
bool converts_alike(DType from, DType wide, DType to) {
  if (to == DType::string) return false;
  return is_floating(from) == is_floating(wide) || !is_integer(to) || is_widening(from, to);
}

class AlgebraSimplifier {
 public:
  AlgebraSimplifier(Graph& graph, ThreadPool& pool) : graph_(graph), pool_(pool), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node) { return simplify(node); });
  }

 private:
  ValueId simplify(const Node& node) {
    if (const auto* cast = node.op.as<ops::Cast>()) return simplify_cast(*cast, node);
    const auto* pointwise = node.op.as<ops::Pointwise>();
    if (!pointwise) return no_value;
    switch (arity(pointwise->function)) {
      case 1:
        return simplify_unary(pointwise->function, node);
      case 2:
        return simplify_binary(pointwise->function, node);
      default:
        return simplify_select(node);
    }
  }

  bool has_type_of(ValueId id, const Node& node) const { return graph_.type(id) == graph_.type(node.outputs[0]); }

  ValueId add(F function, std::vector<ValueId> inputs, const Node& like) {
    const ValueId id =
        graph_.add(ops::Pointwise{function}, std::move(inputs), graph_.value(like.outputs[0]).name, like.sources);
    return id;
  }

  bool is(F function, ValueId id) {
    const auto* pointwise = producers_.op<ops::Pointwise>(id);
    return pointwise && pointwise->function == function;
  }

  ValueId simplify_cast(const ops::Cast& cast, const Node& node) {
    const ValueId x = node.inputs[0];
    if (has_type_of(x, node)) return x;
    if (!producers_.op<ops::Cast>(x)) return no_value;
    const ValueId origin = producers_.find(x)->inputs[0];
    const DType from = graph_.type(origin).dtype, wide = graph_.type(x).dtype;
    if (!is_widening(from, wide) || !converts_alike(from, wide, cast.to)) return no_value;
    if (has_type_of(origin, node)) return origin;
    return graph_.add(cast, {origin}, graph_.value(node.outputs[0]).name, node.sources);
  }

  ValueId simplify_unary(F function, const Node& node) {
    const ValueId x = node.inputs[0];
    const bool undoes_itself = function == F::neg || function == F::logical_not || function == F::bitwise_not;
    if (undoes_itself && is(function, x)) return producers_.find(x)->inputs[0];
    const bool again_the_same = function == F::abs || function == F::ceil || function == F::floor ||
                                function == F::round || function == F::sign;
    return again_the_same && is(function, x) ? x : no_value;
  }

  ValueId simplify_select(const Node& node) {
    const ValueId then = node.inputs[1], otherwise = node.inputs[2];
    if (then == otherwise && has_type_of(then, node)) return then;
    const auto condition = uniform_constant(graph_, node.inputs[0]);
    if (!condition) return no_value;
    const ValueId taken = *condition != 0 ? then : otherwise;
    return has_type_of(taken, node) ? taken : no_value;
  }

  ValueId simplify_binary(F function, const Node& node) {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    if (const auto right = uniform_constant(graph_, b))
      if (const ValueId out = with_constant_right(function, node, a, b, *right); out != no_value) return out;
    const bool commutes = function == F::add || function == F::mul || function == F::min || function == F::max ||
                          function == F::logical_and || function == F::logical_or;
    if (commutes)
      if (const auto left = uniform_constant(graph_, a)) return with_constant_right(function, node, b, a, *left);
    return no_value;
  }

  ValueId with_constant_right(F function, const Node& node, ValueId x, ValueId constant, double c) {
    const DType dtype = graph_.type(x).dtype;
    // Of floats, x + 0 is +0 for -0: only x + -0 and x - 0 are x whatever it is.
    const bool adds_nothing = (function == F::add || function == F::sub) && c == 0 &&
                              (!is_floating(dtype) || std::signbit(c) == (function == F::add) ||
                               (function == F::add && is_never_negative_zero(x)));
    const bool bounds_nothing = is_floating(dtype) && std::isinf(c) && function == (c < 0 ? F::max : F::min);
    const bool changes_nothing = adds_nothing || bounds_nothing ||
                                 ((function == F::mul || function == F::div || function == F::pow) && c == 1) ||
                                 (function == F::logical_and && c != 0) || (function == F::logical_or && c == 0);
    if (changes_nothing && has_type_of(x, node)) return x;
    if (!is_one_element(graph_, constant)) return no_value;
    if (is_floating(dtype) && function == F::div && has_exact_reciprocal(c)) {
      const Constant reciprocal = derive(F::reciprocal, {graph_.constant(constant)}, pool_);
      if (const ValueId merged = merge_factors(node, x, 1 / c, reciprocal); merged != no_value) return merged;
      return add(F::mul, {x, graph_.add_constant("c", reciprocal)}, node);
    }
    if (is_floating(dtype) && function == F::pow) return expand_power(node, x, c);
    if (is_floating(dtype) && function == F::mul) return merge_factors(node, x, c, graph_.constant(constant));
    if (function == F::min || function == F::max) return merge_clips(function, node, x, c, graph_.constant(constant));
    return no_value;
  }

  // One number of two, in the shape of the first, so that ranks stay what they were.
  ValueId merged(F function, ValueId first, const Constant& second) {
    const Constant both = derive(function, {graph_.constant(first), second}, pool_);
    return graph_.add_constant("c", derive_reshaped(both, graph_.value(first).constant->dims(), pool_));
  }

  ValueId expand_power(const Node& node, ValueId x, double exponent) {
    if (!has_type_of(x, node)) return no_value;
    if (exponent == 2) return add(F::mul, {x, x}, node);
    if (exponent == 3) {
      const ValueId square = add(F::mul, {x, x}, node);
      return add(F::mul, {square, x}, node);
    }
    if (exponent == 0.5) return square_root(node, x);
    if (exponent == -1) return add(F::reciprocal, {x}, node);
    // -infinity to this power is 0, and its root NaN.
    if (exponent == -0.5 && is_unsigned(x)) return add(F::reciprocal, {add(F::sqrt, {x}, node)}, node);
    return no_value;
  }

  // x to the power of 0.5 is sqrt(x), but for +0 of -0 and infinity of -infinity.
  ValueId square_root(const Node& node, ValueId x) {
    const ValueId root = add(F::sqrt, {x}, node);
    if (is_unsigned(x)) return root;
    const DType dtype = graph_.type(x).dtype;
    const double infinity = std::numeric_limits<double>::infinity();
    const ValueId lowest = add_scalar(graph_, dtype, -infinity), highest = add_scalar(graph_, dtype, infinity);
    const ValueId is_lowest = add(F::equal, {x, lowest}, node);
    return add(F::select, {is_lowest, highest, add(F::abs, {root}, node)}, node);
  }

  // A sum is -0 only where both of its terms are, and what is a square or the like never is.
  bool is_never_negative_zero(ValueId id) {
    if (is_unsigned(id)) return true;
    if (!is(F::add, id)) return false;
    const std::vector<ValueId> terms = producers_.find(id)->inputs;
    return std::any_of(terms.begin(), terms.end(), [&](ValueId term) {
      const Tensor* constant = graph_.value(term).constant.get();
      if (!constant || constant->is_elided()) return false;
      const Provenance::Pointer& provenance = graph_.value(term).provenance;
      if (constant->size() > 1 && may_be_replaced(provenance)) return false;
      fix_numbers(provenance, "whether a sum with it can be -0");
      const std::vector<double> numbers = constant->to_doubles();
      return std::none_of(numbers.begin(), numbers.end(), [](double n) { return n == 0 && std::signbit(n); });
    });
  }

  // Its elements have no sign, or are NaN: squares, sums of them, variances.
  bool is_unsigned(ValueId id, int depth = 0) {
    if (const auto c = uniform_constant(graph_, id)) return !std::signbit(*c);
    const Node* found = depth < 16 ? producers_.find(id) : nullptr;
    if (!found) return false;
    const Op op = found->op;
    const std::vector<ValueId> in = found->inputs;
    if (const auto* reduce = op.as<ops::Reduce>()) {
      const ops::ReduceKind kind = reduce->kind;
      if (kind == ops::ReduceKind::sum_squares || kind == ops::ReduceKind::sum_abs) return true;
      return (kind == ops::ReduceKind::sum || kind == ops::ReduceKind::mean) && is_unsigned(in[0], depth + 1);
    }
    if (op.as<ops::Reshape>()) return is_unsigned(in[0], depth + 1);
    const auto* pointwise = op.as<ops::Pointwise>();
    if (!pointwise) return false;
    const auto is_positive = [&](ValueId operand) { return uniform_constant(graph_, operand).value_or(0) > 0; };
    switch (pointwise->function) {
      case F::abs:
      case F::exp:
      case F::sigmoid:
        return true;
      case F::max:
        return is_positive(in[0]) || is_positive(in[1]);
      case F::add:
      case F::div:
        return is_unsigned(in[0], depth + 1) && is_unsigned(in[1], depth + 1);
      case F::mul:
        return in[0] == in[1] || (is_unsigned(in[0], depth + 1) && is_unsigned(in[1], depth + 1));
      default:
        return false;
    }
  }

  // Of function(operand, constant) with a one-element constant on either side.
  struct Scaled {
    ValueId operand = no_value, constant = no_value;
    double value = 0;
  };
  std::optional<Scaled> one_element_operand(F function, ValueId x) {
    if (!is(function, x)) return std::nullopt;
    const std::vector<ValueId> inputs = producers_.find(x)->inputs;
    for (const size_t i : {size_t{1}, size_t{0}}) {
      if (!is_one_element(graph_, inputs[i])) continue;
      if (const auto value = uniform_constant(graph_, inputs[i])) return Scaled{inputs[1 - i], inputs[i], *value};
    }
    return std::nullopt;
  }

  ValueId merge_factors(const Node& node, ValueId x, double c, const Constant& factor) {
    const auto inner = one_element_operand(F::mul, x);
    if (!inner || !has_type_of(inner->operand, node)) return no_value;
    const double product = inner->value * c;
    const auto is_moderate = [](double factor) {
      return factor == 0 || (std::abs(factor) < 0x1p15 && std::abs(factor) > 0x1p-14);
    };
    if (!is_moderate(inner->value) || !is_moderate(c) || !is_moderate(product)) return no_value;
    // What the first factor takes out of range, the second one would not take back.
    if (std::abs(inner->value) > 1 && std::abs(c) < 1) return no_value;
    return add(F::mul, {inner->operand, merged(F::mul, inner->constant, factor)}, node);
  }

  ValueId merge_clips(F function, const Node& node, ValueId x, double c, const Constant& limit) {
    const auto inner = one_element_operand(function, x);
    if (!inner || std::isnan(c) || std::isnan(inner->value) || !has_type_of(inner->operand, node)) return no_value;
    const double bound = function == F::min ? std::min(inner->value, c) : std::max(inner->value, c);
    if (bound == inner->value) return x;
    return add(function, {inner->operand, merged(function, inner->constant, limit)}, node);
  }

  Graph& graph_;
  ThreadPool& pool_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void simplify_algebra(Graph& graph, const PassContext& context) {
  AlgebraSimplifier(graph, context.pool).run();
}

}  // namespace camshaft
