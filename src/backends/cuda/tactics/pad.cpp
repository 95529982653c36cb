// Padding on a GPU.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/move_text.h"
#include "backends/cuda/device/pad_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "compile/region/move_view.h"

namespace camshaft::cuda {

namespace {

constexpr size_t most_pad_dims = std::size(PadParameters{}.size);

struct PadKernels {
  PadKernels(const Workshop& workshop, int64_t width) : device(workshop.device()) {
    const Module module = workshop.module("pad", pad_text(static_cast<int>(width)));
    any = module.function("pad_any");
    vector = module.function("pad_vector");
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  Function any, vector;
};

constexpr bool is_same(ops::PadMode mode, PaddingMode of_kernel) {
  return static_cast<uint32_t>(mode) == static_cast<uint32_t>(of_kernel);
}
static_assert(is_same(ops::PadMode::constant, PaddingMode::constant) &&
              is_same(ops::PadMode::reflect, PaddingMode::reflect) && is_same(ops::PadMode::edge, PaddingMode::edge) &&
              is_same(ops::PadMode::wrap, PaddingMode::wrap));

/// One axis: `length` elements of the operand, and those before and behind them.
struct PaddedAxis {
  int64_t before, length, after, stride;
  bool is_padded() const { return before != 0 || after != 0; }
  int64_t size() const { return before + length + after; }
};

class PadLaunch final : public Launch {
 public:
  PadLaunch(std::shared_ptr<const PadKernels> kernels, const ops::Pad& op, const KernelShapes& shapes)
      : kernels_(std::move(kernels)),
        mode_(op.mode),
        width_(width_of(shapes.inputs[0])),
        is_empty_(element_count(shapes.inputs[0].dims) == 0) {
    const Dims& dims = shapes.inputs[0].dims;
    const Dims strides = row_major(shapes.inputs[0]);
    if (shapes.inputs.size() > 1 && !shapes.inputs[1].dims.empty())
      require_equal(shapes.inputs[1].dims[0], 1, "the number of padding values");
    for (size_t d = 0; d < dims.size(); ++d) {
      // Negative amounts crop first; what is left is then continued.
      const int64_t before = ops::pad_amount(op.pads[d], *shapes.symbols);
      const int64_t after = ops::pad_amount(op.pads[dims.size() + d], *shapes.symbols);
      const int64_t first = std::max<int64_t>(-before, 0);
      PaddedAxis axis{std::max<int64_t>(before, 0), dims[d] - first - std::max<int64_t>(-after, 0),
                      std::max<int64_t>(after, 0), strides[d]};
      // What is put before an empty axis and cropped behind it leaves it empty.
      if (dims[d] == 0 && axis.size() == 0) axis = {0, 0, 0, strides[d]};
      if (axis.length < 0 || (mode_ != ops::PadMode::constant && axis.length == 0 && axis.size() > 0))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("padding dim {} of size {} by {} and {} is not possible", d, dims[d], before, after));
      start_ += first * strides[d];
      add(axis);
    }
    if (axes_.empty()) axes_.push_back({0, 1, 0, 1});
    for (const PaddedAxis& axis : axes_) {
      if (axis.size() != 0 && elements_ > most_elements / axis.size()) check_elements(most_elements + 1, "a padding");
      elements_ *= axis.size();
    }
    if (elements_ == 0) return;
    any_ = parameter(1);
    const int64_t count = 16 / width_;
    can_be_vector_ = count > 1 && is_in_chunks_of(count);
    if (can_be_vector_) vector_ = parameter(count);
  }

  void run(const LaunchArguments& a) override {
    if (elements_ == 0) return;
    // An empty operand has no memory on the device.
    const std::byte* in = is_empty_ ? nullptr : a.inputs[0] + start_ * width_;
    const std::byte* value = a.inputs.size() > 1 ? a.inputs[1] : nullptr;
    std::byte* out = a.outputs[0];
    const bool vector =
        can_be_vector_ && reinterpret_cast<uintptr_t>(in) % 16 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0;
    PadParameters& padding = vector ? vector_ : any_;
    void* const arguments[] = {&padding, &in, &value, &out};
    (vector ? kernels_->vector : kernels_->any)
        .launch(static_cast<Queue*>(a.queue)->stream(),
                {.blocks = blocks_for(padding.chunks, threads_a_block), .threads = threads_a_block}, arguments);
  }

 private:
  // Axes that the kernel can take as one with the one before them are.
  void add(const PaddedAxis& axis) {
    if (axes_.empty() || axis.is_padded() || axes_.back().stride != axis.length * axis.stride ||
        (mode_ != ops::PadMode::constant && axes_.back().is_padded())) {
      axes_.push_back(axis);
      return;
    }
    PaddedAxis& last = axes_.back();
    last = {last.before * axis.length, last.length * axis.length, last.after * axis.length, axis.stride};
  }

  bool is_in_chunks_of(int64_t count) const {
    const PaddedAxis& last = axes_.back();
    if (mode_ != ops::PadMode::constant && last.is_padded()) return false;
    if (last.stride != 1 || last.before % count != 0 || last.length % count != 0 || last.after % count != 0 ||
        start_ % count != 0)
      return false;
    return std::all_of(axes_.begin(), axes_.end() - 1, [&](const PaddedAxis& a) { return a.stride % count == 0; });
  }

  PadParameters parameter(int64_t count) const {
    PadParameters p;
    p.chunks = narrow(elements_ / count);
    p.rank = narrow(axes_.size());
    p.mode = static_cast<PaddingMode>(mode_);
    for (size_t d = 0; d < axes_.size(); ++d) {
      const int64_t chunk = d + 1 == axes_.size() ? count : 1;
      p.size[d] = Divisor(narrow(axes_[d].size() / chunk));
      p.before[d] = axes_[d].before / chunk;
      p.length[d] = axes_[d].length / chunk;
      p.stride[d] = axes_[d].stride * chunk;
    }
    return p;
  }

  std::shared_ptr<const PadKernels> kernels_;
  ops::PadMode mode_;
  int64_t width_, start_ = 0, elements_ = 1;  // start: of the operand's first element that is seen
  std::vector<PaddedAxis> axes_;
  bool is_empty_, can_be_vector_ = false;
  PadParameters any_, vector_;
};

class PadKernel final : public Kernel {
 public:
  PadKernel(const ops::Pad& op, std::shared_ptr<const PadKernels> kernels) : op_(op), kernels_(std::move(kernels)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<PadLaunch>(kernels_, op_, shapes);
  }
  bool reads_slices(size_t i) const override { return i == 0; }

 private:
  ops::Pad op_;
  std::shared_ptr<const PadKernels> kernels_;
};

std::optional<double> estimate_pad(const RegionView& region, const DeviceFacts&) {
  const Node& node = region.node;
  if (!node.op.as<ops::Pad>() || !is_movable(region.graph.type(node.inputs[0]).dtype) ||
      region.graph.shape(node.outputs[0]).size() > most_pad_dims)
    return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_pad(const RegionView& region, const Workshop& workshop) {
  const int64_t width = bit_width(region.graph.type(region.node.inputs[0]).dtype) / 8;
  return std::make_shared<PadKernel>(*region.node.op.as<ops::Pad>(),
                                     std::make_shared<const PadKernels>(workshop, width));
}

}  // namespace

const CudaTactic pad_tactic{"cuda_pad", estimate_pad, compile_pad};

}  // namespace camshaft::cuda
