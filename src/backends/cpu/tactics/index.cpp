#include "backends/cpu/tactics/index.h"

#include <algorithm>

#include "backends/cpu/kernels/move/scatter.h"
#include "backends/cpu/kernels/reduce/cumulative.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/constants/constant_axis.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/index.h"

namespace camshaft::cpu {

namespace {

bool is_arithmetic(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || (is_integer(dtype) && bit_width(dtype) >= 8);
}

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

template <class T>
std::optional<double> estimate_scatter(const RegionView& region) {
  const auto* op = region.node.op.as<T>();
  if (!op) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  if (holds_objects(dtype) || bit_width(dtype) < 8 || bit_width(dtype) > 64) return std::nullopt;
  if (op->kind != ops::ScatterKind::assign && !is_arithmetic(dtype)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

int64_t product(const Dims& dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t d = begin; d < end; ++d) count *= dims[d];
  return count;
}

// Slices of x that indices[..., depth] name behind `batch_axes` shared axes.
IndexedSlices slices_of(const Dims& x, const Dims& indices, size_t batch_axes) {
  const auto depth = static_cast<size_t>(indices.back());
  IndexedSlices at;
  at.sizes.assign(x.begin() + static_cast<int64_t>(batch_axes), x.begin() + static_cast<int64_t>(batch_axes + depth));
  at.batches = product(x, 0, batch_axes);
  at.inner = product(x, batch_axes + depth, x.size());
  at.count = product(indices, 0, indices.size() - 1);
  return at;
}

std::shared_ptr<const Kernel> compile_scatter_nd(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [kind = combine_of(region.node.op.as<ops::ScatterND>()->kind)](const KernelShapes& shapes) {
        const Dims &x = shapes.inputs[0].dims, &indices = shapes.inputs[1].dims, &updates = shapes.inputs[2].dims;
        Dims expected(indices.begin(), indices.end() - 1);
        expected.insert(expected.end(), x.begin() + indices.back(), x.end());
        for (size_t d = 0; d < expected.size(); ++d)
          require_equal(updates[d], expected[d], "an axis of the updates of scatter_nd");
        return [kind, at = slices_of(x, indices, 0), dtype = shapes.inputs[0].dtype,
                index = shapes.inputs[1].dtype](const LaunchArguments& a) {
          scatter_slices(a.pool, at, kind, dtype, a.inputs[0], a.inputs[1], index, a.inputs[2], a.outputs[0]);
        };
      },
      true);
}

std::shared_ptr<const Kernel> compile_scatter_elements(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::ScatterElements>()](const KernelShapes& shapes) {
        const Dims &x = shapes.inputs[0].dims, &indices = shapes.inputs[1].dims, &updates = shapes.inputs[2].dims;
        for (size_t d = 0; d < x.size(); ++d) {
          require_equal(updates[d], indices[d], "an axis of the updates of scatter_elements");
          if (static_cast<int64_t>(d) != op.axis && indices[d] > x[d])
            require_equal(indices[d], x[d], "an axis of the indices of scatter_elements");
        }
        return [scatter = ScatterElements(shapes.inputs[0].dtype, combine_of(op.kind), x, indices, op.axis),
                index = shapes.inputs[1].dtype](const LaunchArguments& a) {
          scatter.run(a.pool, a.inputs[0], a.inputs[1], index, a.inputs[2], a.outputs[0]);
        };
      },
      true);
}

std::optional<double> estimate_gather_nd(const RegionView& region) {
  if (!region.node.op.as<ops::GatherND>()) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  if (holds_objects(dtype) || bit_width(dtype) < 8 || bit_width(dtype) > 64) return std::nullopt;
  return seconds_per_launch + 2 * elements_at_optimum(region, region.node.outputs[0]) * 4 * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_gather_nd(const RegionView& region, PackedConstants&) {
  return simple_kernel([batch_axes = region.node.op.as<ops::GatherND>()->batch_dims](const KernelShapes& shapes) {
    const Dims &x = shapes.inputs[0].dims, &indices = shapes.inputs[1].dims;
    for (size_t d = 0; d < static_cast<size_t>(batch_axes); ++d)
      require_equal(indices[d], x[d], "a batch axis of the indices of gather_nd");
    return [at = slices_of(x, indices, static_cast<size_t>(batch_axes)), width = bit_width(shapes.inputs[0].dtype) / 8,
            index = shapes.inputs[1].dtype](const LaunchArguments& a) {
      gather_slices(a.pool, at, width, a.inputs[0], a.inputs[1], index, a.outputs[0]);
    };
  });
}

std::optional<double> estimate_cumulative(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Cumulative>();
  if (!op || !is_arithmetic(region.graph.type(region.node.inputs[0]).dtype) || !constant_axis(region))
    return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_cumulative(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::Cumulative>(), axis = *constant_axis(region)](const KernelShapes& shapes) {
        const AxisSplit split(shapes.inputs[0].dims, axis);
        return [total = RunningTotal{split.outer, split.axis, split.inner, op.kind == ops::CumulativeKind::product,
                                     op.exclusive, op.reverse},
                dtype = shapes.inputs[0].dtype](const LaunchArguments& a) {
          total.run(a.pool, dtype, a.inputs[0], a.outputs[0]);
        };
      },
      true);
}

}  // namespace

const CpuTactic gather_nd_tactic{"gather_nd", estimate_gather_nd, compile_gather_nd};
const CpuTactic scatter_nd_tactic{"scatter_nd", estimate_scatter<ops::ScatterND>, compile_scatter_nd};
const CpuTactic scatter_elements_tactic{"scatter_elements", estimate_scatter<ops::ScatterElements>,
                                        compile_scatter_elements};
const CpuTactic cumulative_tactic{"cumulative", estimate_cumulative, compile_cumulative};

}  // namespace camshaft::cpu
