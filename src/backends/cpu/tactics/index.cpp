#include "backends/cpu/tactics/index.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/kernels/move/scatter.h"
#include "backends/cpu/kernels/move/sequence_moves.h"
#include "backends/cpu/kernels/reduce/cumulative.h"
#include "backends/cpu/kernels/with_type.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/constants/constant_axis.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/index.h"
#include "ir/ops/lookup.h"
#include "ir/ops/strides.h"
#include "reference/ml/lookup.h"

namespace camshaft::cpu {

namespace {

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
    return [at = indexed_slices(x, indices, static_cast<size_t>(batch_axes)),
            width = bit_width(shapes.inputs[0].dtype) / 8, index = shapes.inputs[1].dtype](const LaunchArguments& a) {
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

template <class T>
std::optional<double> estimate_indexed_move(const RegionView& region) {
  if (!region.node.op.as<T>()) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  if (holds_objects(dtype) || bit_width(dtype) < 8) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_tensor_scatter(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::TensorScatter>()](const KernelShapes& shapes) {
        const Dims &cache = shapes.inputs[0].dims, &update = shapes.inputs[1].dims;
        const auto at = static_cast<size_t>(op.axis);
        for (size_t d = 0; d < cache.size(); ++d)
          if (d != at) require_equal(update[d], cache[d], "an axis of the update of tensor_scatter");
        if (update[at] > cache[at])
          throw Error(ErrorCode::invalid_argument, fmt::format("an update of shape {} does not fit a cache of {}",
                                                               to_string(update), to_string(cache)));
        const bool has_starts = shapes.inputs.size() > 2 && !shapes.inputs[2].dims.empty();
        if (has_starts) require_equal(shapes.inputs[2].dims[0], cache[0], "the number of write indices");
        CacheUpdate move;
        move.batch = cache[0];
        move.lines = ops::product(cache, 1, at);
        move.size = cache[at], move.count = update[at];
        move.step_bytes = ops::product(cache, at + 1, cache.size()) * bit_width(shapes.inputs[0].dtype) / 8;
        move.circular = op.circular;
        const DType type = has_starts ? shapes.inputs[2].dtype : DType::i64;
        return [move, type](const LaunchArguments& a) {
          move.run(a.pool, a.inputs[0], a.inputs[1], input<std::byte>(a, 2), type, a.outputs[0]);
        };
      },
      true);
}

std::shared_ptr<const Kernel> compile_reverse_sequence(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [batch_first = region.node.op.as<ops::ReverseSequence>()->batch_first](const KernelShapes& shapes) {
        const Dims& x = shapes.inputs[0].dims;
        SequenceReverse move;
        move.batch = x[batch_first ? 0 : 1], move.time = x[batch_first ? 1 : 0];
        move.step_bytes = ops::product(x, 2, x.size()) * bit_width(shapes.inputs[0].dtype) / 8;
        move.batch_first = batch_first;
        require_equal(shapes.inputs[1].dims[0], move.batch, "the number of lengths of reverse_sequence");
        return [move, type = shapes.inputs[1].dtype](const LaunchArguments& a) {
          move.run(a.pool, a.inputs[0], a.inputs[1], type, a.outputs[0]);
        };
      });
}

// Where the result lies. The reference's own tensors, new in each run and copied, took half of LabelEncoder's time.
std::optional<double> estimate_find_keys(const RegionView& region) {
  if (!region.node.op.as<ops::FindKeys>() || holds_objects(region.graph.type(region.node.inputs[0]).dtype))
    return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_find_keys(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::FindKeys>()](const KernelShapes& shapes) {
    return [op, dtype = shapes.inputs[0].dtype, size = element_count(shapes.inputs[0].dims),
            keys = element_count(shapes.inputs[1].dims)](const LaunchArguments& a) {
      ops::find_keys(op, dtype, a.inputs[0], size, a.inputs[1], keys, a.pool, output<int64_t>(a, 0));
    };
  });
}

}  // namespace

const CpuTactic find_keys_tactic{"find_keys", estimate_find_keys, compile_find_keys};
const CpuTactic gather_nd_tactic{"gather_nd", estimate_gather_nd, compile_gather_nd};
const CpuTactic tensor_scatter_tactic{"tensor_scatter", estimate_indexed_move<ops::TensorScatter>,
                                      compile_tensor_scatter};
const CpuTactic reverse_sequence_tactic{"reverse_sequence", estimate_indexed_move<ops::ReverseSequence>,
                                        compile_reverse_sequence};
const CpuTactic cumulative_tactic{"cumulative", estimate_cumulative, compile_cumulative};

}  // namespace camshaft::cpu
