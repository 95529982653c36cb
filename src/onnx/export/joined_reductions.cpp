#include "onnx/export/joined_reductions.h"

#include <algorithm>
#include <utility>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

/// Nodes that lead to one result, found from it on.
class NodesOfResult {
 public:
  NodesOfResult(const Graph& graph, const Uses& uses, size_t last) : graph_(graph), uses_(uses), nodes_{last} {}

  /// The operator of a type that computes a value, whose node becomes part of the expression.
  template <class O>
  const O* of(ValueId id, std::vector<ValueId>& operands) {
    const int32_t producer = id == no_value ? -1 : uses_.producer[static_cast<size_t>(id)];
    if (producer < 0) return nullptr;
    const Node& node = graph_.nodes[static_cast<size_t>(producer)];
    const O* op = node.op.as<O>();
    if (!op) return nullptr;
    operands = node.inputs;
    if (std::find(nodes_.begin(), nodes_.end(), static_cast<size_t>(producer)) == nodes_.end())
      nodes_.push_back(static_cast<size_t>(producer));
    return op;
  }
  bool is(F function, ValueId id, std::vector<ValueId>& operands) {
    const auto* op = of<ops::Pointwise>(id, operands);
    return op && op->function == function;
  }
  const Tensor* constant(ValueId id) const {
    const Tensor* constant = id == no_value ? nullptr : graph_.value(id).constant.get();
    return constant && !constant->is_elided() && !holds_objects(constant->dtype()) ? constant : nullptr;
  }
  bool is_number(ValueId id, double number) const {
    const Tensor* found = constant(id);
    return found && found->size() == 1 && found->to_doubles()[0] == number;
  }

  /// Its nodes, in order; none where something else reads what the inner ones compute.
  std::optional<std::vector<size_t>> closed() {
    std::sort(nodes_.begin(), nodes_.end());
    for (const size_t n : nodes_) {
      if (n == nodes_.back()) break;
      const auto id = static_cast<size_t>(graph_.nodes[n].outputs[0]);
      const auto is_inside = [&](int32_t reader) {
        return std::binary_search(nodes_.begin(), nodes_.end(), static_cast<size_t>(reader));
      };
      if (uses_.is_output[id] || !std::all_of(uses_.readers[id].begin(), uses_.readers[id].end(), is_inside))
        return std::nullopt;
    }
    return nodes_;
  }

 private:
  const Graph& graph_;
  const Uses& uses_;
  std::vector<size_t> nodes_;
};

/// The shape without these axes, which are sorted.
Shape shape_left(const Shape& shape, const std::vector<int64_t>& axes) {
  Shape left;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i))) left.push_back(shape[i]);
  return left;
}

const ops::Reshape* as_fixed_reshape(const Node& node) {
  return node.inputs.size() == 1 ? node.op.as<ops::Reshape>() : nullptr;
}

/// Where `places` counts from 0 along one axis of as many elements, and has 1 of all others: that axis of a column with
/// one element more or less than `indices` has axes.
std::optional<int64_t> counted_axis(const Tensor& places, const Shape& indices, const Shape& column) {
  if (places.dtype() != DType::i64 || places.dims().size() != column.size() || column.size() != indices.size() + 1)
    return std::nullopt;
  const std::vector<int64_t> numbers = places.to_ints();
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != static_cast<int64_t>(i)) return std::nullopt;
  for (size_t axis = 0; axis < column.size(); ++axis) {
    Shape with = indices;
    with.insert(with.begin() + static_cast<int64_t>(axis), Dim(1));
    if (with == column && places.dims()[axis] == places.size()) return static_cast<int64_t>(axis);
  }
  return std::nullopt;
}

}  // namespace

std::optional<JoinedNodes> join_length(const Graph& graph, const Uses& uses, size_t last) {
  const Node& node = graph.nodes[last];
  if (node.outputs.size() != 1) return std::nullopt;
  NodesOfResult found(graph, uses, last);
  std::vector<ValueId> root, squares;
  const DType dtype = graph.type(node.outputs[0]).dtype;
  if ((dtype != DType::f32 && dtype != DType::f64) || !found.is(F::sqrt, node.outputs[0], root)) return std::nullopt;
  const auto* sum = found.of<ops::Reduce>(root[0], squares);
  auto nodes = found.closed();
  if (!sum || sum->kind != ops::ReduceKind::sum_squares || sum->axes.empty() || !nodes) return std::nullopt;
  return JoinedNodes{*std::move(nodes), false, [x = squares[0], reduce = *sum](ExportContext& c) {
                       Attributes attributes;
                       if (!reduce.keep_dims) attributes.integer("keepdims", 0);
                       c.result({"ReduceL2", 18}, {c.value(x), c.ints(reduce.axes)}, std::move(attributes));
                     }};
}

