#include "cpu/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cpu/conv_view.h"
#include "cpu/kernels/depthwise.h"
#include "cpu/kernels/winograd.h"

namespace camshaft::cpu {

namespace {

// The part of all taps that lies inside the image: the product leaves out the others.
double inside_share(const RegionView& region, const ConvView& view) {
  const Shape& x = region.graph.shape(region.node.inputs[static_cast<size_t>(view.spatial.x)]);
  const Shape& y = region.graph.shape(region.node.outputs[0]);
  double share = 1;
  for (size_t axis = 0; axis + 2 < x.size(); ++axis) {
    const auto in = static_cast<int64_t>(size_at_optimum(region, x[axis + 1]));
    const auto out = static_cast<int64_t>(size_at_optimum(region, y[axis + 1]));
    const auto pad = static_cast<int64_t>(size_at_optimum(region, view.op.pads[axis]));
    const int64_t kernel = view.spatial.weight_dims[axis + 2];
    const int64_t stride = view.op.strides[axis], dilation = view.op.dilations[axis];
    constexpr int64_t largest = 4096;  // padding does not matter beyond
    if (out <= 0 || std::max({out, stride, dilation}) > largest || kernel > 64) continue;
    int64_t inside = 0;
    for (int64_t o = 0; o < out; ++o)
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t at = o * stride + k * dilation - pad;
        inside += at >= 0 && at < in ? 1 : 0;
      }
    share *= static_cast<double>(inside) / static_cast<double>(out * kernel);
  }
  return share;
}

// ---- the indirect matrix product

class ConvLaunch final : public Launch {
 public:
  /// Without `packed` the weights are packed in each run.
  ConvLaunch(const ConvView& view, const float* packed, const KernelShapes& shapes)
      : x_(static_cast<size_t>(view.spatial.x)),
        weights_(static_cast<size_t>(view.spatial.weights)),
        packed_(packed),
        threads_(shapes.threads),
        layout_(conv_weights_of(view)),
        plan_(conv_shape(view, shapes)),
        epilogue_(view.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
  size_t workspace_bytes() const override {
    return packing_bytes() + static_cast<size_t>(plan_.workspace_bytes(threads_));
  }
  void run(const LaunchArguments& arguments) override {
    const float* packed = packed_;
    if (!packed) {
      auto* to = reinterpret_cast<float*>(arguments.workspace);
      pack_conv_weights(layout_, reinterpret_cast<const float*>(arguments.inputs[weights_]), to, arguments.pool);
      packed = to;
    }
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    conv(plan_, reinterpret_cast<const float*>(arguments.inputs[x_]), packed, y, epilogue_.bind(arguments, y),
         arguments.pool, arguments.workspace + packing_bytes());
  }

 private:
  // Groups are padded to 64 bytes, so that this is a multiple of them.
  size_t packing_bytes() const { return packed_ ? 0 : static_cast<size_t>(layout_.floats()) * sizeof(float); }

  size_t x_, weights_;
  const float* packed_;
  int threads_;
  ConvWeights layout_;
  ConvPlan plan_;
  BoundEpilogue epilogue_;
};

// ---- depthwise

class DepthwiseLaunch final : public Launch {
 public:
  DepthwiseLaunch(const ConvView& view, const float* packed, const KernelShapes& shapes)
      : x_(static_cast<size_t>(view.spatial.x)),
        packed_(packed),
        shape_(conv_shape(view, shapes)),
        epilogue_(view.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
  void run(const LaunchArguments& arguments) override {
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    depthwise(shape_, reinterpret_cast<const float*>(arguments.inputs[x_]), packed_, y, epilogue_.bind(arguments, y),
              arguments.pool);
  }

 private:
  size_t x_;
  const float* packed_;
  ConvShape shape_;
  BoundEpilogue epilogue_;
};

// ---- Winograd

class WinogradLaunch final : public Launch {
 public:
  WinogradLaunch(const ConvView& view, const WinogradWeights& weights, const float* packed, const KernelShapes& shapes)
      : x_(static_cast<size_t>(view.spatial.x)),
        weights_(weights),
        packed_(packed),
        threads_(shapes.threads),
        shape_(conv_shape(view, shapes)),
        epilogue_(view.spatial.epilogue, shapes, shapes.outputs[0].dims.back()) {}
  size_t workspace_bytes() const override {
    return static_cast<size_t>(winograd_workspace_bytes(weights_.tile, shape_, threads_));
  }
  void run(const LaunchArguments& arguments) override {
    auto* y = reinterpret_cast<float*>(arguments.outputs[0]);
    winograd(weights_, shape_, reinterpret_cast<const float*>(arguments.inputs[x_]), packed_, y,
             epilogue_.bind(arguments, y), arguments.pool, arguments.workspace);
  }

 private:
  size_t x_;
  const WinogradWeights& weights_;
  const float* packed_;
  int threads_;
  ConvShape shape_;
  BoundEpilogue epilogue_;
};

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(ConvView view, const WinogradWeights& weights, const float* packed)
      : view_(std::move(view)), weights_(weights), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<WinogradLaunch>(view_, weights_, packed_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return view_.spatial.epilogue.can_overwrite(i); }
  bool reads_input(size_t i) const override {
    return static_cast<int32_t>(i) != view_.spatial.weights || view_.spatial.epilogue.reads(i);
  }

 private:
  ConvView view_;
  WinogradWeights weights_;
  const float* packed_;
};

std::optional<double> estimate_conv(const RegionView& region) {
  const auto view = view_conv(region);
  if (!view) return std::nullopt;
  // A group narrower than a vector leaves most lanes idle; one narrower than two vectors waits for its loads (16 wide:
  // 140 GFLOP/s on a Zen 5 core, 24: 170, 32: 230, 64: 245).
  const double lanes = 16, width = static_cast<double>(view->spatial.weight_dims[0] / view->op.groups);
  const double waste =
      std::max(1.0, lanes / std::max(1.0, width)) * (1 + 0.7 * std::clamp((2 * lanes - width) / lanes, 0.0, 1.0));
  return seconds_per_launch +
         std::max(conv_flops(region, *view) * inside_share(region, *view) * waste * seconds_per_flop,
                  bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_conv(const RegionView& region, PackedConstants& constants) {
  ConvView view = *view_conv(region, 1 + kMoreResiduals);
  const float* packed = view.spatial.constant_weights ? pack_conv(region, view, constants) : nullptr;
  return std::make_shared<ConvKernel<ConvLaunch>>(std::move(view), packed);
}

std::optional<double> estimate_depthwise(const RegionView& region) {
  const auto view = view_conv(region);
  if (!view || !view->is_depthwise()) return std::nullopt;
  return seconds_per_launch +
         std::max(conv_flops(region, *view) * 3 * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_depthwise(const RegionView& region, PackedConstants& constants) {
  ConvView view = *view_conv(region);
  const float* packed = pack_depthwise(region, view, constants);
  return std::make_shared<ConvKernel<DepthwiseLaunch>>(std::move(view), packed);
}

// Of F(tile x tile): its multiplications, and what the transforms take, in operations a channel and pixel as measured.
double winograd_flops(int64_t tile, double pixels, double in_channels, double out_channels) {
  const double points = static_cast<double>((tile + 2) * (tile + 2)) / static_cast<double>(tile * tile);
  const double transforms = tile == 4 ? 140 : 160;
  return pixels * (2 * points * in_channels * out_channels + transforms * (in_channels + out_channels));
}

std::vector<TacticOffer> offer_winograd(const RegionView& region) {
  const auto view = view_conv(region);
  if (!view || view->spatial.weight_dims.size() != 4 || !view->spatial.constant_weights) return {};
  ConvShape shape;
  shape.in_h = shape.in_w = 3;
  shape.in_channels = view->spatial.weight_dims[1];
  shape.out_channels = view->spatial.weight_dims[0];
  shape.kernel_h = view->spatial.kernel_h();
  shape.kernel_w = view->spatial.kernel_w();
  std::tie(shape.stride_h, shape.stride_w) = two(view->op.strides, 1);
  std::tie(shape.dilation_h, shape.dilation_w) = two(view->op.dilations, 1);
  shape.groups = view->op.groups;
  if (!winograd_supports(shape)) return {};
  // Narrow products leave lanes idle, and their transforms cost as much as they save.
  if (shape.in_channels < 16 || shape.out_channels < 16) return {};
  const Shape& y = region.graph.shape(region.node.outputs[0]);
  const double pixels = elements_at_optimum(region, region.node.outputs[0]) / static_cast<double>(shape.out_channels);
  std::vector<TacticOffer> offers;
  for (const int64_t tile : {4, 2}) {
    const double waste =
        winograd_waste(tile, static_cast<int64_t>(size_at_optimum(region, y[1])),
                       static_cast<int64_t>(size_at_optimum(region, y[2])), shape.dilation_h, shape.dilation_w);
    const double flops = winograd_flops(tile, pixels * waste, static_cast<double>(shape.in_channels),
                                        static_cast<double>(shape.out_channels));
    const WinogradWeights weights = winograd_weights(tile, shape.out_channels, shape.in_channels);
    // The transformed weights are read instead of the plain ones.
    const double more_bytes =
        4.0 * (static_cast<double>(weights.floats()) - static_cast<double>(element_count(view->spatial.weight_dims)));
    const double seconds = seconds_per_launch + std::max(flops * seconds_per_flop,
                                                         (bytes_at_optimum(region) + more_bytes) * seconds_per_byte);
    // F(2x2) rounds no more than the plain sum (winograd.h).
    offers.push_back({{{"tile", tile}}, seconds, tile == 4 ? Deviation::rounding : Deviation::specials});
  }
  return offers;
}

std::shared_ptr<const Kernel> compile_winograd(const RegionView& region, const TacticParameters& parameters,
                                               PackedConstants& constants) {
  ConvView view = *view_conv(region);
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const WinogradWeights weights =
      winograd_weights(parameters["tile"], view.spatial.weight_dims[0], view.spatial.weight_dims[1]);
  const std::string layout =
      fmt::format("winograd tile={} o={} c={} width={} lanes={}", weights.tile, weights.out_channels,
                  weights.in_channels, weights.layout.width, weights.layout.lanes);
  const auto bytes = constants.get(w.name, layout, *w.constant, static_cast<size_t>(weights.floats()) * sizeof(float),
                                   [&](const Tensor& raw, std::byte* out) {
                                     pack_winograd_weights(weights, raw.as<float>(), reinterpret_cast<float*>(out));
                                   });
  return std::make_shared<WinogradKernel>(std::move(view), weights, reinterpret_cast<const float*>(bytes.data()));
}

}  // namespace

const CpuTactic conv_tactic{"conv", estimate_conv, compile_conv};
const CpuTactic winograd_tactic{"winograd", offer_winograd, compile_winograd};
const CpuTactic depthwise_tactic{"depthwise", estimate_depthwise, compile_depthwise};

Tensor unpack_conv(const PackedConstant& packed, DType dtype, const Dims& dims) {
  const auto* floats = reinterpret_cast<const float*>(packed.bytes.data());
  const size_t count = packed.bytes.size() / sizeof(float);
  const bool plausible = dtype == DType::f32 && dims.size() >= 3 && dims.size() <= 5;
  int64_t kernel_h = 1;  // lines of the kernel
  for (size_t i = 2; i + 1 < dims.size(); ++i) kernel_h *= dims[i];
  int64_t o = 0, c = 0, h = 0, w = 0, groups = 0;
  int32_t width = 0, lanes = 0;
  if (std::sscanf(packed.layout.c_str(), "depthwise16 o=%ld h=%ld w=%ld", &o, &h, &w) == 3) {
    if (!plausible || dims.size() > 4 || o != dims[0] || dims[1] != 1 || h != kernel_h || w != dims.back() ||
        count != static_cast<size_t>(depthwise_weight_floats(o, h, w)))
      throw_misfit(packed, dims);
    Tensor raw(dtype, dims);
    unpack_depthwise_weights(o, h, w, floats, raw.as_mutable<float>());
    return raw;
  }
  if (std::sscanf(packed.layout.c_str(), "conv o=%ld c=%ld h=%ld w=%ld groups=%ld width=%d lanes=%d", &o, &c, &h, &w,
                  &groups, &width, &lanes) != 7)
    return {};
  const bool sane = plausible && groups > 0 && width > 0 && lanes > 0 && width <= 4096 && width % lanes == 0 &&
                    o == dims[0] && c == dims[1] && h == kernel_h && w == dims.back() && o % groups == 0;
  if (!sane) throw_misfit(packed, dims);
  ConvWeights weights = conv_weights(o, c, h, w, groups);
  weights.layout.width = width;
  weights.layout.lanes = lanes;
  if (count != static_cast<size_t>(weights.floats())) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_conv_weights(weights, floats, raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu
