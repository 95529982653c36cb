// Transposed convolutions on a GPU.
#include <algorithm>
#include <array>

#include "backends/cuda/device/conv_transpose_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/bring_weights.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/direct_conv.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/constants/weight_rows.h"
#include "compile/optimum.h"
#include "ir/ops/contract.h"

namespace camshaft::cuda {

namespace {

constexpr int64_t outputs_a_thread = 8;  // channels of a thread
constexpr int64_t pixels = 4;            // of a thread

struct TransposeView {
  DirectView direct;
  Shape pads;

  int64_t in_channels() const { return direct.weight_dims[0]; }
  int64_t out_channels() const { return direct.weight_dims[1]; }
  WeightRows rows() const { return {in_channels(), direct.taps(), out_channels(), false, direct.dtype}; }
};

std::optional<TransposeView> view_transpose(const RegionView& region, const DeviceFacts& device) {
  std::optional<ContractView> contract = view_contract(region);
  const auto* op = contract ? contract->anchor->op.as<ops::ConvTranspose>() : nullptr;
  if (!op || !op->channels_last || op->groups != 1) return std::nullopt;
  auto direct = view_direct(region, std::move(*contract), op->strides, op->dilations, device);
  if (!direct) return std::nullopt;
  return TransposeView{std::move(*direct), op->pads};
}

struct TransposeModule {
  std::shared_ptr<const Device> device;  // outlives the others
  std::array<Function, 2> functions;     // [of vectors]
  DeviceWeights weights;
};

class TransposeLaunch final : public Launch {
 public:
  TransposeLaunch(const TransposeView& view, const TransposeModule& compiled, const KernelShapes& shapes)
      : x_(static_cast<size_t>(view.direct.x)),
        compiled_(compiled),
        operands_(view.direct.epilogue, shapes),
        total_(element_count(shapes.outputs[0].dims)) {
    const int64_t in = view.in_channels(), out = view.out_channels();
    const ImageShape s = image_shape(view.direct, view.pads, in, out, shapes);
    if (total_ == 0) return;
    p_.in_h = s.is_empty ? 0 : s.in_h;  // then no row is read
    p_.in_w = s.in_w;
    p_.top = s.top;
    p_.left = s.left;
    p_.image = s.image;
    p_.row = s.row;
    p_.pixel = s.pixel;
    p_.in_channels = narrow(in);
    p_.out_channels = narrow(out);
    p_.out_w = narrow(s.out_w);
    p_.out_h = Divisor(narrow(s.out_h));
    p_.pitch = view.rows().pitch;
    p_.c_row = shapes.outputs[0].pitch();
    is_empty_ = s.is_empty;
    const int64_t stride = view.direct.window.stride[1], phases = std::min(stride, s.out_w);
    const int64_t a_phase = (s.out_w + stride - 1) / stride, quads = (a_phase + pixels - 1) / pixels;
    const int64_t groups = (out + outputs_a_thread - 1) / outputs_a_thread;
    p_.groups = Divisor(narrow(groups));
    p_.phases = Divisor(narrow(phases));
    p_.quads = Divisor(narrow(quads));
    const int64_t items = s.batch * s.out_h * phases * quads * groups;
    check_elements(items, "a transposed convolution");
    p_.items = narrow(items);
    can_be_vector_ = in % outputs_a_thread == 0 && out % outputs_a_thread == 0 && p_.pixel % outputs_a_thread == 0;
    c_can_be_vector_ = p_.c_row % outputs_a_thread == 0;
  }

  void run(const LaunchArguments& a) override {
    if (total_ == 0) return;
    p_.x = is_empty_ ? nullptr : a.inputs[x_];
    p_.weights = compiled_.weights.data();
    p_.c = a.outputs[0];
    p_.c_vector = c_can_be_vector_ && is_aligned(p_.c);
    operands_.bind(a, p_.operand);
    void* const arguments[] = {&p_};
    compiled_.functions[can_be_vector_ && is_aligned(p_.x)].launch(
        stream_of(a), {.blocks = blocks_for(p_.items, direct_threads), .threads = direct_threads}, arguments);
  }

 private:
  size_t x_;
  const TransposeModule& compiled_;
  EpilogueOperands operands_;
  int64_t total_;
  ConvTransposeParameters p_;
  bool is_empty_ = false, can_be_vector_ = false, c_can_be_vector_ = false;
};

class TransposeKernel final : public Kernel {
 public:
  TransposeKernel(TransposeView view, TransposeModule compiled)
      : view_(std::move(view)), compiled_(std::move(compiled)) {
    view_.direct.contract.anchor = nullptr;  // the graph's, which may go
  }
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<TransposeLaunch>(view_, compiled_, shapes);
  }
  bool reads_slices(size_t i) const override { return static_cast<int32_t>(i) != view_.direct.weights; }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override {
    return static_cast<int32_t>(i) != view_.direct.weights || view_.direct.epilogue.reads(i);
  }

 private:
  TransposeView view_;
  TransposeModule compiled_;
};

/// Of multiplications and additions: what plain f32 instructions reach, waiting for weights in caches.
constexpr double seconds_per_flop = 1 / 5e12;

std::optional<double> estimate_transpose(const RegionView& region, const DeviceFacts& device) {
  const auto view = view_transpose(region, device);
  if (!view) return std::nullopt;
  const double flops = 2 * elements_at_optimum(region, region.node.inputs[static_cast<size_t>(view->direct.x)]) *
                       static_cast<double>(view->out_channels() * view->direct.taps());
  return seconds_per_launch + std::max(flops * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_conv_transpose(const RegionView& region, const Workshop& workshop,
                                                     PackedConstants& constants) {
  TransposeView view = *view_transpose(region, workshop.device()->facts());
  TransposeModule compiled;
  compiled.device = workshop.device();
  const Module module = workshop.module(
      "conv_transpose",
      conv_transpose_text(view.direct.window, view.direct.dtype, finish_text(view.direct.epilogue, false)));
  compiled.functions = {module.function("conv_transpose_any"), module.function("conv_transpose_vector")};
  compiled.weights = bring_weights(
      compiled.device, pack_weight_rows(region, static_cast<size_t>(view.direct.weights), view.rows(), constants));
  return std::make_shared<TransposeKernel>(std::move(view), std::move(compiled));
}

}  // namespace

const CudaTactic conv_transpose_tactic{"cuda_conv_transpose", estimate_transpose, compile_conv_transpose};

}  // namespace camshaft::cuda
