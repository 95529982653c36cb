// Depthwise convolutions of 8-bit numbers.
#include <algorithm>

#include "backends/cpu/kernels/conv/int8_depthwise.h"
#include "backends/cpu/tactics/integer_conv.h"
#include "backends/cpu/tactics/integer_conv_kernel.h"
#include "backends/cpu/tactics/integer_operands.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

constexpr auto int8_depthwise_numbers = [](auto& w, auto&& number) {
  number("int8 depthwise quads channels=", w.channels);
  number(" lines=", w.lines);
  number(" columns=", w.columns);
};

Int8DepthwiseWeights int8_depthwise_weights_of(const IntegerConvView& view) {
  const Dims& w = view.conv.spatial.weight_dims;
  return {w[0], element_count(w) / (w[0] * w.back()), w.back()};
}

// One channel a group, and one kernel or several of each.
bool is_depthwise(const ConvView& conv) {
  const Dims& w = conv.spatial.weight_dims;
  return conv.op.groups > 1 && w[1] == 1 && w[0] % conv.op.groups == 0 && w.size() <= 4 &&
         conv.spatial.constant_weights;
}

// Each channel so many times, side by side.
void repeat_channels(const uint8_t* from, int64_t channels, int64_t times, uint8_t* to) {
  if (times == 2) {
    for (int64_t c = 0; c < channels; ++c) to[2 * c] = to[2 * c + 1] = from[c];
    return;
  }
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < times; ++k) *to++ = from[c];
}

class IntegerDepthwiseLaunch final : public Launch {
 public:
  IntegerDepthwiseLaunch(const IntegerConvView& view, const std::byte* packed, const KernelShapes& shapes)
      : view_(view),
        threads_(shapes.threads),
        epilogue_(view.epilogue, shapes, view.conv.spatial.weight_dims[0]),
        operands_(view, shapes) {
    ConvShape& s = problem_.shape;
    s = conv_shape(view.conv, shapes);
    const int64_t pixel = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
    repeated_ = {s.batch * s.in_d * s.in_h * s.in_w, pixel, s.in_channels, s.out_channels / s.groups};
    if (repeated_.times > 1) s.in_channels = s.groups = s.out_channels, s.in_pixel_stride = 0;
    problem_.weights = int8_depthwise_weights_of(view);
    problem_.is_signed = view.of_x == DType::i8;
    packed_ = packed;
    begin_.resize(static_cast<size_t>(problem_.weights.padded()));
    zeros_.resize(begin_.size());
    problem_.begin = begin_.data();
    if (operands_.w.count > 0 || moved_weights() || !has_int8_dots())
      pairs_.resize(static_cast<size_t>(problem_.weights.pair_words()) * 2);
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(scratch_bytes() + (repeated_.times > 1 ? repeated_.bytes() : 0));
  }

  void run(const LaunchArguments& arguments) override {
    const auto input = [&](int32_t i) { return i < 0 ? nullptr : arguments.inputs[static_cast<size_t>(i)]; };
    operands_.x.zeros = input(view_.x_zero);
    operands_.w.zeros = input(view_.weights_zero);
    problem_.x = repeated(reinterpret_cast<const uint8_t*>(input(view_.conv.spatial.x)), arguments);
    problem_.padding = static_cast<uint8_t>(operands_.x.zero(0, false));
    take_weights();
    const Int8DepthwiseWeights& w = problem_.weights;
    const int32_t zero = operands_.x.zero(0, problem_.quads && problem_.is_signed);
    const auto* sums = reinterpret_cast<const int32_t*>(packed_) + w.quad_words();
    const auto* bias = reinterpret_cast<const int32_t*>(input(view_.bias));
    for (int64_t c = 0; c < w.channels; ++c)
      begin_[static_cast<size_t>(c)] = static_cast<int32_t>(
          (bias ? bias[c] : 0) - zero * (sums[c] - w.taps() * static_cast<int64_t>(zeros_[static_cast<size_t>(c)])));
    epilogue_.bind(arguments, problem_.result);
    int8_depthwise(problem_, arguments.pool, arguments.workspace);
  }

 private:
  // The image whose channels come several times.
  struct Repeated {
    int64_t pixels = 0, stride = 0, channels = 0, times = 1;
    int64_t bytes() const { return pixels * channels * times; }
  };

