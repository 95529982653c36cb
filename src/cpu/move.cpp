#include "cpu/move.h"

#include <numeric>

#include "compile/shape_check.h"
#include "cpu/kernels/copy.h"
#include "cpu/kernels/resize.h"
#include "cpu/simple_kernel.h"
#include "ops/move.h"
#include "ops/resize.h"

namespace camshaft::cpu {

namespace {

/// Elements of one, two, four or eight bytes.
bool movable(const RegionView& region, size_t i) {
  const DType dtype = region.graph.type(region.node.inputs[i]).dtype;
  return !holds_objects(dtype) && bit_width(dtype) >= 8;
}

template <class T>
std::optional<double> estimate(const RegionView& region) {
  if (!region.node.op.as<T>() || !movable(region, 0)) return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

Dims row_major(const OperandShape& operand) {
  Dims strides(operand.dims.size());
  int64_t stride = 1;
  for (size_t d = operand.dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride = d + 1 == operand.dims.size() ? operand.pitch() : stride * operand.dims[d];
  }
  return strides;
}

int64_t width_of(const OperandShape& shape) {
  return bit_width(shape.dtype) / 8;
}

std::shared_ptr<const Kernel> compile_transpose(const RegionView& region, PackedConstants&) {
  return simple_kernel(
      [op = *region.node.op.as<ops::Transpose>()](const KernelShapes& shapes) {
        const Dims strides = row_major(shapes.inputs[0]);
        Dims in;
        for (const int64_t p : op.permutation) in.push_back(strides[static_cast<size_t>(p)]);
        return
            [copy = StridedCopy(width_of(shapes.inputs[0]), shapes.outputs[0].dims, in, row_major(shapes.outputs[0]))](
                const LaunchArguments& a) { copy.run(a.pool, a.inputs[0], a.outputs[0]); };
      },
      false, SliceUse{1, true});
}

std::optional<double> estimate_expand(const RegionView& region) {
  if (region.node.inputs.size() != 1) return std::nullopt;
  return estimate<ops::Expand>(region);
}

std::shared_ptr<const Kernel> compile_expand(const RegionView&, PackedConstants&) {
  return simple_kernel(
      [](const KernelShapes& shapes) {
        const Dims& x = shapes.inputs[0].dims;
        const Dims& y = shapes.outputs[0].dims;
        require_broadcast(x, y);
        const Dims strides = row_major(shapes.inputs[0]);
        Dims in(y.size(), 0);
        for (size_t i = 0; i < x.size(); ++i)
          if (x[x.size() - 1 - i] != 1) in[y.size() - 1 - i] = strides[x.size() - 1 - i];
        return [copy = StridedCopy(width_of(shapes.inputs[0]), y, in, row_major(shapes.outputs[0]))](
                   const LaunchArguments& a) { copy.run(a.pool, a.inputs[0], a.outputs[0]); };
      },
      false, SliceUse{1, true});
}

std::shared_ptr<const Kernel> compile_slice(const RegionView& region, PackedConstants&) {
  const auto make = [op = *region.node.op.as<ops::Slice>()](const KernelShapes& shapes) {
    const Dims& x = shapes.inputs[0].dims;
    const int64_t width = width_of(shapes.inputs[0]);
    const Dims strides = row_major(shapes.inputs[0]);
    Dims in = strides;
    int64_t start = 0;
    for (size_t i = 0; i < op.axes.size(); ++i) {
      const auto axis = static_cast<size_t>(op.axes[i]);
      const int64_t from = op.starts[i].evaluate(*shapes.symbols), count = shapes.outputs[0].dims[axis];
      int64_t to = 0;
      const bool fits = !__builtin_mul_overflow(count - 1, op.steps[i], &to) && !__builtin_add_overflow(from, to, &to);
      if (count > 0 && (!fits || from < 0 || from >= x[axis] || to < 0 || to >= x[axis]))
        throw Error(ErrorCode::invalid_argument, "a slice from " + std::to_string(from) + " to " + std::to_string(to) +
                                                     " leaves axis " + std::to_string(axis) + " of " + to_string(x));
      if (count > 0) start += from * strides[axis];
      in[axis] = count > 1 ? in[axis] * op.steps[i] : 0;
    }
    return [copy = StridedCopy(width, shapes.outputs[0].dims, in, row_major(shapes.outputs[0])),
            offset = start * width](const LaunchArguments& a) { copy.run(a.pool, a.inputs[0] + offset, a.outputs[0]); };
  };
  return simple_kernel(make, false, SliceUse{1, true});
}

std::shared_ptr<const Kernel> compile_concat(const RegionView& region, PackedConstants&) {
  const auto make = [op = *region.node.op.as<ops::Concat>()](const KernelShapes& shapes) {
    const int64_t width = width_of(shapes.inputs[0]);
    int64_t outer = 1, joined = 0;
    std::vector<int64_t> bytes;
    for (const OperandShape& part : shapes.inputs) {
      for (size_t d = 0; d < part.dims.size(); ++d)
        if (static_cast<int64_t>(d) != op.axis)
          require_equal(part.dims[d], shapes.outputs[0].dims[d], "an axis of a concatenated tensor");
      joined += part.dims[static_cast<size_t>(op.axis)];
      const AxisSplit split(part.dims, op.axis);
      outer = split.outer;
      bytes.push_back(split.axis * split.inner * width);
    }
    require_equal(joined, shapes.outputs[0].dims[static_cast<size_t>(op.axis)], "the size of a concatenation");
    // Part by part where some lie in the result already, or rows are not dense.
    const Dims to = row_major(shapes.outputs[0]);
    bool dense = shapes.outputs[0].row_stride == 0;
    std::vector<StridedCopy> copies;
    std::vector<int64_t> offsets;
    int64_t at = 0;
    for (const OperandShape& part : shapes.inputs) {
      dense = dense && part.row_stride == 0;
      copies.emplace_back(width, part.dims, row_major(part), to);
      offsets.push_back(at * to[static_cast<size_t>(op.axis)] * width);
      at += part.dims[static_cast<size_t>(op.axis)];
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
  const auto seconds = estimate<ops::Gather>(region);
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
    const GatherElements gather{width_of(shapes.inputs[0]), shapes.inputs[0].dims, shapes.inputs[1].dims,
                                static_cast<int>(op.axis)};
    return [gather, type = shapes.inputs[1].dtype](const LaunchArguments& a) {
      gather.run(a.pool, a.inputs[0], a.inputs[1], type, a.outputs[0]);
    };
  });
}

// ---- resize

/// The two spatial axes (height, width) of a rank-3 or rank-4 image, if the resize touches no other.
struct ImageAxes {
  bool channels_last = false;
  int64_t height = -1, width = -1;  // height -1: 1-D
};

std::optional<ImageAxes> image_axes(const ops::Resize& op, size_t rank) {
  if (rank != 3 && rank != 4) return std::nullopt;
  const auto spatial = static_cast<int64_t>(rank) - 2;
  for (const bool channels_last : {false, true}) {
    const int64_t first = channels_last ? 1 : 2;
    bool fits = true;
    for (const int64_t axis : op.axes) fits = fits && axis >= first && axis < first + spatial;
    if (fits) return ImageAxes{channels_last, spatial == 2 ? first : -1, first + spatial - 1};
  }
  return std::nullopt;
}

std::optional<double> estimate_resize(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Resize>();
  if (!op || region.graph.type(region.node.inputs[0]).dtype != DType::f32 ||
      !image_axes(*op, region.graph.shape(region.node.inputs[0]).size()))
    return std::nullopt;
  return seconds_per_launch + 3 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_resize(const RegionView& region, PackedConstants&) {
  const auto make = [op = *region.node.op.as<ops::Resize>()](const KernelShapes& shapes) {
    const Dims& in = shapes.inputs[0].dims;
    const Dims& out = shapes.outputs[0].dims;
    const ImageAxes image = *image_axes(op, in.size());
    const bool empty = element_count(out) == 0;  // then an axis may have any length, and its table no bound
    const auto along = [&](int64_t axis) {
      if (axis < 0 || empty) return ResizeAxis::identity(1);
      for (size_t i = 0; i < op.axes.size(); ++i) {
        if (op.axes[i] != axis) continue;
        const ops::ResizeAxis source =
            ops::resize_axis(op, i, in[static_cast<size_t>(axis)], out[static_cast<size_t>(axis)]);
        ResizeAxis result;
        result.in = in[static_cast<size_t>(axis)];
        result.out = out[static_cast<size_t>(axis)];
        result.taps = source.taps;
        result.index.assign(source.indices.begin(), source.indices.end());
        result.weight = source.weights;
        return result;
      }
      return ResizeAxis::identity(in[static_cast<size_t>(axis)]);
    };
    const int64_t channels = image.channels_last ? in.back() : in[1];
    return [resize = Resize2d(empty ? 0 : in[0], channels, along(image.height), along(image.width), image.channels_last,
                              static_cast<float>(op.extrapolation_value), shapes.inputs[0].row_stride,
                              shapes.outputs[0].row_stride)](const LaunchArguments& a) {
      resize.run(a.pool, input<float>(a, 0), output<float>(a, 0));
    };
  };
  const bool pixels =
      image_axes(*region.node.op.as<ops::Resize>(), region.graph.shape(region.node.inputs[0]).size())->channels_last;
  return simple_kernel(make, false, SliceUse{pixels ? size_t{1} : 0, pixels});
}

}  // namespace

const CpuTactic transpose_tactic{"transpose", estimate<ops::Transpose>, compile_transpose};
const CpuTactic expand_tactic{"expand", estimate_expand, compile_expand};
const CpuTactic slice_tactic{"slice", estimate<ops::Slice>, compile_slice};
const CpuTactic concat_tactic{"concat", estimate<ops::Concat>, compile_concat};
const CpuTactic pad_tactic{"pad", estimate<ops::Pad>, compile_pad};
const CpuTactic gather_tactic{"gather", estimate_gather, compile_gather};
const CpuTactic gather_elements_tactic{"gather_elements", estimate<ops::GatherElements>, compile_gather_elements};
const CpuTactic resize_tactic{"resize", estimate_resize, compile_resize};

}  // namespace camshaft::cpu
