#include "cpu/reduce.h"

#include "cpu/kernels/arg_extreme.h"
#include "cpu/kernels/reduce.h"
#include "cpu/simple_kernel.h"
#include "ops/reduce.h"

namespace camshaft::cpu {

namespace {

bool reducible(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || (is_integer(dtype) && bit_width(dtype) >= 8);
}

ReduceKind kernel_kind(ops::ReduceKind kind) {
  switch (kind) {
    case ops::ReduceKind::sum:
      return ReduceKind::sum;
    case ops::ReduceKind::mean:
      return ReduceKind::mean;
    case ops::ReduceKind::max:
      return ReduceKind::max;
    case ops::ReduceKind::min:
      return ReduceKind::min;
    case ops::ReduceKind::prod:
      return ReduceKind::prod;
    case ops::ReduceKind::sum_squares:
      return ReduceKind::sum_square;
    case ops::ReduceKind::sum_abs:
      return ReduceKind::sum_abs;
  }
  return ReduceKind::sum;
}

std::optional<double> estimate_reduce(const RegionView& region) {
  if (!region.node.op.as<ops::Reduce>() || !reducible(region.graph.type(region.node.inputs[0]).dtype))
    return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_reduce(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::Reduce>()](const KernelShapes& shapes) {
    return [reduce = Reduce(kernel_kind(op.kind), shapes.inputs[0].dtype, shapes.inputs[0].dims,
                            std::vector<int>(op.axes.begin(), op.axes.end()))](const LaunchArguments& a) {
      reduce.run(a.pool, a.inputs[0], a.outputs[0]);
    };
  });
}

std::optional<double> estimate_arg_reduce(const RegionView& region) {
  const auto* op = region.node.op.as<ops::ArgReduce>();
  if (!op || !reducible(region.graph.type(region.node.inputs[0]).dtype)) return std::nullopt;
  // An axis that might be empty has no answer: the reference says so.
  const auto low = region.graph.shape(region.node.inputs[0])[static_cast<size_t>(op->axis)].lower_bound();
  if (!low || *low < 1) return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_arg_reduce(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::ArgReduce>()](const KernelShapes& shapes) {
    const AxisSplit split(shapes.inputs[0].dims, op.axis);
    return [arg = ArgExtreme{split.outer, split.axis, split.inner, op.largest, op.select_last},
            dtype = shapes.inputs[0].dtype](const LaunchArguments& a) {
      arg.run(a.pool, dtype, a.inputs[0], output<int64_t>(a, 0));
    };
  });
}

}  // namespace

const CpuTactic reduce_tactic{"reduce", estimate_reduce, compile_reduce};
const CpuTactic arg_reduce_tactic{"arg_reduce", estimate_arg_reduce, compile_arg_reduce};

}  // namespace camshaft::cpu