  int64_t scratch_bytes() const {
    return (int8_depthwise_workspace_bytes(problem_.shape, problem_.weights, threads_) + 63) / 64 * 64;
  }

  // The input, or a copy behind the scratch memory with a channel for each kernel.
  const uint8_t* repeated(const uint8_t* x, const LaunchArguments& arguments) const {
    const Repeated& r = repeated_;
    if (r.times == 1) return x;
    auto* copy = reinterpret_cast<uint8_t*>(arguments.workspace + scratch_bytes());
    arguments.pool.parallel_for(r.pixels, (1 << 14) / (r.channels * r.times) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        repeat_channels(x + i * r.stride, r.channels, r.times, copy + i * r.channels * r.times);
    });
    return copy;
  }

  bool moved_weights() const { return operands_.w.dtype == DType::u8; }

  // As they are packed, if their zero points are 0 and the machine can, else as pairs, less these.
  void take_weights() {
    bool any = false;
    for (int64_t c = 0; c < problem_.weights.channels; ++c) {
      zeros_[static_cast<size_t>(c)] = operands_.w.zero(c, moved_weights());
      any = any || zeros_[static_cast<size_t>(c)] != 0;
    }
    problem_.quads = any || !has_int8_dots() ? nullptr : packed_;
    problem_.pairs = problem_.quads ? nullptr : pairs_.data();
    if (problem_.quads || (has_pairs_ && !any)) return;
    int8_depthwise_pairs(problem_.weights, packed_, zeros_.data(), pairs_.data());
    has_pairs_ = !any;
  }

  const IntegerConvView& view_;
  int threads_;
  Repeated repeated_;
  BoundIntegerEpilogue epilogue_;
  ConvOperands operands_;
  const std::byte* packed_ = nullptr;
  Int8DepthwiseProblem problem_;
  std::vector<int32_t> begin_;
  std::vector<int32_t> zeros_;  // of the weights as they are packed
  std::vector<int16_t> pairs_;
  bool has_pairs_ = false;  // without zero points
};

std::optional<double> estimate_integer_depthwise(const RegionView& region) {
  const auto view = view_integer_conv(region);
  if (!view || !is_depthwise(view->conv)) return std::nullopt;
  return seconds_per_launch +
         std::max(conv_flops(region, view->conv) * 2 * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_integer_depthwise(const RegionView& region, PackedConstants& constants) {
  IntegerConvView view = *view_integer_conv(region);
  const Int8DepthwiseWeights w = int8_depthwise_weights_of(view);
  const Value& value = region.graph.value(region.node.inputs[static_cast<size_t>(view.conv.spatial.weights)]);
  const auto bytes = constants.get(value.name, layout_text(int8_depthwise_numbers, w), *value.constant,
                                   static_cast<size_t>(w.bytes()), [&](const Tensor& raw, std::byte* out) {
                                     pack_int8_depthwise(w, reinterpret_cast<const uint8_t*>(raw.data()),
                                                         raw.dtype() == DType::u8, out);
                                   });
  return std::make_shared<IntegerConvKernel<IntegerDepthwiseLaunch>>(std::move(view), bytes.data());
}

}  // namespace

const CpuTactic integer_depthwise_tactic{"integer_depthwise", estimate_integer_depthwise, compile_integer_depthwise};

Tensor unpack_integer_depthwise(const PackedConstant& packed, DType dtype, const Dims& dims) {
  Int8DepthwiseWeights w;
  if (!read_layout_text(packed.layout, int8_depthwise_numbers, w)) return {};
  const int64_t count = element_count(dims);
  const bool sane = (dtype == DType::i8 || dtype == DType::u8) && !dims.empty() && w.channels == dims[0] &&
                    w.channels > 0 && w.columns == dims.back() && w.columns > 0 && w.lines > 0 &&
                    w.lines == count / w.channels / w.columns;
  if (!sane || packed.bytes.size() != static_cast<size_t>(w.bytes())) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_int8_depthwise(w, packed.bytes.data(), dtype == DType::u8, reinterpret_cast<uint8_t*>(raw.mutable_data()));
  return raw;
}

}  // namespace camshaft::cpu
