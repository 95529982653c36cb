#include "backends/cpu/tactics/normalize.h"

#include "backends/cpu/kernels/reduce/normalize.h"
#include "backends/cpu/kernels/reduce/softmax.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/reduce.h"

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

std::shared_ptr<const Kernel> compile_layer_norm(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::LayerNorm>()](const KernelShapes& shapes) {
        int64_t rows = 1, length = 1;
        const Dims& dims = shapes.inputs[0].dims;
        for (size_t d = 0; d < dims.size(); ++d) (static_cast<int64_t>(d) < op.axis ? rows : length) *= dims[d];
        const auto epsilon = static_cast<float>(op.epsilon), added = op.clamped ? 0 : epsilon;
        const float least = op.clamped ? epsilon : 0;
        return [=, rms = op.root_mean_square](const LaunchArguments& a) {
          const auto* x = input<float>(a, 0);
          if (rms) {
            RmsNorm{rows, length, added, least}.run(a.pool, x, input<float>(a, 1), output<float>(a, 0));
          } else {
            LayerNorm{rows, length, epsilon}.run(a.pool, x, input<float>(a, 1), input<float>(a, 2),
                                                 output<float>(a, 0));
          }
        };
      },
      true);
}

// The kernel's RMS norm has no bias, and scale and bias are as long as a row.
std::optional<double> estimate_layer_norm(const RegionView& region) {
  const auto seconds = estimate_normalize<ops::LayerNorm>(region);
  if (!seconds) return std::nullopt;
  const auto& op = *region.node.op.as<ops::LayerNorm>();
  const auto has = [&](size_t i) { return i < region.node.inputs.size() && region.node.inputs[i] != no_value; };
  if (op.root_mean_square && has(2)) return std::nullopt;
  const Shape& x = region.graph.shape(region.node.inputs[0]);
  const Shape row(x.begin() + op.axis, x.end());
  for (const size_t i : {1, 2})
    if (has(i) && region.graph.shape(region.node.inputs[i]) != row) return std::nullopt;
  return seconds;
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
