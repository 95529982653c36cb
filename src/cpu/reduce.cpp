#include "cpu/reduce.h"

#include "cpu/kernels/arg_extreme.h"
#include "cpu/kernels/pool.h"
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

std::optional<double> estimate_pool(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Pool>();
  if (!op || region.graph.type(region.node.inputs[0]).dtype != DType::f32 || op->kernel.size() > 3 ||
      op->kernel.empty())
    return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

// A pad that leaves sums of positions far from overflow.
int64_t pad_of(const Dim& pad, const SymbolBindings& symbols) {
  const int64_t size = pad.evaluate(symbols), most = int64_t{1} << 31;
  if (size < -most || size > most)
    throw Error(ErrorCode::invalid_argument, "a padding of " + std::to_string(size) + " is too large");
  return size;
}

std::shared_ptr<const Kernel> compile_pool(const RegionView& region, PackedConstants&) {
  const auto make = [op = *region.node.op.as<ops::Pool>()](const KernelShapes& shapes) {
    const Dims& in = shapes.inputs[0].dims;
    const Dims& out = shapes.outputs[0].dims;
    const size_t first = op.channels_last ? 1 : 2, spatial = op.kernel.size();
    SpatialPool pool;
    pool.batch = in[0];
    pool.channels = op.channels_last ? in.back() : in[1];
    PoolAxis* axes[] = {&pool.depth, &pool.height, &pool.width};
    for (size_t i = 0; i < spatial; ++i)
      *axes[3 - spatial + i] = {in[first + i],
                                out[first + i],
                                op.kernel[i],
                                op.strides[i],
                                op.dilations[i],
                                pad_of(op.pads[i], *shapes.symbols),
                                pad_of(op.pads[spatial + i], *shapes.symbols)};
    pool.channels_last = op.channels_last;
    pool.in_pixel_stride = shapes.inputs[0].row_stride;
    pool.out_pixel_stride = shapes.outputs[0].row_stride;
    pool.average = op.kind == ops::PoolKind::average;
    pool.count_include_pad = op.count_include_pad;
    return [pool](const LaunchArguments& a) { pool.run(a.pool, input<float>(a, 0), output<float>(a, 0)); };
  };
  const bool pixels = region.node.op.as<ops::Pool>()->channels_last;
  return simple_kernel(make, false, SliceUse{pixels ? size_t{1} : 0, pixels});
}

}  // namespace

const CpuTactic reduce_tactic{"reduce", estimate_reduce, compile_reduce};
const CpuTactic arg_reduce_tactic{"arg_reduce", estimate_arg_reduce, compile_arg_reduce};
const CpuTactic pool_tactic{"pool", estimate_pool, compile_pool};

}  // namespace camshaft::cpu
