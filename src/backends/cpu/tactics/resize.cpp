#include "backends/cpu/tactics/resize.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "backends/cpu/kernels/window/integer_resize.h"
#include "backends/cpu/kernels/window/nearest_resize.h"
#include "backends/cpu/kernels/window/resize.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "ir/ops/resize.h"
#include "reference/window/resize.h"

namespace camshaft::cpu {

namespace {

/// The spatial axes of a line, an image or a volume, if the resize touches no other; -1 where there is none.
struct ImageAxes {
  bool channels_last = false;
  int64_t depth = -1, height = -1, width = -1;
};

std::optional<ImageAxes> image_axes(const ops::Resize& op, size_t rank, int64_t most_axes = 2) {
  const auto spatial = static_cast<int64_t>(rank) - 2;
  if (spatial < 1 || spatial > most_axes) return std::nullopt;
  for (const bool channels_last : {false, true}) {
    const int64_t first = channels_last ? 1 : 2;
    bool fits = true;
    for (const int64_t axis : op.axes) fits = fits && axis >= first && axis < first + spatial;
    if (fits)
      return ImageAxes{channels_last, spatial == 3 ? first : -1, spatial >= 2 ? first + spatial - 2 : -1,
                       first + spatial - 1};
  }
  return std::nullopt;
}

std::optional<double> estimate_resize(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Resize>();
  if (!op || region.graph.shape(region.node.inputs[0]).empty()) return std::nullopt;
  const TensorType& x = region.graph.type(region.node.inputs[0]);
  // Of an image what lies outside is known axis by axis only where it is cropped in one step.
  const bool by_steps = op->coordinate != ops::ResizeCoordinate::tf_crop_and_resize;
  if (op->selects() ? !is_movable(x.dtype) : x.dtype != DType::f32 || !(image_axes(*op, x.shape.size()) || by_steps))
    return std::nullopt;
  return seconds_per_launch + 3 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_nearest(const ops::Resize& resize, size_t rank) {
  const auto make = [op = resize](const KernelShapes& shapes) {
    const OperandShape &in = shapes.inputs[0], &out = shapes.outputs[0];
    std::vector<std::vector<int32_t>> tables(in.dims.size());
    const bool empty = element_count(out.dims) == 0;  // then an axis may have any length, and its table no bound
    for (size_t i = 0; i < op.axes.size() && !empty; ++i) {
      const auto axis = static_cast<size_t>(op.axes[i]);
      const auto indices = ops::resize_axis(op, i, in.dims[axis], out.dims[axis]).indices;
      tables[axis].assign(indices.begin(), indices.end());
    }
    return
        [resize = NearestResize(width_of(in), empty ? out.dims : in.dims, std::move(tables), in.pitch(), out.pitch())](
            const LaunchArguments& a) { resize.run(a.pool, a.inputs[0], a.outputs[0]); };
  };
  // Rows may lie apart where they stay as long as they are.
  const bool keeps_rows =
      std::find(resize.axes.begin(), resize.axes.end(), static_cast<int64_t>(rank) - 1) == resize.axes.end();
  return simple_kernel(make, false, SliceUse{keeps_rows ? size_t{1} : 0, keeps_rows});
}

// Where the elements along axis `axis` of a result of `out` come from; each from its own place if it is not resized.
ResizeAxis resized_axis(const ops::Resize& op, int64_t axis, const Dims& in, const Dims& out) {
  const auto size = static_cast<size_t>(axis);
  for (size_t i = 0; i < op.axes.size(); ++i) {
    if (op.axes[i] != axis) continue;
    const ops::ResizeAxis source = ops::resize_axis(op, i, in[size], out[size]);
    ResizeAxis result;
    result.in = in[size];
    result.out = out[size];
    result.taps = source.taps;
    result.index.assign(source.indices.begin(), source.indices.end());
    result.weight.assign(source.weights.begin(), source.weights.end());
    return result;
  }
  return ResizeAxis::identity(in[size]);
}

// Resizes along any axes, by one or two neighbouring ones a step: volumes, and images without a batch or channels.
class ResizeSteps final : public Launch {
 public:
  ResizeSteps(const ops::Resize& op, const Dims& in, const Dims& out) {
    if (element_count(out) == 0) return;  // then an axis may have any length, and its table no bound
    Dims dims = in;
    const auto size = [&](int64_t first, int64_t past) {
      return std::accumulate(dims.begin() + first, dims.begin() + past, int64_t{1}, std::multiplies<>());
    };
    const auto rank = static_cast<int64_t>(in.size());
    // The last ones first, whose neighbours are whole lines.
    for (size_t i = op.axes.size(); i-- > 0;) {
      const int64_t width = op.axes[i];
      const bool is_pair = i > 0 && op.axes[i - 1] == width - 1;
      const int64_t height = is_pair ? width - 1 : -1, first = is_pair ? height : width;
      // Without anything behind it, an axis is a line of an image with one channel.
      const int64_t inner = size(width + 1, rank);
      steps_.emplace_back(size(0, first), inner, is_pair ? resized_axis(op, height, in, out) : ResizeAxis::identity(1),
                          resized_axis(op, width, in, out), inner > 1);
      for (int64_t axis = first; axis <= width; ++axis)
        dims[static_cast<size_t>(axis)] = out[static_cast<size_t>(axis)];
      if (is_pair) --i;
      if (i > 0) largest_ = std::max(largest_, element_count(dims));
    }
  }

  size_t workspace_bytes() const override {
    return std::min<size_t>(2, steps_.empty() ? 0 : steps_.size() - 1) * room() * sizeof(float);
  }

  void run(const LaunchArguments& a) override {
    const float* from = input<float>(a, 0);
    for (size_t i = 0; i < steps_.size(); ++i) {
      float* to = i + 1 == steps_.size() ? output<float>(a, 0) : reinterpret_cast<float*>(a.workspace) + i % 2 * room();
      steps_[i].run(a.pool, from, to);
      from = to;
    }
  }

 private:
  size_t room() const { return (static_cast<size_t>(largest_) + 15) / 16 * 16; }

  std::vector<Resize2d> steps_;
  int64_t largest_ = 0;  // elements between two steps
};

class ResizeByStepsKernel final : public Kernel {
 public:
  explicit ResizeByStepsKernel(ops::Resize op) : op_(std::move(op)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ResizeSteps>(op_, shapes.inputs[0].dims, shapes.outputs[0].dims);
  }

 private:
  ops::Resize op_;
};

std::shared_ptr<const Kernel> compile_resize(const RegionView& region, PackedConstants&) {
  const size_t rank = region.graph.shape(region.node.inputs[0]).size();
  if (region.node.op.as<ops::Resize>()->selects()) return compile_nearest(*region.node.op.as<ops::Resize>(), rank);
  if (!image_axes(*region.node.op.as<ops::Resize>(), rank))
    return std::make_shared<ResizeByStepsKernel>(*region.node.op.as<ops::Resize>());
  const auto make = [op = *region.node.op.as<ops::Resize>()](const KernelShapes& shapes) {
    const Dims& in = shapes.inputs[0].dims;
    const Dims& out = shapes.outputs[0].dims;
    const ImageAxes image = *image_axes(op, in.size());
    const bool empty = element_count(out) == 0;  // then an axis may have any length, and its table no bound
    const auto along = [&](int64_t axis) {
      if (axis < 0 || empty) return ResizeAxis::identity(1);
      return resized_axis(op, axis, in, out);
    };
    const int64_t channels = image.channels_last ? in.back() : in[1];
    return [resize = Resize2d(empty ? 0 : in[0], channels, along(image.height), along(image.width), image.channels_last,
                              static_cast<float>(op.extrapolation_value), shapes.inputs[0].row_stride,
                              shapes.outputs[0].row_stride)](const LaunchArguments& a) {
      resize.run(a.pool, input<float>(a, 0), output<float>(a, 0));
    };
  };
  const bool pixels = image_axes(*region.node.op.as<ops::Resize>(), rank)->channels_last;
  return simple_kernel(make, false, SliceUse{pixels ? size_t{1} : 0, pixels});
}

// ---- integers

bool is_resized_integer(DType dtype) {
  return is_integer(dtype) && bit_width(dtype) >= 8 && bit_width(dtype) <= 32;
}

std::optional<double> estimate_integer_resize(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Resize>();
  if (!op || op->selects()) return std::nullopt;
  const TensorType& x = region.graph.type(region.node.inputs[0]);
  // Sums are made in the order of the axes.
  if (!is_resized_integer(x.dtype) || !image_axes(*op, x.shape.size(), IntegerResize::most_axes) ||
      !std::is_sorted(op->axes.begin(), op->axes.end()))
    return std::nullopt;
  return seconds_per_launch + 6 * bytes_at_optimum(region) * seconds_per_byte;
}

class IntegerResizeLaunch final : public Launch {
 public:
  IntegerResizeLaunch(IntegerResize resize, DType dtype, int threads)
      : resize_(std::move(resize)), dtype_(dtype), threads_(threads) {}
  size_t workspace_bytes() const override { return resize_.workspace_bytes(threads_); }
  void run(const LaunchArguments& a) override { resize_.run(a.pool, dtype_, a.inputs[0], a.outputs[0], a.workspace); }

 private:
  IntegerResize resize_;
  DType dtype_;
  int threads_;
};

class IntegerResizeKernel final : public Kernel {
 public:
  explicit IntegerResizeKernel(ops::Resize op) : op_(std::move(op)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    const Dims &in = shapes.inputs[0].dims, &out = shapes.outputs[0].dims;
    const ImageAxes image = *image_axes(op_, in.size(), IntegerResize::most_axes);
    IntegerResize resize;
    resize.outside = op_.extrapolation_value;
    if (element_count(out) > 0) {  // else an axis may have any length, and its table no bound
      resize.images = image.channels_last ? in[0] : in[0] * in[1];
      resize.inner = image.channels_last ? in.back() : 1;
      if (image.depth >= 0 && std::ranges::find(op_.axes, image.depth) == op_.axes.end())
        resize.images *= in[static_cast<size_t>(image.depth)];
      else
        resize.depth = along(image.depth, in, out);
      resize.height = along(image.height, in, out);
      resize.width = along(image.width, in, out);
    }
    return std::make_unique<IntegerResizeLaunch>(std::move(resize), shapes.inputs[0].dtype, shapes.threads);
  }

 private:
  IntegerResize::Axis along(int64_t axis, const Dims& in, const Dims& out) const {
    IntegerResize::Axis made;
    if (axis >= 0) made.in = in[static_cast<size_t>(axis)];
    for (size_t i = 0; i < op_.axes.size(); ++i) {
      if (op_.axes[i] != axis) continue;
      const ops::ResizeAxis source = ops::resize_axis(op_, i, made.in, out[static_cast<size_t>(axis)]);
      made.taps = source.taps;
      made.index.assign(source.indices.begin(), source.indices.end());
      made.weight = source.weights;
      return made;
    }
    made.index.resize(static_cast<size_t>(made.in));
    std::iota(made.index.begin(), made.index.end(), 0);
    made.weight.assign(made.index.size(), 1.0);
    return made;
  }

  ops::Resize op_;
};

std::shared_ptr<const Kernel> compile_integer_resize(const RegionView& region, PackedConstants&) {
  return std::make_shared<IntegerResizeKernel>(*region.node.op.as<ops::Resize>());
}

}  // namespace

const CpuTactic resize_tactic{"resize", estimate_resize, compile_resize};
const CpuTactic integer_resize_tactic{"integer_resize", estimate_integer_resize, compile_integer_resize};

}  // namespace camshaft::cpu
