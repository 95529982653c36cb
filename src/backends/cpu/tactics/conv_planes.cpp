#include "backends/cpu/tactics/conv_planes.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/conv_planes.h"
#include "backends/cpu/kernels/conv/depthwise_blocks.h"
#include "backends/cpu/kernels/conv/depthwise_row.h"
#include "backends/cpu/tactics/conv_view.h"
#include "backends/cpu/tactics/conv_weights.h"
#include "backends/cpu/tactics/plane_chain.h"
#include "backends/cpu/tactics/plane_kernel.h"
#include "base/divide_up.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

// Products of an element of the result: with more the transposes are a small part of the time, and products of packed
// weights, or Winograd's, do more of them (512 channels of 14 x 14 pixels, 1x1: 1.5 ms on planes, and 1.25 in ONNX
// Runtime, whose channels lie in blocks). Lines of padding are left out, which columns have.
constexpr int64_t most_terms = 512;

PlaneConvWeights plane_weights_of(const ConvView& view) {
  const Dims& w = view.spatial.weight_dims;
  return {w[0], w[1], view.op.groups, view.spatial.kernel_h(), view.spatial.kernel_w()};
}

struct PlaneConvView {
  PlaneChain chain;  // the views point into its body
  ConvView conv;
  PartInputs inputs;

  KernelShapes shapes(const KernelShapes& region) const {
    return shapes_as_last(inputs, conv.spatial, chain.first_in, chain.first_out, region);
  }
  PlaneConvPlan plan(const KernelShapes& shapes) const { return PlaneConvPlan(conv_shape(conv, shapes)); }
  int64_t packed_floats() const { return plane_weights_of(conv).floats(); }
  void pack(const float* oihw, float* packed) const { pack_plane_conv_weights(plane_weights_of(conv), oihw, packed); }
};

// What the operator and its weights say of the shape: not the image and the pads.
ConvShape known_shape(const ConvView& view) {
  ConvShape s;
  s.groups = view.op.groups;
  s.out_channels = view.spatial.weight_dims[0];
  s.in_channels = view.spatial.weight_dims[1] * s.groups;
  s.kernel_h = view.spatial.kernel_h();
  s.kernel_w = view.spatial.kernel_w();
  std::tie(s.stride_h, s.stride_w) = two(view.op.strides, 1);
  std::tie(s.dilation_h, s.dilation_w) = two(view.op.dilations, 1);
  return s;
}

std::optional<PlaneConvView> view_planes(const RegionView& region) {
  std::optional<PlaneChain> chain = view_plane_chain(region);
  if (!chain) return std::nullopt;
  std::optional<ConvView> conv = view_conv(chain->part(region));
  if (!conv || conv->spatial.weight_dims.size() > 4) return std::nullopt;
  const ConvShape s = known_shape(*conv);
  // One channel is first and last at once.
  if (!(chain->first_in || s.in_channels == 1) || !(chain->first_out || s.out_channels == 1)) return std::nullopt;
  const int64_t taps = s.kernel_h * s.kernel_w;
  if (taps > most_terms || s.in_channels / s.groups > most_terms / taps || !conv->spatial.epilogue.is_plain() ||
      !PlaneConvPlan::fits(s))
    return std::nullopt;
  std::optional<PartInputs> inputs = chain->inputs(conv->spatial);
  if (!inputs) return std::nullopt;
  return PlaneConvView{std::move(*chain), std::move(*conv), std::move(*inputs)};
}

constexpr auto plane_numbers = [](auto& weights, auto&& number) {
  number("conv_planes o=", weights.out_channels);
  number(" c=", weights.group_channels);
  number(" groups=", weights.groups);
  number(" h=", weights.kernel_h);
  number(" w=", weights.kernel_w);
};

// The image's elements, and the lines that it has of all channels, at the sizes that the region is tuned for.
struct ImageSize {
  double elements = 0, lines = 0;
};
ImageSize image_of(const RegionView& part, const ConvView& view) {
  const ValueId x = part.node.inputs[static_cast<size_t>(view.spatial.x)];
  const Shape& shape = part.graph.shape(x);
  const double width = size_at_optimum(part, shape[shape.size() - 2]);
  const double elements = elements_at_optimum(part, x);
  return {elements, elements / std::max(width, 1.0)};
}

