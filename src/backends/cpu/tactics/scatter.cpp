#include "backends/cpu/kernels/move/scatter.h"

#include <algorithm>

#include "backends/cpu/kernels/with_type.h"
#include "backends/cpu/tactics/index.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/region.h"
#include "ir/region.h"

namespace camshaft::cpu {

namespace {

ScatterCombine combine_of(ops::ScatterKind kind) {
  switch (kind) {
    case ops::ScatterKind::assign:
      return ScatterCombine::assign;
    case ops::ScatterKind::add:
      return ScatterCombine::add;
    case ops::ScatterKind::mul:
      return ScatterCombine::mul;
    case ops::ScatterKind::max:
      return ScatterCombine::max;
    case ops::ScatterKind::min:
      return ScatterCombine::min;
  }
  return ScatterCombine::assign;
}

/// A scatter, or a chain of it behind an expand of one element (passes/chain_fills.h).
template <class T>
struct ScatterView {
  T op;
  size_t base = 0, indices = 1, updates = 2;  ///< inputs of the region
  bool fills = false;                         ///< the base is that element
};

template <class T>
std::optional<ScatterView<T>> view_scatter(const RegionView& region) {
  const Node& node = region.node;
  if (const auto* op = node.op.as<T>()) return ScatterView<T>{*op};
  if (!node.op.as<ops::Region>() || node.bodies.size() != 1) return std::nullopt;
  const Graph& body = node.bodies[0];
  if (body.nodes.size() != 2 || body.outputs.size() != 1) return std::nullopt;
  const Node &fill = body.nodes[0], &scatter = body.nodes[1];
  const auto* op = scatter.op.as<T>();
  if (!op || !fill.op.as<ops::Expand>() || scatter.inputs[0] != fill.outputs[0] ||
      body.outputs[0] != scatter.outputs[0])
    return std::nullopt;
  const Shape& element = body.shape(fill.inputs[0]);
  const bool is_one = std::all_of(element.begin(), element.end(), [](const Dim& d) { return d == Dim(1); });
  int32_t operands[3];
  for (size_t i = 0; i < 3; ++i) operands[i] = input_index(body, i == 0 ? fill.inputs[0] : scatter.inputs[i]);
  if (!is_one || std::any_of(operands, operands + 3, [](int32_t i) { return i < 0; })) return std::nullopt;
  return ScatterView<T>{*op, static_cast<size_t>(operands[0]), static_cast<size_t>(operands[1]),
                        static_cast<size_t>(operands[2]), true};
}

template <class T>
std::optional<double> estimate_scatter(const RegionView& region) {
  const auto view = view_scatter<T>(region);
  if (!view) return std::nullopt;
  const DType dtype = region.graph.type(region.node.outputs[0]).dtype;
  if (holds_objects(dtype) || bit_width(dtype) < 8 || bit_width(dtype) > 64) return std::nullopt;
  // Sums of halves are the reference's, which rounds at their ends.
  const bool is_extreme = view->op.kind == ops::ScatterKind::max || view->op.kind == ops::ScatterKind::min;
  const bool combines = is_arithmetic(dtype) || (is_extreme && (dtype == DType::f16 || dtype == DType::bf16));
  if (view->op.kind != ops::ScatterKind::assign && !combines) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

// The dims of what is scattered into, which are the result's.
template <class T>
Dims base_dims(const ScatterView<T>& view, const KernelShapes& shapes) {
  return view.fills ? shapes.outputs[0].dims : shapes.inputs[view.base].dims;
}

std::shared_ptr<const Kernel> compile_scatter_nd(const RegionView& region, PackedConstants&) {
  const auto view = *view_scatter<ops::ScatterND>(region);
  return simple_kernel(
      [view](const KernelShapes& shapes) {
        const Dims x = base_dims(view, shapes);
        const Dims &indices = shapes.inputs[view.indices].dims, &updates = shapes.inputs[view.updates].dims;
        Dims expected(indices.begin(), indices.end() - 1);
        expected.insert(expected.end(), x.begin() + indices.back(), x.end());
        for (size_t d = 0; d < expected.size(); ++d)
          require_equal(updates[d], expected[d], "an axis of the updates of scatter_nd");
        return [view, at = indexed_slices(x, indices, 0), dtype = shapes.outputs[0].dtype,
                index = shapes.inputs[view.indices].dtype](const LaunchArguments& a) {
          scatter_slices(a.pool, at, combine_of(view.op.kind), dtype, {a.inputs[view.base], view.fills},
                         a.inputs[view.indices], index, a.inputs[view.updates], a.outputs[0]);
        };
      },
      !view.fills);
}

std::shared_ptr<const Kernel> compile_scatter_elements(const RegionView& region, PackedConstants&) {
  const auto view = *view_scatter<ops::ScatterElements>(region);
  return simple_kernel(
      [view](const KernelShapes& shapes) {
        const Dims x = base_dims(view, shapes);
        const Dims &indices = shapes.inputs[view.indices].dims, &updates = shapes.inputs[view.updates].dims;
        for (size_t d = 0; d < x.size(); ++d) {
          require_equal(updates[d], indices[d], "an axis of the updates of scatter_elements");
          if (static_cast<int64_t>(d) != view.op.axis && indices[d] > x[d])
            require_equal(indices[d], x[d], "an axis of the indices of scatter_elements");
        }
        return [view,
                scatter = ScatterElements(shapes.outputs[0].dtype, combine_of(view.op.kind), x, indices, view.op.axis),
                index = shapes.inputs[view.indices].dtype](const LaunchArguments& a) {
          scatter.run(a.pool, {a.inputs[view.base], view.fills}, a.inputs[view.indices], index, a.inputs[view.updates],
                      a.outputs[0]);
        };
      },
      !view.fills);
}

}  // namespace

const CpuTactic scatter_nd_tactic{"scatter_nd", estimate_scatter<ops::ScatterND>, compile_scatter_nd};
const CpuTactic scatter_elements_tactic{"scatter_elements", estimate_scatter<ops::ScatterElements>,
                                        compile_scatter_elements};

}  // namespace camshaft::cpu
