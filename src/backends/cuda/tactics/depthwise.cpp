// Depthwise convolutions on a GPU.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cuda/device/depthwise_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/bring_weights.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/direct_conv.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "base/divide_up.h"
#include "compile/constants/weight_rows.h"
#include "compile/optimum.h"
#include "ir/ops/contract.h"

namespace camshaft::cuda {

namespace {

constexpr int64_t channels_a_thread = 8;  // channels of a thread

struct DepthwiseView {
  DirectView direct;
  Shape pads;

  int64_t channels() const { return direct.weight_dims[0]; }
  WeightRows rows() const { return {direct.taps(), 1, channels(), true, direct.dtype}; }
};

std::optional<DepthwiseView> view_depthwise(const RegionView& region, const DeviceFacts& device) {
  std::optional<ContractView> contract = view_contract(region);
  const auto* conv = contract ? contract->anchor->op.as<ops::Conv>() : nullptr;
  if (!conv || !conv->channels_last || conv->groups < 2) return std::nullopt;
  auto direct = view_direct(region, std::move(*contract), conv->strides, conv->dilations, device);
  if (!direct || direct->weight_dims[0] != conv->groups || direct->weight_dims[1] != 1) return std::nullopt;
  // Windows are unrolled along the width, in registers.
  constexpr int64_t most_width = 16;
  const auto& [kernel, stride, dilation] = direct->window;
  if (kernel[1] > most_width || (depthwise_strip - 1) * stride[1] + (kernel[1] - 1) * dilation[1] > 4 * most_width)
    return std::nullopt;
  return DepthwiseView{std::move(*direct), conv->pads};
}

// Strips read less, single pixels keep more of the machine busy.
bool prefers_strips(double lines, double width, double channels, const DeviceFacts& device) {
  constexpr double a_multiprocessor = 512;
  const double threads = lines * std::ceil(width / depthwise_strip) * std::ceil(channels / channels_a_thread);
  return threads >= device.multiprocessors * a_multiprocessor;
}

// So few that a thread's loads, one after the other, take longer than all of the machine's.
bool are_few(double items, const DeviceFacts& device) {
  constexpr double a_multiprocessor = 1024;
  return items <= device.multiprocessors * a_multiprocessor;
}

// Whether threads of several rows of pixels are enough to keep the machine busy: they are some a scheduler.
bool fills_by_lines(double lines, double width, double channels, int64_t rows, const DeviceFacts& device) {
  constexpr double a_multiprocessor = 64, channels_of_a_thread = 4;
  const double threads = std::ceil(lines / static_cast<double>(rows)) * std::ceil(width / depthwise_strip) * channels /
                         channels_of_a_thread;
  return threads >= device.multiprocessors * a_multiprocessor;
}

struct DepthwiseModule {
  std::shared_ptr<const Device> device;              // outlives the others
  bool strips = false, rows = false;                 // at the optimum, …
  double optimum = 0;                                // … a result of so many elements
  std::array<std::array<Function, 2>, 2> functions;  // [of strips][of vectors]
  std::array<Function, 2> by_rows;                   // [of vectors]; of strips as at the optimum, with `rows`
  unsigned row_threads = 0;
  int64_t lines = 0;  // rows of pixels of a thread of by_lines; 0: there is none
  Function by_lines;
  DeviceWeights weights;
};

class DepthwiseLaunch final : public Launch {
 public:
  DepthwiseLaunch(const DepthwiseView& view, const DepthwiseModule& compiled, const KernelShapes& shapes)
      : x_(static_cast<size_t>(view.direct.x)),
        compiled_(compiled),
        operands_(view.direct.epilogue, shapes),
        total_(element_count(shapes.outputs[0].dims)) {
    const int64_t channels = view.channels();
    const ImageShape s = image_shape(view.direct, view.pads, channels, channels, shapes);
    if (total_ == 0) return;
    p_.in_h = s.in_h;
    p_.in_w = s.in_w;
    p_.top = s.top;
    p_.left = s.left;
    p_.image = s.image;
    p_.row = s.row;
    p_.pixel = s.pixel;
    p_.out_w = narrow(s.out_w);
    p_.out_h = narrow(s.out_h);
    p_.lines = Divisor(p_.out_h);
    p_.channels = narrow(channels);
    p_.tap = view.rows().pitch;
    p_.c_row = shapes.outputs[0].pitch();
    is_empty_ = s.is_empty;
    if (is_empty_) {
      // An image of one pixel that no window reaches: the weights will do as its memory.
      p_.in_h = p_.in_w = 1;
      p_.image = p_.row = p_.pixel = 0;
      p_.top = 1 << 30;
    }
    const int64_t groups = (channels + channels_a_thread - 1) / channels_a_thread;
    p_.groups = Divisor(narrow(groups));
    const int64_t lines = s.batch * s.out_h;
    const DeviceFacts& device = compiled.device->facts();
    const bool is_optimum = static_cast<double>(total_) == compiled.optimum;
    rows_ = compiled.rows && (is_optimum || are_few(static_cast<double>(lines * s.out_w * groups), device));
    strips_ = is_optimum || rows_ ? compiled.strips
                                  : prefers_strips(static_cast<double>(lines), static_cast<double>(s.out_w),
                                                   static_cast<double>(channels), device);
    const int64_t strips = strips_ ? (s.out_w + depthwise_strip - 1) / depthwise_strip : s.out_w;
    p_.strips = Divisor(narrow(strips));
    p_.items = narrow(lines * strips * groups);
    x_can_be_vector_ = channels % channels_a_thread == 0 && p_.pixel % channels_a_thread == 0;
    c_can_be_vector_ = p_.c_row % channels_a_thread == 0;
    // By lines where there is enough to do, as at the optimum.
    const bool counts_in_32_bits = s.row < int64_t{1} << 32;
    if (compiled.lines > 0 && !is_empty_ && x_can_be_vector_ && counts_in_32_bits &&
        (is_optimum || fills_by_lines(static_cast<double>(lines), static_cast<double>(s.out_w),
                                      static_cast<double>(channels), compiled.lines, device))) {
      by_lines_ = p_;
      by_lines_->lines = Divisor(narrow(divide_up(s.out_h, compiled.lines)));
      by_lines_->strips = Divisor(narrow(divide_up(s.out_w, int64_t{depthwise_strip})));
      by_lines_->items = narrow(s.batch * int64_t{by_lines_->lines.value} * by_lines_->strips.value);
    }
  }

