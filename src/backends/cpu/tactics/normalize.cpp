#include "backends/cpu/tactics/normalize.h"

#include <algorithm>
#include <array>

#include "backends/cpu/kernels/reduce/narrow_rows.h"
#include "backends/cpu/kernels/reduce/normalize.h"
#include "backends/cpu/kernels/reduce/normalize_f64.h"
#include "backends/cpu/kernels/reduce/softmax.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/region.h"

namespace camshaft::cpu {

namespace {

bool all_f32(const RegionView& region) {
  for (const ValueId id : region.node.inputs)
    if (id != no_value && region.graph.type(id).dtype != DType::f32) return false;
  return true;
}

template <class T>
std::optional<double> estimate_normalize(const RegionView& region) {
  if (!region.node.op.as<T>() || !all_f32(region) || region.node.outputs.size() != 1) return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::optional<double> estimate_softmax(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Softmax>();
  const bool is_f64 = op && region.graph.type(region.node.inputs[0]).dtype == DType::f64;
  if (is_f64) return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
  return estimate_normalize<ops::Softmax>(region);
}

std::shared_ptr<const Kernel> compile_softmax(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::Softmax>()](const KernelShapes& shapes) {
        const AxisSplit split(shapes.inputs[0].dims, op.axis);
        return [softmax = Softmax{split.outer, split.axis, split.inner, op.log},
                is_f64 = shapes.inputs[0].dtype == DType::f64](const LaunchArguments& a) {
          if (is_f64) return softmax.run(a.pool, input<double>(a, 0), output<double>(a, 0));
          softmax.run(a.pool, input<float>(a, 0), output<float>(a, 0));
        };
      },
      true);
}

/// A layer or RMS norm of f32 or f64, or a chain of one of f32 between casts (passes/chain_norms.h).
struct NormView {
  const Graph* graph;  ///< that has the norm
  const Node* node;
  ops::LayerNorm op;
  int32_t x = 0, scale = 1, bias = 2;  ///< inputs of the region, or -1
  NarrowRows rows{DType::f32, DType::f32};

