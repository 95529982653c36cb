#include "optimize/canonicalize/conv_to_scale.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/rewriter.h"

namespace camshaft {

namespace {

// `weights` is [channels, 1, 1…].
bool scales_channels(const ops::Conv& op, const Shape& weights) {
  const auto all = [](const auto& values, auto wanted) {
    return std::all_of(values.begin(), values.end(), [&](const auto& v) { return v == wanted; });
  };
  return weights[0] == Dim(op.groups) && all(op.strides, int64_t{1}) && all(op.pads, Dim(0)) &&
         std::all_of(weights.begin() + 1, weights.end(), [](const Dim& d) { return d == Dim(1); });
}

}  // namespace

void conv_to_scale(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  rewriter.replace_each([&](const Node& node) {
    const auto* conv = node.op.as<ops::Conv>();
    if (!conv || !scales_channels(*conv, graph.shape(node.inputs[1]))) return no_value;
    const size_t spatial = conv->strides.size();
    Shape shape{Dim(conv->groups)};  // that broadcasting puts on the channels
    if (!conv->channels_last) shape.resize(1 + spatial, Dim(1));
    const Node convolution = node;
    const auto& inputs = convolution.inputs;
    const std::string name = graph.value(convolution.outputs[0]).name;
    const auto for_each_channel = [&](ValueId parameter) {
      return graph.add(ops::Reshape{shape}, {parameter}, graph.value(parameter).name, convolution.sources);
    };
    const auto apply = [&](ScalarFunction function, ValueId x, ValueId parameter) {
      return graph.add(ops::Pointwise{function}, {x, for_each_channel(parameter)}, name, convolution.sources);
    };
    const ValueId product = apply(ScalarFunction::mul, inputs[0], inputs[1]);
    const bool has_bias = inputs.size() > 2 && inputs[2] != no_value;
    return has_bias ? apply(ScalarFunction::add, product, inputs[2]) : product;
  });
}

}  // namespace camshaft
