#include "optimize/recognize/recognize_activations.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "ir/activation.h"
#include "ir/ops/pointwise.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// Exporters spell what is recognised here in at most so many, one behind the other: log1p(exp(-|x|)) beside max(x, 0).
constexpr int most_activation_steps = 5;

class ActivationsRecognizer {
 public:
  explicit ActivationsRecognizer(Graph& graph) : graph_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node) { return recognize(node); });
  }

 private:
  ValueId recognize(const Node& node) {
    const auto* op = node.op.as<ops::Pointwise>();
    const DType dtype = graph_.type(node.outputs[0]).dtype;
    if (!op || (dtype != DType::f32 && dtype != DType::f64)) return no_value;
    if (op->function == F::tanh) return tanh_of_softplus(node);
    if (op->function == F::reciprocal) return sigmoid(node.inputs[0], node);
    if (op->function != F::div) return no_value;
    const bool is_plain =
        uniform_constant(graph_, node.inputs[0]) == 1.0 && graph_.type(node.inputs[1]) == graph_.type(node.outputs[0]);
    const ValueId s = sigmoid(node.inputs[1], node);
    return is_plain || s == no_value ? s : add(F::mul, {node.inputs[0], s}, node);
  }

  ValueId add(F function, std::vector<ValueId> inputs, const Node& like) {
    return graph_.add(ops::Pointwise{function}, std::move(inputs), graph_.value(like.outputs[0]).name, like.sources);
  }

  /// A value that another one is computed from, and what that is as a function of it.
  struct Source {
    ValueId x = no_value;
    ActivationFunction function;
  };

  // What `id` is as a function of x, which has the same type: pointwise steps of that type and numbers, as far as
  // `steps` of them lie between.
  FunctionOfX function_of(ValueId id, ValueId x, int steps) {
    if (id == x) return FunctionOfX::identity();
    if (const auto value = uniform_constant(graph_, id)) return FunctionOfX::number(*value);
    const auto* op = producers_.op<ops::Pointwise>(id);
    if (!op || steps == 0 || graph_.type(id) != graph_.type(x)) return {};
    const F function = op->function;
    const std::vector<ValueId> inputs = producers_.find(id)->inputs;
    FunctionOfX operands[3];
    for (size_t i = 0; i < inputs.size() && i < std::size(operands); ++i)
      operands[i] = function_of(inputs[i], x, steps - 1);
    return FunctionOfX::apply(function, operands[0], operands[1], operands[2]);
  }

  // The nearest x from which `f(id)` is an activation that is wanted.
  template <class Of, class IsWanted>
  std::optional<Source> source_of(ValueId id, Of f, IsWanted is_wanted) {
    std::vector<ValueId> level{id};
    for (int steps = 1; steps <= most_activation_steps && !level.empty(); ++steps) {
      std::vector<ValueId> next;
      for (const ValueId made : level) {
        if (!producers_.op<ops::Pointwise>(made)) continue;
        for (const ValueId x : producers_.find(made)->inputs)
          if (x != no_value && !graph_.is_constant(x) && graph_.type(x) == graph_.type(id) &&
              std::find(next.begin(), next.end(), x) == next.end())
            next.push_back(x);
      }
      for (const ValueId x : next) {
        const auto function = f(function_of(id, x, most_activation_steps)).activation();
        if (function && is_wanted(*function)) return Source{x, *function};
      }
      level = std::move(next);
    }
    return std::nullopt;
  }

  // sigmoid(a x) of 1 / denominator, where a is positive.
  ValueId sigmoid(ValueId denominator, const Node& like) {
    const ActivationFunction plain = activation_function(KnownActivation::sigmoid);
    const auto source = source_of(
        denominator, [](const FunctionOfX& f) { return FunctionOfX::apply(F::reciprocal, f, {}, {}); },
        [&](ActivationFunction f) {
          const bool rises = f.a > 0;
          f.a = plain.a;
          return rises && f == plain;
        });
    if (!source) return no_value;
    if (source->function.a == 1) return add(F::sigmoid, {source->x}, like);
    const ValueId factor = add_scalar_read_off(graph_, graph_.type(source->x).dtype, source->function.a,
                                               "the factor within an activation, read off the steps that spell it");
    return add(F::sigmoid, {add(F::mul, {source->x, factor}, like)}, like);
  }

  // With e = exp(x), tanh(log(1 + e)) = (e² + 2 e) / (e² + 2 e + 2), which is 1 in either type before e² leaves it.
  ValueId tanh_of_softplus(const Node& node) {
    const auto source = source_of(
        node.inputs[0], [](const FunctionOfX& f) { return FunctionOfX::apply(F::tanh, f, {}, {}); },
        [](const ActivationFunction& f) { return known_activation(f) == KnownActivation::tanh_of_softplus; });
    if (!source) return no_value;
    const DType dtype = graph_.type(source->x).dtype;
    const ValueId most = add_scalar(graph_, dtype, 20), two = add_scalar(graph_, dtype, 2);
    const ValueId e = add(F::exp, {add(F::min, {source->x, most}, node)}, node);
    const ValueId product = add(F::mul, {e, add(F::add, {e, two}, node)}, node);
    return add(F::div, {product, add(F::add, {product, two}, node)}, node);
  }

  Graph& graph_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void recognize_activations(Graph& graph, const PassContext&) {
  ActivationsRecognizer(graph).run();
}

}  // namespace camshaft