// Each product needs a part of a load as well, the more the fewer output channels a group has; where there are many
// input channels, planes come from L2. Each line is moved by itself, however short it is.
std::optional<double> estimate_conv_planes(const RegionView& region) {
  const auto view = view_planes(region);
  if (!view) return std::nullopt;
  constexpr double seconds_per_line = 2.5e-8;
  const ConvShape s = known_shape(view->conv);
  const RegionView part = view->chain.part(region);
  const double loads = 1 + 1.5 / static_cast<double>(std::min<int64_t>(s.out_channels / s.groups, 4));
  const bool moves = s.kernel_h * s.kernel_w * s.stride_h * s.stride_w != 1;
  const double seconds = loads * conv_flops(part, view->conv) * seconds_per_flop +
                         (moves ? image_of(part, view->conv).lines * seconds_per_line : 0);
  return seconds_per_launch + std::max(seconds, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_conv_planes(const RegionView& region, PackedConstants& constants) {
  PlaneConvView view = *view_planes(region);
  const RegionView part = view.chain.part(region);
  const std::string layout = layout_text(plane_numbers, plane_weights_of(view.conv));
  return compile_plane_kernel<PlaneConvView, plane_conv>(std::move(view), part, layout, constants);
}

struct DepthwiseBlockView {
  PlaneChain chain;  // the views point into its body
  ConvView conv;
  PartInputs inputs;

  KernelShapes shapes(const KernelShapes& region) const {
    return shapes_as_last(inputs, conv.spatial, chain.first_in, chain.first_out, region);
  }
  DepthwiseBlockPlan plan(const KernelShapes& shapes) const { return DepthwiseBlockPlan(conv_shape(conv, shapes)); }
};

std::optional<DepthwiseBlockView> view_depthwise_blocks(const RegionView& region) {
  std::optional<PlaneChain> chain = view_plane_chain(region);
  if (!chain || !chain->first_in || !chain->first_out) return std::nullopt;
  std::optional<ConvView> conv = view_conv(chain->part(region));
  if (!conv || !conv->is_depthwise() || !conv->spatial.epilogue.is_plain()) return std::nullopt;
  std::optional<PartInputs> inputs = chain->inputs(conv->spatial);
  if (!inputs) return std::nullopt;
  return DepthwiseBlockView{std::move(*chain), std::move(*conv), std::move(*inputs)};
}

std::optional<double> estimate_depthwise_blocks(const RegionView& region) {
  const auto view = view_depthwise_blocks(region);
  if (!view) return std::nullopt;
  constexpr double seconds_per_turned = 8e-11;  // an element, in cache
  const RegionView part = view->chain.part(region);
  const double turned = image_of(part, view->conv).elements + elements_at_optimum(region, region.node.outputs[0]);
  // A block that channels do not fill takes as long as one that they do.
  const auto channels = static_cast<double>(view->conv.op.groups);
  const double waste = static_cast<double>(round_up(view->conv.op.groups, kDepthwiseBlock)) / channels;
  const double seconds = waste * (1.5 * conv_flops(part, view->conv) * seconds_per_flop + turned * seconds_per_turned);
  return seconds_per_launch + std::max(seconds, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_depthwise_blocks(const RegionView& region, PackedConstants& constants) {
  DepthwiseBlockView view = *view_depthwise_blocks(region);
  const float* packed = pack_depthwise(view.chain.part(region), view.conv, constants);
  return std::make_shared<PlaneKernel<DepthwiseBlockView, depthwise_blocks>>(std::move(view), packed);
}

}  // namespace

const CpuTactic plane_conv_tactic{"conv_planes", estimate_conv_planes, compile_conv_planes};
const CpuTactic depthwise_block_tactic{"depthwise_blocks", estimate_depthwise_blocks, compile_depthwise_blocks};

Tensor unpack_plane_conv(const PackedConstant& packed, DType dtype, const Dims& dims) {
  PlaneConvWeights w;
  if (!read_layout_text(packed.layout, plane_numbers, w)) return {};
  const bool over_axes = dims.size() == 4 ? w.kernel_h == dims[2] : dims.size() == 3 && w.kernel_h == 1;
  const bool fits = dtype == DType::f32 && over_axes && w.out_channels == dims[0] && w.group_channels == dims[1] &&
                    w.kernel_w == dims.back() && w.groups > 0 && w.out_channels % w.groups == 0;
  if (!fits || packed.bytes.size() != static_cast<size_t>(w.floats()) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_plane_conv_weights(w, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu
