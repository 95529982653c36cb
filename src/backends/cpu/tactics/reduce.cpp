#include "backends/cpu/tactics/reduce.h"

#include <algorithm>

#include "backends/cpu/kernels/reduce/arg_extreme.h"
#include "backends/cpu/kernels/reduce/reduce.h"
#include "backends/cpu/kernels/reduce/squared_distances.h"
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

// Extremes of booleans that become bytes first are those of the bytes that they lie in memory as, made 0 or 1 behind
// it: 10^6 in rows of 1000 took 33 us, and take 20.
void reduce_as_stored(const RegionView& region, ReduceView& view) {
  using Kind = ScalarInstruction::Kind;
  const bool is_extreme = view.op.kind == ops::ReduceKind::max || view.op.kind == ops::ReduceKind::min;
  if (!is_extreme || !view.before || view.behind) return;
  const auto& steps = view.before->program.instructions;
  const bool widens = steps.size() == 2 && steps[0].kind == Kind::load && steps[0].dtype == DType::boolean &&
                      steps[1].kind == Kind::cast && steps[1].dtype == DType::u8;
  const auto load = static_cast<size_t>(widens ? view.before->loads[0] : 0);
  if (!widens || region.graph.shape(region.node.inputs[load]) != view.in.shape) return;
  view.input = static_cast<int32_t>(load);
  view.before.reset();
  view.behind.emplace();
  view.behind->loads = {view.reduced};
  view.behind->permutations.resize(1);
  view.behind->program = {1,
                          {{.kind = Kind::load, .dtype = DType::u8, .a = 0},
                           {.kind = Kind::cast, .dtype = DType::boolean, .a = 0},
                           {.kind = Kind::cast, .dtype = DType::u8, .a = 1}},
                          {2}};
}

// Those with loops for all types and functions.
std::optional<ReduceView> view_reduced_tiles(const RegionView& region) {
  auto view = view_reduce(region);
  if (!view || !is_arithmetic(view->in.dtype)) return std::nullopt;
  reduce_as_stored(region, *view);
  for (const auto* part : {&view->before, &view->behind})
    if (*part && !has_loops((*part)->program)) return std::nullopt;
  return view;
}

Pointwise pointwise_of(const PointwiseView& part, const KernelShapes& shapes) {
  const PointwiseStrides strides = pointwise_strides(part, shapes);
  return {part.program, shapes.outputs[0].dims, strides.loads, strides.outputs};
}

// What a part's loads are in a run.
void bind(const ReduceView& view, const std::optional<PointwiseView>& part, const LaunchArguments& a,
          std::vector<const void*>& inputs) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    const int32_t load = part->loads[k];
    inputs[k] = load == view.reduced ? a.outputs[0] : a.inputs[static_cast<size_t>(load)];
  }
}

class ReduceLaunch final : public Launch {
 public:
  ReduceLaunch(const ReduceView& view, const KernelShapes& shapes) : ReduceLaunch(view, shapes, whole(view, shapes)) {}

  size_t workspace_bytes() const override { return reduce_.workspace_bytes(); }

  void run(const LaunchArguments& a) override {
    bind(view_, view_.before, a, before_);
    bind(view_, view_.behind, a, behind_);
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

// Squares of the differences of rows, summed over the rows' elements: all pairs of rows of two matrices.
struct PairsOfRows {
  SquaredDistances sums;
  size_t a, b;  // inputs of the region
};

bool is_difference(const ScalarProgram& program) {
  using Kind = ScalarInstruction::Kind;
  const auto& steps = program.instructions;
  return program.inputs == 2 && steps.size() == 3 && steps[0].kind == Kind::load && steps[1].kind == Kind::load &&
         steps[0].a != steps[1].a && steps[2].kind == Kind::apply && steps[2].function == ScalarFunction::sub &&
         steps[2].a != steps[2].b && program.outputs == std::vector<int32_t>{2};
}

std::optional<PairsOfRows> pairs_of_rows(const ReduceView& view, const KernelShapes& shapes) {
  const DType dtype = view.in.dtype;
  if (!view.before || view.op.kind != ops::ReduceKind::sum_squares || (dtype != DType::f32 && dtype != DType::f64) ||
      !is_difference(view.before->program))
    return std::nullopt;
  const KernelShapes before = shapes_before(view, shapes);
  const Dims& dims = before.outputs[0].dims;
  if (dims.size() != 3 || view.op.axes.size() != 1 || view.op.axes[0] != 2) return std::nullopt;
  const PointwiseStrides strides = pointwise_strides(*view.before, before);
  const std::vector<int64_t> of_a{dims[2], 0, 1}, of_b{0, dims[2], 1};
  PairsOfRows pairs{{dims[0], dims[1], dims[2]}, 0, 0};
  if (!pairs.sums.is_worth_it()) return std::nullopt;
  for (const size_t first : {0, 1}) {
    if (strides.loads[first] != of_a || strides.loads[1 - first] != of_b) continue;
    pairs.a = static_cast<size_t>(view.before->loads[first]);
    pairs.b = static_cast<size_t>(view.before->loads[1 - first]);
    return pairs;
  }
  return std::nullopt;
}

class DistancesLaunch final : public Launch {
 public:
  DistancesLaunch(const ReduceView& view, const PairsOfRows& pairs, const KernelShapes& shapes)
      : view_(view), pairs_(pairs), inputs_(view.behind ? view.behind->loads.size() : 0) {
    require_equal(pairs.sums.rows * pairs.sums.columns, element_count(shapes.outputs[0].dims),
                  "the size of a reduction's result");
    if (view.behind) behind_ = pointwise_of(*view.behind, shapes_behind(shapes));
  }

  size_t workspace_bytes() const override { return pairs_.sums.workspace_bytes(view_.in.dtype); }

  void run(const LaunchArguments& a) override {
    bind(view_, view_.behind, a, inputs_);
    pairs_.sums.run(a.pool, view_.in.dtype, a.inputs[pairs_.a], a.inputs[pairs_.b], a.outputs[0], a.workspace,
                    behind_ ? &*behind_ : nullptr, inputs_.data());
  }

 private:
  const ReduceView& view_;
  PairsOfRows pairs_;
  std::vector<const void*> inputs_;
  std::optional<Pointwise> behind_;
};

class ReduceKernel final : public Kernel {
 public:
  explicit ReduceKernel(ReduceView view) : view_(std::move(view)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    if (const auto pairs = pairs_of_rows(view_, shapes))
      return std::make_unique<DistancesLaunch>(view_, *pairs, shapes);
    return std::make_unique<ReduceLaunch>(view_, shapes);
  }
  bool reads_slices(size_t i) const override { return static_cast<int32_t>(i) != view_.input; }

 private:
  ReduceView view_;
};

std::optional<double> estimate_reduce(const RegionView& region) {
  const auto view = view_reduced_tiles(region);
  if (!view) return std::nullopt;
  double elements = 1, work = 0;
  for (const Dim& d : view->in.shape) elements *= size_at_optimum(region, d);
  if (view->before) work = static_cast<double>(view->before->program.instructions.size()) * elements * 1e-10;
  return seconds_per_launch + std::max(work, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_reduce(const RegionView& region, PackedConstants&) {
  return std::make_shared<ReduceKernel>(*view_reduced_tiles(region));
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
