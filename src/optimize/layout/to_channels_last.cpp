#include "optimize/layout/to_channels_last.h"

#include <algorithm>
#include <map>

#include "ir/ops/axis_order.h"
#include "ir/ops/move.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using Axes = ops::AxisOrder;
using ops::identity_order;
using ops::inverse;
using ops::reordered;

Axes last_order(size_t rank) {
  return ops::channels_last_order(rank);
}

Dim product(const Shape& shape, size_t begin, size_t end) {
  Dim p = 1;
  for (size_t i = begin; i < end; ++i) p = p * shape[i];
  return p;
}

// The end of the axes from 1 on that hold `count` elements together.
std::optional<size_t> axes_of(const Shape& shape, const Dim& count) {
  Dim p = 1;
  for (size_t k = 1; k < shape.size(); ++k) {
    p = p * shape[k];
    if (p == count) return k + 1;
  }
  return std::nullopt;
}

bool has_layout(size_t rank) {
  return rank >= 3 && rank <= 5;
}

// Values that become the image of a channels-last operator through moves and pointwise operators alone.
std::vector<bool> becomes_image(const Graph& graph) {
  std::vector<bool> image(graph.values.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const Traits& traits = node.op.traits();
    const bool carries = traits.layout == Layout::carries || traits.layout == Layout::regroups;
    if (traits.layout != Layout::image && !(carries && image[static_cast<size_t>(node.outputs[0])])) continue;
    for (size_t i = 0; i < std::min<size_t>(traits.layout_operands, node.inputs.size()); ++i)
      if (node.inputs[i] != no_value) image[static_cast<size_t>(node.inputs[i])] = true;
  }
  return image;
}

// A value of the model is transpose {permutation} (base).
struct Form {
  ValueId base = no_value;
  Axes permutation;
  // Reached through moves alone from a channels-last operator, or from a transpose of the model that leads to one.
  bool from_convolution = false;
  std::vector<std::string> sources = {};  // of transposes of the model that it stands for
};

class Layouts {
 public:
  explicit Layouts(Graph& graph)
      : graph_(graph), becomes_image_(becomes_image(graph)), rewriter_(graph), forms_(graph.values.size()) {}

  void run() {
    for (Node& node : rewriter_.nodes())
      if (!convert(node)) keep(std::move(node));
    for (const ValueId id : graph_.outputs) rewriter_.replace(id, as_modelled(id));
    rewriter_.finish();
    remove_dead(graph_);
  }

 private:
  // --- values ---

  const Form& form(ValueId id) {
    Form& f = forms_[static_cast<size_t>(id)];
    if (f.base == no_value) f = {id, identity_order(graph_.shape(id).size())};
    return f;
  }
  void define(ValueId id, ValueId base, Axes permutation) {
    forms_[static_cast<size_t>(id)] = {base, std::move(permutation), true};
  }
  void define_last(ValueId id, ValueId base) { define(id, base, inverse(last_order(graph_.shape(id).size()))); }

  bool is_last(ValueId id) {
    const size_t rank = graph_.shape(id).size();
    return has_layout(rank) && form(id).from_convolution && form(id).permutation == inverse(last_order(rank));
  }

  // The tensor transpose {order} (value).
  ValueId in_order(ValueId id, const Axes& order) {
    const Form f = form(id);
    const Axes permutation = reordered(f.permutation, order);
    if (permutation == identity_order(order.size())) return f.base;
    const auto [at, is_new] = transposed_.try_emplace({f.base, permutation}, no_value);
    if (is_new) {
      const std::string name = graph_.value(id).name;
      at->second = graph_.add(ops::Transpose{permutation}, {f.base}, name, f.sources);
    }
    return at->second;
  }
  ValueId as_modelled(ValueId id) { return in_order(id, identity_order(graph_.shape(id).size())); }
  ValueId as_last(ValueId id) { return in_order(id, last_order(graph_.shape(id).size())); }

