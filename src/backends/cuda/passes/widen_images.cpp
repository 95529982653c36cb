#include "backends/cuda/passes/widen_images.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/region.h"
#include "ir/region_editor.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

constexpr int64_t pixel_piece = 8;  // elements of a pixel, behind this

// Of one operand and numbers; it may be transposed first. Images that come in the type that they are stored in are
// transposed and no more.
bool is_maker(const Node& node) {
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  if (node.op.as<ops::Cast>() || node.op.as<ops::Transpose>()) return true;
  const auto* region = node.op.as<ops::Region>();
  if (!region || region->kind != ops::RegionKind::pointwise) return false;
  const Graph& body = node.bodies[0];
  for (size_t n = 0; n < body.nodes.size(); ++n) {
    const Op& op = body.nodes[n].op;
    if (!op.as<ops::Pointwise>() && !op.as<ops::Cast>() && (n > 0 || !op.as<ops::Transpose>())) return false;
  }
  return std::all_of(body.values.begin(), body.values.end(),
                     [](const Value& value) { return !value.constant || value.constant->size() == 1; });
}

// What is repeated along an axis has fewer.
bool element_counts_differ(Shape a, Shape b) {
  if (a.size() != b.size()) return true;
  for (const Dim& d : a) {
    const auto it = std::find(b.begin(), b.end(), d);
    if (it == b.end()) return true;
    b.erase(it);
  }
  return false;
}

// How pixels are put together, and the convolution over what comes of it.
struct WidenedImages {
  int64_t channels = 0, pixels = 1;  // of a piece: each pixel's, and how many
  int64_t shift = 0;                 // taps by which windows begin earlier
  int64_t taps = 0;                  // of a row of the new window
  ops::Conv conv;
};

// Of an image [n, h, w, c] and weights [o, c, height, width].
std::optional<WidenedImages> widening(const ops::Conv& conv, const Shape& x, const Shape& weights, const Shape& y) {
  if (!conv.channels_last || conv.groups != 1 || x.size() != 4 || conv.dilations != std::vector<int64_t>{1, 1})
    return std::nullopt;
  const auto channels = x[3].as_constant(), width = x[2].as_constant(), out = y[2].as_constant();
  const auto left = conv.pads[1].as_constant(), taps = weights[3].as_constant();
  if (!channels || *channels < 1 || *channels >= pixel_piece || !taps) return std::nullopt;
  WidenedImages w;
  w.conv = conv;
  w.taps = *taps;
  w.channels = pixel_piece;
  constexpr int64_t most = 1 << 20;
  const int64_t stride = conv.strides[1];
  if (*channels > pixel_piece / 2 || !width || *width % 2 != 0 || stride % 2 != 0 || !left || *left < 0 ||
      *left > most || !out || *out < 1 || *out > most || *width > most || stride > most || *taps > most)
    return w;
  const int64_t shift = *left % 2, pairs = (*taps + shift + 1) / 2, pad = (*left + shift) / 2;
  // So many pairs as the last window needs; or none, where there are more than that.
  const int64_t right = std::max<int64_t>((*out - 1) * (stride / 2) + pairs - pad - *width / 2, 0);
  if ((*width / 2 + pad + right - pairs) / (stride / 2) + 1 != *out) return w;
  w.shift = shift;
  w.channels = pixel_piece / 2;
  w.pixels = 2;
  w.taps = pairs;
  w.conv.strides[1] = stride / 2;
  w.conv.pads[1] = pad;
  w.conv.pads[3] = right;
  return w;
}

// Zeros behind the channels, and in rows before and behind the taps; then the taps of a piece become channels of it.
Constant widened(const Constant& weights, const WidenedImages& w, ThreadPool& pool) {
  const Dims& d = weights.tensor->dims();
  ops::Pad pad;
  pad.pads = {0, 0, 0, w.shift, 0, w.channels - d[1], 0, w.taps * w.pixels - w.shift - d[3]};
  const Constant padded = derive(pad, {weights}, pool);
  const Constant split = derive_reshaped(padded, {d[0], w.channels, d[2], w.taps, w.pixels}, pool);
  const Constant turned = derive(ops::Transpose{{0, 4, 1, 2, 3}}, {split}, pool);
  return derive_reshaped(turned, {d[0], pixel_piece, d[2], w.taps}, pool);
}

