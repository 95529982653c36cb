#include "backends/cpu/tactics/conv_planes.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/conv_planes.h"
#include "backends/cpu/kernels/conv/depthwise_blocks.h"
#include "backends/cpu/kernels/conv/depthwise_row.h"
#include "backends/cpu/tactics/conv_view.h"
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

// Each product needs a part of a load as well, the more the fewer output channels a group has; where there are many
// input channels, planes come from L2. Each line is moved by itself, however short it is.
std::optional<double> estimate_conv_planes(const RegionView& region) {
  const auto view = view_planes(region);
  if (!view) return std::nullopt;
  constexpr double seconds_per_line = 2.5e-8, seconds_per_row = 8e-9;
  const ConvShape s = known_shape(view->conv);
  const RegionView part = view->chain.part(region);
  const double loads = 1 + 1.5 / static_cast<double>(std::min<int64_t>(s.out_channels / s.groups, 4));
  const bool moves = s.kernel_h * s.kernel_w * s.stride_h * s.stride_w != 1;
  const double lines = image_at_optimum(part, part.node.inputs[static_cast<size_t>(view->conv.spatial.x)]).lines;
  const double rows = image_at_optimum(part, part.node.outputs[0]).lines;
  return seconds_beside_memory(region, loads * conv_flops(part, view->conv) * seconds_per_flop +
                                           (moves ? lines * seconds_per_line + rows * seconds_per_row : 0));
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
  DepthwiseBlockWeights weights() const {
    const SpatialView& s = conv.spatial;
    return {conv.op.groups, s.weight_dims[0] / conv.op.groups, s.kernel_h(), s.kernel_w()};
  }
  int64_t packed_floats() const { return weights().floats(); }
  void pack(const float* oihw, float* packed) const { pack_depthwise_block_weights(weights(), oihw, packed); }
};

std::optional<DepthwiseBlockView> view_depthwise_blocks(const RegionView& region) {
  std::optional<PlaneChain> chain = view_plane_chain(region);
  if (!chain || !chain->first_in || !chain->first_out) return std::nullopt;
  std::optional<ConvView> conv = view_conv(chain->part(region));
  if (!conv || !conv->spatial.epilogue.is_plain()) return std::nullopt;
  const Dims& w = conv->spatial.weight_dims;
  if (conv->op.groups <= 1 || w.size() > 4 || w[1] != 1 || w[0] % conv->op.groups != 0 ||
      !DepthwiseBlockPlan::fits(known_shape(*conv)))
    return std::nullopt;
  std::optional<PartInputs> inputs = chain->inputs(conv->spatial);
  if (!inputs) return std::nullopt;
  return DepthwiseBlockView{std::move(*chain), std::move(*conv), std::move(*inputs)};
}

std::optional<double> estimate_depthwise_blocks(const RegionView& region) {
  const auto view = view_depthwise_blocks(region);
  if (!view) return std::nullopt;
  constexpr double seconds_per_turned = 8e-11;  // an element, in cache
  constexpr double seconds_per_block = 2e-7;
  const RegionView part = view->chain.part(region);
  const ValueId x = part.node.inputs[static_cast<size_t>(view->conv.spatial.x)];
  const ImageSize y = image_at_optimum(part, part.node.outputs[0]);
  const double turned = elements_at_optimum(part, x) + y.elements;
  // A block that channels do not fill takes as long as one that they do.
  const auto channels = static_cast<double>(view->conv.op.groups);
  const double waste = static_cast<double>(round_up(view->conv.op.groups, kDepthwiseBlock)) / channels;
  const double blocks = y.batch * static_cast<double>(divide_up(view->conv.spatial.weight_dims[0], kDepthwiseBlock));
  return seconds_beside_memory(
      region, waste * (1.5 * conv_flops(part, view->conv) * seconds_per_flop + turned * seconds_per_turned) +
                  blocks * seconds_per_block);
}

constexpr auto depthwise_block_numbers = [](auto& weights, auto&& number) {
  number("depthwise_blocks c=", weights.channels);
  number(" m=", weights.multiplier);
  number(" h=", weights.kernel_h);
  number(" w=", weights.kernel_w);
};

std::shared_ptr<const Kernel> compile_depthwise_blocks(const RegionView& region, PackedConstants& constants) {
  DepthwiseBlockView view = *view_depthwise_blocks(region);
  const RegionView part = view.chain.part(region);
  const std::string layout = layout_text(depthwise_block_numbers, view.weights());
  return compile_plane_kernel<DepthwiseBlockView, depthwise_blocks>(std::move(view), part, layout, constants);
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

Tensor unpack_depthwise_blocks(const PackedConstant& packed, DType dtype, const Dims& dims) {
  DepthwiseBlockWeights w;
  if (!read_layout_text(packed.layout, depthwise_block_numbers, w)) return {};
  const bool over_axes = dims.size() == 4 ? w.kernel_h == dims[2] : dims.size() == 3 && w.kernel_h == 1;
  const bool fits = dtype == DType::f32 && over_axes && w.channels > 0 && w.channels <= dims[0] &&
                    dims[0] % w.channels == 0 && w.multiplier == dims[0] / w.channels && dims[1] == 1 &&
                    w.kernel_w == dims.back();
  if (!fits || packed.bytes.size() != static_cast<size_t>(w.floats()) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  unpack_depthwise_block_weights(w, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>());
  return raw;
}

}  // namespace camshaft::cpu
