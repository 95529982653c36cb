#include "optimize/precision/widen_narrow_floats.h"

#include <algorithm>

#include "ir/ops/control_flow.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

// The operator with the type that it names itself, if that is a half, in f32.
Op named_in_f32(const Op& op) {
  if (const auto* quantize = op.as<ops::Quantize>(); quantize && is_half(quantize->precision)) {
    ops::Quantize wide = *quantize;
    wide.precision = DType::f32;
    return wide;
  }
  if (const auto* dequantize = op.as<ops::Dequantize>(); dequantize && is_half(dequantize->dtype)) {
    ops::Dequantize wide = *dequantize;
    wide.dtype = DType::f32;
    return wide;
  }
  return op;
}

class WideGraph {
 public:
  WideGraph(Graph& graph, const PassContext& context)
      : old_(std::move(graph)),
        graph_(graph),
        context_(context),
        own_(old_.values.size(), no_value),
        wide_(old_.values.size(), no_value),
        is_rounded_(old_.values.size(), false) {}

  void run() {
    graph_ = Graph();
    graph_.name = old_.name;
    for (const ValueId id : old_.inputs) own_[at(id)] = graph_.add_input(old_.value(id).name, old_.type(id));
    for (const Node& node : old_.nodes) {
      if (const auto* cast = node.op.as<ops::Cast>())
        convert(node, *cast);
      else
        copy(node, reads_in_f32(node));
    }
    for (size_t o = 0; o < old_.outputs.size(); ++o) graph_.add_output(old_.output_names[o], own(old_.outputs[o]));
    remove_dead(graph_);
  }

 private:
  static size_t at(ValueId id) { return static_cast<size_t>(id); }
  bool is_half_value(ValueId id) const { return id != no_value && is_half(old_.type(id).dtype); }

  bool reads_in_f32(const Node& node) const {
    const Widening widening = node.op.traits().widening;
    return widening == Widening::computes || (widening == Widening::moves && reads_wide(node));
  }

  // Whether a conversion to a half is one that changes numbers. It is no such thing of what a half has all of.
  bool rounds(ValueId from, DType to) const {
    const DType dtype = old_.type(from).dtype;
    if (is_half(dtype)) return dtype == to ? is_rounded_[at(from)] : true;
    if (dtype == DType::f8e8m0) return to == DType::f16;  // powers of two up to 2^127
    return holds_objects(dtype) || bit_width(dtype) > 8;  // a text is any number
  }

  // Whether an operand is at hand in f32 alone.
  bool reads_wide(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId id) { return is_half_value(id) && wide_[at(id)] != no_value; });
  }

  // The value of the new graph in its own type, …
  ValueId own(ValueId id) {
    ValueId& made = own_[at(id)];
    if (made != no_value) return made;
    const Value& value = old_.value(id);
    return made = value.constant ? graph_.add_constant(value.name, old_.constant(id))
                                 : graph_.add(ops::Cast{.to = value.type.dtype}, {wide_[at(id)]}, value.name);
  }

  // … and that of a half in f32.
  ValueId wide(ValueId id) {
    ValueId& made = wide_[at(id)];
    if (made != no_value) return made;
    const Value& value = old_.value(id);
    if (!value.constant) return made = graph_.add(ops::Cast{.to = DType::f32}, {own(id)}, value.name);
    return made = graph_.add_constant(value.name, derive_converted(old_.constant(id), DType::f32));
  }

  void copy(const Node& node, bool widened) {
    std::vector<ValueId> inputs;
    std::vector<std::string> names;
    for (const ValueId id : node.inputs)
      inputs.push_back(id == no_value ? no_value : widened && is_half_value(id) ? wide(id) : own(id));
    for (const ValueId id : node.outputs) names.push_back(old_.value(id).name);
    std::vector<Graph> bodies = node.bodies;
    if (node.op.as<ops::If>())  // bodies of loops run without kernels
      for (Graph& body : bodies) widen_narrow_floats(body, context_);
    const auto made = graph_.add_node(named_in_f32(node.op), inputs, names, node.sources, std::move(bodies));
    for (size_t o = 0; o < made.size(); ++o) {
      const bool same = graph_.type(made[o]).dtype == old_.type(node.outputs[o]).dtype;
      (same ? own_ : wide_)[at(node.outputs[o])] = made[o];
      is_rounded_[at(node.outputs[o])] = !same && node.op.traits().widening == Widening::moves &&
                                         std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                                           return is_half_value(id) && is_rounded_[at(id)];
                                         });
    }
  }

  // A conversion to a half is put off, one to f32 is what wide() makes, and others read what is at hand.
  void convert(const Node& node, const ops::Cast& cast) {
    const ValueId from = node.inputs[0], result = node.outputs[0];
    const bool to_half = is_half(cast.to);
    const DType target = to_half ? DType::f32 : cast.to;
    // What the model has rounded on purpose and now reads is rounded here: own() is the conversion to the half.
    const bool is_read_back = is_half_value(from) && is_rounded_[at(from)] && cast.to != old_.type(from).dtype;
    const bool widened = is_half_value(from) && !is_read_back && (target == DType::f32 || wide_[at(from)] != no_value);
    ValueId made = widened ? wide(from) : own(from);
    if (graph_.type(made).dtype != target) {
      ops::Cast own_cast = cast;
      own_cast.to = target;
      made = graph_.add_node(own_cast, {made}, {old_.value(result).name}, node.sources)[0];
    }
    (to_half ? wide_ : own_)[at(result)] = made;
    if (to_half) is_rounded_[at(result)] = rounds(from, cast.to);
  }

  const Graph old_;
  Graph& graph_;
  const PassContext& context_;
  std::vector<ValueId> own_, wide_;  // of each old value, in the new graph
  std::vector<bool> is_rounded_;     // halves that the model has converted, and moved at most, since they were wider
};

}  // namespace

void widen_narrow_floats(Graph& graph, const PassContext& context) {
  const bool has_halves = std::any_of(graph.values.begin(), graph.values.end(),
                                      [](const Value& value) { return is_half(value.type.dtype); });
  if (has_halves) WideGraph(graph, context).run();
}

}  // namespace camshaft