  bool is_narrow() const { return rows.from != DType::f32 || rows.to != DType::f32; }
  DType computed_in() const { return graph->type(node->inputs[0]).dtype; }
};

std::optional<NormView> view_norm(const RegionView& region) {
  const Node& node = region.node;
  if (const auto* op = node.op.as<ops::LayerNorm>()) {
    NormView view{&region.graph, &node, *op};
    if (node.inputs.size() < 2 || node.inputs[1] == no_value) view.scale = -1;
    if (node.inputs.size() < 3 || node.inputs[2] == no_value) view.bias = -1;
    return view;
  }
  if (!node.op.as<ops::Region>() || node.bodies.size() != 1 || node.outputs.size() != 1) return std::nullopt;
  const Graph& body = node.bodies[0];
  const auto norm = std::ranges::find_if(body.nodes, [](const Node& n) { return n.op.as<ops::LayerNorm>(); });
  if (norm == body.nodes.end() || norm->outputs.size() != 1) return std::nullopt;
  NormView view{&body, &*norm, *norm->op.as<ops::LayerNorm>()};
  ValueId x = norm->inputs[0], y = norm->outputs[0];
  for (const Node& other : body.nodes) {
    if (&other == &*norm) continue;
    if (!other.op.as<ops::Cast>()) return std::nullopt;
    if (other.outputs[0] == x) {
      x = other.inputs[0];
    } else if (other.inputs[0] == y) {
      y = other.outputs[0];
    } else {
      return std::nullopt;
    }
  }
  const auto operand = [&](size_t i) {
    return i < norm->inputs.size() && norm->inputs[i] != no_value ? input_index(body, norm->inputs[i]) : -1;
  };
  view.x = input_index(body, x), view.scale = operand(1), view.bias = operand(2);
  view.rows = {body.type(x).dtype, body.type(y).dtype};
  const bool known = view.x >= 0 && y == body.outputs[0] && std::ranges::all_of(std::array{1, 2}, [&](size_t i) {
                       return i >= norm->inputs.size() || norm->inputs[i] == no_value || operand(i) >= 0;
                     });
  return known ? std::optional(view) : std::nullopt;
}

struct RowsAndLength {
  int64_t rows = 1, length = 1;
};

RowsAndLength rows_and_length(const Dims& dims, int64_t axis) {
  RowsAndLength sizes;
  for (size_t d = 0; d < dims.size(); ++d) (static_cast<int64_t>(d) < axis ? sizes.rows : sizes.length) *= dims[d];
  return sizes;
}

std::shared_ptr<const Kernel> compile_norm_f64(const NormView& view) {
  return simple_kernel(
      [op = view.op, scale = view.scale, bias = view.bias](const KernelShapes& shapes) {
        const RowsAndLength sizes = rows_and_length(shapes.inputs[0].dims, op.axis);
        const NormF64 norm{sizes.rows, sizes.length, op.clamped ? 0 : op.epsilon, op.clamped ? op.epsilon : 0,
                           !op.root_mean_square};
        return [=](const LaunchArguments& a) {
          const auto parameter = [&](int32_t i) { return i < 0 ? nullptr : input<double>(a, static_cast<size_t>(i)); };
          norm.run(a.pool, input<double>(a, 0), parameter(scale), parameter(bias), output<double>(a, 0));
        };
      },
      true);
}

std::shared_ptr<const Kernel> compile_layer_norm(const RegionView& region, PackedConstants&) {
  const NormView view = *view_norm(region);
  if (view.computed_in() == DType::f64) return compile_norm_f64(view);
  return simple_kernel(
      [op = view.op, operands = std::array{view.x, view.scale, view.bias}, narrow = view.rows,
       is_narrow = view.is_narrow()](const KernelShapes& shapes) {
        const RowsAndLength sizes = rows_and_length(shapes.inputs[static_cast<size_t>(operands[0])].dims, op.axis);
        const auto epsilon = static_cast<float>(op.epsilon), added = op.clamped ? 0 : epsilon;
        const float least = op.clamped ? epsilon : 0;
        return [=, rms = op.root_mean_square](const LaunchArguments& a) {
          const auto parameter = [&](int32_t i) { return i < 0 ? nullptr : input<float>(a, static_cast<size_t>(i)); };
          const float *scale = parameter(operands[1]), *bias = parameter(operands[2]);
          const auto* x = a.inputs[static_cast<size_t>(operands[0])];
          const LayerNorm layer{sizes.rows, sizes.length, epsilon};
          const RmsNorm root{sizes.rows, sizes.length, added, least};
          if (is_narrow)
            return rms ? narrow.run(root, a.pool, x, scale, a.outputs[0])
                       : narrow.run(layer, a.pool, x, scale, bias, a.outputs[0]);
          const auto* from = reinterpret_cast<const float*>(x);
          rms ? root.run(a.pool, from, scale, output<float>(a, 0))
              : layer.run(a.pool, from, scale, bias, output<float>(a, 0));
        };
      },
      !view.is_narrow());
}

// The kernel's RMS norm has no bias, and scale and bias are as long as a row.
std::optional<double> estimate_layer_norm(const RegionView& region) {
  const auto view = view_norm(region);
  if (!view || region.node.outputs.size() != 1) return std::nullopt;
  const Node& norm = *view->node;
  const DType dtype = view->computed_in();
  if (dtype != DType::f32 && !(dtype == DType::f64 && &norm == &region.node)) return std::nullopt;
  for (const ValueId id : norm.inputs)
    if (id != no_value && view->graph->type(id).dtype != dtype) return std::nullopt;
  if (view->op.root_mean_square && view->bias >= 0) return std::nullopt;
  const Shape& x = view->graph->shape(norm.inputs[0]);
  const Shape row(x.begin() + view->op.axis, x.end());
  for (const size_t i : {1, 2})
    if (i < norm.inputs.size() && norm.inputs[i] != no_value && view->graph->shape(norm.inputs[i]) != row)
      return std::nullopt;
  if (view->is_narrow()) {
    double length = 1;
    for (const Dim& d : row) length *= d.as_constant() ? static_cast<double>(*d.as_constant()) : 1e9;
    if (length > static_cast<double>(NarrowRows::longest)) return std::nullopt;
  }
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_group_norm(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::GroupNorm>()](const KernelShapes& shapes) {
        const Dims& dims = shapes.inputs[0].dims;
        GroupNorm norm;
        norm.batch = dims[0];
        norm.channels = op.channels_last ? dims.back() : dims[1];
        norm.groups = op.groups;
        require_equal(norm.channels % norm.groups, 0, "the remainder of channels by groups of a group norm");
        for (size_t i = 1; i < shapes.inputs.size(); ++i)
          if (!shapes.inputs[i].dims.empty())
            require_equal(shapes.inputs[i].dims[0], norm.channels, "the length of a group norm's scale or bias");
        norm.spatial = 1;
        for (size_t d = op.channels_last ? 1 : 2; d < dims.size() - (op.channels_last ? 1 : 0); ++d)
          norm.spatial *= dims[d];
        norm.epsilon = static_cast<float>(op.epsilon);
        norm.channels_last = op.channels_last;
        return [norm](const LaunchArguments& a) {
          norm.run(a.pool, input<float>(a, 0), input<float>(a, 1), input<float>(a, 2), output<float>(a, 0));
        };
      },
      true);
}

}  // namespace

const CpuTactic softmax_tactic{"softmax", estimate_softmax, compile_softmax};
const CpuTactic layer_norm_tactic{"layer_norm", estimate_layer_norm, compile_layer_norm};
const CpuTactic group_norm_tactic{"group_norm", estimate_normalize<ops::GroupNorm>, compile_group_norm};

}  // namespace camshaft::cpu
