#include "optimize/recognize/recognize_softmax.h"

#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

class SoftmaxRecognizer {
 public:
  explicit SoftmaxRecognizer(Graph& graph) : graph_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node) { return recognize(node); });
  }

 private:
  // What a softmax along an axis is taken of.
  struct Softmax {
    ValueId of = no_value;
    int64_t axis = 0;
  };

  ValueId recognize(const Node& node) {
    if (const auto* softmax = node.op.as<ops::Softmax>()) {
      const auto shifted = minus_largest(node.inputs[0]);
      return shifted && shifted->axis == softmax->axis ? add(*softmax, shifted->of, node) : no_value;
    }
    const auto* op = node.op.as<ops::Pointwise>();
    if (!op) return no_value;
    const auto found = op->function == F::div   ? quotient(node.inputs[0], node.inputs[1])
                       : op->function == F::mul ? product(node.inputs)
                       : op->function == F::sub ? logarithm(node.inputs[0], node.inputs[1])
                                                : std::nullopt;
    return found ? add({found->axis, op->function == F::sub}, found->of, node) : no_value;
  }

  ValueId add(const ops::Softmax& op, ValueId x, const Node& like) {
    if (graph_.type(x) != graph_.type(like.outputs[0])) return no_value;
    return graph_.add(op, {x}, graph_.value(like.outputs[0]).name, like.sources);
  }

  // Of a reduction along one axis that stays, of size 1.
  std::optional<Softmax> reduced(ops::ReduceKind kind, ValueId id) {
    const auto* op = producers_.op<ops::Reduce>(id);
    if (!op || op->kind != kind || !op->keep_dims || op->axes.size() != 1) return std::nullopt;
    return Softmax{producers_.find(id)->inputs[0], op->axes[0]};
  }

  // x of x - max(x)
  std::optional<Softmax> minus_largest(ValueId id) {
    const std::vector<ValueId> difference = producers_.inputs_of(F::sub, id);
    const auto largest = difference.empty() ? std::nullopt : reduced(ops::ReduceKind::max, difference[1]);
    return largest && largest->of == difference[0] ? largest : std::nullopt;
  }

  // d of sum(exp(d))
  std::optional<Softmax> sum_of_exponentials(ValueId id) {
    auto sum = reduced(ops::ReduceKind::sum, id);
    const std::vector<ValueId> exponent = sum ? producers_.inputs_of(F::exp, sum->of) : std::vector<ValueId>();
    if (exponent.empty()) return std::nullopt;
    sum->of = exponent[0];
    return sum;
  }

  // x of exp(x - max(x)) / sum(exp(x - max(x)))
  std::optional<Softmax> quotient(ValueId above, ValueId below) {
    const auto sum = sum_of_exponentials(below);
    const std::vector<ValueId> exponent = producers_.inputs_of(F::exp, above);
    if (!sum || exponent.empty() || exponent[0] != sum->of) return std::nullopt;
    const auto shifted = minus_largest(sum->of);
    return shifted && shifted->axis == sum->axis ? shifted : std::nullopt;
  }

  std::optional<Softmax> product(const std::vector<ValueId>& factors) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId below = producers_.input_of_reciprocal(factors[i]);
      if (below == no_value) continue;
      if (const auto found = quotient(factors[1 - i], below)) return found;
    }
    return std::nullopt;
  }

  // x of d - log(sum(exp(d))), or of x - (max(x) + log(sum(exp(d)))), with d = x - max(x)
  std::optional<Softmax> logarithm(ValueId from, ValueId subtracted) {
    const std::vector<ValueId> parts = producers_.inputs_of(F::add, subtracted);
    for (const ValueId part : parts.empty() ? std::vector<ValueId>{subtracted} : parts) {
      const std::vector<ValueId> sum = producers_.inputs_of(F::log, part);
      const auto of = sum.empty() ? std::nullopt : sum_of_exponentials(sum[0]);
      const auto shifted = of ? minus_largest(of->of) : std::nullopt;
      if (!shifted || shifted->axis != of->axis) continue;
      if (parts.empty()) return from == of->of ? shifted : std::nullopt;
      const auto largest = reduced(ops::ReduceKind::max, parts[part == parts[0] ? 1 : 0]);
      if (largest && largest->of == shifted->of && largest->axis == shifted->axis && from == shifted->of)
        return shifted;
    }
    return std::nullopt;
  }

  Graph& graph_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void recognize_softmax(Graph& graph, const PassContext&) {
  SoftmaxRecognizer(graph).run();
}

}  // namespace camshaft
