#include "optimize/precision/expand_quantization.h"

#include <fmt/format.h>

#include <string_view>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/quantized.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// Appends the operators that stand for one node. What they hand on is named by what it is: the node's own name with a
// number behind it would be taken for its result, made anew (see shared_values()).
class Expansion {
 public:
  Expansion(Graph& graph, const Node& node)
      : graph_(graph), node_(node), name_(graph.value(node.outputs[0]).name), x_(node.inputs[0]) {}

  ValueId of(const ops::Quantize& op) const {
    const ValueId scale = parameter(1, op.axis, op.block), zero = parameter(2, op.axis, op.block);
    ValueId steps = apply(F::div, {cast(x_, op.precision, "x"), cast(scale, op.precision, "scale")}, "quotient");
    if (is_integer(op.dtype)) steps = apply(F::round, {steps}, "rounded");
    steps = cast(steps, DType::f32, "number");
    // A zero point of 0 changes nothing but the sign of 0, which steps have not.
    if (zero != no_value && !(is_integer(op.dtype) && uniform_constant(graph_, node_.inputs[2]) == 0.0))
      steps = apply(F::add, {steps, cast(zero, DType::f32, "zero")}, "steps");
    // Casts to whole bytes saturate by themselves; packed integers wrap.
    if (is_integer(op.dtype) && is_packed(op.dtype)) {
      const ops::StepRange range = ops::step_range(op.dtype);
      steps = apply(F::max, {steps, add_scalar(graph_, DType::f32, range.lowest)}, "bounded_below");
      steps = apply(F::min, {steps, add_scalar(graph_, DType::f32, range.highest)}, "bounded");
    }
    return add(ops::Cast{op.dtype, op.saturate}, steps, "result");
  }

  ValueId of(const ops::Dequantize& op) const {
    const ValueId scale = parameter(1, op.axis, op.block), zero = parameter(2, op.axis, op.block);
    ValueId value = x_;
    // In i32 the difference is exact where f32 would round before it.
    const bool wide = graph_.type(x_).dtype == DType::i32;
    if (wide && zero != no_value) value = apply(F::sub, {value, zero}, "distance");
    // Constants fold where they grow no more than eightfold at a time.
    const DType narrow = graph_.type(value).dtype;
    if (bit_width(narrow) == 2) value = cast(value, is_signed(narrow) ? DType::i8 : DType::u8, "byte");
    value = cast(value, DType::f32, "number");
    if (!wide && zero != no_value) value = apply(F::sub, {value, cast(zero, DType::f32, "zero")}, "distance");
    return cast(apply(F::mul, {value, cast(scale, DType::f32, "scale")}, "product"), op.dtype, "result");
  }

  ValueId of(const ops::RoundBlocks& op) const {
    const Shape whole = graph_.shape(x_);
    const int64_t k = whole.back().value(), block = std::min(op.block, k), blocks = (k + block - 1) / block;
    const auto axis = static_cast<int64_t>(whole.size()) - 1;
    ValueId x = x_;
    if (blocks * block != k) {
      ops::Pad pad;
      pad.pads = Shape(2 * whole.size(), Dim(0));
      pad.pads.back() = Dim(blocks * block - k);
      x = graph_.add(std::move(pad), {x, add_scalar(graph_, DType::f32, 0)}, name_ + ".whole_blocks", node_.sources);
    }
    Shape cut = whole;
    cut.back() = Dim(blocks);
    cut.emplace_back(block);
    x = reshaped(x, cut, "blocks");
    const ValueId magnitudes = apply(F::abs, {x}, "magnitudes");
    const ValueId largest = add(ops::Reduce{ops::ReduceKind::max, {axis + 1}, true}, magnitudes, "largest");
    const ValueId most = apply(F::max, {largest, add_scalar(graph_, DType::f32, ops::RoundBlocks::least)}, "most");
    const ValueId highest = add_scalar(graph_, DType::f32, ops::RoundBlocks::highest);
    const ValueId quotient = apply(F::mul, {x, apply(F::div, {highest, most}, "factor")}, "quotient");
    const ValueId steps = apply(F::round, {quotient}, "rounded");
    const ValueId rounded = apply(F::mul, {steps, apply(F::div, {most, highest}, "scale")}, "product");
    Shape joined = whole;
    joined.back() = Dim(blocks * block);
    const ValueId result = reshaped(rounded, joined, "rows");
    return joined == whole ? result : add(ops::Slice{{axis}, {Dim(0)}, {Dim(k)}, {1}}, result, "result");
  }

