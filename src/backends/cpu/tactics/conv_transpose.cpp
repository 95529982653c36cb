#include "backends/cpu/tactics/conv_transpose.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/conv/conv_transpose.h"
#include "backends/cpu/kernels/tile_traits.h"
#include "backends/cpu/tactics/conv_transpose_view.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

// Decided before the sizes are known, so by what holds for all of them.
bool joins_phases(const TransposeView& view) {
  const auto is_zero = [](const Dim& d) { return d == Dim(0); };
  // Pads are [begins..., ends...], the width's last of each.
  const Shape& pads = view.op.pads;
  const bool unpadded = pads.empty() || (is_zero(pads[pads.size() / 2 - 1]) && is_zero(pads.back()));
  return unpadded && (view.op.output_padding.empty() || is_zero(view.op.output_padding.back())) &&
         can_join_phases(known_transpose_shape(view));
}

ConvTransposeWeights transposed_weights_of(const TransposeView& view) {
  return conv_transpose_weights(known_transpose_shape(view), joins_phases(view));
}

constexpr auto transposed_numbers = [](auto& weights, auto&& number) {
  number("conv_transpose c=", weights.in_channels);
  number(" o=", weights.group_outputs);
  number(" h=", weights.kernel_h);
  number(" w=", weights.kernel_w);
  number(" stride=", weights.stride_h);
  number("x", weights.stride_w);
  number(" dilation=", weights.dilation_h);
  number("x", weights.dilation_w);
  number(" groups=", weights.groups);
  number(" width=", weights.panel_width);
  number(" lanes=", weights.panel_lanes);
  number(" joined=", weights.joined);
  number(" depth=", weights.kernel_d);
  number(" stride=", weights.stride_d);
  number(" dilation=", weights.dilation_d);
};

class TransposeLaunch final : public Launch {
 public:
  TransposeLaunch(const TransposeView& view, const float* packed, const KernelShapes& shapes)
      : x_(static_cast<size_t>(view.spatial.x)),
        weights_input_(static_cast<size_t>(view.spatial.weights)),
        weights_(transposed_weights_of(view)),
        packed_(packed),
        threads_(shapes.threads),
        plan_(transpose_shape(view, shapes), joins_phases(view)),
        epilogue_(view.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
  size_t workspace_bytes() const override {
    // What packing needs is free again when it is done.
    const size_t scratch = packed_ ? 0 : 2 * static_cast<size_t>(weights_.elements()) * sizeof(float);
    return packed_bytes() + std::max(scratch, static_cast<size_t>(plan_.workspace_bytes(threads_)));
  }
  void run(const LaunchArguments& arguments) override {
    std::byte* const behind = arguments.workspace + packed_bytes();
    const float* packed = packed_;
    if (!packed) {
      auto* to = reinterpret_cast<float*>(arguments.workspace);
      pack_conv_transpose_weights(weights_, reinterpret_cast<const float*>(arguments.inputs[weights_input_]), to,
                                  reinterpret_cast<float*>(behind), arguments.pool);
      packed = to;
    }
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    conv_transpose(plan_, reinterpret_cast<const float*>(arguments.inputs[x_]), packed, y, epilogue_.bind(arguments, y),
                   arguments.pool, behind);
  }

 private:
  size_t packed_bytes() const {
    return packed_ ? 0 : (static_cast<size_t>(weights_.floats()) * sizeof(float) + 63) / 64 * 64;
  }

  size_t x_, weights_input_;
  ConvTransposeWeights weights_;
  const float* packed_;  // null: no constant, packed in each run
  int threads_;
  ConvTransposePlan plan_;
  BoundEpilogue epilogue_;
};

class TransposeKernel final : public Kernel {
 public:
  TransposeKernel(TransposeView view, const float* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<TransposeLaunch>(view_, packed_, shapes);
  }
  bool reads_input(size_t i) const override {
    return !packed_ || static_cast<int32_t>(i) != view_.spatial.weights || view_.spatial.epilogue.reads(i);
  }

 private:
  TransposeView view_;
  const float* packed_;
};

// A product's vectors are as full as its columns fill them, and each of its rows has a pointer for each tap.
std::optional<double> estimate_conv_transpose(const RegionView& region) {
  const auto view = view_transpose(region, true);
  if (!view) return std::nullopt;
  const ConvTransposeWeights w = transposed_weights_of(*view);
  const double columns =
      static_cast<double>(w.is_depthwise() ? w.in_channels : w.group_outputs * (w.joined ? w.kernel_w : 1));
  const double lanes = tile_traits().lanes(), full = std::ceil(columns / lanes) * lanes / columns;
  const double flops = full * transpose_flops(region, *view);
  constexpr double seconds_per_pointer = 1e-9;
  const double pointers = flops / (2 * full * columns * static_cast<double>(w.in_channels));
  // Pixels that no tap sees are written as others are.
  const double pixels = elements_at_optimum(region, region.node.outputs[0]) /
                        static_cast<double>(view->spatial.weight_dims[1] * view->op.groups);
  return seconds_per_launch + std::max(flops * seconds_per_flop + (pointers + pixels) * seconds_per_pointer,
                                       bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_conv_transpose(const RegionView& region, PackedConstants& constants) {
  TransposeView view = *view_transpose(region, true);
  if (!view.spatial.constant_weights) return std::make_shared<TransposeKernel>(std::move(view), nullptr);
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const ConvTransposeWeights weights = transposed_weights_of(view);
  const auto bytes =
      constants.get(w.name, layout_text(transposed_numbers, weights), *w.constant,
                    static_cast<size_t>(weights.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
                      pack_conv_transpose_weights(weights, raw.as<float>(), reinterpret_cast<float*>(out));
                    });
  return std::make_shared<TransposeKernel>(std::move(view), reinterpret_cast<const float*>(bytes.data()));
}

}  // namespace

const CpuTactic conv_transpose_tactic{"conv_transpose", estimate_conv_transpose, compile_conv_transpose};

Tensor unpack_conv_transpose(const PackedConstant& packed, DType dtype, const Dims& dims) {
  ConvTransposeWeights w;
  if (!read_layout_text(packed.layout, transposed_numbers, w)) return {};
  constexpr int64_t max_dilation = int64_t{1} << 31;
  bool sane = w.groups > 0 && dtype == DType::f32 && dims.size() >= 3 && dims.size() <= 5;
  const int64_t kernel[] = {w.kernel_d, w.kernel_h, w.kernel_w}, stride[] = {w.stride_d, w.stride_h, w.stride_w};
  const int64_t dilation[] = {w.dilation_d, w.dilation_h, w.dilation_w};
  for (size_t i = 0; i < 3 && sane; ++i) {  // the last axes of the weights; those before them are 1
    const bool exists = dims.size() >= 5 - i;
    sane = stride[i] > 0 && stride[i] < 1024 && dilation[i] > 0 && dilation[i] <= max_dilation &&
           kernel[i] == (exists ? dims[dims.size() - 3 + i] : 1);
  }
  sane = sane && w.stride_d * w.stride_h * w.stride_w <= most_transpose_phases && w.in_channels == dims[0] &&
         w.group_outputs == dims[1] && w.in_channels % w.groups == 0 &&
         (!w.joined || (w.kernel_w == w.stride_w && w.groups == 1)) &&
         PackedLayout{.width = w.panel_width, .lanes = w.panel_lanes}.has_possible_panels();
  if (!sane || packed.bytes.size() != static_cast<size_t>(w.floats()) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_conv_transpose_weights(w, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu
