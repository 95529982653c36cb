#include "backends/cpu/tactics/conv_transpose_planes.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/conv_transpose_planes.h"
#include "backends/cpu/tactics/conv_transpose_view.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

// More fill the vectors of a product.
constexpr int64_t most_channels = 16;

std::optional<TransposeView> view_planes(const RegionView& region) {
  std::optional<TransposeView> view = view_transpose(region);
  if (!view || view->spatial.weight_dims.size() > 4 || !view->spatial.epilogue.is_plain()) return std::nullopt;
  const ConvTransposeShape known = known_transpose_shape(*view);
  if (known.out_channels / known.groups > most_channels || known.is_depthwise() || !PlaneTransposePlan::fits(known))
    return std::nullopt;
  return view;
}

PlaneTransposeWeights weights_of(const TransposeView& view) {
  const ConvTransposeShape s = known_transpose_shape(view);
  return {
      s.in_channels, s.out_channels / s.groups, s.groups, s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.dilation_h,
      s.dilation_w};
}

constexpr auto packed_numbers = [](auto& weights, auto&& number) {
  number("conv_transpose_planes c=", weights.in_channels);
  number(" o=", weights.group_outputs);
  number(" groups=", weights.groups);
  number(" h=", weights.kernel_h);
  number(" w=", weights.kernel_w);
  number(" stride=", weights.stride_h);
  number("x", weights.stride_w);
  number(" dilation=", weights.dilation_h);
  number("x", weights.dilation_w);
};

class PlaneTransposeLaunch final : public Launch {
 public:
  PlaneTransposeLaunch(const TransposeView& view, const float* packed, const KernelShapes& shapes)
      : x_(static_cast<size_t>(view.spatial.x)),
        packed_(packed),
        threads_(shapes.threads),
        plan_(transpose_shape(view, shapes), false, false),
        epilogue_(view.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(plan_.workspace_bytes(threads_)); }
  void run(const LaunchArguments& arguments) override {
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    plane_conv_transpose(plan_, reinterpret_cast<const float*>(arguments.inputs[x_]), packed_, y,
                         epilogue_.bind(arguments, y), arguments.pool, arguments.workspace);
  }

 private:
  size_t x_;
  const float* packed_;
  int threads_;
  PlaneTransposePlan plan_;
  BoundEpilogue epilogue_;
};

class PlaneTransposeKernel final : public Kernel {
 public:
  PlaneTransposeKernel(TransposeView view, const float* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<PlaneTransposeLaunch>(view_, packed_, shapes);
  }
  bool reads_input(size_t i) const override {
    return static_cast<int32_t>(i) != view_.spatial.weights || view_.spatial.epilogue.reads(i);
  }

 private:
  TransposeView view_;
  const float* packed_;
};

std::optional<double> estimate(const RegionView& region) {
  const auto view = view_planes(region);
  if (!view) return std::nullopt;
  return seconds_per_launch +
         std::max(1.5 * transpose_flops(region, *view) * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile(const RegionView& region, PackedConstants& constants) {
  TransposeView view = *view_planes(region);
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const PlaneTransposeWeights weights = weights_of(view);
  const auto bytes =
      constants.get(w.name, layout_text(packed_numbers, weights), *w.constant,
                    static_cast<size_t>(weights.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
                      pack_plane_transpose_weights(weights, raw.as<float>(), reinterpret_cast<float*>(out));
                    });
  return std::make_shared<PlaneTransposeKernel>(std::move(view), reinterpret_cast<const float*>(bytes.data()));
}

}  // namespace

const CpuTactic plane_conv_transpose_tactic{"conv_transpose_planes", estimate, compile};

Tensor unpack_plane_conv_transpose(const PackedConstant& packed, DType dtype, const Dims& dims) {
  PlaneTransposeWeights w;
  if (!read_layout_text(packed.layout, packed_numbers, w)) return {};
  const bool two = dims.size() == 4;
  bool sane = dtype == DType::f32 && (two || dims.size() == 3) && w.in_channels == dims[0] &&
              w.group_outputs == dims[1] && w.groups > 0 && w.in_channels % w.groups == 0 &&
              w.kernel_h == (two ? dims[2] : 1) && w.kernel_w == dims.back();
  constexpr int64_t max_dilation = int64_t{1} << 31;
  for (const int64_t stride : {w.stride_h, w.stride_w}) sane = sane && stride > 0 && stride <= most_transpose_phases;
  for (const int64_t dilation : {w.dilation_h, w.dilation_w}) sane = sane && dilation > 0 && dilation <= max_dilation;
  if (!sane || w.stride_h * w.stride_w > most_transpose_phases ||
      packed.bytes.size() != static_cast<size_t>(w.floats()) * sizeof(float))
    throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_plane_transpose_weights(w, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu
