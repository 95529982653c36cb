#include "backends/cpu/tactics/conv_transpose.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/conv_transpose.h"
#include "backends/cpu/tactics/spatial_view.h"
#include "compile/constants/layout_text.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/contract.h"

namespace camshaft::cpu {

namespace {

struct TransposeView {
  SpatialView spatial;
  ops::ConvTranspose op;
};

// Weights are packed once for each remainder by the strides. Real models have at most 32 by 32.
constexpr int64_t most_phases = 4096;

std::optional<TransposeView> view_transpose(const RegionView& region) {
  std::optional<SpatialView> spatial = view_spatial(region);
  if (!spatial || !spatial->constant_weights) return std::nullopt;
  const auto* op = spatial->contract.anchor->op.as<ops::ConvTranspose>();
  if (!op || !op->channels_last) return std::nullopt;
  int64_t phases = 1;
  for (const int64_t stride : op->strides) {
    if (stride > most_phases / phases) return std::nullopt;
    phases *= stride;
  }
  return TransposeView{std::move(*spatial), *op};
}

// What the operator and its weights say of the shape: not the image and the pads.
ConvTransposeShape known_shape(const TransposeView& view) {
  ConvTransposeShape s;
  s.in_channels = view.spatial.weight_dims[0];
  s.out_channels = view.spatial.weight_dims[1] * view.op.groups;
  s.kernel_d = view.spatial.kernel_d();
  s.kernel_h = view.spatial.kernel_h();
  s.kernel_w = view.spatial.kernel_w();
  std::tie(s.stride_h, s.stride_w) = two(view.op.strides, 1);
  std::tie(s.dilation_h, s.dilation_w) = two(view.op.dilations, 1);
  if (view.op.strides.size() == 3) s.stride_d = view.op.strides[0], s.dilation_d = view.op.dilations[0];
  s.groups = view.op.groups;
  return s;
}

// Decided before the sizes are known, so by what holds for all of them.
bool joins_phases(const TransposeView& view) {
  const auto is_zero = [](const Dim& d) { return d == Dim(0); };
  // Pads are [begins..., ends...], the width's last of each.
  const Shape& pads = view.op.pads;
  const bool unpadded = pads.empty() || (is_zero(pads[pads.size() / 2 - 1]) && is_zero(pads.back()));
  return unpadded && (view.op.output_padding.empty() || is_zero(view.op.output_padding.back())) &&
         can_join_phases(known_shape(view));
}

ConvTransposeWeights weights_of(const TransposeView& view) {
  return conv_transpose_weights(known_shape(view), joins_phases(view));
}

ConvTransposeShape shape_of(const TransposeView& view, const KernelShapes& shapes) {
  ConvTransposeShape s = plane_shape<ConvTransposeShape>(view.spatial, view.op, shapes);
  const ConvTransposeShape known = known_shape(view);
  s.out_channels = known.out_channels;
  const Dims& x = shapes.inputs[static_cast<size_t>(view.spatial.x)].dims;
  s.in_d = x.size() == 5 ? x[1] : 1;
  s.kernel_d = known.kernel_d, s.stride_d = known.stride_d, s.dilation_d = known.dilation_d;
  const std::array<int64_t, 2> depth_pads = depth_pads_of(view.op.pads, *shapes.symbols);
  s.pad_front = depth_pads[0], s.pad_back = depth_pads[1];
  Dims output_padding;
  for (const Dim& d : view.op.output_padding) output_padding.push_back(d.evaluate(*shapes.symbols));
  if (!output_padding.empty()) std::tie(s.output_padding_h, s.output_padding_w) = two(output_padding, 0);
  if (output_padding.size() == 3) s.output_padding_d = output_padding[0];
  require_equal(s.in_channels, known.in_channels, "the number of input channels of a transposed convolution");
  require_bias(view.spatial, shapes, s.out_channels);
  return s;
}

constexpr auto packed_numbers = [](auto& weights, auto&& number) {
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
        packed_(packed),
        threads_(shapes.threads),
        plan_(shape_of(view, shapes), joins_phases(view)),
        epilogue_(view.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(plan_.workspace_bytes(threads_)); }
  void run(const LaunchArguments& arguments) override {
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    conv_transpose(plan_, reinterpret_cast<const float*>(arguments.inputs[x_]), packed_, y,
                   epilogue_.bind(arguments, y), arguments.pool, arguments.workspace);
  }

 private:
  size_t x_;
  const float* packed_;
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
    return static_cast<int32_t>(i) != view_.spatial.weights || view_.spatial.epilogue.reads(i);
  }

 private:
  TransposeView view_;
  const float* packed_;
};

std::optional<double> estimate(const RegionView& region) {
  const auto view = view_transpose(region);
  if (!view) return std::nullopt;
  const Dims& w = view->spatial.weight_dims;
  const double flops =
      2 * elements_at_optimum(region, region.node.inputs[static_cast<size_t>(view->spatial.x)]) *
      static_cast<double>(w[1] * view->spatial.kernel_d() * view->spatial.kernel_h() * view->spatial.kernel_w());
  return seconds_per_launch + std::max(flops * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile(const RegionView& region, PackedConstants& constants) {
  TransposeView view = *view_transpose(region);
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const ConvTransposeWeights weights = weights_of(view);
  const auto bytes =
      constants.get(w.name, layout_text(packed_numbers, weights), *w.constant,
                    static_cast<size_t>(weights.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
                      pack_conv_transpose_weights(weights, raw.as<float>(), reinterpret_cast<float*>(out));
                    });
  return std::make_shared<TransposeKernel>(std::move(view), reinterpret_cast<const float*>(bytes.data()));
}

}  // namespace

const CpuTactic conv_transpose_tactic{"conv_transpose", estimate, compile};

Tensor unpack_conv_transpose(const PackedConstant& packed, DType dtype, const Dims& dims) {
  ConvTransposeWeights w;
  if (!read_layout_text(packed.layout, packed_numbers, w)) return {};
  constexpr int64_t max_dilation = int64_t{1} << 31;
  bool sane = w.groups > 0 && dtype == DType::f32 && dims.size() >= 3 && dims.size() <= 5;
  const int64_t kernel[] = {w.kernel_d, w.kernel_h, w.kernel_w}, stride[] = {w.stride_d, w.stride_h, w.stride_w};
  const int64_t dilation[] = {w.dilation_d, w.dilation_h, w.dilation_w};
  for (size_t i = 0; i < 3 && sane; ++i) {  // the last axes of the weights; those before them are 1
    const bool exists = dims.size() >= 5 - i;
    sane = stride[i] > 0 && stride[i] < 1024 && dilation[i] > 0 && dilation[i] <= max_dilation &&
           kernel[i] == (exists ? dims[dims.size() - 3 + i] : 1);
  }
  sane = sane && w.stride_d * w.stride_h * w.stride_w <= most_phases && w.in_channels == dims[0] &&
         w.group_outputs == dims[1] && w.in_channels % w.groups == 0 &&
         (!w.joined || (w.kernel_w == w.stride_w && w.groups == 1)) &&
         PackedLayout{.width = w.panel_width, .lanes = w.panel_lanes}.has_possible_panels();
  if (!sane || packed.bytes.size() != static_cast<size_t>(w.floats()) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_conv_transpose_weights(w, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu
