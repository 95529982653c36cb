#include "backends/cpu/passes/chain_convolutions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/region.h"
#include "optimize/edit/chain_nodes.h"

namespace camshaft {

namespace {

enum class Role : uint8_t { other, pointwise, depthwise, gate, stem, transposed, to_last, to_first, turned, max_pool };

// Images have 1 to 4 channels: grey, colours, colours and depth.
constexpr int64_t most_image_channels = 4;
// Transposed convolutions of more make pixels of whole vectors (tactics/conv_transpose_planes.h).
constexpr int64_t most_plane_channels = 16;
// As many as columns are made of (kernels/conv/conv_columns.h).
constexpr int64_t most_terms = 4096;

/// A node seen as a part of a chain.
struct Part {
  Role role = Role::other;
  ValueId x = no_value, weights = no_value;  // of a gate: the image, and what it is multiplied by
  bool may_stand_alone = false;              // a convolution, between transposes or none (tactics/conv_planes.h)
  // Whether its image, its result has one channel or one pixel: channels first and last at once.
  bool one_in = false, one_out = false;
};

// image[n, h, w, c] times gates[n, 1, 1, c].
Part view_gate(const Graph& graph, const Node& node) {
  for (size_t image = 0; image < 2; ++image) {
    const ValueId x = node.inputs[image], gates = node.inputs[1 - image];
    if (graph.type(x).dtype != DType::f32 || graph.is_constant(gates)) continue;
    const Shape &of_x = graph.shape(x), &of_gates = graph.shape(gates);
    if (of_x.size() != 4 || of_gates != Shape{of_x[0], 1, 1, of_x[3]} || of_x == of_gates) continue;
    return {Role::gate, x, gates};
  }
  return {};
}

// A transpose of an image, from channels first to channels last or back. Over one axis either may be both: what it is
// follows from the convolution beside it.
bool is_transpose(const Graph& graph, const Node& node, const std::vector<int64_t>& permutation) {
  const auto* op = node.op.as<ops::Transpose>();
  return op && op->permutation == permutation && graph.type(node.inputs[0]).dtype == DType::f32;
}

bool are_constant(const Shape& weights) {
  return std::all_of(weights.begin(), weights.end(), [](const Dim& d) { return d.as_constant().has_value(); });
}

// Whether a convolution over up to three axes may be faster by itself, on images with the channels first, than between
// two transposes: the sums have few terms, and the result many, or it is one by steps of one pixel to fewer channels
// (kernels/conv/kn2row.h), whose weights, of any number, are packed once. What is, is measured.
bool may_stand_alone(const ops::Conv& op, const Shape& weights, bool is_constant) {
  if (op.groups <= 0 || !are_constant(weights)) return false;
  const bool has_steps = std::any_of(op.strides.begin(), op.strides.end(), [](int64_t s) { return s != 1; });
  const bool has_taps = std::any_of(weights.begin() + 2, weights.end(), [](const Dim& size) { return size != Dim(1); });
  if (is_constant && has_taps && !has_steps && *weights[0].as_constant() / op.groups < *weights[1].as_constant())
    return true;
  int64_t terms = 1;
  for (size_t a = 1; a < weights.size(); ++a) {
    const int64_t size = *weights[a].as_constant();
    if (size > most_terms) return false;
    terms *= size;
    if (terms > most_terms) return false;
  }
  return true;
}

// Whether Winograd's transforms may be faster than a convolution that stands alone: the parts of a chain may not round
// as F(4,3) does. See offer_winograd().
bool takes_winograd(const ops::Conv& op, const Shape& weights, bool is_constant) {
  constexpr int64_t least_channels = 16;
  const auto is_wide = [](const Dim& channels) { return channels.as_constant().value_or(0) >= least_channels; };
  return is_constant && weights.size() == 4 && op.groups == 1 && weights[2] == Dim(3) && weights[3] == Dim(3) &&
         is_wide(weights[0]) && is_wide(weights[1]) &&
         std::all_of(op.strides.begin(), op.strides.end(), [](int64_t s) { return s == 1; });
}

// Of an image with the channels last.
bool is_one_channel_or_pixel(const Shape& shape) {
  return shape.size() > 2 && (shape.back() == Dim(1) || std::all_of(shape.begin() + 1, shape.end() - 1,
                                                                    [](const Dim& size) { return size == Dim(1); }));
}

bool is_max_pool(const Node& node) {
  const auto* op = node.op.as<ops::Pool>();
  return op && op->kind == ops::PoolKind::max && op->channels_last && op->kernel.size() == 2;
}

Part view_part(const Graph& graph, const Node& node) {
  if (const auto* op = node.op.as<ops::Pointwise>(); op && op->function == ScalarFunction::mul)
    return view_gate(graph, node);
  if (is_max_pool(node)) return {Role::max_pool, node.inputs[0], no_value};
  for (const std::vector<int64_t>& permutation : {std::vector<int64_t>{0, 2, 3, 1}, {0, 2, 3, 4, 1}})
    if (is_transpose(graph, node, permutation)) return {Role::to_last, node.inputs[0], no_value};
  for (const std::vector<int64_t>& permutation : {std::vector<int64_t>{0, 3, 1, 2}, {0, 4, 1, 2, 3}})
    if (is_transpose(graph, node, permutation)) return {Role::to_first, node.inputs[0], no_value};
  if (is_transpose(graph, node, {0, 2, 1})) return {Role::turned, node.inputs[0], no_value};
  const Node& conv = first_operator(node);
  const auto* op = conv.op.as<ops::Conv>();
  const auto* transposed = conv.op.as<ops::ConvTranspose>();
  const bool channels_last = op ? op->channels_last : transposed && transposed->channels_last;
  if (!channels_last || conv.inputs.size() < 2) return {};
  Part part{Role::other, sole_operand(node, 0), sole_operand(node, 1)};
  if (part.x == no_value || part.weights == no_value || part.weights == part.x) return {};
  const Shape& w = graph.shape(part.weights);
  const auto is_f32 = [&](ValueId id) { return graph.type(id).dtype == DType::f32; };
  if (w.size() < 3 || w.size() > 5 || graph.shape(part.x).size() != w.size() || !is_f32(part.x) ||
      !is_f32(part.weights))
    return {};
  const std::optional<int64_t> channels = w[1].as_constant();
  part.one_in = is_one_channel_or_pixel(graph.shape(part.x));
  part.one_out = is_one_channel_or_pixel(graph.shape(node.outputs[0]));
  const bool is_constant = graph.is_constant(part.weights);  // others may stand alone, and nothing else
  if (transposed && w.size() == 4 && channels && *channels <= most_plane_channels && is_constant)
    part.role = Role::transposed;
  part.may_stand_alone =
      part.role == Role::other && (op ? may_stand_alone(*op, w, is_constant) && !takes_winograd(*op, w, is_constant)
                                      : transposed->groups > 0 && are_constant(w));
  if (transposed || w.size() != 4) return part;
  if (!is_constant) return part;
  const bool one_by_one = w[2] == Dim(1) && w[3] == Dim(1);
  const bool unmoved = std::all_of(op->strides.begin(), op->strides.end(), [](int64_t s) { return s == 1; }) &&
                       std::all_of(op->pads.begin(), op->pads.end(), [](const Dim& pad) { return pad == Dim(0); });
  if (op->groups == 1 && !one_by_one && channels && *channels <= most_image_channels) part.role = Role::stem;
  if (op->groups == 1 && one_by_one && unmoved) part.role = Role::pointwise;
  if (op->groups > 1 && w[0] == Dim(op->groups) && w[1] == Dim(1)) part.role = Role::depthwise;
  return part;
}

class Chainer {
 public:
  Chainer(Graph& graph, PassNotes* notes) : graph_(graph), uses_(graph), notes_(notes), taken_(graph.nodes.size()) {
    for (const Node& node : graph.nodes) parts_.push_back(view_part(graph, node));
  }

