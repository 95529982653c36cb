#include "optimize/layout/resize_after_conv.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/resize.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

// With fewer channels of the image, reading and adding the result again costs what the multiplications did.
constexpr int64_t least_channels = 32;

bool is_pointwise(const ops::Conv& op, const Shape& weights) {
  const auto all = [](const auto& values, auto wanted) {
    return std::all_of(values.begin(), values.end(), [&](const auto& v) { return v == wanted; });
  };
  return op.groups == 1 && weights.size() >= 3 && all(op.strides, int64_t{1}) && all(op.pads, Dim(0)) &&
         std::all_of(weights.begin() + 2, weights.end(), [](const Dim& d) { return d == Dim(1); });
}

class ResizeExchanger {
 public:
  ResizeExchanger(Graph& graph, ThreadPool& pool)
      : graph_(graph), pool_(pool), uses_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node, const std::vector<ValueId>& old_inputs) {
      const auto* conv = node.op.as<ops::Conv>();
      return conv && old_inputs[0] == node.inputs[0] ? exchange(*conv, node) : no_value;
    });
  }

 private:
  struct Part {
    ValueId value;              // the image before it is enlarged, or as it is
    const ops::Resize* resize;  // null: as it is
    int64_t first, channels;
  };

  bool is_used_once(ValueId id) const {
    const auto i = static_cast<size_t>(id);
    return i < uses_.readers.size() && uses_.readers[i].size() == 1 && !uses_.is_output[i];
  }

  // The resize that makes `id`, if it enlarges the image and nobody else wants the result.
  const ops::Resize* enlargement(ValueId id, size_t channel_axis) {
    const auto* op = producers_.op<ops::Resize>(id);
    if (!op || !is_used_once(id) || op->coordinate == ops::ResizeCoordinate::tf_crop_and_resize) return nullptr;
    if (producers_.find(id)->inputs.size() != 1) return nullptr;
    Dim in = 1, out = 1;
    const Shape &from = graph_.shape(producers_.find(id)->inputs[0]), &to = graph_.shape(id);
    for (const int64_t axis : op->axes) {
      if (axis == 0 || axis == static_cast<int64_t>(channel_axis)) return nullptr;
      in = in * from[static_cast<size_t>(axis)];
      out = out * to[static_cast<size_t>(axis)];
    }
    double growth = 1;
    for (const double scale : op->scales) growth *= scale;
    if (in.is_constant() && out.is_constant())
      growth = static_cast<double>(out.value()) / static_cast<double>(std::max<int64_t>(in.value(), 1));
    return growth >= 2 ? op : nullptr;
  }

  ValueId exchange(const ops::Conv& conv, const Node& node) {
    const Value& weights = graph_.value(node.inputs[1]);
    const size_t rank = graph_.shape(node.inputs[0]).size();
    if (!is_readable_constant(graph_, node.inputs[1]) || bit_width(weights.type.dtype) < 8 ||
        !is_pointwise(conv, weights.type.shape))
      return no_value;
    if (weights.constant->size() == 0) return no_value;
    const size_t axis = conv.channels_last ? rank - 1 : 1;
    std::vector<ValueId> operands{node.inputs[0]};
    if (const auto* concat = producers_.op<ops::Concat>(node.inputs[0])) {
      if (concat->axis != static_cast<int64_t>(axis) || !is_used_once(node.inputs[0])) return no_value;
      operands = producers_.find(node.inputs[0])->inputs;
    }
    const int64_t out_channels = weights.constant->dims()[0];
    std::vector<Part> enlarged, rest;
    int64_t first = 0;
    for (const ValueId id : operands) {
      const auto channels = graph_.shape(id)[axis].as_constant();
      if (!channels) return no_value;
      Shape shape = graph_.shape(id);
      shape[axis] = graph_.shape(node.inputs[0])[axis];
      if (shape != graph_.shape(node.inputs[0])) return no_value;
      const ops::Resize* resize = enlargement(id, axis);
      const bool pays = resize && *channels >= least_channels && out_channels <= 2 * *channels;
      const ValueId image = pays ? producers_.find(id)->inputs[0] : id;
      (pays ? enlarged : rest).push_back({image, pays ? resize : nullptr, first, *channels});
      first += *channels;
    }
    if (enlarged.empty() || first != weights.constant->dims()[1]) return no_value;
    return rebuild(conv, node, axis, enlarged, rest);
  }

  ValueId rebuild(const ops::Conv& conv, const Node& node, size_t axis, const std::vector<Part>& enlarged,
                  const std::vector<Part>& rest) {
    // Copies: what is added moves the nodes that the parts' operators lie in.
    std::vector<ops::Resize> resizes;
    for (const Part& part : enlarged) resizes.push_back(*part.resize);
    const ops::Conv op = conv;
    const Node like = node;
    // Only the whole sum is what the model calls so: parts have a name of their own.
    const std::string name = graph_.value(like.outputs[0]).name, part_name = name + ".part";
    const auto bias = like.inputs.size() > 2 ? like.inputs[2] : no_value;
    ValueId sum = no_value;
    const auto convolve = [&](ValueId image, const std::vector<Part>& parts) {
      std::vector<ValueId> inputs{image, add_weights(like.inputs[1], parts)};
      // Interpolation weights add up to one: a bias may come before or after.
      if (sum == no_value && bias != no_value) inputs.push_back(bias);
      return graph_.add(op, inputs, part_name, like.sources);
    };
    if (!rest.empty()) {
      std::vector<ValueId> images;
      for (const Part& part : rest) images.push_back(part.value);
      sum = convolve(images.size() == 1
                         ? images[0]
                         : graph_.add(ops::Concat{static_cast<int64_t>(axis)}, images, part_name, like.sources),
                     rest);
    }
    for (size_t i = 0; i < enlarged.size(); ++i) {
      const ValueId small = convolve(enlarged[i].value, {enlarged[i]});
      const std::string& sum_name = i + 1 == enlarged.size() ? name : part_name;
      const ValueId large = graph_.add(resizes[i], {small}, sum == no_value ? sum_name : part_name, like.sources);
      sum = sum == no_value ? large
                            : graph_.add(ops::Pointwise{ScalarFunction::add}, {sum, large}, sum_name, like.sources);
    }
    return sum;
  }

  // The weights [out, in, 1…] of some input channels.
  ValueId add_weights(ValueId weights, const std::vector<Part>& parts) {
    std::vector<Constant> picked;
    for (const Part& part : parts)
      picked.push_back(derive(ops::Slice{{1}, {part.first}, {part.channels}, {1}}, {graph_.constant(weights)}, pool_));
    return graph_.add_constant(graph_.value(weights).name,
                               picked.size() == 1 ? picked[0] : derive(ops::Concat{1}, picked, pool_));
  }

  Graph& graph_;
  ThreadPool& pool_;
  Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void resize_after_conv(Graph& graph, const PassContext& context) {
  ResizeExchanger(graph, context.pool).run();
}

}  // namespace camshaft
