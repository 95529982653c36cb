#include "optimize/recognize/recognize_activations.h"

#include "ir/ops/pointwise.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

class Recognizer {
 public:
  explicit Recognizer(Graph& graph) : graph_(graph), rewriter_(graph), producers_(graph) {}

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
    const ValueId s = sigmoid(node.inputs[1], node);
    if (s == no_value) return no_value;
    const bool is_plain = uniform_constant(graph_, node.inputs[0]) == 1.0 && has_type_of(s, node);
    return is_plain ? s : add(F::mul, {node.inputs[0], s}, node);
  }

  bool has_type_of(ValueId id, const Node& node) const { return graph_.type(id) == graph_.type(node.outputs[0]); }

  ValueId add(F function, std::vector<ValueId> inputs, const Node& like) {
    return graph_.add(ops::Pointwise{function}, std::move(inputs), graph_.value(like.outputs[0]).name, like.sources);
  }

  // The other operand of a commutative function of a number.
  ValueId operand_beside(F function, double number, ValueId id) {
    const std::vector<ValueId> inputs = producers_.inputs_of(function, id);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (uniform_constant(graph_, inputs[i]) == number && graph_.type(inputs[1 - i]) == graph_.type(id))
        return inputs[1 - i];
    return no_value;
  }

  // sigmoid(x) of 1 + exp(-x), where the exponent has a minus.
  ValueId sigmoid(ValueId id, const Node& like) {
    const ValueId e = operand_beside(F::add, 1, id);
    const std::vector<ValueId> exponent = producers_.inputs_of(F::exp, e);
    if (exponent.empty()) return no_value;
    if (const auto x = producers_.inputs_of(F::neg, exponent[0]); !x.empty()) return add(F::sigmoid, {x[0]}, like);
    const std::vector<ValueId> product = producers_.inputs_of(F::mul, exponent[0]);
    for (size_t i = 0; i < product.size(); ++i) {
      const auto factor = uniform_constant(graph_, product[i]);
      if (!factor || !(*factor < 0) || !is_one_element(graph_, product[i])) continue;
      if (graph_.type(product[1 - i]) != graph_.type(exponent[0])) continue;
      if (*factor == -1) return add(F::sigmoid, {product[1 - i]}, like);
      const ValueId positive = add_scalar(graph_, graph_.type(id).dtype, -*factor);
      return add(F::sigmoid, {add(F::mul, {product[1 - i], positive}, like)}, like);
    }
    return no_value;
  }

  // x of log(1 + exp(x)); or as importers write it, max(x, 0) + log1p(exp(-|x|)).
  ValueId softplus(ValueId id) {
    ValueId e = no_value;
    if (const auto sum = producers_.inputs_of(F::log, id); !sum.empty()) e = operand_beside(F::add, 1, sum[0]);
    if (const auto exponential = producers_.inputs_of(F::log1p, id); !exponential.empty()) e = exponential[0];
    if (const auto x = producers_.inputs_of(F::exp, e); !x.empty()) return x[0];
    const std::vector<ValueId> terms = producers_.inputs_of(F::add, id);
    for (size_t i = 0; i < terms.size(); ++i) {
      const ValueId x = operand_beside(F::max, 0, terms[i]);
      ValueId at = terms[1 - i];
      for (const F function : {F::log1p, F::exp, F::neg, F::abs}) {
        const std::vector<ValueId> inner = producers_.inputs_of(function, at);
        at = inner.empty() ? no_value : inner[0];
      }
      if (x != no_value && at == x) return x;
    }
    return no_value;
  }

  // With e = exp(x), tanh(log(1 + e)) = (e² + 2 e) / (e² + 2 e + 2), which is 1 in either type before e² leaves it.
  ValueId tanh_of_softplus(const Node& node) {
    const ValueId x = softplus(node.inputs[0]);
    if (x == no_value || !has_type_of(x, node)) return no_value;
    const DType dtype = graph_.type(x).dtype;
    const ValueId most = add_scalar(graph_, dtype, 20), two = add_scalar(graph_, dtype, 2);
    const ValueId e = add(F::exp, {add(F::min, {x, most}, node)}, node);
    const ValueId product = add(F::mul, {e, add(F::add, {e, two}, node)}, node);
    return add(F::div, {product, add(F::add, {product, two}, node)}, node);
  }

  Graph& graph_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void recognize_activations(Graph& graph, const PassContext&) {
  Recognizer(graph).run();
}

}  // namespace camshaft