// The node that makes the image, of which it gives all that is there (the operand has the image's shape, turned or
// not), with zeros behind its channels.
Node filled(Graph& graph, const Node& maker, const WidenedImages& w) {
  RegionEditor made = RegionEditor::around(graph, maker, ops::RegionKind::pointwise);
  const ValueId result = maker.outputs[0], image = made.inner_result(result);
  const Shape shape = made.body().shape(image);
  const std::string name = made.body().value(image).name;
  Shape pads(8, Dim(0));
  pads[7] = w.channels - *shape[3].as_constant();
  ValueId last = made.add(ops::Pad{.pads = pads}, {image}, name);
  if (w.pixels > 1)
    last = made.add(ops::Reshape{{shape[0], shape[1], *shape[2].as_constant() / w.pixels, pixel_piece}}, {last}, name);
  made.replace_result(result, last);
  return made.finish();
}

// A convolution whose pixels may be put together, and how.
struct Candidate {
  ValueId image, weights;  // of the graph
  WidenedImages wide;
};

std::optional<Candidate> candidate(const Graph& graph, const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  if (region && region->kind != ops::RegionKind::contract) return std::nullopt;
  const Node& anchor = first_operator(node);
  const auto* conv = anchor.op.as<ops::Conv>();
  if (!conv) return std::nullopt;
  const ValueId x = outer_operand(node, anchor.inputs[0]), weights = outer_operand(node, anchor.inputs[1]);
  if (x == no_value || weights == no_value || !is_readable_constant(graph, weights)) return std::nullopt;
  const DType dtype = graph.type(x).dtype;
  if ((dtype != DType::f16 && dtype != DType::bf16) || graph.type(weights).dtype != dtype) return std::nullopt;
  const Shape& y = (region ? node.bodies[0] : graph).shape(anchor.outputs[0]);
  const auto wide = widening(*conv, graph.shape(x), graph.shape(weights), y);
  return wide ? std::optional<Candidate>({x, weights, *wide}) : std::nullopt;
}

// Whether what makes the image may hand on other pieces: nobody else reads it.
bool has_maker(const Graph& graph, const Uses& uses, ValueId image) {
  const int32_t maker = uses.producer[static_cast<size_t>(image)];
  if (!uses.single(image) || maker < 0) return false;
  const Node& node = graph.nodes[static_cast<size_t>(maker)];
  return is_maker(node) && !element_counts_differ(graph.shape(node.inputs[0]), graph.shape(image));
}

// A conversion to the type that it has already before each convolution whose image nothing else may fill: the graph's
// own input, channels last, or what others read, too. Filling is a pass over the image then, which is few bytes.
void give_makers(Graph& graph) {
  const Uses uses(graph);
  std::vector<std::pair<size_t, ValueId>> images;  // the convolution's place in the graph, and what it reads
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto found = candidate(graph, graph.nodes[n]);
    if (found && !has_maker(graph, uses, found->image)) images.emplace_back(n, found->image);
  }
  for (size_t i = images.size(); i-- > 0;) {
    const auto [n, image] = images[i];
    const ValueId filled = graph.add(ops::Cast{.to = graph.type(image).dtype}, {image}, graph.value(image).name);
    std::replace(graph.nodes[n].inputs.begin(), graph.nodes[n].inputs.end(), image, filled);
    std::rotate(graph.nodes.begin() + static_cast<std::ptrdiff_t>(n), graph.nodes.end() - 1, graph.nodes.end());
  }
}

}  // namespace

void widen_images(Graph& graph, const PassContext& context) {
  give_makers(graph);
  bool changed = false;
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    const auto found = candidate(graph, node);
    if (!found) continue;
    const WidenedImages& wide = found->wide;
    Node& from = graph.nodes[static_cast<size_t>(uses.producer[static_cast<size_t>(found->image)])];
    const ValueId filled_weights = graph.add_constant(graph.value(found->weights).name,
                                                      widened(graph.constant(found->weights), wide, context.pool));
    from = filled(graph, from, wide);
    if (node.op.as<ops::Region>()) {
      RegionEditor wider(graph, std::move(node));
      wider.replace_operand(found->weights, filled_weights);
      wider.set_operator(0, wide.conv);
      node = wider.finish();
    } else {
      node.inputs[1] = filled_weights;
      node.op = wide.conv;
    }
    changed = true;
  }
  if (changed) remove_dead(graph);  // the weights as they were
}

}  // namespace camshaft