  void run() {
    std::map<int32_t, std::vector<int32_t>> chains;  // by their last part
    for (int32_t n = 0; n < static_cast<int32_t>(graph_.nodes.size()); ++n) {
      if (part(n).role != Role::stem || (part(n).may_stand_alone && stands_alone(n))) continue;
      std::vector<int32_t> chain{n};
      const int32_t before = uses_.producer[static_cast<size_t>(part(n).x)];
      if (before >= 0 && part(before).role == Role::to_last && can_join(before, before, n))
        chain.insert(chain.begin(), before);
      const std::vector<int32_t>& readers = uses_.readers[static_cast<size_t>(result(n))];
      if (readers.size() == 1 && part(readers[0]).role == Role::max_pool && can_join(readers[0], n, readers[0]))
        chain.push_back(readers[0]);
      take(chain, chains);
    }
    for (int32_t n = 0; n < static_cast<int32_t>(graph_.nodes.size()); ++n)
      if (part(n).role == Role::transposed) take(with_transposes(n), chains);
    for (int32_t n = 0; n < static_cast<int32_t>(graph_.nodes.size()); ++n) {
      if (part(n).role != Role::depthwise) continue;
      std::vector<int32_t> chain{n};
      const int32_t before = uses_.producer[static_cast<size_t>(part(n).x)];
      if (before >= 0 && part(before).role == Role::pointwise && can_join(before, before, n))
        chain.insert(chain.begin(), before);
      for (const int32_t after : uses_.readers[static_cast<size_t>(result(n))]) {
        if (part(after).role != Role::pointwise || part(after).x != result(n)) continue;
        if (can_join(after, n, after)) chain.push_back(after);
        break;
      }
      take(chain, chains);
    }
    for (int32_t n = 0; n < static_cast<int32_t>(graph_.nodes.size()); ++n) {
      if (part(n).role != Role::pointwise || taken_[static_cast<size_t>(n)]) continue;
      const int32_t before = uses_.producer[static_cast<size_t>(part(n).x)];
      if (before < 0 || part(before).role != Role::gate || !can_join(before, before, n)) continue;
      take({before, n}, chains);
    }
    // Convolutions, transposed ones too, that stand alone (tactics/conv_planes.h, conv_transpose_planes.h).
    for (int32_t n = 0; n < static_cast<int32_t>(graph_.nodes.size()); ++n) {
      if (!part(n).may_stand_alone || taken_[static_cast<size_t>(n)] || !stands_alone(n)) continue;
      const size_t transposes = (part(n).one_in ? 0U : 1U) + (part(n).one_out ? 0U : 1U);
      if (std::vector<int32_t> chain = with_transposes(n); chain.size() > transposes) take(chain, chains);
    }
    make_chains(graph_, chains);
  }

