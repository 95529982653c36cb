// Resizing on a GPU: nearest neighbours of any type, and interpolation of floating-point numbers.
#include "ir/ops/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/cuda/codegen/move_text.h"
#include "backends/cuda/codegen/window_text.h"
#include "backends/cuda/device/pad_parameters.h"
#include "backends/cuda/device/resize_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/device_table.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/optimum.h"
#include "compile/region/move_view.h"
#include "reference/element_io.h"
#include "reference/window/resize.h"

namespace camshaft::cuda {

namespace {

constexpr size_t most_resize_dims = std::size(ResizeParameters{}.size);
constexpr size_t most_interpolated = std::size(ResizeParameters{}.axis);

struct ResizeKernels {
  ResizeKernels(const Workshop& workshop, const ops::Resize& op, DType dtype) : device(workshop.device()) {
    const bool nearest = op.mode == ops::ResizeMode::nearest;
    const Module module = nearest ? workshop.module("resize", mapped_copy_text(bit_width(dtype) / 8))
                                  : workshop.module("resize", resize_text(static_cast<int>(op.axes.size()), dtype));
    any = module.function(nearest ? "copy_mapped_any" : "interpolate_any");
    vector = module.function(nearest ? "copy_mapped_vector" : "interpolate_vector");
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  Function any, vector;
};

/// An axis of the result, or several that are walked as one.
struct Axis {
  int64_t size, in, out;
  int resized;  ///< number among the operator's axes; -1: none
};

std::vector<Axis> axes_of(const ops::Resize& op, const KernelShapes& shapes) {
  const Dims &dims = shapes.outputs[0].dims, in = row_major(shapes.inputs[0]), out = row_major(shapes.outputs[0]);
  std::vector<Axis> axes;
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto it = std::find(op.axes.begin(), op.axes.end(), static_cast<int64_t>(d));
    const Axis axis{dims[d], in[d], out[d], it == op.axes.end() ? -1 : static_cast<int>(it - op.axes.begin())};
    if (axis.resized < 0 && !axes.empty() && axes.back().resized < 0 && axes.back().in == axis.in * axis.size &&
        axes.back().out == axis.out * axis.size) {
      axes.back() = {axes.back().size * axis.size, axis.in, axis.out, -1};
    } else if (axis.resized >= 0 || axis.size != 1) {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({1, 1, 1, -1});
  return axes;
}

class ResizeLaunch final : public Launch {
 public:
  ResizeLaunch(std::shared_ptr<const ResizeKernels> kernels, const ops::Resize& op, const KernelShapes& shapes)
      : kernels_(std::move(kernels)), table_(kernels_->device), elements_(element_count(shapes.outputs[0].dims)) {
    check_elements(elements_, "a resized image");
    if (elements_ == 0) return;  // then an axis may have any length, and its table no bound
    const std::vector<Axis> axes = axes_of(op, shapes);
    struct Place {
      size_t index, weight;
    };
    std::vector<Place> places;
    ResizeParameters p;
    for (size_t i = 0; i < op.axes.size(); ++i) {
      const auto axis = static_cast<size_t>(op.axes[i]);
      const int64_t in = shapes.inputs[0].dims[axis];
      const ops::ResizeAxis made = ops::resize_axis(op, i, in, shapes.outputs[0].dims[axis]);
      if (std::max(in, static_cast<int64_t>(made.indices.size())) > std::numeric_limits<int32_t>::max())
        throw Error(ErrorCode::unsupported, fmt::format("an axis of {} elements is too long to be resized", in));
      places.push_back({table_.add(std::vector<int32_t>(made.indices.begin(), made.indices.end())),
                        nearest(op) ? 0 : table_.add(std::vector<float>(made.weights.begin(), made.weights.end()))});
      if (i < most_interpolated) p.taps[i] = narrow(made.taps);
    }
    const DType dtype = shapes.inputs[0].dtype;
    std::vector<std::byte> outside(8);
    ops::store_elements(dtype, outside.data(), 0, 1, 1, &op.extrapolation_value);
    const size_t outside_at = table_.add(outside);
    table_.upload();
    outside_ = table_.data() + outside_at;

    // 16 bytes at once where neighbours stay neighbours.
    const int64_t count = 128 / bit_width(dtype);
    bool can_be_vector = count > 1 && axes.back().resized < 0 && axes.back().in == 1 && axes.back().out == 1 &&
                         axes.back().size % count == 0;
    for (size_t a = 0; a + 1 < axes.size(); ++a)
      can_be_vector = can_be_vector && axes[a].in % count == 0 && axes[a].out % count == 0;
    p.outside = op.extrapolation_value;
    MappedCopyParameters m;
    for (size_t a = 0; a < axes.size(); ++a) {
      const int r = axes[a].resized;
      m.in[a] = axes[a].in;
      m.out[a] = p.out[a] = axes[a].out;
      p.in[a] = r < 0 ? axes[a].in : 0;
      if (r < 0) continue;
      const auto* indices = reinterpret_cast<const i32*>(table_.data() + places[static_cast<size_t>(r)].index);
      m.table[a] = indices;
      if (nearest(op)) continue;
      p.axis[r] = narrow(a);
      p.stride[r] = axes[a].in;
      p.index[r] = indices;
      p.weight[r] = reinterpret_cast<const f32*>(table_.data() + places[static_cast<size_t>(r)].weight);
    }
    nearest_ = nearest(op);
    for (const int64_t chunk : {int64_t{1}, count}) {
      if (chunk > 1 && !can_be_vector) break;
      MappedCopyParameters& mapped = chunk > 1 ? mapped_vector_ : mapped_;
      ResizeParameters& interpolation = chunk > 1 ? interpolation_vector_ : interpolation_;
      mapped = m;
      interpolation = p;
      for (size_t a = 0; a < axes.size(); ++a) {
        const int64_t here = a + 1 == axes.size() ? chunk : 1;
        mapped.size[a] = interpolation.size[a] = Divisor(narrow(axes[a].size / here));
        mapped.in[a] *= here;
        mapped.out[a] *= here;
        interpolation.in[a] *= here;
        interpolation.out[a] *= here;
      }
      mapped.rank = interpolation.rank = narrow(axes.size());
      mapped.chunks = interpolation.chunks = narrow(elements_ / chunk);
    }
    can_be_vector_ = can_be_vector;
  }

  void run(const LaunchArguments& a) override {
    if (elements_ == 0) return;
    const std::byte* in = a.inputs[0];
    std::byte* out = a.outputs[0];
    const bool vector =
        can_be_vector_ && (reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) % 16 == 0;
    const uint32_t chunks = vector ? mapped_vector_.chunks : mapped_.chunks;
    const LaunchSize size{.blocks = blocks_for(chunks, threads_a_block), .threads = threads_a_block};
    const Function& function = vector ? kernels_->vector : kernels_->any;
    const Stream& stream = static_cast<Queue*>(a.queue)->stream();
    if (nearest_) {
      void* const arguments[] = {vector ? &mapped_vector_ : &mapped_, &in, &outside_, &out};
      function.launch(stream, size, arguments);
    } else {
      void* const arguments[] = {vector ? &interpolation_vector_ : &interpolation_, &in, &out};
      function.launch(stream, size, arguments);
    }
  }

 private:
  static bool nearest(const ops::Resize& op) { return op.mode == ops::ResizeMode::nearest; }

  std::shared_ptr<const ResizeKernels> kernels_;
  DeviceTable table_;
  int64_t elements_;
  const std::byte* outside_ = nullptr;  // the extrapolation value
  bool nearest_ = false, can_be_vector_ = false;
  MappedCopyParameters mapped_, mapped_vector_;
  ResizeParameters interpolation_, interpolation_vector_;
};

class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(const ops::Resize& op, std::shared_ptr<const ResizeKernels> kernels)
      : op_(op), kernels_(std::move(kernels)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ResizeLaunch>(kernels_, op_, shapes);
  }
  bool reads_slices(size_t i) const override { return i == 0; }
  bool writes_slices(size_t) const override { return true; }

 private:
  ops::Resize op_;
  std::shared_ptr<const ResizeKernels> kernels_;
};

std::optional<double> estimate_resize(const RegionView& region, const DeviceFacts&) {
  const Node& node = region.node;
  const auto* op = node.op.as<ops::Resize>();
  if (!op || region.graph.shape(node.inputs[0]).size() > most_resize_dims) return std::nullopt;
  const DType dtype = region.graph.type(node.inputs[0]).dtype;
  const bool real = is_floating(dtype) && (bit_width(dtype) >= 32 || dtype == DType::f16 || dtype == DType::bf16);
  if (op->mode == ops::ResizeMode::nearest ? !is_movable(dtype)
                                           : !real || op->axes.empty() || op->axes.size() > most_interpolated)
    return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_resize(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::Resize>();
  return std::make_shared<ResizeKernel>(
      op, std::make_shared<const ResizeKernels>(workshop, op, region.graph.type(region.node.inputs[0]).dtype));
}

}  // namespace

const CudaTactic resize_tactic{"cuda_resize", estimate_resize, compile_resize};

}  // namespace camshaft::cuda
