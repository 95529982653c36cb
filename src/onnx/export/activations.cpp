#include "onnx/export/activations.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/ops/pointwise.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

class ActivationMatcher {
 public:
  ActivationMatcher(const Graph& graph, const Uses& uses, size_t last) : graph_(graph), uses_(uses), last_(last) {}

  std::optional<Activation> match() {
    const ValueId y = graph_.nodes[last_].outputs[0];
    for (const auto form :
         {&ActivationMatcher::hard_swish, &ActivationMatcher::mish, &ActivationMatcher::softplus,
          &ActivationMatcher::gelu, &ActivationMatcher::gelu_tanh, &ActivationMatcher::hard_sigmoid,
          &ActivationMatcher::clip, &ActivationMatcher::relu, &ActivationMatcher::leaky, &ActivationMatcher::elu}) {
      nodes.clear();
      if (auto found = (this->*form)(y); found && is_closed()) return found;
    }
    return std::nullopt;
  }

  std::vector<size_t> nodes;  ///< that the activation is made of

 private:
  /// The operands of the pointwise operator that computes a value, which becomes part of the activation.
  std::optional<std::vector<ValueId>> operands(F function, ValueId id) {
    const int32_t producer = id == no_value ? -1 : uses_.producer[static_cast<size_t>(id)];
    if (producer < 0) return std::nullopt;
    const Node& node = graph_.nodes[static_cast<size_t>(producer)];
    const auto* op = node.op.as<ops::Pointwise>();
    if (!op || op->function != function) return std::nullopt;
    nodes.push_back(static_cast<size_t>(producer));
    return node.inputs;
  }

  std::optional<double> number(ValueId id) const {
    const Tensor* constant = graph_.value(id).constant.get();
    if (!constant || constant->is_elided() || constant->size() != 1 || holds_objects(constant->dtype()) ||
        constant->dtype() == DType::boolean)
      return std::nullopt;
    return constant->to_doubles()[0];
  }
  /// A number as scalar() of the importer makes it of that dtype.
  bool is(ValueId id, double value) const {
    const auto found = number(id);
    return found && Tensor::scalar(graph_.type(id).dtype, value).to_doubles()[0] == *found;
  }

  struct WithNumber {
    ValueId x;
    ValueId number;
  };
  /// x and a constant, in either order, of a function that does not mind, where x alone gives the shape.
  std::optional<WithNumber> with_number(F function, ValueId y) {
    const auto in = operands(function, y);
    if (!in) return std::nullopt;
    for (const size_t i : {size_t{1}, size_t{0}})
      if (number((*in)[i]) && graph_.shape((*in)[1 - i]) == graph_.shape(y)) return WithNumber{(*in)[1 - i], (*in)[i]};
    return std::nullopt;
  }
  std::optional<ValueId> with(F function, ValueId y, double value) {
    const auto found = with_number(function, y);
    return found && is(found->number, value) ? std::optional(found->x) : std::nullopt;
  }
  std::optional<ValueId> of(F function, ValueId y) {
    const auto in = operands(function, y);
    return in ? std::optional((*in)[0]) : std::nullopt;
  }
  /// The other operand of a product with x.
  std::optional<ValueId> times(ValueId x, ValueId y) {
    const auto in = operands(F::mul, y);
    if (!in || ((*in)[0] != x && (*in)[1] != x)) return std::nullopt;
    return (*in)[0] == x ? (*in)[1] : (*in)[0];
  }

  bool is_closed() const {
    for (const size_t n : nodes) {
      if (n == last_) continue;
      const auto id = static_cast<size_t>(graph_.nodes[n].outputs[0]);
      if (uses_.is_output[id]) return false;
      for (const int32_t reader : uses_.readers[id])
        if (std::find(nodes.begin(), nodes.end(), static_cast<size_t>(reader)) == nodes.end()) return false;
    }
    return true;
  }

  /// What runtimes have kernels for: ONNX Runtime has an Elu of no other type.
  bool is_float(ValueId x) const { return is_f32(x) || graph_.type(x).dtype == DType::f16; }
  bool is_f32(ValueId x) const { return graph_.type(x).dtype == DType::f32; }
  /// Attributes are of f32: whether that holds the number.
  static bool fits(double value) { return static_cast<double>(static_cast<float>(value)) == value; }

  std::optional<Activation> relu(ValueId y) {
    const auto x = with(F::max, y, 0);
    if (!x || !is_signed(graph_.type(*x).dtype)) return std::nullopt;
    return Activation{"Relu", {*x}, {}};
  }

  std::optional<Activation> clip(ValueId y) {
    const auto high = with_number(F::min, y);
    const auto low = high ? with_number(F::max, high->x) : std::nullopt;
    // Bounds are scalars.
    if (!low || !graph_.shape(low->number).empty() || !graph_.shape(high->number).empty()) return std::nullopt;
    return Activation{"Clip", {low->x, low->number, high->number}, {}};
  }

  // min(max(x·alpha + beta, 0), 1)
  std::optional<Activation> hard_sigmoid(ValueId y) {
    const auto low = with(F::min, y, 1), line = low ? with(F::max, *low, 0) : std::nullopt;
    const auto sum = line ? with_number(F::add, *line) : std::nullopt;
    const auto product = sum ? with_number(F::mul, sum->x) : std::nullopt;
    if (!product || !is_f32(y)) return std::nullopt;
    const double alpha = *number(product->number), beta = *number(sum->number);
    return Activation{"HardSigmoid", {product->x}, Attributes().number("alpha", alpha).number("beta", beta)};
  }

