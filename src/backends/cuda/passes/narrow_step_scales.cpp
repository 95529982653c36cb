#include "backends/cuda/passes/narrow_step_scales.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/weight_only.h"
#include "ir/region.h"
#include "ir/region_editor.h"
#include "ir/replaceable.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

bool has_all(const Tensor& scale) {
  constexpr float largest = 65504, least = 0x1p-14F;
  const auto* x = scale.as<float>();
  return std::all_of(x, x + scale.size(),
                     [](float s) { return s == 0 || (std::fabs(s) >= least && std::fabs(s) <= largest); });
}

}  // namespace

void narrow_step_scales(Graph& graph, const PassContext&) {
  for (Node& node : graph.nodes) {
    const Node& first = first_operator(node);
    if (!first.op.as<ops::WeightOnlyMatMul>()) continue;
    const bool is_region = &first != &node;
    const Graph& own = is_region ? node.bodies[0] : graph;
    if (own.type(first.inputs[0]).dtype != DType::f16 || own.type(first.inputs[2]).dtype != DType::f32) continue;
    RegionEditor region = RegionEditor::around(graph, node, ops::RegionKind::contract);
    const ValueId scale = is_region ? region.outer(first.inputs[2]) : first.inputs[2];
    if (!graph.is_constant(scale) || graph.value(scale).constant->is_elided()) continue;
    fix_numbers(graph.value(scale).provenance, "whether fp16 holds it");
    if (!has_all(*graph.value(scale).constant)) continue;
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