 private:
  ValueId add(Op op, ValueId x, std::string_view what) const {
    return graph_.add(std::move(op), {x}, fmt::format("{}.{}", name_, what), node_.sources);
  }
  ValueId apply(F function, std::vector<ValueId> operands, std::string_view what) const {
    return graph_.add(ops::Pointwise{function}, std::move(operands), fmt::format("{}.{}", name_, what), node_.sources);
  }
  ValueId cast(ValueId id, DType to, std::string_view what) const {
    return graph_.type(id).dtype == to ? id : add(ops::Cast{to}, id, what);
  }
  ValueId reshaped(ValueId id, Shape to, std::string_view what) const {
    return graph_.shape(id) == to ? id : add(ops::Reshape{std::move(to)}, id, what);
  }

  // Input i in a shape that broadcasts to x.
  ValueId parameter(size_t i, int64_t axis, int64_t block) const {
    const std::string_view what = i == 1 ? "scale" : "zero";
    const ValueId id = i < node_.inputs.size() ? node_.inputs[i] : no_value;
    if (id == no_value) return id;
    const Shape x = graph_.shape(x_);
    Shape shape = graph_.shape(id);
    const auto at = static_cast<size_t>(axis);
    if (shape.empty()) return id;
    if (shape.size() == 1 && (x.size() > 1 || block == 0)) {
      shape.resize(x.size() - at, Dim(1));
      return reshaped(id, std::move(shape), what);
    }
    if (shape[at] == x[at] || shape[at] == Dim(1)) return id;
    Shape split = shape;
    split.insert(split.begin() + axis + 1, Dim(1));
    const ValueId columns = reshaped(id, split, what);
    split[at + 1] = block;
    const ValueId repeated = add(ops::Expand{split}, columns, what);
    shape[at] = shape[at] * Dim(block);
    const ValueId whole = reshaped(repeated, shape, what);
    return shape[at] == x[at] ? whole : add(ops::Slice{{axis}, {Dim(0)}, {x[at]}, {1}}, whole, what);
  }

  Graph& graph_;
  const Node& node_;
  const std::string name_;
  const ValueId x_;
};

// Blocks are told apart by a reshape, to numbers of them.
bool can_expand(const Graph& graph, const Node& node) {
  const auto k = graph.shape(node.inputs[0]).back().as_constant();
  return k && *k > 0;
}

}  // namespace

void expand_quantization(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  for (Node& node : rewriter.nodes()) {
    rewriter.resolve(node);
    for (Graph& body : node.bodies) expand_quantization(body, context);
    const auto* quantize = node.op.as<ops::Quantize>();
    const auto* dequantize = node.op.as<ops::Dequantize>();
    const auto* rounding = node.op.as<ops::RoundBlocks>();
    if (!quantize && !dequantize && !(rounding && can_expand(graph, node))) {
      rewriter.keep(std::move(node));
      continue;
    }
    const Expansion expansion(graph, node);
    const ValueId old = node.outputs[0], result = quantize     ? expansion.of(*quantize)
                                                  : dequantize ? expansion.of(*dequantize)
                                                               : expansion.of(*rounding);
    // Layers are told by the names of their results.
    const std::string name = graph.value(old).name;
    graph.rename(old, name + ".expanded");
    graph.rename(result, name);
    rewriter.replace(old, result);
  }
  rewriter.finish();
}

}  // namespace camshaft
