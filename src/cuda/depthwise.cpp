// Depthwise convolutions on a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compile/optimum.h"
#include "compile/shape_check.h"
#include "compile/weight_rows.h"
#include "cuda/codegen/depthwise_text.h"
#include "cuda/device_kernel.h"
#include "cuda/epilogue.h"
#include "cuda/strided_copy.h"
#include "cuda/tactic.h"
#include "ops/contract.h"
#include "ops/spatial.h"

namespace camshaft::cuda {

namespace {

constexpr int64_t group = 8;  // channels of a thread

/// The parameter Depthwise of device/depthwise.cuh.
struct Parameters {
  uint32_t items = 0, channels = 0;
  Divisor groups, strips, out_h;
  uint32_t out_w = 1, padding = 0;
  int32_t in_h = 1, in_w = 1, top = 0, left = 0;
  int64_t image = 0, row = 0, pixel = 0, tap = 0;
  const void* x = nullptr;
  const void* weights = nullptr;
  void* c = nullptr;
  int64_t c_row = 0;
  uint32_t c_vector = 0, more_padding = 0;
  kernel_parameters::EpilogueOperand operand[kernel_parameters::most_epilogue_operands] = {};
};

struct DepthwiseView {
  ContractView contract;
  EpilogueView epilogue;
  ops::Conv conv;
  int32_t x = -1, weights = -1;  ///< region inputs
  int64_t channels = 0;
  DepthwiseWindow window;
  DType dtype = DType::f32;

  WeightRows rows() const { return {window.kernel[0] * window.kernel[1], 1, channels, true, dtype}; }
};

std::optional<DepthwiseView> view_depthwise(const RegionView& region, const DeviceFacts& device) {
  std::optional<ContractView> contract = view_contract(region);
  const auto* conv = contract && contract->anchor_inputs.size() >= 2 ? contract->anchor->op.as<ops::Conv>() : nullptr;
  if (!conv || !conv->channels_last || conv->groups < 2) return std::nullopt;
  DepthwiseView view;
  view.x = contract->anchor_inputs[0];
  view.weights = contract->anchor_inputs[1];
  if (view.x < 0 || view.weights < 0) return std::nullopt;
  const auto input = [&](int32_t i) { return region.node.inputs[static_cast<size_t>(i)]; };
  const TensorType &x = region.graph.type(input(view.x)), &w = region.graph.type(input(view.weights));
  view.dtype = x.dtype;
  const bool known_type = x.dtype == DType::f32 || x.dtype == DType::f16 || x.dtype == DType::bf16;
  if (!known_type || w.dtype != x.dtype || (x.shape.size() != 3 && x.shape.size() != 4) ||
      !region.graph.value(input(view.weights)).constant)
    return std::nullopt;
  Dims sizes;
  for (const Dim& d : w.shape) sizes.push_back(d.as_constant().value_or(0));
  if (sizes[0] != conv->groups || sizes[1] != 1) return std::nullopt;
  view.channels = sizes[0];
  // Windows are unrolled along the width, in registers.
  constexpr int64_t most_width = 16, most_step = 1 << 10;
  const size_t skipped = 4 - sizes.size();
  for (size_t a = 0; a + skipped < 2; ++a) {
    view.window.kernel[skipped + a] = sizes[2 + a];
    view.window.stride[skipped + a] = conv->strides[a];
    view.window.dilation[skipped + a] = conv->dilations[a];
    if (sizes[2 + a] < 1 || sizes[2 + a] > most_step || conv->strides[a] > most_step || conv->dilations[a] > most_step)
      return std::nullopt;
  }
  const auto& [kernel, stride, dilation] = view.window;
  if (kernel[1] > most_width || (depthwise_strip - 1) * stride[1] + (kernel[1] - 1) * dilation[1] > 4 * most_width)
    return std::nullopt;
  const int32_t bias = contract->anchor_inputs.size() > 2 ? contract->anchor_inputs[2] : -1;
  auto epilogue = view_epilogue(region, *contract, bias);
  if (!epilogue || (x.dtype == DType::bf16 && device.capability < 80)) return std::nullopt;
  view.conv = *conv;
  view.epilogue = std::move(*epilogue);
  view.contract = std::move(*contract);
  return view;
}

struct Compiled {
  std::shared_ptr<const Device> device;              // outlives the others
  std::array<std::array<Function, 2>, 2> functions;  // [of strips][of vectors]
  DeviceBuffer weights;
};

class DepthwiseLaunch final : public Launch {
 public:
  DepthwiseLaunch(const DepthwiseView& view, const Compiled& compiled, const KernelShapes& shapes)
      : view_(view), compiled_(compiled), operands_(view.epilogue, shapes) {
    const OperandShape &x = shapes.inputs[static_cast<size_t>(view.x)], &out = shapes.outputs[0];
    const bool is_2d = x.dims.size() == 4;
    require_equal(x.dims.back(), view.channels, "the number of input channels of a convolution");
    if (const auto& inputs = view.contract.anchor_inputs; inputs.size() > 2 && inputs[2] >= 0)
      require_equal(shapes.inputs[static_cast<size_t>(inputs[2])].dims[0], view.channels,
                    "the number of biases of a convolution");
    total_ = element_count(out.dims);
    check_elements(total_, "a convolution");
    check_elements(element_count(x.dims), "a convolution's input");
    if (total_ == 0) return;
    const auto small = [](int64_t value) {
      constexpr int64_t most = int64_t{1} << 29;
      if (value < -most || value > most)
        throw Error(
            ErrorCode::unsupported,
            fmt::format("a convolution reaches position {}, more than the GPU's kernels count to (2^29)", value));
      return static_cast<int32_t>(value);
    };
    const int64_t out_h = is_2d ? out.dims[1] : 1, out_w = out.dims[out.dims.size() - 2];
    small(out_h * view.window.stride[0]);
    small(out_w * view.window.stride[1]);
    const size_t axes = view.conv.pads.size() / 2;
    p_.top = is_2d ? small(ops::evaluate_pad(view.conv.pads[0], *shapes.symbols)) : 0;
    p_.left = small(ops::evaluate_pad(view.conv.pads[axes - 1], *shapes.symbols));
    p_.in_h = is_2d ? small(x.dims[1]) : 1;
    p_.in_w = small(x.dims[x.dims.size() - 2]);
    p_.out_w = static_cast<uint32_t>(out_w);
    p_.out_h = Divisor(static_cast<uint32_t>(out_h));
    p_.channels = static_cast<uint32_t>(view.channels);
    p_.pixel = x.pitch();
    p_.row = p_.in_w * p_.pixel;
    p_.image = p_.in_h * p_.row;
    p_.tap = view.rows().pitch;
    is_empty_ = element_count(x.dims) == 0;
    if (is_empty_) {
      // An image of one pixel that no window reaches: the weights will do as its memory.
      p_.in_h = p_.in_w = 1;
      p_.image = p_.row = p_.pixel = 0;
      p_.top = 1 << 30;
    }
    p_.c_row = out.pitch();
    const int64_t groups = (view.channels + group - 1) / group;
    p_.groups = Divisor(static_cast<uint32_t>(groups));
    // Strips read less, single pixels keep more of the machine busy.
    const int64_t strips = (out_w + depthwise_strip - 1) / depthwise_strip, lines = out.dims[0] * out_h;
    const int64_t threads = lines * strips * groups;
    constexpr int64_t a_multiprocessor = 512;
    strips_ = threads >= compiled.device->facts().multiprocessors * a_multiprocessor;
    p_.strips = Divisor(static_cast<uint32_t>(strips_ ? strips : out_w));
    p_.items = static_cast<uint32_t>(strips_ ? threads : lines * out_w * groups);
    x_can_be_vector_ = view.channels % group == 0 && p_.pixel % group == 0;
    c_can_be_vector_ = p_.c_row % group == 0;
  }

