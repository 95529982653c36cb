#include "backends/cpu/tactics/conv_transpose_view.h"

#include "backends/cpu/tactic.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

std::optional<TransposeView> view_transpose(const RegionView& region, bool any_weights) {
  std::optional<SpatialView> spatial = view_spatial(region);
  if (!spatial || !(spatial->constant_weights || any_weights)) return std::nullopt;
  const auto* op = spatial->contract.anchor->op.as<ops::ConvTranspose>();
  if (!op || !op->channels_last) return std::nullopt;
  int64_t phases = 1;
  for (const int64_t stride : op->strides) {
    if (stride > most_transpose_phases / phases) return std::nullopt;
    phases *= stride;
  }
  return TransposeView{std::move(*spatial), *op};
}

ConvTransposeShape known_transpose_shape(const TransposeView& view) {
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

double transpose_flops(const RegionView& region, const TransposeView& view) {
  const SpatialView& s = view.spatial;
  return 2 * elements_at_optimum(region, region.node.inputs[static_cast<size_t>(s.x)]) *
         static_cast<double>(s.weight_dims[1] * s.kernel_d() * s.kernel_h() * s.kernel_w());
}

ConvTransposeShape transpose_shape(const TransposeView& view, const KernelShapes& shapes) {
  ConvTransposeShape s = plane_shape<ConvTransposeShape>(view.spatial, view.op, shapes);
  const ConvTransposeShape known = known_transpose_shape(view);
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

}  // namespace camshaft::cpu