  void run(const LaunchArguments& a) override {
    if (total_ == 0) return;
    if (by_lines_ && is_aligned(a.inputs[x_])) {
      bind(*by_lines_, a);
      void* const arguments[] = {&*by_lines_};
      compiled_.by_lines.launch(stream_of(a),
                                {.blocks = narrow(divide_up(int64_t{by_lines_->items}, lines_strips)),
                                 .blocks_y = narrow(divide_up(int64_t{by_lines_->channels}, lines_channels)),
                                 .threads = direct_threads},
                                arguments);
      return;
    }
    bind(p_, a);
    const bool vector = x_can_be_vector_ && is_aligned(p_.x);
    void* const arguments[] = {&p_};
    if (rows_) {
      compiled_.by_rows[vector].launch(
          stream_of(a), {.blocks = blocks_for(p_.items, 32), .threads = compiled_.row_threads}, arguments);
      return;
    }
    compiled_.functions[strips_][vector].launch(
        stream_of(a), {.blocks = blocks_for(p_.items, direct_threads), .threads = direct_threads}, arguments);
  }

 private:
  void bind(DepthwiseParameters& p, const LaunchArguments& a) const {
    p.x = is_empty_ ? compiled_.weights.data() : a.inputs[x_];
    p.weights = compiled_.weights.data();
    p.c = a.outputs[0];
    p.c_vector = c_can_be_vector_ && is_aligned(p.c);
    operands_.bind(a, p.operand);
  }

  size_t x_;
  const DepthwiseModule& compiled_;
  EpilogueOperands operands_;
  int64_t total_;
  DepthwiseParameters p_;
  std::optional<DepthwiseParameters> by_lines_;
  bool is_empty_ = false, strips_ = false, rows_ = false, x_can_be_vector_ = false, c_can_be_vector_ = false;
};

class DepthwiseKernel final : public Kernel {
 public:
  DepthwiseKernel(const RegionView& region, DepthwiseView view, DepthwiseModule compiled)
      : view_(std::move(view)), compiled_(std::move(compiled)) {
    for (int32_t i = 0; i < static_cast<int32_t>(region.node.inputs.size()); ++i)
      can_overwrite_.push_back(can_overwrite(region, view_.direct.contract, view_.direct.epilogue, i));
    view_.direct.contract.anchor = nullptr;  // the graph's, which may go
  }
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<DepthwiseLaunch>(view_, compiled_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return can_overwrite_[i]; }
  bool reads_slices(size_t i) const override { return static_cast<int32_t>(i) != view_.direct.weights; }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override {
    return static_cast<int32_t>(i) != view_.direct.weights || view_.direct.epilogue.reads(i);
  }