 private:
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  const Part& part(int32_t n) const { return parts_[static_cast<size_t>(n)]; }
  ValueId result(int32_t n) const { return node(n).outputs[0]; }
  const std::string& name(ValueId id) const { return graph_.value(id).name; }
  std::string source(int32_t n) const { return node(n).sources.empty() ? name(result(n)) : node(n).sources.front(); }

  // A convolution and the transposes around it that may join it.
  std::vector<int32_t> with_transposes(int32_t n) {
    std::vector<int32_t> chain{n};
    const int32_t before = uses_.producer[static_cast<size_t>(part(n).x)];
    if (before >= 0 && turns(before, Role::to_last) && can_join(before, before, n)) chain.insert(chain.begin(), before);
    const std::vector<int32_t>& readers = uses_.readers[static_cast<size_t>(result(n))];
    if (readers.size() == 1 && turns(readers[0], Role::to_first) && can_join(readers[0], n, readers[0]))
      chain.push_back(readers[0]);
    return chain;
  }

  // Whether there is a transpose on either side where there are several channels: not worth a word otherwise.
  bool stands_alone(int32_t n) const {
    const int32_t before = uses_.producer[static_cast<size_t>(part(n).x)];
    const std::vector<int32_t>& readers = uses_.readers[static_cast<size_t>(result(n))];
    return (part(n).one_in || (before >= 0 && turns(before, Role::to_last))) &&
           (part(n).one_out || (readers.size() == 1 && turns(readers[0], Role::to_first)));
  }

  bool turns(int32_t n, Role way) const { return part(n).role == way || part(n).role == Role::turned; }

  void take(const std::vector<int32_t>& chain, std::map<int32_t, std::vector<int32_t>>& chains) {
    if (chain.size() == 1) return;
    for (const int32_t member : chain) taken_[static_cast<size_t>(member)] = true;
    chains[chain.back()] = chain;
  }

  // Whether `second` may follow `first` in a chain that `joining`, one of them, is asked to join.
  bool can_join(int32_t joining, int32_t first, int32_t second) {
    const std::optional<std::string> reason = hindrance(joining, first);
    if (reason && notes_)
      (*notes_)[name(result(first))].push_back(fmt::format("not chained with '{}': {}", source(second), *reason));
    return !reason;
  }

  std::optional<std::string> hindrance(int32_t joining, int32_t first) const {
    const ValueId between = result(first);
    if (uses_.is_output[static_cast<size_t>(between)])
      return fmt::format("'{}' is an output of the model, so it is written anyway", name(between));
    if (const size_t readers = uses_.readers[static_cast<size_t>(between)].size(); readers > 1)
      return fmt::format("{} operators read '{}'", readers, name(between));
    if (taken_[static_cast<size_t>(joining)]) return fmt::format("'{}' is in another chain", source(joining));
    for (const ValueId id : node(first).inputs) {
      if (id == no_value || id == part(first).x || id == part(first).weights) continue;
      const Shape& shape = graph_.shape(id);
      if (!std::all_of(shape.begin(), shape.empty() ? shape.end() : shape.end() - 1,
                       [](const Dim& d) { return d == Dim(1); }))
        return fmt::format("'{}' is computed with '{}', which is more than one element a channel", name(between),
                           name(id));
    }
    return std::nullopt;
  }

  Graph& graph_;
  Uses uses_;
  PassNotes* notes_;
  std::vector<Part> parts_;  // of each node
  std::vector<bool> taken_;  // into a chain
};

}  // namespace

void chain_convolutions(Graph& graph, const PassContext& context) {
  remove_dead(graph);
  Chainer(graph, context.notes).run();
}

}  // namespace camshaft
