#include "backends/cpu/tactics/convolution.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/depthwise.h"
#include "backends/cpu/kernels/conv/winograd.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/kernels/tile_traits.h"
#include "backends/cpu/tactics/conv_kernel.h"
#include "backends/cpu/tactics/conv_weights.h"
#include "compile/constants/layout_text.h"

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

int64_t image_elements(const ConvShape& shape) {
  return shape.batch * shape.in_d * shape.in_h * shape.in_w * shape.in_channels;
}

// The indirect matrix product.
class DirectProblem {
 public:
  static constexpr bool takes_slices = true;

  DirectProblem(const ConvView& view, const KernelShapes& shapes)
      : weights_(conv_weights_of(view)), plan_(conv_shape(view, shapes)), widens_(view.spatial.rounded_x) {}
  int64_t workspace_bytes(int threads) const { return image_bytes() + plan_.workspace_bytes(threads); }
  int64_t packed_floats() const { return weights_.floats(); }
  void pack(const float* weights, float* packed, ThreadPool& pool) const {
    pack_conv_weights(weights_, weights, packed, pool);
  }
  void run(const float* x, const float* packed, float* y, const Epilogue& epilogue, ThreadPool& pool,
           std::byte* workspace) const {
    if (widens_) {
      auto* wide = reinterpret_cast<float*>(workspace);
      widen_rounded(reinterpret_cast<const BFloat*>(x), image_elements(plan_.shape()), wide, pool);
      x = wide;
    }
    conv(plan_, x, packed, y, epilogue, pool, workspace + image_bytes());
  }

 private:
  int64_t image_bytes() const { return widens_ ? (image_elements(plan_.shape()) * 4 + 63) / 64 * 64 : 0; }

  ConvWeights weights_;
  ConvPlan plan_;
  bool widens_;  // an image of bf16
};

// The same of an image and weights rounded to bf16. Pixels of bf16 are pairs as they are.
class PairedProblem {
 public:
  static constexpr bool takes_slices = true;

  PairedProblem(const ConvView& view, const KernelShapes& shapes)
      : image_(conv_shape(view, shapes)), plan_(in_pairs(image_)), rounds_(!view.spatial.rounded_x) {}
  int64_t workspace_bytes(int threads) const { return image_bytes() + plan_.workspace_bytes(threads); }
  void run(const float* x, const float* packed, float* y, const Epilogue& epilogue, ThreadPool& pool,
           std::byte* workspace) const {
    if (rounds_) {
      auto* words = reinterpret_cast<float*>(workspace);
      const int64_t pitch = image_.in_pixel_stride ? image_.in_pixel_stride : image_.in_channels;
      round_rows(x, pitch, pixels(), image_.in_channels, words, pool);
      x = words;
    }
    conv(plan_, x, packed, y, epilogue, pool, workspace + image_bytes());
  }

 private:
  int64_t pixels() const { return image_.batch * image_.in_d * image_.in_h * image_.in_w; }
  int64_t image_bytes() const { return rounds_ ? (image_elements(plan_.shape()) * 4 + 63) / 64 * 64 : 0; }

  ConvShape image_;
  ConvPlan plan_;
  bool rounds_;
};

class DepthwiseProblem {
 public:
  static constexpr bool takes_slices = true;

  DepthwiseProblem(const ConvView& view, const KernelShapes& shapes) : shape_(conv_shape(view, shapes)) {}
  int64_t workspace_bytes(int) const { return 0; }
  void run(const float* x, const float* packed, float* y, const Epilogue& epilogue, ThreadPool& pool,
           std::byte*) const {
    depthwise(shape_, x, packed, y, epilogue, pool);
  }

 private:
  ConvShape shape_;
};

class WinogradProblem {
 public:
  static constexpr bool takes_slices = true;

  WinogradProblem(const ConvView& view, const KernelShapes& shapes, const WinogradWeights& weights)
      : weights_(weights), shape_(conv_shape(view, shapes)) {}
  int64_t workspace_bytes(int threads) const { return winograd_workspace_bytes(weights_.tile, shape_, threads); }
  void run(const float* x, const float* packed, float* y, const Epilogue& epilogue, ThreadPool& pool,
           std::byte* workspace) const {
    winograd(weights_, shape_, x, packed, y, epilogue, pool, workspace);
  }

 private:
  WinogradWeights weights_;
  ConvShape shape_;
};

constexpr auto winograd_numbers = [](auto& weights, auto&& number) {
  number("winograd tile=", weights.tile);
  number(" o=", weights.out_channels);
  number(" c=", weights.in_channels);
  number(" width=", weights.layout.width);
  number(" lanes=", weights.layout.lanes);
};

