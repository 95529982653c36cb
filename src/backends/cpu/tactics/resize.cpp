#include "backends/cpu/tactics/resize.h"

#include "backends/cpu/kernels/window/resize.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "ir/ops/resize.h"
#include "reference/window/resize.h"

namespace camshaft::cpu {

namespace {

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

const CpuTactic resize_tactic{"resize", estimate_resize, compile_resize};

}  // namespace camshaft::cpu
