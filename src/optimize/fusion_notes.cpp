#include "optimize/fusion_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ops/contraction.h"
#include "ops/pointwise.h"

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
        if (!ops::is_contraction(node(n).op) && !is_elementwise(node(n))) continue;
        const ValueId value = node(n).outputs[0];
        for (const int32_t reader : uses_.readers[static_cast<size_t>(value)]) {
          const int32_t other = unit_of_[static_cast<size_t>(reader)];
          if (other == static_cast<int32_t>(u) || !is_elementwise(node(reader)) || !told.insert(other).second) continue;
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

  std::string reason(const FusionUnit& unit, ValueId value, int32_t reader) const {
    const bool contracts = ops::is_contraction(node(unit.nodes.front()).op);
    const TensorType& result = graph_.type(node(unit.nodes.front()).outputs[0]);
    const TensorType& next = graph_.type(node(reader).outputs[0]);
    if (next.shape != result.shape)
      return fmt::format("its result is {}, of another shape than {}", to_string(next), to_string(result));
    if (contracts && !is_floating(result.dtype) && !ops::is_integer_contraction(node(unit.nodes.front()).op))
      return "this product is not of floating-point numbers";
    if (contracts && uses_.is_output[static_cast<size_t>(value)])
      return fmt::format("'{}' is an output of the model, so it is written anyway", graph_.value(value).name);
    const FusionUnit& other = units_[static_cast<size_t>(unit_of_[static_cast<size_t>(reader)])];
    if (ops::is_contraction(node(other.nodes.front()).op))
      return fmt::format("it is computed together with '{}'", name(other.nodes.front()));
    const size_t most = contracts ? max_epilogue_nodes : max_group_nodes;
    if (unit.nodes.size() >= most) return fmt::format("one kernel takes at most {} operators", most);
    if (unit.full) return fmt::format("one kernel takes at most {} inputs and results", max_group_operands);
    if (!contracts) return "an operator between the two cannot be part of the group";
    const auto fits = [&](ValueId id) {
      return may_stand_behind(node(unit.nodes.front()), result.dtype, graph_.type(id).dtype);
    };
    if (!fits(node(reader).outputs[0]) || !std::all_of(node(reader).inputs.begin(), node(reader).inputs.end(), fits))
      return fmt::format("it has operands of other types than {}", to_string(result.dtype));
    const size_t readers = uses_.readers[static_cast<size_t>(value)].size();
    if (readers > 1)
      return fmt::format("{} operators read '{}', and what they compute does not meet in one result", readers,
                         graph_.value(value).name);
    return "what follows it does not meet in one result";
  }

  const Graph& graph_;
  const Uses& uses_;
  const std::vector<FusionUnit>& units_;
  const std::vector<int32_t>& unit_of_;
};

}  // namespace

bool may_stand_behind(const Node& contraction, DType result, DType dtype) {
  if (dtype == DType::boolean || dtype == result) return true;
  return ops::is_integer_contraction(contraction.op) &&
         (dtype == DType::f32 || dtype == DType::i8 || dtype == DType::u8);
}

bool is_elementwise(const Node& node) {
  return node.op.as<ops::Pointwise>() || node.op.as<ops::Cast>();
}

void note_partings(const Graph& graph, const Uses& uses, const std::vector<FusionUnit>& units,
                   const std::vector<int32_t>& unit_of, PassNotes& notes) {
  Partings(graph, uses, units, unit_of).note(notes);
}

}  // namespace camshaft