 private:
  DepthwiseView view_;
  DepthwiseModule compiled_;
  std::vector<bool> can_overwrite_;
};

// Variants by how many pixels of a row a thread computes, and of all rows of its windows or of one.
std::vector<TacticOffer> offer_depthwise(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto view = view_depthwise(region, device);
  if (!view) return {};
  const double seconds = seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
  const ValueId out = region.node.outputs[0];
  const Shape& shape = region.graph.shape(out);
  const double width = size_at_optimum(region, shape[shape.size() - 2]);
  const auto channels = static_cast<double>(view->channels());
  const double lines = elements_at_optimum(region, out) / std::max(1.0, width * channels);
  const TacticOffer strips{{{"pixels", depthwise_strip}, {"rows", 0}, {"lines", 0}}, seconds},
      single{{{"pixels", 1}, {"rows", 0}, {"lines", 0}}, seconds};
  std::vector<TacticOffer> offers =
      prefers_strips(lines, width, channels, device) ? std::vector{strips, single} : std::vector{single, strips};
  if (can_share_rows(view->direct.window)) {
    // Windows of three rows have all loads under way anyhow; which is faster there is for the clock to say.
    constexpr int64_t many_rows = 4;
    const double items = lines * width * std::ceil(channels / channels_a_thread);
    const bool is_best = view->direct.window.kernel[0] >= many_rows && are_few(items, device);
    const TacticOffer by_rows[] = {{{{"pixels", 1}, {"rows", 1}, {"lines", 0}}, seconds},
                                   {{{"pixels", depthwise_strip}, {"rows", 1}, {"lines", 0}}, seconds}};
    offers.insert(is_best ? offers.begin() : offers.end(), std::begin(by_rows), std::end(by_rows));
  }
  if (can_take_lines(view->direct.window) && view->channels() % channels_a_thread == 0) {
    const auto of = [&](int64_t count) {
      return TacticOffer{{{"pixels", depthwise_strip}, {"rows", 0}, {"lines", count}}, seconds};
    };
    // Large windows gain most; of small ones the clock decides.
    constexpr int64_t large = 5;
    const bool is_best = view->direct.window.kernel[0] >= large && fills_by_lines(lines, width, channels, 4, device);
    const TacticOffer by_lines[] = {of(4), of(2)};
    offers.insert(is_best ? offers.begin() : offers.end(), std::begin(by_lines), std::end(by_lines));
  }
  return offers;
}

std::shared_ptr<const Kernel> compile_depthwise(const RegionView& region, const TacticParameters& parameters,
                                                const Workshop& workshop, PackedConstants& constants) {
  DepthwiseView view = *view_depthwise(region, workshop.device()->facts());
  DepthwiseModule compiled;
  compiled.device = workshop.device();
  compiled.strips = parameters["pixels"] > 1;
  compiled.optimum = elements_at_optimum(region, region.node.outputs[0]);
  compiled.rows = parameters["rows"] != 0;
  compiled.lines = parameters["lines"];
  std::optional<DepthwiseFunction> further;
  if (compiled.rows) further = DepthwiseFunction{compiled.strips, true, false};
  if (compiled.lines > 0) further = DepthwiseFunction{true, false, true, static_cast<int>(compiled.lines)};
  const Module module = workshop.module("depthwise", depthwise_text(view.direct.window, view.direct.dtype,
                                                                    finish_text(view.direct.epilogue, false), further));
  if (compiled.lines > 0) compiled.by_lines = module.function(further->name());
  for (const bool vector : {false, true}) {
    for (const bool strips : {false, true})
      compiled.functions[strips][vector] = module.function(DepthwiseFunction{strips, false, vector}.name());
    if (compiled.rows)
      compiled.by_rows[vector] = module.function(DepthwiseFunction{compiled.strips, true, vector}.name());
  }
  compiled.row_threads = threads_of_rows(view.direct.window);
  compiled.weights = bring_weights(
      compiled.device, pack_weight_rows(region, static_cast<size_t>(view.direct.weights), view.rows(), constants));
  return std::make_shared<DepthwiseKernel>(region, std::move(view), std::move(compiled));
}

}  // namespace

const CudaTactic depthwise_tactic{"cuda_depthwise", offer_depthwise, compile_depthwise};

}  // namespace camshaft::cuda
