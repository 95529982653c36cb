// Layer, RMS, group and instance norm on a GPU.
#include <algorithm>

#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/row_kernels.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/reduce.h"

namespace camshaft::cuda {

namespace {

struct Kernels {
  RowKernels rows;
  size_t element_bytes, scale_bytes, bias_bytes;
};

class NormLaunch final : public Launch {
 public:
  NormLaunch(const Kernels& kernels, const RowParameters& rows)
      : kernels_(kernels),
        empty_(rows.rows == 0 || rows.length == 0),
        can_be_vector_(RowForm::can_be_vector(rows, kernels.rows.vector_elements)),
        any_(kernels.rows, rows, false),
        vector_(kernels.rows, rows, can_be_vector_) {}

  void run(const LaunchArguments& arguments) override {
    if (empty_) return;
    const auto *in = arguments.inputs[0], *scale = input_of(arguments, 1), *bias = input_of(arguments, 2);
    auto* out = arguments.outputs[0];
    const auto count = static_cast<size_t>(kernels_.rows.vector_elements);
    const auto can_load = [&](const std::byte* pointer, size_t bytes) {
      return is_aligned(pointer, std::min<size_t>(16, count * bytes));
    };
    const bool vector = can_be_vector_ && can_load(in, kernels_.element_bytes) &&
                        can_load(out, kernels_.element_bytes) && can_load(scale, kernels_.scale_bytes) &&
                        can_load(bias, kernels_.bias_bytes);
    void* parameters[] = {nullptr, &in, &scale, &bias, &out};
    (vector ? vector_ : any_).launch(stream_of(arguments), parameters);
  }

 private:
  const Kernels& kernels_;
  bool empty_, can_be_vector_;
  RowForm any_, vector_;
};

// Scale and bias have the shape of the normalised axes.
RowParameters rows_of(const ops::LayerNorm& op, const KernelShapes& shapes) {
  int64_t rows = 1, length = 1;
  const Dims& dims = shapes.inputs[0].dims;
  for (size_t d = 0; d < dims.size(); ++d) (static_cast<int64_t>(d) < op.axis ? rows : length) *= dims[d];
  for (size_t i = 1; i < shapes.inputs.size() && rows * length > 0; ++i)
    if (!shapes.inputs[i].dims.empty())
      require_equal(element_count(shapes.inputs[i].dims), length, "the length of a layer norm's scale or bias");
  RowParameters made = row_parameters(rows, length);
  (op.clamped ? made.least : made.epsilon) = op.epsilon;
  return made;
}

RowParameters rows_of(const ops::GroupNorm& op, const KernelShapes& shapes) {
  const Dims& dims = shapes.inputs[0].dims;
  const int64_t channels = op.channels_last ? dims.back() : dims[1];
  require_equal(channels % op.groups, 0, "the remainder of channels by groups of a group norm");
  for (size_t i = 1; i < shapes.inputs.size(); ++i)
    if (!shapes.inputs[i].dims.empty())
      require_equal(shapes.inputs[i].dims[0], channels, "the length of a group norm's scale or bias");
  int64_t positions = 1;
  for (size_t d = op.channels_last ? 1 : 2; d < dims.size() - (op.channels_last ? 1 : 0); ++d) positions *= dims[d];
  const int64_t width = channels / op.groups;
  RowParameters made = row_parameters(dims[0] * op.groups, positions * width);
  made.epsilon = op.epsilon;
  if (made.rows == 0 || made.length == 0) return made;
  made.groups = Divisor(static_cast<uint32_t>(op.groups));
  made.width = static_cast<uint32_t>(width);
  made.outer = positions * channels;
  made.by_run = op.channels_last ? 0 : 1;
  made.run = Divisor(static_cast<uint32_t>(op.channels_last ? width : positions));
  made.pitch = op.channels_last ? channels : positions;
  made.inner = op.channels_last ? width : positions * width;
  return made;
}

template <class T>
std::optional<double> estimate(const RegionView& region, const DeviceFacts&) {
  if (!region.node.op.as<T>() || region.node.outputs.size() != 1 || !has_norm_types(region)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

template <class T>
std::shared_ptr<const Kernel> compile(const RegionView& region, const Workshop& workshop, bool centred,
                                      int64_t length = 0) {
  const DType in = norm_type(region, 0), scale = norm_type(region, 1), bias = norm_type(region, 2);
  const RowText text = normalize_text(centred, in, scale, bias, length);
  const auto bytes = [](DType dtype) { return static_cast<size_t>(bit_width(dtype) / 8); };
  const Kernels kernels{RowKernels(workshop, workshop.module("normalize", text.text), text), bytes(in), bytes(scale),
                        bytes(bias)};
  return device_kernel(
      [op = *region.node.op.as<T>(), kernels](const KernelShapes& shapes) {
        return std::make_unique<NormLaunch>(kernels, rows_of(op, shapes));
      },
      true);
}

std::optional<double> estimate_group_norm(const RegionView& region, const DeviceFacts& device) {
  const auto seconds = estimate<ops::GroupNorm>(region, device);
  const auto* op = region.node.op.as<ops::GroupNorm>();
  if (!seconds || !op->channels_last) return seconds;
  // A block reads the channels of its group alone, from each position: in sectors of 32 bytes.
  const double width = size_at_optimum(region, region.graph.shape(region.node.inputs[0]).back()) /
                       static_cast<double>(op->groups) * bit_width(norm_type(region, 0)) / 8;
  const double waste = std::clamp(32 / std::max(width, 1.0), 1.0, 4.0);  // L2 has some of it
  return seconds_per_launch + (*seconds - seconds_per_launch) * waste;
}

std::shared_ptr<const Kernel> compile_layer_norm(const RegionView& region, const Workshop& workshop) {
  const auto& op = *region.node.op.as<ops::LayerNorm>();
  const Shape& shape = region.graph.shape(region.node.inputs[0]);
  int64_t length = 1;
  for (size_t d = static_cast<size_t>(op.axis); d < shape.size() && length > 0; ++d) {
    const int64_t size = shape[d].as_constant().value_or(0);
    constexpr int64_t most = 1 << 20;
    length = size > most / length ? 0 : length * size;
  }
  return compile<ops::LayerNorm>(region, workshop, !op.root_mean_square, length);
}

std::shared_ptr<const Kernel> compile_group_norm(const RegionView& region, const Workshop& workshop) {
  return compile<ops::GroupNorm>(region, workshop, true);
}

}  // namespace

const CudaTactic layer_norm_tactic{"cuda_layer_norm", estimate<ops::LayerNorm>, compile_layer_norm};
const CudaTactic group_norm_tactic{"cuda_group_norm", estimate_group_norm, compile_group_norm};

}  // namespace camshaft::cuda