  std::optional<Activation> hard_swish(ValueId y) {
    const auto in = operands(F::mul, y);
    if (!in) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      nodes = {last_};
      const auto low = with(F::min, (*in)[i], 1), line = low ? with(F::max, *low, 0) : std::nullopt;
      const auto sum = line ? with(F::add, *line, 0.5) : std::nullopt;
      const auto x = sum ? with(F::mul, *sum, 1.0 / 6) : std::nullopt;
      if (x && *x == (*in)[1 - i] && is_f32(y)) return Activation{"HardSwish", {*x}, {}};
    }
    return std::nullopt;
  }

  // max(x, 0) + log1p(exp(-|x|))
  std::optional<ValueId> softplus_of(ValueId y) {
    const auto in = operands(F::add, y);
    if (!in || !is_float(y)) return std::nullopt;
    const size_t before = nodes.size();
    for (const size_t i : {size_t{0}, size_t{1}}) {
      nodes.resize(before);
      const auto x = with(F::max, (*in)[i], 0);
      const auto exp = x ? of(F::log1p, (*in)[1 - i]) : std::nullopt, negative = exp ? of(F::exp, *exp) : std::nullopt;
      const auto size = negative ? of(F::neg, *negative) : std::nullopt, same = size ? of(F::abs, *size) : std::nullopt;
      if (same && *same == *x) return x;
    }
    return std::nullopt;
  }
  std::optional<Activation> softplus(ValueId y) {
    const auto x = softplus_of(y);
    return x ? std::optional(Activation{"Softplus", {*x}, {}}) : std::nullopt;
  }

  std::optional<Activation> mish(ValueId y) {
    const auto in = operands(F::mul, y);
    if (!in) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      nodes = {last_};
      const auto inner = of(F::tanh, (*in)[i]), x = inner ? softplus_of(*inner) : std::nullopt;
      if (x && *x == (*in)[1 - i]) return Activation{"Mish", {*x}, {}};
    }
    return std::nullopt;
  }

  // (x·0.5) · (f(…) + 1)
  template <class Inner>
  std::optional<ValueId> gelu_of(ValueId y, F function, Inner&& inner) {
    const auto in = operands(F::mul, y);
    if (!in || !is_float(y)) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      nodes = {last_};
      const auto x = with(F::mul, (*in)[i], 0.5);
      const auto curve = x ? with(F::add, (*in)[1 - i], 1) : std::nullopt;
      const auto argument = curve ? of(function, *curve) : std::nullopt;
      if (argument && inner(*x, *argument)) return x;
    }
    return std::nullopt;
  }
  std::optional<Activation> gelu(ValueId y) {
    const auto x = gelu_of(y, F::erf, [&](ValueId input, ValueId argument) {
      return with(F::mul, argument, 1 / std::numbers::sqrt2) == input;
    });
    return x ? std::optional(Activation{"Gelu", {*x}, {}}) : std::nullopt;
  }
  std::optional<Activation> gelu_tanh(ValueId y) {
    const auto x = gelu_of(y, F::tanh, [&](ValueId input, ValueId argument) {
      const auto sum = with(F::mul, argument, std::sqrt(2 / std::numbers::pi));
      const auto terms = sum ? operands(F::add, *sum) : std::nullopt;
      if (!terms || ((*terms)[0] != input && (*terms)[1] != input)) return false;
      const auto cube = with(F::mul, (*terms)[0] == input ? (*terms)[1] : (*terms)[0], 0.044715);
      const auto square = cube ? times(input, *cube) : std::nullopt;
      return square && times(input, *square) == input;
    });
    return x ? std::optional(Activation{"Gelu", {*x}, Attributes().text("approximate", "tanh")}) : std::nullopt;
  }

  /// x, where y is x < 0 ? below : x.
  std::optional<ValueId> kinked(ValueId y, ValueId& below) {
    const auto in = operands(F::select, y);
    const auto compared = in ? operands(F::less, (*in)[0]) : std::nullopt;
    if (!compared || (*compared)[0] != (*in)[2] || !is((*compared)[1], 0)) return std::nullopt;
    below = (*in)[1];
    return graph_.shape((*in)[2]) == graph_.shape(y) ? std::optional((*in)[2]) : std::nullopt;
  }
  std::optional<Activation> leaky(ValueId y) {
    ValueId below = no_value;
    const auto x = kinked(y, below), slope = x ? times(*x, below) : std::nullopt;
    if (!slope || !is_float(y)) return std::nullopt;
    if (const auto alpha = number(*slope); alpha && graph_.shape(*slope).empty() && fits(*alpha))
      return Activation{"LeakyRelu", {*x}, Attributes().number("alpha", *alpha)};
    return Activation{"PRelu", {*x, *slope}, {}};
  }
  // alpha · (e^x - 1) below 0
  std::optional<Activation> elu(ValueId y) {
    ValueId below = no_value;
    const auto x = kinked(y, below);
    const auto scaled = x ? with_number(F::mul, below) : std::nullopt;
    const auto difference = scaled ? operands(F::sub, scaled->x) : std::nullopt;
    if (!difference || !is((*difference)[1], 1) || of(F::exp, (*difference)[0]) != x || !is_float(y))
      return std::nullopt;
    const double alpha = *number(scaled->number);
    if (!fits(alpha)) return std::nullopt;
    return Activation{"Elu", {*x}, Attributes().number("alpha", alpha)};
  }

  const Graph& graph_;
  const Uses& uses_;
  size_t last_;
};

}  // namespace

Activations::Activations(const Graph& graph) : inside_(graph.nodes.size(), false) {
  const Uses uses(graph);
  // From the end, so that a Mish is found before the Softplus in it.
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    if (inside_[n] || !graph.nodes[n].op.as<ops::Pointwise>()) continue;
    ActivationMatcher matcher(graph, uses, n);
    auto found = matcher.match();
    if (!found) continue;
    for (const size_t inner : matcher.nodes)
      if (inner != n) inside_[inner] = true;
    found_.emplace(n, *std::move(found));
  }
}

const Activation* Activations::find(size_t n) const {
  const auto it = found_.find(n);
  return it == found_.end() ? nullptr : &it->second;
}

}  // namespace camshaft::onnx
