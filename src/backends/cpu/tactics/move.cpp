#include "backends/cpu/tactics/move.h"

#include <numeric>

#include "backends/cpu/kernels/move/concat.h"
#include "backends/cpu/kernels/move/gather.h"
#include "backends/cpu/kernels/move/indexed_copy.h"
#include "backends/cpu/kernels/move/pad.h"
#include "backends/cpu/kernels/move/strided_copy.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/plan/shape_check.h"
#include "compile/region/move_view.h"
#include "ir/ops/move.h"

namespace camshaft::cpu {

namespace {

template <class T>
std::optional<double> estimate_move(const RegionView& region) {
  if (!region.node.op.as<T>() || !is_movable(region.graph.type(region.node.inputs[0]).dtype)) return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

// `make(shapes)` gives the move.
template <class Make>
std::shared_ptr<const Kernel> strided_kernel(Make make) {
  return simple_kernel(
      [make](const KernelShapes& shapes) {
        const StridedMove move = make(shapes);
        const int64_t width = width_of(shapes.inputs[0]);
        return [copy = StridedCopy(width, move.dims, move.in, move.out), offset = move.start * width](
                   const LaunchArguments& a) { copy.run(a.pool, a.inputs[0] + offset, a.outputs[0]); };
      },
      false, SliceUse{1, true});
}

std::shared_ptr<const Kernel> compile_transpose(const RegionView& region, PackedConstants&) {
  return strided_kernel(
      [op = *region.node.op.as<ops::Transpose>()](const KernelShapes& shapes) { return transpose_move(op, shapes); });
}

std::optional<double> estimate_expand(const RegionView& region) {
  if (region.node.inputs.size() != 1) return std::nullopt;
  return estimate_move<ops::Expand>(region);
}

std::shared_ptr<const Kernel> compile_expand(const RegionView&, PackedConstants&) {
  return strided_kernel(expand_move);
}

std::shared_ptr<const Kernel> compile_slice(const RegionView& region, PackedConstants&) {
  return strided_kernel(
      [op = *region.node.op.as<ops::Slice>()](const KernelShapes& shapes) { return slice_move(op, shapes); });
}

std::shared_ptr<const Kernel> compile_concat(const RegionView& region, PackedConstants&) {
  const auto make = [op = *region.node.op.as<ops::Concat>()](const KernelShapes& shapes) {
    const int64_t width = width_of(shapes.inputs[0]);
    // Part by part where some lie in the result already, or rows are not dense.
    bool dense = shapes.outputs[0].row_stride == 0;
    int64_t outer = 1;
    std::vector<int64_t> bytes, offsets;
    std::vector<StridedCopy> copies;
    for (const OperandShape& part : shapes.inputs) {
      const AxisSplit split(part.dims, op.axis);
      outer = split.outer;
      bytes.push_back(split.axis * split.inner * width);
      dense = dense && part.row_stride == 0;
    }
    for (const StridedMove& part : concat_moves(op, shapes)) {
      copies.emplace_back(width, part.dims, part.in, part.out);
      offsets.push_back(part.start * width);
    }
    return [=, parts = std::vector<const void*>(bytes.size())](const LaunchArguments& a) mutable {
      bool placed = false;
      for (size_t k = 0; k < parts.size(); ++k) {
        parts[k] = a.inputs[k];
        placed = placed || (bytes[k] > 0 && a.inputs[k] == a.outputs[0] + offsets[k]);
      }
      if (dense && !placed) {
        concat(a.pool, outer, static_cast<int>(parts.size()), bytes.data(), parts.data(), a.outputs[0]);
        return;
      }
      for (size_t k = 0; k < parts.size(); ++k)
        if (a.inputs[k] != a.outputs[0] + offsets[k]) copies[k].run(a.pool, a.inputs[k], a.outputs[0] + offsets[k]);
    };
  };
  return simple_kernel(make, false, SliceUse{region.node.inputs.size(), true});
}

std::shared_ptr<const Kernel> compile_pad(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::Pad>()](const KernelShapes& shapes) {
    const auto rank = static_cast<int64_t>(shapes.inputs[0].dims.size());
    Dims all;
    for (const Dim& d : op.pads) all.push_back(ops::pad_amount(d, *shapes.symbols));
    if (shapes.inputs.size() > 1 && !shapes.inputs[1].dims.empty())
      require_equal(shapes.inputs[1].dims[0], 1, "the number of padding values");
    return [pad = Pad(width_of(shapes.inputs[0]), shapes.inputs[0].dims, Dims(all.begin(), all.begin() + rank),
                      Dims(all.begin() + rank, all.end()), static_cast<PadMode>(op.mode))](const LaunchArguments& a) {
      pad.run(a.pool, a.inputs[0], a.outputs[0], a.inputs.size() > 1 ? a.inputs[1] : nullptr);
    };
  });
}
static_assert(static_cast<int>(ops::PadMode::constant) == static_cast<int>(PadMode::constant) &&
              static_cast<int>(ops::PadMode::wrap) == static_cast<int>(PadMode::wrap));

std::optional<double> estimate_gather(const RegionView& region) {
  const auto seconds = estimate_move<ops::Gather>(region);
  return seconds ? std::optional<double>(seconds_per_launch +
                                         2 * elements_at_optimum(region, region.node.outputs[0]) * 4 * seconds_per_byte)
                 : std::nullopt;
}

std::shared_ptr<const Kernel> compile_gather(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::Gather>()](const KernelShapes& shapes) {
    const AxisSplit split(shapes.inputs[0].dims, op.axis);
    const Gather gather{split.outer, split.axis, split.inner * width_of(shapes.inputs[0]),
                        element_count(shapes.inputs[1].dims)};
    return [gather, type = shapes.inputs[1].dtype](const LaunchArguments& a) {
      gather.run(a.pool, a.inputs[0], a.inputs[1], type, a.outputs[0]);
    };
  });
}

