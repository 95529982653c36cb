#include "backends/cpu/tactics/conv_transpose_planes.h"

#include <algorithm>

#include "backends/cpu/kernels/conv/conv_transpose_planes.h"
#include "backends/cpu/tactics/conv_transpose_view.h"
#include "backends/cpu/tactics/plane_chain.h"
#include "backends/cpu/tactics/plane_kernel.h"
#include "base/divide_up.h"
#include "compile/chain.h"
#include "compile/constants/layout_text.h"

namespace camshaft::cpu {

namespace {

// More fill the vectors of a product.
constexpr int64_t most_plane_channels = 16;
// But between two transposes those take longer than products do, as many as an element of the result has here at most:
// 32 channels of 56 x 56 pixels, 2x2 by 2, took 500 us on a Zen 3, 180 of them to transpose.
constexpr int64_t most_transposed_terms = 128;

PlaneTransposeWeights transposed_plane_weights_of(const TransposeView& view) {
  const ConvTransposeShape s = known_transpose_shape(view);
  return {
      s.in_channels, s.out_channels / s.groups, s.groups, s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.dilation_h,
      s.dilation_w};
}

struct PlaneTransposeView {
  std::shared_ptr<const Graph> body;  // of a chain: the views point into it
  TransposeView conv;
  const Node* node = nullptr;  // the transposed convolution
  PartInputs inputs;
  bool first_in = false, first_out = false;  // whether the region's image and result have the channels first

  KernelShapes shapes(const KernelShapes& region) const {
    return shapes_as_last(inputs, conv.spatial, first_in, first_out, region);
  }
  PlaneTransposePlan plan(const KernelShapes& shapes) const {
    return {transpose_shape(conv, shapes), first_in, first_out};
  }
  int64_t packed_floats() const { return transposed_plane_weights_of(conv).floats(); }
  void pack(const float* iohw, float* packed) const {
    pack_plane_transpose_weights(transposed_plane_weights_of(conv), iohw, packed);
  }
};

bool has_few_group_outputs(const ConvTransposeShape& s) {
  return s.out_channels / s.groups <= most_plane_channels;
}
bool has_few_transposed_terms(const ConvTransposeShape& s) {
  const int64_t channels = s.in_channels / s.groups;
  return channels <= most_transposed_terms && s.kernel_h <= most_transposed_terms &&
         s.kernel_w <= most_transposed_terms &&
         channels * divide_up(s.kernel_h, s.stride_h) * divide_up(s.kernel_w, s.stride_w) <= most_transposed_terms;
}

std::optional<TransposeView> view_part(const RegionView& region, bool stands_alone) {
  std::optional<TransposeView> view = view_transpose(region, true);
  if (!view || view->spatial.weight_dims.size() > 4 || !view->spatial.epilogue.is_plain()) return std::nullopt;
  const ConvTransposeShape known = known_transpose_shape(*view);
  const bool is_small = has_few_group_outputs(known) && !known.is_depthwise();
  if (!(is_small || (stands_alone && has_few_transposed_terms(known))) || !PlaneTransposePlan::fits(known))
    return std::nullopt;
  return view;
}

std::optional<PlaneTransposeView> view_plain_transpose(const RegionView& region) {
  std::optional<TransposeView> conv = view_part(region, false);
  if (!conv) return std::nullopt;
  std::vector<int32_t> inputs;
  for (size_t i = 0; i < region.node.inputs.size(); ++i)
    inputs.push_back(region.node.inputs[i] == no_value ? PartInputs::omitted : static_cast<int32_t>(i));
  return PlaneTransposeView{nullptr, std::move(*conv), &region.node, PartInputs(std::move(inputs))};
}

std::optional<PlaneTransposeView> view_transpose_chain(const RegionView& region) {
  const std::optional<PlaneChain> chain = view_plane_chain(region);
  if (!chain) return std::nullopt;
  const RegionView part{*chain->body, *chain->node, region.symbols};
  std::optional<TransposeView> conv = view_transpose(part, true);
  if (!conv) return std::nullopt;
  // One channel is first and last at once.
  const ConvTransposeShape known = known_transpose_shape(*conv);
  const bool stands_alone =
      (chain->first_in || known.in_channels == 1) && (chain->first_out || known.out_channels == 1);
  conv = view_part(part, stands_alone);
  if (!conv) return std::nullopt;
  std::optional<PartInputs> inputs = chain->inputs(conv->spatial);
  if (!inputs) return std::nullopt;
  return PlaneTransposeView{chain->body,        std::move(*conv), chain->node,
                            std::move(*inputs), chain->first_in,  chain->first_out};
}

std::optional<PlaneTransposeView> view_transpose_planes(const RegionView& region) {
  return is_chain(region.node) ? view_transpose_chain(region) : view_plain_transpose(region);
}

RegionView part_of(const PlaneTransposeView& view, const RegionView& region) {
  return {view.body ? *view.body : region.graph, *view.node, region.symbols, region.threads};
}

constexpr auto transposed_plane_numbers = [](auto& weights, auto&& number) {
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

std::optional<double> estimate_conv_transpose_planes(const RegionView& region) {
  const auto view = view_transpose_planes(region);
  if (!view) return std::nullopt;
  constexpr double seconds_per_result = 2e-10;  // to deal it out of its stream
  constexpr double seconds_per_row = 2e-8;      // of planes that are written one by one
  const RegionView part = part_of(*view, region);
  const ImageSize y = image_at_optimum(part, part.node.outputs[0]);
  return seconds_beside_memory(region, 1.5 * transpose_flops(part, view->conv) * seconds_per_flop +
                                           y.elements * seconds_per_result +
                                           (view->first_out ? y.lines * seconds_per_row : 0));
}

std::shared_ptr<const Kernel> compile_conv_transpose_planes(const RegionView& region, PackedConstants& constants) {
  PlaneTransposeView view = *view_transpose_planes(region);
  const RegionView part = part_of(view, region);
  const std::string layout = layout_text(transposed_plane_numbers, transposed_plane_weights_of(view.conv));
  return compile_plane_kernel<PlaneTransposeView, plane_conv_transpose>(std::move(view), part, layout, constants);
}

}  // namespace

const CpuTactic plane_conv_transpose_tactic{"conv_transpose_planes", estimate_conv_transpose_planes,
                                            compile_conv_transpose_planes};

Tensor unpack_plane_conv_transpose(const PackedConstant& packed, DType dtype, const Dims& dims) {
  PlaneTransposeWeights w;
  if (!read_layout_text(packed.layout, transposed_plane_numbers, w)) return {};
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