// Of f32.
double seconds_of_sums(const RegionView& region, const ConvView& view) {
  // A group narrower than a vector leaves most lanes idle; one narrower than two vectors waits for its loads (16 wide:
  // 140 GFLOP/s on a Zen 5 core, 24: 170, 32: 230, 64: 245).
  const double lanes = tile_traits().lanes(), width = static_cast<double>(view.spatial.weight_dims[0] / view.op.groups);
  const double waste =
      std::max(1.0, lanes / std::max(1.0, width)) * (1 + 0.7 * std::clamp((2 * lanes - width) / lanes, 0.0, 1.0));
  return conv_flops(region, view) * inside_share(region, view) * waste * seconds_per_flop;
}

std::optional<double> estimate_conv(const RegionView& region) {
  const auto view = view_conv(region, kRoundedTaken);
  if (!view) return std::nullopt;
  if (view->spatial.rounded_x && has_bf16_products()) return std::nullopt;  // for machines that have none
  // Each group is a product of its own.
  constexpr double seconds_per_group = 1e-7;
  const double groups = view->op.groups > 1 ? static_cast<double>(view->op.groups) * seconds_per_group : 0;
  // A pixel has a pointer for each tap, where few products make up a sum for longer than these take: 5 x 5 x 5 taps of
  // one channel took 4.5 ms, by columns 1.1.
  constexpr double seconds_per_pointer = 1e-9;
  const Dims& w = view->spatial.weight_dims;
  const auto products = static_cast<double>(std::max<int64_t>(1, w[0] * w[1]));  // of a pixel and tap
  const double pointers = conv_flops(region, *view) / (2 * products) * seconds_per_pointer;
  return seconds_per_launch + groups +
         std::max({seconds_of_sums(region, *view), pointers, bytes_at_optimum(region) * seconds_per_byte});
}

// Twice the rate or more, from half the weights, after a pass over the image.
std::optional<double> estimate_conv_bf16(const RegionView& region) {
  const auto view = view_conv(region, kRoundedTaken);
  if (!view || view->op.rounding != ops::Rounding::bf16 || !has_bf16_products() || !view->spatial.constant_weights)
    return std::nullopt;
  const Dims& w = view->spatial.weight_dims;
  if (view->op.groups > 1 && w[1] % 2 != 0) return std::nullopt;  // pairs of two groups
  constexpr double many_rows = 64;
  return seconds_per_launch + (view->spatial.rounded_x ? 0 : rounding_seconds(region, view->spatial.x)) +
         std::max(seconds_of_sums(region, *view) / bf16_speedup(many_rows),
                  (bytes_at_optimum(region) - 2 * static_cast<double>(element_count(w))) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_conv(const RegionView& region, PackedConstants& constants) {
  ConvView view = *view_conv(region, kAllTaken);
  const float* packed = view.spatial.constant_weights ? pack_conv(region, view, constants) : nullptr;
  return std::make_shared<ConvKernel<DirectProblem>>(std::move(view), packed);
}

std::shared_ptr<const Kernel> compile_conv_bf16(const RegionView& region, PackedConstants& constants) {
  ConvView view = *view_conv(region, kAllTaken);
  const float* packed = pack_conv_bf16(region, view, constants);
  return std::make_shared<ConvKernel<PairedProblem>>(std::move(view), packed);
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
  return std::make_shared<ConvKernel<DepthwiseProblem>>(std::move(view), packed);
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
    const int64_t more_bytes = 4 * (weights.floats() - element_count(view->spatial.weight_dims));
    const double bytes = bytes_at_optimum(region) + static_cast<double>(more_bytes);
    const double seconds = seconds_per_launch + std::max(flops * seconds_per_flop, bytes * seconds_per_byte);
    // F(2x2) rounds no more than the plain sum (winograd.h).
    offers.push_back({{{"tile", tile}}, seconds, tile == 4 ? Deviation::rounding : Deviation::specials, more_bytes});
  }
  return offers;
}

std::shared_ptr<const Kernel> compile_winograd(const RegionView& region, const TacticParameters& parameters,
                                               PackedConstants& constants) {
  ConvView view = *view_conv(region);
  const Value& w = region.graph.value(region.node.inputs[static_cast<size_t>(view.spatial.weights)]);
  const WinogradWeights weights =
      winograd_weights(parameters["tile"], view.spatial.weight_dims[0], view.spatial.weight_dims[1]);
  const auto bytes =
      constants.get(w.name, layout_text(winograd_numbers, weights), *w.constant,
                    static_cast<size_t>(weights.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
                      pack_winograd_weights(weights, raw.as<float>(), reinterpret_cast<float*>(out));
                    });
  return std::make_shared<ConvKernel<WinogradProblem, WinogradWeights>>(
      std::move(view), reinterpret_cast<const float*>(bytes.data()), weights);
}

}  // namespace

const CpuTactic conv_tactic{"conv", estimate_conv, compile_conv};
const CpuTactic conv_bf16_tactic{"conv_bf16", estimate_conv_bf16, compile_conv_bf16};
const CpuTactic winograd_tactic{"winograd", offer_winograd, compile_winograd};
const CpuTactic depthwise_tactic{"depthwise", estimate_depthwise, compile_depthwise};

}  // namespace camshaft::cpu