std::optional<JoinedNodes> join_log_sum_exp(const Graph& graph, const Uses& uses, size_t last) {
  const Node& node = graph.nodes[last];
  const bool drops = as_fixed_reshape(node) != nullptr;
  if (node.outputs.size() != 1 || (!drops && !node.op.as<ops::Pointwise>())) return std::nullopt;
  const ValueId kept = drops ? node.inputs[0] : node.outputs[0];
  const DType dtype = graph.type(kept).dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return std::nullopt;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    NodesOfResult found(graph, uses, last);
    std::vector<ValueId> terms, log, sum, exp, difference, shift, infinite, size, largest;
    // log Σ e^(x - shift) + shift, where shift is the largest x, or 0 where that is infinite
    if (!found.is(F::add, kept, terms) || !found.is(F::log, terms[i], log)) continue;
    const auto* summed = found.of<ops::Reduce>(log[0], sum);
    if (!summed || summed->kind != ops::ReduceKind::sum || !summed->keep_dims || summed->axes.empty()) continue;
    if (!found.is(F::exp, sum[0], exp) || !found.is(F::sub, exp[0], difference) || difference[1] != terms[1 - i])
      continue;
    if (!found.is(F::select, terms[1 - i], shift) || !found.is_number(shift[1], 0)) continue;
    if (!found.is(F::is_inf_pos, shift[0], infinite) || !found.is(F::abs, infinite[0], size) || size[0] != shift[2])
      continue;
    const ops::Reduce maximum{ops::ReduceKind::max, summed->axes, true};
    const auto* reduced = found.of<ops::Reduce>(shift[2], largest);
    const ValueId x = difference[0];
    if (!reduced || !(*reduced == maximum) || largest[0] != x) continue;
    const Shape left = shape_left(graph.shape(x), summed->axes);
    if (drops && graph.shape(node.outputs[0]) != left) continue;
    if (!drops && uses.single(kept)) {  // the reshape behind it takes part
      const Node& reader = graph.nodes[static_cast<size_t>(uses.readers[static_cast<size_t>(kept)][0])];
      if (as_fixed_reshape(reader) && graph.shape(reader.outputs[0]) == left) continue;
    }
    auto nodes = found.closed();
    if (!nodes) continue;
    return JoinedNodes{*std::move(nodes), false, [x, axes = summed->axes, drops](ExportContext& c) {
                         Attributes attributes;
                         if (drops) attributes.integer("keepdims", 0);
                         c.result({"ReduceLogSumExp", 18}, {c.value(x), c.ints(axes)}, std::move(attributes));
                       }};
  }
  return std::nullopt;
}

std::optional<JoinedNodes> join_one_hot(const Graph& graph, const Uses& uses, size_t last) {
  const Node& node = graph.nodes[last];
  if (node.outputs.size() != 1) return std::nullopt;
  NodesOfResult found(graph, uses, last);
  std::vector<ValueId> choice, compared, index, negative, wrapped, reshaped;
  if (!found.is(F::select, node.outputs[0], choice) || !found.is(F::equal, choice[0], compared)) return std::nullopt;
  // What runtimes have kernels for.
  const DType dtype = graph.type(node.outputs[0]).dtype;
  const Tensor *on = found.constant(choice[1]), *off = found.constant(choice[2]);
  if ((dtype != DType::f32 && dtype != DType::i64) || !on || !off || on->size() != 1 || off->size() != 1)
    return std::nullopt;
  const size_t at = found.constant(compared[0]) ? 1 : 0;
  const Tensor* places = found.constant(compared[1 - at]);
  // index < 0 ? index + depth : index
  if (!places || !found.is(F::select, compared[at], index)) return std::nullopt;
  const ValueId column = index[2];
  if (!found.is(F::less, index[0], negative) || negative[0] != column || !found.is_number(negative[1], 0) ||
      !found.is(F::add, index[1], wrapped) || wrapped[0] != column ||
      !found.is_number(wrapped[1], static_cast<double>(places->size())))
    return std::nullopt;
  if (!found.of<ops::Reshape>(column, reshaped) || reshaped.size() != 1) return std::nullopt;
  const ValueId indices = reshaped[0];
  const auto axis = counted_axis(*places, graph.shape(indices), graph.shape(column));
  if (!axis || graph.type(indices).dtype != DType::i64) return std::nullopt;
  Shape to = graph.shape(column);
  to[static_cast<size_t>(*axis)] = places->size();
  auto nodes = found.closed();
  if (graph.shape(node.outputs[0]) != to || !nodes) return std::nullopt;
  Tensor values(dtype, {2});
  std::copy(off->span().begin(), off->span().end(), values.mutable_data());
  std::copy(on->span().begin(), on->span().end(), values.mutable_data() + off->bytes());
  return JoinedNodes{*std::move(nodes), false,
                     [indices, values, depth = places->size(), axis = *axis](ExportContext& c) {
                       c.result("OneHot", {c.value(indices), c.integer(depth), c.constant(values)},
                                Attributes().integer("axis", axis));
                     }};
}

}  // namespace camshaft::onnx