std::shared_ptr<const Kernel> compile_gather_elements(const RegionView& region, PackedConstants&) {
  return simple_kernel([op = *region.node.op.as<ops::GatherElements>()](const KernelShapes& shapes) {
    for (size_t d = 0; d < shapes.inputs[0].dims.size(); ++d)
      if (static_cast<int64_t>(d) != op.axis && shapes.inputs[1].dims[d] > shapes.inputs[0].dims[d])
        require_equal(shapes.inputs[1].dims[d], shapes.inputs[0].dims[d], "an axis of the indices of gather_elements");
    const GatherElements gather(width_of(shapes.inputs[0]), shapes.inputs[0].dims, shapes.inputs[1].dims,
                                static_cast<int>(op.axis));
    return [gather, type = shapes.inputs[1].dtype](const LaunchArguments& a) {
      gather.run(a.pool, a.inputs[0], a.inputs[1], type, a.outputs[0]);
    };
  });
}

std::optional<double> estimate_index_map(const RegionView& region) {
  const Node& node = region.node;
  const auto* op = node.op.as<ops::IndexMap>();
  if (!op || !is_movable(region.graph.type(node.inputs[0]).dtype) || op->starts.size() > IndexedCopy::most_left)
    return std::nullopt;
  const double width = bit_width(region.graph.type(node.inputs[0]).dtype) / 8.0;
  return seconds_per_launch + 2 * elements_at_optimum(region, node.outputs[0]) * width * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_index_map(const RegionView& region, PackedConstants&) {
  const auto make = [op = *region.node.op.as<ops::IndexMap>()](const KernelShapes& shapes) {
    const int64_t width = width_of(shapes.inputs[0]);
    const IndexedMove move = indexed_move(op, shapes);
    std::optional<StridedCopy> plain;
    std::optional<IndexedCopy> indexed;
    int64_t start = 0;
    if (const auto strided = move.strided()) {
      plain.emplace(width, strided->dims, strided->in, strided->out);
      start = strided->start * width;
    } else {
      std::vector<IndexedCopy::Axis> axes;
      std::vector<IndexedCopy::Source> sources;
      for (size_t a = 0; a < move.out.size(); ++a)
        axes.push_back({move.map.axes[a].size, move.map.axes[a].along, move.map.axes[a].step, move.out[a]});
      for (size_t d = 0; d < move.in.size(); ++d)
        sources.push_back(
            {move.map.sources[d].start, move.map.sources[d].length, move.in[d], move.map.sources[d].leaves});
      indexed.emplace(width, axes, sources, op.wraps);
    }
    return [=](const LaunchArguments& a) {
      if (plain) return plain->run(a.pool, a.inputs[0] + start, a.outputs[0]);
      indexed->run(a.pool, a.inputs[0], a.outputs[0], a.inputs.size() > 1 ? a.inputs[1] : nullptr);
    };
  };
  return simple_kernel(make, false, SliceUse{1, true});
}

}  // namespace

const CpuTactic transpose_tactic{"transpose", estimate_move<ops::Transpose>, compile_transpose};
const CpuTactic expand_tactic{"expand", estimate_expand, compile_expand};
const CpuTactic slice_tactic{"slice", estimate_move<ops::Slice>, compile_slice};
const CpuTactic concat_tactic{"concat", estimate_move<ops::Concat>, compile_concat};
const CpuTactic pad_tactic{"pad", estimate_move<ops::Pad>, compile_pad};
const CpuTactic index_map_tactic{"index_map", estimate_index_map, compile_index_map};
const CpuTactic gather_tactic{"gather", estimate_gather, compile_gather};
const CpuTactic gather_elements_tactic{"gather_elements", estimate_move<ops::GatherElements>, compile_gather_elements};

}  // namespace camshaft::cpu
