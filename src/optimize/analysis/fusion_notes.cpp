#include "optimize/analysis/fusion_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/ops/contraction.h"
#include "ir/ops/float8.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"

namespace camshaft {

namespace {

class Partings {
 public:
  Partings(const Graph& graph, const Uses& uses, const std::vector<FusionUnit>& units,
           const std::vector<int32_t>& unit_of)
      : graph_(graph), uses_(uses), units_(units), unit_of_(unit_of) {}

  void note(PassNotes& notes) const {
    for (size_t u = 0; u < units_.size(); ++u) {
      std::set<int32_t> told;  // units that some result of this one was noted for
      for (const int32_t n : units_[u].nodes) {
        const bool is_step = is_elementwise(node(n));
        if (!ops::is_contraction(node(n).op) && !is_reduction(n) && !is_step) continue;
        const ValueId value = node(n).outputs[0];
        for (const int32_t reader : uses_.readers[static_cast<size_t>(value)]) {
          const int32_t other = unit_of_[static_cast<size_t>(reader)];
          // A reduction takes in no contraction: what it needs is said where the layers are known (note_borders).
          const bool reduces = is_step && is_reduction(reader) && !ops::is_contraction(node(units_[u].nodes[0]).op);
          if (!is_elementwise(node(reader)) && !reduces) continue;
          if (other == static_cast<int32_t>(u) || !told.insert(other).second) continue;
          notes[graph_.value(value).name].push_back(
              fmt::format("not fused with '{}': {}", name(reader), reason(units_[u], value, reader)));
        }
      }
    }
  }

 private:
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }

  std::string name(int32_t n) const {
    return node(n).sources.empty() ? graph_.value(node(n).outputs[0]).name : node(n).sources.front();
  }

  bool is_reduction(int32_t n) const { return node(n).op.as<ops::Reduce>() != nullptr; }

  // What the unit is built around: its contraction, its reduction, or else its first operator.
  int32_t anchor_of(const FusionUnit& unit) const {
    const auto it = std::find_if(unit.nodes.begin(), unit.nodes.end(), [&](int32_t n) { return is_reduction(n); });
    return it == unit.nodes.end() ? unit.nodes.front() : *it;
  }

  std::string is_written(ValueId value) const {
    return fmt::format("'{}' is an output of the model, so it is written anyway", graph_.value(value).name);
  }

  std::string is_alone(int32_t reduction) const {
    return fmt::format("a reduction of {} along {} axes is a step of its own",
                       to_string(graph_.type(node(reduction).inputs[0])),
                       node(reduction).op.as<ops::Reduce>()->axes.size());
  }

  std::string reason(const FusionUnit& unit, ValueId value, int32_t reader) const {
    const int32_t anchor = anchor_of(unit);
    const FusionUnit& other = units_[static_cast<size_t>(unit_of_[static_cast<size_t>(reader)])];
    const int32_t target = anchor_of(other);
    const bool contracts = ops::is_contraction(node(anchor).op), reduces = is_reduction(anchor);
    if (!contracts && !reduces && is_reduction(target) && reader <= target) return reason_before(value, reader, target);
    const TensorType& result = graph_.type(node(anchor).outputs[0]);
    const TensorType& next = graph_.type(node(reader).outputs[0]);
    if (next.shape != result.shape)
      return fmt::format("its result is {}, of another shape than {}", to_string(next), to_string(result));
    if (contracts && !is_floating(result.dtype) && !ops::is_byte_contraction(node(anchor).op))
      return "this product is not of floating-point numbers";
    if (reduces && !takes_steps(graph_, node(anchor))) return is_alone(anchor);
    if ((contracts || reduces) && uses_.is_output[static_cast<size_t>(value)]) return is_written(value);
    if (ops::is_contraction(node(target).op) || (is_reduction(target) && !contracts))
      return fmt::format("it is computed together with '{}'", name(target));
    const size_t most = contracts || reduces ? max_epilogue_nodes : max_group_nodes;
    if (unit.nodes.size() >= most) return fmt::format("one kernel takes at most {} operators", most);
    if (unit.full) return fmt::format("one kernel takes at most {} inputs and results", max_group_operands);
    if (!contracts && !reduces) return "an operator between the two cannot be part of the group";
    const auto fits = [&](ValueId id) { return may_stand_behind(node(anchor), result.dtype, graph_.type(id).dtype); };
    if (!fits(node(reader).outputs[0]) || !std::all_of(node(reader).inputs.begin(), node(reader).inputs.end(), fits))
      return fmt::format("it has operands of other types than {}", to_string(result.dtype));
    const size_t readers = uses_.readers[static_cast<size_t>(value)].size();
    if (readers > 1)
      return fmt::format("{} operators read '{}', and what they compute does not meet in one result", readers,
                         graph_.value(value).name);
    return "what follows it does not meet in one result";
  }

  // Why `value` is not computed where the reduction reads it, or the step before that which is its reader.
  std::string reason_before(ValueId value, int32_t reader, int32_t reduction) const {
    const TensorType &type = graph_.type(value), &reduced = graph_.type(node(reduction).inputs[0]);
    if (type.shape != reduced.shape)
      return fmt::format("it is {}, of another shape than the {} that '{}' reduces", to_string(type),
                         to_string(reduced), name(reduction));
    if (uses_.is_output[static_cast<size_t>(value)]) return is_written(value);
    const size_t readers = uses_.readers[static_cast<size_t>(value)].size();
    if (readers > 1) return fmt::format("{} operators read '{}'", readers, graph_.value(value).name);
    if (reader == reduction && !takes_steps(graph_, node(reduction))) return is_alone(reduction);
    if (!may_be_step(graph_, node(uses_.producer[static_cast<size_t>(value)])))
      return "it has operands of types that take less than a byte or two";
    return fmt::format("one kernel takes at most {} operators and {} inputs before a reduction", max_group_nodes,
                       max_reduced_operands);
  }

  const Graph& graph_;
  const Uses& uses_;
  const std::vector<FusionUnit>& units_;
  const std::vector<int32_t>& unit_of_;
};

// Whether the steps before a reduction, or the reduction, may take or make a `dtype`.
bool is_step_type(DType dtype) {
  return is_floating(dtype) ? bit_width(dtype) >= 16 : is_integer(dtype) && bit_width(dtype) >= 8;
}

}  // namespace

bool may_stand_behind(const Node& anchor, DType result, DType dtype) {
  if (dtype == DType::boolean || dtype == result) return true;
  return ops::is_byte_contraction(anchor.op) && (dtype == DType::f32 || is_byte(dtype) || ops::is_float8(dtype));
}

bool takes_steps(const Graph& graph, const Node& node) {
  const auto* reduce = node.op.as<ops::Reduce>();
  if (!reduce || reduce->axes.empty() || graph.shape(node.inputs[0]).size() > max_reduced_axes) return false;
  return is_step_type(graph.type(node.inputs[0]).dtype);
}

bool may_be_step(const Graph& graph, const Node& node) {
  const auto fits = [&](ValueId id) {
    const DType dtype = graph.type(id).dtype;
    return dtype == DType::boolean || is_step_type(dtype);
  };
  return fits(node.outputs[0]) && std::all_of(node.inputs.begin(), node.inputs.end(), fits);
}

bool is_elementwise(const Node& node) {
  return node.op.as<ops::Pointwise>() || node.op.as<ops::Cast>();
}

void note_partings(const Graph& graph, const Uses& uses, const std::vector<FusionUnit>& units,
                   const std::vector<int32_t>& unit_of, PassNotes& notes) {
  Partings(graph, uses, units, unit_of).note(notes);
}

}  // namespace camshaft