  // An operand that broadcasts against channels-last tensors of `rank` axes.
  ValueId operand_as_last(ValueId id, size_t rank) {
    const Shape shape = graph_.shape(id);
    if (shape.size() == rank) return as_last(id);
    if (std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d == Dim(1); })) return as_modelled(id);
    Shape padded(rank - shape.size(), Dim(1));
    padded.insert(padded.end(), shape.begin(), shape.end());
    const std::string name = graph_.value(id).name;
    const ValueId reshaped = graph_.add(ops::Reshape{padded}, {as_modelled(id)}, name);
    return graph_.add(ops::Transpose{last_order(rank)}, {reshaped}, name);
  }

  ValueId add(Op op, std::vector<ValueId> inputs, const Node& like) {
    const std::string name = graph_.value(like.outputs[0]).name;
    return graph_.add(std::move(op), std::move(inputs), name, like.sources);
  }

  // --- operators ---

  void keep(Node&& node) {
    for (ValueId& id : node.inputs)
      if (id != no_value) id = as_modelled(id);
    rewriter_.keep(std::move(node));
  }

  bool convert(const Node& node) {
    if (node.outputs.size() != 1 || node.inputs.empty() || node.inputs[0] == no_value) return false;
    switch (node.op.traits().layout) {
      case Layout::fixed:
        return false;
      case Layout::image:
        return convert_window(node);
      case Layout::follows:
      case Layout::carries:
        return convert_follower(node);
      case Layout::regroups:
        if (const auto* op = node.op.as<ops::Reshape>()) return absorb_reshape(*op, node);
        return false;
      case Layout::permutes:
        if (const auto* op = node.op.as<ops::Transpose>()) return absorb_transpose(*op, node);
        return false;
    }
    return false;
  }

  // Its first input, and nothing else, has a layout. Contractions are worth a transpose; what pools or normalises
  // away from them runs as the model has it, but a pooling whose result becomes an image of theirs.
  bool convert_window(const Node& node) {
    const size_t rank = graph_.shape(node.inputs[0]).size();
    const bool pays = node.op.traits().kind == OpKind::contraction || is_last(node.inputs[0]) ||
                      (node.op.as<ops::Pool>() && becomes_image_[static_cast<size_t>(node.outputs[0])]);
    if (!pays || !has_layout(rank)) return false;
    const std::optional<Op> op = node.op.permuted(last_order(rank));
    return op && convert_first_input(*op, node);
  }

  bool convert_follower(const Node& node) {
    const bool any_last =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return id != no_value && is_last(id); });
    if (!any_last) return false;
    if (node.op.traits().kind == OpKind::pointwise) return convert_pointwise(node);
    if (node.op.traits().layout_operands == all_operands) return convert_all_inputs(node);
    if (!is_last(node.inputs[0])) return false;
    if (const auto* op = node.op.as<ops::Reduce>()) return convert_reduce(op->axes, op->keep_dims, node);
    if (const auto* op = node.op.as<ops::ArgReduce>()) return convert_reduce({op->axis}, op->keep_dims, node);
    if (node.op.as<ops::Expand>() && node.inputs.size() != 1) return false;  // its shape is data
    const std::optional<Op> op = node.op.permuted(last_order(graph_.shape(node.inputs[0]).size()));
    return op && convert_first_input(*op, node);
  }

  bool convert_first_input(Op op, const Node& node) {
    std::vector<ValueId> inputs{as_last(node.inputs[0])};
    for (size_t i = 1; i < node.inputs.size(); ++i)
      inputs.push_back(node.inputs[i] == no_value ? no_value : as_modelled(node.inputs[i]));
    define_last(node.outputs[0], add(std::move(op), std::move(inputs), node));
    return true;
  }

  bool convert_pointwise(const Node& node) {
    const size_t rank = graph_.shape(node.outputs[0]).size();
    // The operand that has the layout may be the one that is broadcast to more axes.
    if (std::none_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return is_last(id) && graph_.shape(id).size() == rank; }))
      return false;
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(operand_as_last(id, rank));
    define_last(node.outputs[0], add(node.op, std::move(inputs), node));
    return true;
  }

  // A concatenation, in the layout that most of its operands have.
  bool convert_all_inputs(const Node& node) {
    const auto last = std::count_if(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return is_last(id); });
    const auto other = std::count_if(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId id) { return !is_last(id) && !graph_.is_constant(id); });
    if (last < other) return false;
    const std::optional<Op> op = node.op.permuted(last_order(graph_.shape(node.outputs[0]).size()));
    if (!op) return false;
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(as_last(id));
    define_last(node.outputs[0], add(*op, std::move(inputs), node));
    return true;
  }

  // Without the reduced axes, the others may lie as in the model: always so when the channels are reduced, or all else.
  bool drops_to_modelled(const Axes& dropped, size_t rank) const {
    Axes left;
    for (const int64_t axis : last_order(rank))
      if (std::find(dropped.begin(), dropped.end(), axis) == dropped.end()) left.push_back(axis);
    return std::is_sorted(left.begin(), left.end());
  }

  bool convert_reduce(const Axes& reduced, bool keep_dims, const Node& node) {
    const size_t rank = graph_.shape(node.inputs[0]).size();
    const std::optional<Op> op = node.op.permuted(last_order(rank));
    if (!op) return false;
    if (keep_dims) return convert_first_input(*op, node);
    if (!drops_to_modelled(reduced, rank)) return false;
    const ValueId out = node.outputs[0];
    const ValueId made = add(*op, {as_last(node.inputs[0])}, node);
    forms_[static_cast<size_t>(out)] = {made, identity_order(graph_.shape(out).size())};
    return true;
  }

  // --- moves ---

  bool absorb_transpose(const ops::Transpose& op, const Node& node) {
    const Form f = form(node.inputs[0]);
    if (!f.from_convolution && !becomes_image_[static_cast<size_t>(node.outputs[0])]) return false;
    define(node.outputs[0], f.base, reordered(f.permutation, op.permutation));
    forms_[static_cast<size_t>(node.outputs[0])].sources = merged_sources(f.sources, node.sources);
    return true;
  }

  bool absorb_reshape(const ops::Reshape& op, const Node& node) {
    const ValueId x = node.inputs[0];
    if (node.inputs.size() != 1 || !form(x).from_convolution) return false;
    const Shape from = graph_.shape(x), to = op.shape;
    if (from.size() < 3 || to.size() < 3 || !(from[0] == to[0])) return false;
    return reshape_to_last(from, to, node) || split_axes(from, to, node);
  }

  // [n, c parts…, spatial…] → [n, c, other spatial…]: the parts go last, in their order, then all is a reshape again.
  bool reshape_to_last(const Shape& from, const Shape& to, const Node& node) {
    if (!has_layout(to.size())) return false;
    const auto channels_end = axes_of(from, to[1]);
    if (!channels_end || *channels_end == from.size() ||
        !(product(from, *channels_end, from.size()) == product(to, 2, to.size())))
      return false;
    Axes order{0};
    for (size_t i = *channels_end; i < from.size(); ++i) order.push_back(static_cast<int64_t>(i));
    for (size_t i = 1; i < *channels_end; ++i) order.push_back(static_cast<int64_t>(i));
    // Not where the tensor lies as the model has it: there the model's own reshape is free.
    const Axes& lies = form(node.inputs[0]).permutation;
    if (lies == identity_order(lies.size()) && order != lies) return false;
    const ValueId x = in_order(node.inputs[0], order);
    define_last(node.outputs[0], add(ops::Reshape{reordered(to, last_order(to.size()))}, {x}, node));
    return true;
  }

  // [n, c, spatial…], channels last, → [n, c parts…, spatial parts…]
  bool split_axes(const Shape& from, const Shape& to, const Node& node) {
    if (!is_last(node.inputs[0])) return false;
    const auto channels_end = axes_of(to, from[1]);
    if (!channels_end || *channels_end == to.size() ||
        !(product(to, *channels_end, to.size()) == product(from, 2, from.size())))
      return false;
    Axes order{0};
    for (size_t i = *channels_end; i < to.size(); ++i) order.push_back(static_cast<int64_t>(i));
    for (size_t i = 1; i < *channels_end; ++i) order.push_back(static_cast<int64_t>(i));
    const ValueId x = as_last(node.inputs[0]);
    define(node.outputs[0], add(ops::Reshape{reordered(to, order)}, {x}, node), inverse(order));
    return true;
  }

  Graph& graph_;
  const std::vector<bool> becomes_image_;  // of the model's values; before the rewriter takes the nodes
  Rewriter rewriter_;
  std::vector<Form> forms_;                                 // of the model's values
  std::map<std::pair<ValueId, Axes>, ValueId> transposed_;  // what was made of a base
};

}  // namespace

void to_channels_last(Graph& graph, const PassContext& /*context*/) {
  Layouts(graph).run();
}

}  // namespace camshaft
