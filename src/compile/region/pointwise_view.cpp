#include "compile/region/pointwise_view.h"

#include <algorithm>

#include "compile/plan/shape_check.h"
#include "compile/region/scalar_lowering.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "ir/region.h"

namespace camshaft {

namespace {

// How a body ends: in zeros behind its last axis, and a reshape that puts that together with the one before.
struct Filling {
  int64_t size = 0;  // of that axis with them; 0 where it does not end so
  size_t end;        // the nodes before them
  std::vector<ValueId> results;
};

Filling filling_of(const Graph& body, bool is_taken) {
  const Filling none{0, body.nodes.size(), body.outputs};
  size_t end = body.nodes.size();
  if (end > 1 && body.nodes[end - 1].op.as<ops::Reshape>()) --end;
  if (!is_taken || end < 2 || body.outputs.size() != 1 || !body.nodes[end - 1].op.as<ops::Pad>()) return none;
  const Node& node = body.nodes[end - 1];
  const auto* pad = node.op.as<ops::Pad>();
  if (pad->mode != ops::PadMode::constant || node.inputs.size() > 1) return none;
  const bool is_last = std::all_of(pad->pads.begin(), pad->pads.end() - 1, [](const Dim& d) { return d == Dim(0); });
  const auto size = body.shape(node.outputs[0]).back().as_constant();
  const Shape &filled = body.shape(node.outputs[0]), &result = body.shape(body.outputs[0]);
  const auto last = result.back().as_constant();
  if (!is_last || !size || !last || *last % *size != 0 || result.size() != filled.size() ||
      !std::equal(result.begin(), result.end() - 2, filled.begin()))
    return none;
  return {*size, end - 1, {node.inputs[0]}};
}

}  // namespace

std::optional<PointwiseView> view_pointwise(const RegionView& region, bool with_transposes) {
  const Node& node = region.node;
  PointwiseView view;
  Graph single;
  const Graph* body = &single;
  if (node.op.as<ops::Region>() && node.bodies.size() == 1) {
    body = &node.bodies[0];
  } else if (node.op.as<ops::Pointwise>() || node.op.as<ops::Cast>()) {
    for (const ValueId id : node.inputs) single.add_input("i", region.graph.type(id));
    const ValueId out = single.add(node.op, single.inputs, "o");
    single.add_output("o", out);
  } else {
    return std::nullopt;
  }
  const Filling filling = filling_of(*body, with_transposes);
  view.filled = filling.size;
  size_t transposes = 0;
  while (with_transposes && transposes < filling.end && body->nodes[transposes].op.as<ops::Transpose>()) ++transposes;
  std::optional<LoweredProgram> lowered =
      lower_scalar_program(*body, nodes_between(*body, transposes, filling.end), filling.results);
  if (!lowered || lowered->program.outputs.empty()) return std::nullopt;
  for (ValueId id : lowered->loads) {
    view.permutations.emplace_back();
    for (size_t n = 0; n < transposes; ++n)
      if (body->nodes[n].outputs[0] == id) {
        view.permutations.back() = body->nodes[n].op.as<ops::Transpose>()->permutation;
        id = body->nodes[n].inputs[0];
        break;
      }
    view.loads.push_back(input_index(*body, id));
    if (view.loads.back() < 0) return std::nullopt;
  }
  for (const ValueId id : node.outputs)
    if (region.graph.shape(id) != region.graph.shape(node.outputs[0]) || holds_objects(region.graph.type(id).dtype))
      return std::nullopt;
  view.program = std::move(lowered->program);
  return view;
}

PointwiseStrides pointwise_strides(const PointwiseView& view, const KernelShapes& shapes) {
  const Dims& out = shapes.outputs[0].dims;
  PointwiseStrides all;
  for (size_t k = 0; k < view.loads.size(); ++k) {
    const OperandShape& operand = shapes.inputs[static_cast<size_t>(view.loads[k])];
    const size_t rank = operand.dims.size();
    std::vector<int64_t> own(rank, 0);
    int64_t stride = 1;
    for (size_t d = rank; d-- > 0;) {
      own[d] = operand.dims[d] == 1 ? 0 : stride;
      stride = d + 1 == rank ? operand.pitch() : stride * operand.dims[d];
    }
    const std::vector<int64_t>& permutation = view.permutations[k];
    const auto axis = [&](size_t d) { return permutation.empty() ? d : static_cast<size_t>(permutation[d]); };
    Dims read;
    for (size_t d = 0; d < rank; ++d) read.push_back(operand.dims[axis(d)]);
    require_broadcast(read, out);
    std::vector<int64_t> strides(out.size(), 0);
    for (size_t d = 0; d < rank; ++d) strides[out.size() - rank + d] = own[axis(d)];
    all.loads.push_back(std::move(strides));
  }
  for (const OperandShape& operand : shapes.outputs) {
    std::vector<int64_t> strides(operand.dims.size());
    int64_t stride = 1;
    for (size_t d = operand.dims.size(); d-- > 0;) {
      strides[d] = stride;
      stride = d + 1 == operand.dims.size() ? operand.pitch() : stride * operand.dims[d];
    }
    all.outputs.push_back(std::move(strides));
  }
  return all;
}

}  // namespace camshaft