  void run(const LaunchArguments& a) override {
    if (total_ == 0) return;
    p_.x = is_empty_ ? compiled_.weights.data() : a.inputs[static_cast<size_t>(view_.x)];
    p_.weights = compiled_.weights.data();
    p_.c = a.outputs[0];
    p_.c_vector = c_can_be_vector_ && is_aligned(p_.c);
    operands_.bind(a, p_.operand);
    const bool vector = x_can_be_vector_ && is_aligned(p_.x);
    void* const arguments[] = {&p_};
    compiled_.functions[strips_][vector].launch(
        stream_of(a), {.blocks = blocks_for(p_.items, depthwise_threads), .threads = depthwise_threads}, arguments);
  }

 private:
  const DepthwiseView& view_;
  const Compiled& compiled_;
  EpilogueOperands operands_;
  Parameters p_;
  int64_t total_ = 0;
  bool is_empty_ = false, strips_ = false, x_can_be_vector_ = false, c_can_be_vector_ = false;
};

class DepthwiseKernel final : public Kernel {
 public:
  DepthwiseKernel(const RegionView& region, DepthwiseView view, Compiled compiled)
      : view_(std::move(view)), compiled_(std::move(compiled)) {
    for (int32_t i = 0; i < static_cast<int32_t>(region.node.inputs.size()); ++i)
      can_overwrite_.push_back(can_overwrite(region, view_.contract, view_.epilogue, i));
    view_.contract.anchor = nullptr;  // the graph's, which may go
  }
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<DepthwiseLaunch>(view_, compiled_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return can_overwrite_[i]; }
  bool reads_slices(size_t i) const override { return static_cast<int32_t>(i) != view_.weights; }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override { return static_cast<int32_t>(i) != view_.weights; }

 private:
  DepthwiseView view_;
  Compiled compiled_;
  std::vector<bool> can_overwrite_;
};

std::optional<double> estimate_depthwise(const RegionView& region, const DeviceFacts& device) {
  if (!view_depthwise(region, device)) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_depthwise(const RegionView& region, const Workshop& workshop,
                                                PackedConstants& constants) {
  DepthwiseView view = *view_depthwise(region, workshop.device()->facts());
  Compiled compiled;
  compiled.device = workshop.device();
  const Module module =
      workshop.module("depthwise", depthwise_text(view.window, view.dtype, finish_text(view.epilogue)));
  const char* names[2][2] = {{"depthwise_pixel_any", "depthwise_pixel_vector"},
                             {"depthwise_strip_any", "depthwise_strip_vector"}};
  for (size_t strips = 0; strips < 2; ++strips)
    for (size_t vector = 0; vector < 2; ++vector)
      compiled.functions[strips][vector] = module.function(names[strips][vector]);
  compiled.weights =
      upload(*compiled.device, pack_weight_rows(region, static_cast<size_t>(view.weights), view.rows(), constants),
             "the weights of an engine");
  return std::make_shared<DepthwiseKernel>(region, std::move(view), std::move(compiled));
}

}  // namespace

const CudaTactic depthwise_tactic{"cuda_depthwise", estimate_depthwise, compile_depthwise};

}  // namespace camshaft::cuda
