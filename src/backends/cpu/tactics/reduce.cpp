#include "backends/cpu/tactics/reduce.h"

#include <algorithm>

#include "backends/cpu/kernels/reduce/arg_extreme.h"
#include "backends/cpu/kernels/reduce/reduce.h"
#include "backends/cpu/kernels/with_type.h"
#include "backends/cpu/tactics/pointwise.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/plan/shape_check.h"
#include "compile/region/reduce_view.h"
#include "ir/ops/reduce.h"

namespace camshaft::cpu {

namespace {

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

// Those with loops for all types and functions.
std::optional<ReduceView> view_tiles(const RegionView& region) {
  auto view = view_reduce(region);
  if (!view || !is_arithmetic(view->in.dtype)) return std::nullopt;
  for (const auto* part : {&view->before, &view->behind})
    if (*part && !has_loops((*part)->program)) return std::nullopt;
  return view;
}

Pointwise pointwise_of(const PointwiseView& part, const KernelShapes& shapes) {
  const PointwiseStrides strides = pointwise_strides(part, shapes);
  return {part.program, shapes.outputs[0].dims, strides.loads, strides.outputs};
}

class ReduceLaunch final : public Launch {
 public:
  ReduceLaunch(const ReduceView& view, const KernelShapes& shapes) : ReduceLaunch(view, shapes, whole(view, shapes)) {}

  size_t workspace_bytes() const override { return reduce_.workspace_bytes(); }

  void run(const LaunchArguments& a) override {
    const auto bind = [&](const std::optional<PointwiseView>& part, std::vector<const void*>& inputs) {
      for (size_t k = 0; k < inputs.size(); ++k) {
        const int32_t load = part->loads[k];
        inputs[k] = load == view_.reduced ? a.outputs[0] : a.inputs[static_cast<size_t>(load)];
      }
    };
    bind(view_.before, before_);
    bind(view_.behind, behind_);
    reduce_.run(a.pool, {view_.before ? nullptr : a.inputs[static_cast<size_t>(view_.input)], before_.data(),
                         behind_.data(), a.outputs[0], a.workspace});
  }

 private:
  // The shapes of what is reduced.
  static KernelShapes whole(const ReduceView& view, const KernelShapes& shapes) {
    if (view.before) return shapes_before(view, shapes);
    KernelShapes plain;
    plain.outputs = {shapes.inputs[static_cast<size_t>(view.input)]};
    return plain;
  }

  ReduceLaunch(const ReduceView& view, const KernelShapes& shapes, const KernelShapes& before)
      : view_(view),
        before_(view.before ? view.before->loads.size() : 0),
        behind_(view.behind ? view.behind->loads.size() : 0),
        reduce_(kernel_kind(view.op.kind), view.in.dtype, before.outputs[0].dims,
                std::vector<int>(view.op.axes.begin(), view.op.axes.end())) {
    require_equal(reduce_.outputs(), element_count(shapes.outputs[0].dims), "the size of a reduction's result");
    if (view.before) reduce_.compute_from(pointwise_of(*view.before, before));
    if (view.behind) reduce_.go_on_with(pointwise_of(*view.behind, shapes_behind(shapes)));
  }

  const ReduceView& view_;
  std::vector<const void*> before_, behind_;
  Reduce reduce_;
};

class ReduceKernel final : public Kernel {
 public:
  explicit ReduceKernel(ReduceView view) : view_(std::move(view)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ReduceLaunch>(view_, shapes);
  }
  bool reads_slices(size_t i) const override { return static_cast<int32_t>(i) != view_.input; }

 private:
  ReduceView view_;
};

std::optional<double> estimate_reduce(const RegionView& region) {
  const auto view = view_tiles(region);
  if (!view) return std::nullopt;
  double elements = 1, work = 0;
  for (const Dim& d : view->in.shape) elements *= size_at_optimum(region, d);
  if (view->before) work = static_cast<double>(view->before->program.instructions.size()) * elements * 1e-10;
  return seconds_per_launch + std::max(work, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_reduce(const RegionView& region, PackedConstants&) {
  return std::make_shared<ReduceKernel>(*view_tiles(region));
}

std::optional<double> estimate_arg_reduce(const RegionView& region) {
  const auto* op = region.node.op.as<ops::ArgReduce>();
  if (!op || !is_arithmetic(region.graph.type(region.node.inputs[0]).dtype)) return std::nullopt;
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
