// Depthwise convolutions of 8-bit numbers.
#include <algorithm>

#include "backends/cpu/kernels/conv/int8_depthwise.h"
#include "backends/cpu/tactics/integer_conv.h"
#include "backends/cpu/tactics/integer_conv_view.h"
#include "backends/cpu/tactics/integer_operands.h"
#include "compile/constants/layout_text.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

namespace {

constexpr auto packed_numbers = [](auto& w, auto&& number) {
  number("int8 depthwise channels=", w.channels);
  number(" taps=", w.taps);
};

Int8DepthwiseWeights weights_of(const IntegerConvView& view) {
  const Dims& w = view.conv.spatial.weight_dims;
  return {w[0], element_count(w) / w[0]};
}

class IntegerDepthwiseLaunch final : public Launch {
 public:
  IntegerDepthwiseLaunch(const IntegerConvView& view, const std::byte* packed, const KernelShapes& shapes)
      : view_(view),
        threads_(shapes.threads),
        plan_(conv_shape(view.conv, shapes)),
        epilogue_(view.epilogue, shapes, plan_.shape().out_channels) {
    const auto count = [&](int32_t i) { return i < 0 ? 0 : element_count(shapes.inputs[static_cast<size_t>(i)].dims); };
    x_ = {view.of_x, nullptr, count(view.x_zero)};
    w_ = {view.of_weights, nullptr, count(view.weights_zero)};
    if (view.x_zero >= 0) require_equal(x_.count, 1, "the number of zero points of the input");
    if (view.weights_zero >= 0 && w_.count != 1)
      require_equal(w_.count, plan_.shape().out_channels, "the number of zero points of the weights");
    problem_.plan = &plan_;
    problem_.weights = weights_of(view);
    problem_.is_signed = view.of_x == DType::i8;
    problem_.pairs = packed_ = reinterpret_cast<const int16_t*>(packed);
    begin_.resize(static_cast<size_t>(problem_.weights.padded()));
    problem_.begin = begin_.data();
    padding_.resize(static_cast<size_t>(problem_.weights.channels));
    problem_.padding = padding_.data();
    if (w_.count > 0) shifted_.resize(static_cast<size_t>(problem_.weights.pair_words()) * 2);
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(int8_depthwise_workspace_bytes(problem_.weights, threads_));
  }

  void run(const LaunchArguments& arguments) override {
    const auto input = [&](int32_t i) { return i < 0 ? nullptr : arguments.inputs[static_cast<size_t>(i)]; };
    x_.zeros = input(view_.x_zero);
    w_.zeros = input(view_.weights_zero);
    problem_.x = reinterpret_cast<const uint8_t*>(input(view_.conv.spatial.x));
    const int32_t zero = x_.zero(0, false);
    std::fill(padding_.begin(), padding_.end(), static_cast<uint8_t>(zero));
    shift_weights();
    const Int8DepthwiseWeights& w = problem_.weights;
    const auto* sums = reinterpret_cast<const int32_t*>(packed_) + w.pair_words();
    const auto* bias = reinterpret_cast<const int32_t*>(input(view_.bias));
    for (int64_t c = 0; c < w.channels; ++c)
      begin_[static_cast<size_t>(c)] = static_cast<int32_t>(
          (bias ? bias[c] : 0) - zero * (sums[c] - w.taps * static_cast<int64_t>(w_.zero(c, false))));
    epilogue_.bind(arguments, problem_.result);
    int8_depthwise(problem_, arguments.pool, arguments.workspace);
  }

 private:
  // Takes the zero points off the weights, where they are not 0 all.
  void shift_weights() {
    const Int8DepthwiseWeights& w = problem_.weights;
    bool any = false;
    for (int64_t c = 0; c < w_.count; ++c) any = any || w_.zero(c, false) != 0;
    problem_.pairs = any ? shifted_.data() : packed_;
    for (int64_t p = 0; any && p < w.pairs(); ++p) {
      const int16_t* from = packed_ + p * w.padded() * 2;
      int16_t* to = shifted_.data() + p * w.padded() * 2;
      for (int64_t c = 0; c < w.channels; ++c) {
        const int32_t zero = w_.zero(c, false);
        to[2 * c] = static_cast<int16_t>(from[2 * c] - zero);
        // The second of the last pair may be no tap: then what it is multiplied with is 0.
        to[2 * c + 1] = static_cast<int16_t>(from[2 * c + 1] - zero);
      }
    }
  }

  const IntegerConvView& view_;
  int threads_;
  ConvPlan plan_;
  BoundIntegerEpilogue epilogue_;
  IntegerOperand x_, w_;
  const int16_t* packed_ = nullptr;
  Int8DepthwiseProblem problem_;
  std::vector<int32_t> begin_;
  std::vector<uint8_t> padding_;
  std::vector<int16_t> shifted_;
};

class IntegerDepthwiseKernel final : public Kernel {
 public:
  IntegerDepthwiseKernel(IntegerConvView view, const std::byte* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<IntegerDepthwiseLaunch>(view_, packed_, shapes);
  }
  bool reads_input(size_t i) const override {
    return static_cast<int32_t>(i) != view_.conv.spatial.weights || view_.epilogue.reads(i);
  }

 private:
  IntegerConvView view_;
  const std::byte* packed_;
};

std::optional<double> estimate_depthwise(const RegionView& region) {
  const auto view = view_integer_conv(region);
  // One tap is a product of one column.
  if (!view || !view->conv.is_depthwise() || weights_of(*view).taps == 1) return std::nullopt;
  return seconds_per_launch +
         std::max(conv_flops(region, view->conv) * 2 * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_depthwise(const RegionView& region, PackedConstants& constants) {
  IntegerConvView view = *view_integer_conv(region);
  const Int8DepthwiseWeights w = weights_of(view);
  const Value& value = region.graph.value(region.node.inputs[static_cast<size_t>(view.conv.spatial.weights)]);
  const auto bytes = constants.get(value.name, layout_text(packed_numbers, w), *value.constant,
                                   static_cast<size_t>(w.bytes()), [&](const Tensor& raw, std::byte* out) {
                                     pack_int8_depthwise(w, reinterpret_cast<const uint8_t*>(raw.data()),
                                                         raw.dtype() == DType::i8, out);
                                   });
  return std::make_shared<IntegerDepthwiseKernel>(std::move(view), bytes.data());
}

}  // namespace

const CpuTactic integer_depthwise_tactic{"integer_depthwise", estimate_depthwise, compile_depthwise};

Tensor unpack_integer_depthwise(const PackedConstant& packed, DType dtype, const Dims& dims) {
  Int8DepthwiseWeights w;
  if (!read_layout_text(packed.layout, packed_numbers, w)) return {};
  const int64_t count = element_count(dims);
  const bool sane = (dtype == DType::i8 || dtype == DType::u8) && !dims.empty() && w.channels == dims[0] &&
                    w.channels > 0 && w.taps == count / w.channels && w.taps > 0;
  if (!sane || packed.bytes.size() != static_cast<size_t>(w.bytes())) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_int8_depthwise(w, packed.bytes.data(), reinterpret_cast<uint8_t*>(raw.mutable_data()));
  return raw;
}

}  // namespace camshaft::cpu
