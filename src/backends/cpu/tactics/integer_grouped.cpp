// Convolutions of 8-bit numbers in many narrow groups.
#include <algorithm>

#include "backends/cpu/kernels/conv/int8_grouped.h"
#include "backends/cpu/tactics/integer_conv.h"
#include "backends/cpu/tactics/integer_conv_kernel.h"
#include "backends/cpu/tactics/integer_operands.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

constexpr auto int8_grouped_numbers = [](auto& w, auto&& number) {
  number("int8 grouped o=", w.out_channels);
  number(" c=", w.group_channels);
  number(" taps=", w.taps);
  number(" groups=", w.groups);
  number(" lanes=", w.lanes);
};

Int8GroupedWeights int8_grouped_weights_of(const IntegerConvView& view) {
  const Dims& w = view.conv.spatial.weight_dims;
  return int8_grouped_weights(w[0], w[1], element_count(w) / (w[0] * w[1]), view.conv.op.groups);
}

bool is_narrow(const ConvView& conv, const Int8GroupedWeights& weights) {
  return conv.op.groups > 1 && conv.spatial.constant_weights && weights.out_channels % weights.groups == 0 &&
         int8_grouped_takes(weights, weights.group_channels * weights.groups);
}

class IntegerGroupedLaunch final : public Launch {
 public:
  IntegerGroupedLaunch(const IntegerConvView& view, const std::byte* packed, const KernelShapes& shapes)
      : view_(view),
        threads_(shapes.threads),
        plan_(conv_shape(view.conv, shapes), 1),
        padding_(static_cast<size_t>(plan_.shape().in_channels)),
        epilogue_(view.epilogue, shapes, view.conv.spatial.weight_dims[0]),
        operands_(view, shapes) {
    problem_.plan = &plan_;
    problem_.is_signed = view.of_x == DType::i8;
    problem_.padding = padding_.data();
    problem_.weights = int8_grouped_weights_of(view);
    problem_.packed = packed;
    begin_.resize(static_cast<size_t>(problem_.weights.units() * problem_.weights.lanes));
    zeros_.resize(begin_.size());
    problem_.begin = begin_.data();
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(int8_grouped_workspace_bytes(problem_.weights, threads_));
  }

  void run(const LaunchArguments& arguments) override {
    const auto input = [&](int32_t i) { return i < 0 ? nullptr : arguments.inputs[static_cast<size_t>(i)]; };
    operands_.x.zeros = input(view_.x_zero);
    operands_.w.zeros = input(view_.weights_zero);
    problem_.x = reinterpret_cast<const uint8_t*>(input(view_.conv.spatial.x));
    std::fill(padding_.begin(), padding_.end(), static_cast<uint8_t>(operands_.x.zero(0, false)));
    take_zeros(reinterpret_cast<const int32_t*>(input(view_.bias)));
    epilogue_.bind(arguments, problem_.result);
    int8_grouped(problem_, arguments.pool, arguments.workspace);
  }

 private:
  // Σ (a - za)(b - zb) = Σ a·b - zb · Σ a - za · Σ (b - zb), where Σ b is packed with the weights.
  void take_zeros(const int32_t* bias) {
    const Int8GroupedWeights& w = problem_.weights;
    const int32_t zero = operands_.x.zero(0, problem_.is_signed);
    const auto* sums = reinterpret_cast<const int32_t*>(problem_.packed) + w.units() * w.unit_words();
    bool any = false;
    for (int64_t o = 0; o < w.out_channels; ++o) {
      const int64_t at = o / w.unit_outputs() * w.lanes + o % w.unit_outputs();
      const int32_t of_weights = operands_.w.zero(o, operands_.w.dtype == DType::u8);
      zeros_[static_cast<size_t>(at)] = of_weights;
      any = any || of_weights != 0;
      begin_[static_cast<size_t>(at)] = static_cast<int32_t>(
          (bias ? bias[o] : 0) - zero * (sums[at] - w.taps * w.group_channels * static_cast<int64_t>(of_weights)));
    }
    problem_.zeros = any ? zeros_.data() : nullptr;
  }

  const IntegerConvView& view_;
  int threads_;
  ConvPlan plan_;
  std::vector<uint8_t> padding_;
  BoundIntegerEpilogue epilogue_;
  ConvOperands operands_;
  Int8GroupedProblem problem_;
  std::vector<int32_t> begin_, zeros_;  // of each unit's lanes
};

std::optional<double> estimate_integer_grouped(const RegionView& region) {
  const auto view = view_integer_conv(region);
  if (!view) return std::nullopt;
  const Int8GroupedWeights w = int8_grouped_weights_of(*view);
  if (!is_narrow(view->conv, w)) return std::nullopt;
  // Half the products of a product of bytes, as each has a permutation of its own, and of those some are zeros.
  const double given = static_cast<double>(w.units() * w.lanes * w.quads() * 4);
  const double waste = given / static_cast<double>(w.out_channels * w.group_channels);
  return seconds_per_launch + std::max(conv_flops(region, view->conv) * waste * seconds_per_flop / 2,
                                       bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_integer_grouped(const RegionView& region, PackedConstants& constants) {
  IntegerConvView view = *view_integer_conv(region);
  const Int8GroupedWeights w = int8_grouped_weights_of(view);
  const Value& value = region.graph.value(region.node.inputs[static_cast<size_t>(view.conv.spatial.weights)]);
  const auto bytes =
      constants.get(value.name, layout_text(int8_grouped_numbers, w), *value.constant, static_cast<size_t>(w.bytes()),
                    [&](const Tensor& raw, std::byte* out) {
                      pack_int8_grouped(w, reinterpret_cast<const uint8_t*>(raw.data()), raw.dtype() == DType::u8, out);
                    });
  return std::make_shared<IntegerConvKernel<IntegerGroupedLaunch>>(std::move(view), bytes.data());
}

}  // namespace

const CpuTactic integer_grouped_tactic{"integer_grouped", estimate_integer_grouped, compile_integer_grouped};

Tensor unpack_integer_grouped(const PackedConstant& packed, DType dtype, const Dims& dims) {
  Int8GroupedWeights w;
  if (!read_layout_text(packed.layout, int8_grouped_numbers, w)) return {};
  const int64_t count = element_count(dims);
  const bool sane = (dtype == DType::i8 || dtype == DType::u8) && dims.size() >= 2 && count > 0 &&
                    w.out_channels == dims[0] && w.group_channels == dims[1] && w.taps == count / dims[0] / dims[1] &&
                    w.groups > 0 && w.out_channels % w.groups == 0 && w.lanes > 0 && w.lanes <= 16 && w.together() > 0;
  if (!sane || packed.bytes.size() != static_cast<size_t>(w.bytes())) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_int8_grouped(w, packed.bytes.data(), dtype == DType::u8, reinterpret_cast<uint8_t*>(raw.mutable_data()));
  return raw;
}

}  // namespace camshaft::cpu
