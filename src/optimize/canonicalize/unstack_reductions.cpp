#include "optimize/canonicalize/unstack_reductions.h"

#include <algorithm>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

constexpr int64_t most_parts = 4;
constexpr int most_steps = 4;  // pointwise operators between a stack and the sum

class Unstacker {
 public:
  explicit Unstacker(Graph& graph) : graph_(graph), uses_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node) { return unstacked(node); });
  }

 private:
  // The axis of a value that broadcasting puts on the one that is so far from the last; nullopt: it has none.
  std::optional<size_t> axis_of(ValueId id, size_t from_last) const {
    const size_t rank = graph_.shape(id).size();
    return from_last < rank ? std::optional(rank - 1 - from_last) : std::nullopt;
  }
  bool is_one(ValueId id, size_t axis) const { return graph_.shape(id)[axis].as_constant() == 1; }

  // The tensors that were stacked, if there are `parts` of them.
  const Node* stack_of(ValueId id, size_t axis, int64_t parts) {
    const auto* concat = producers_.op<ops::Concat>(id);
    const Node* node = concat ? producers_.find(id) : nullptr;
    if (!node || concat->axis != static_cast<int64_t>(axis) || std::ssize(node->inputs) != parts) return nullptr;
    const bool are_single =
        std::all_of(node->inputs.begin(), node->inputs.end(), [&](ValueId part) { return is_one(part, axis); });
    return are_single ? node : nullptr;
  }

  const Node* pointwise_of(ValueId id) {
    const bool is_single = static_cast<size_t>(id) < uses_.readers.size() && uses_.single(id);
    return is_single && producers_.op<ops::Pointwise>(id) ? producers_.find(id) : nullptr;
  }

  // `small` is what broadcasting repeats along another axis of `whole`: slices of it cost little.
  bool is_repeated(ValueId small, const Shape& whole, size_t axis) const {
    const Shape& shape = graph_.shape(small);
    const size_t lead = whole.size() - shape.size();
    for (size_t d = 0; d < whole.size(); ++d)
      if (d != axis && whole[d].as_constant() != 1 && (d < lead || is_one(small, d - lead))) return true;
    return false;
  }

  struct Search {
    size_t from_last;
    int64_t parts;
    const Shape& whole;
    bool found_stack = false;
  };

  // Whether part() can take the value apart.
  bool comes_apart(ValueId id, Search& search, int steps) {
    const auto axis = axis_of(id, search.from_last);
    if (!axis || is_one(id, *axis)) return true;
    if (stack_of(id, *axis, search.parts)) return search.found_stack = true;
    if (const Node* node = pointwise_of(id); node && steps < most_steps) {
      const std::vector<ValueId> inputs = node->inputs;
      return std::all_of(inputs.begin(), inputs.end(),
                         [&](ValueId input) { return comes_apart(input, search, steps + 1); });
    }
    return is_repeated(id, search.whole, search.whole.size() - 1 - search.from_last);
  }

  // Without an axis of one index, as it was before the axis was put in if it was.
  ValueId without(ValueId id, size_t axis) {
    Shape shape = graph_.shape(id);
    shape.erase(shape.begin() + static_cast<int64_t>(axis));
    if (producers_.op<ops::Reshape>(id) && graph_.shape(producers_.find(id)->inputs[0]) == shape)
      return producers_.find(id)->inputs[0];
    return graph_.add(ops::Reshape{shape}, {id}, graph_.value(id).name);
  }

  // The value at one index of the axis, without it: broadcasting sees the other axes as before.
  ValueId part(ValueId id, size_t from_last, int64_t parts, int64_t index) {
    const auto axis = axis_of(id, from_last);
    if (!axis) return id;
    if (is_one(id, *axis)) return without(id, *axis);
    if (const Node* stack = stack_of(id, *axis, parts))
      return without(stack->inputs[static_cast<size_t>(index)], *axis);
    if (const Node* found = pointwise_of(id)) {
      const Node node = *found;
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(part(input, from_last, parts, index));
      return graph_.add(node.op, inputs, graph_.value(id).name, node.sources);
    }
    const ops::Slice slice{{static_cast<int64_t>(*axis)}, {Dim(index)}, {Dim(1)}, {1}};
    return without(graph_.add(slice, {id}, graph_.value(id).name), *axis);
  }

  // no_value: leave the node alone.
  ValueId unstacked(const Node& node) {
    const auto* reduce = node.op.as<ops::Reduce>();
    if (!reduce || reduce->axes.size() != 1 ||
        (reduce->kind != ops::ReduceKind::sum && reduce->kind != ops::ReduceKind::mean))
      return no_value;
    const ValueId x = node.inputs[0];
    const Shape whole = graph_.shape(x);
    const auto axis = static_cast<size_t>(reduce->axes[0]);
    const auto parts = whole[axis].as_constant();
    if (graph_.type(x).dtype != DType::f32 || !parts || *parts < 2 || *parts > most_parts) return no_value;
    Search search{whole.size() - 1 - axis, *parts, whole};
    if (!comes_apart(x, search, 0) || !search.found_stack) return no_value;

    const bool is_mean = reduce->kind == ops::ReduceKind::mean, keeps = reduce->keep_dims;
    const std::string name = graph_.value(node.outputs[0]).name;
    const Shape shape = graph_.shape(node.outputs[0]);
    const auto apply = [&](ScalarFunction function, ValueId a, ValueId b) {
      return graph_.add(ops::Pointwise{function}, {a, b}, name, node.sources);
    };
    ValueId sum = part(x, search.from_last, *parts, 0);
    for (int64_t i = 1; i < *parts; ++i) sum = apply(ScalarFunction::add, sum, part(x, search.from_last, *parts, i));
    if (is_mean) sum = apply(ScalarFunction::div, sum, add_scalar(graph_, DType::f32, static_cast<double>(*parts)));
    return keeps ? graph_.add(ops::Reshape{shape}, {sum}, name, node.sources) : sum;
  }

  Graph& graph_;
  Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void unstack_reductions(Graph& graph, const PassContext&) {
  Unstacker(graph).run();
}

}  // namespace camshaft
