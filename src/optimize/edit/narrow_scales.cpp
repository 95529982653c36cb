#include "optimize/edit/narrow_scales.h"

#include "ir/ops/weight_only.h"
#include "ir/region.h"
#include "ir/region_editor.h"
#include "reference/derived_constant.h"

namespace camshaft {

void narrow_scales(Graph& graph, DType dtype, const std::function<bool(const Value& scale)>& fits) {
  for (Node& node : graph.nodes) {
    const Node& first = first_operator(node);
    if (!first.op.as<ops::WeightOnlyMatMul>()) continue;
    const bool is_region = &first != &node;
    const Graph& own = is_region ? node.bodies[0] : graph;
    if (own.type(first.inputs[0]).dtype != dtype || own.type(first.inputs[2]).dtype != DType::f32) continue;
    RegionEditor region = RegionEditor::around(graph, node, ops::RegionKind::contract);
    const ValueId scale = is_region ? region.outer(first.inputs[2]) : first.inputs[2];
    if (!graph.is_constant(scale) || graph.value(scale).constant->is_elided() || !fits(graph.value(scale))) continue;
    const ValueId narrow =
        graph.add_constant(graph.value(scale).name, derive_converted(graph.constant(scale), DType::f16));
    if (is_region) {
      region.replace_operand(scale, narrow);
      node = region.finish();
    } else {
      node.inputs[2] = narrow;
    }
  }
  remove_dead(graph);
}

}  // namespace camshaft
