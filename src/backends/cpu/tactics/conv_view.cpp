#include "backends/cpu/tactics/conv_view.h"

#include <algorithm>

#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

std::optional<ConvView> view_conv(const RegionView& region, const ContractTakes& takes) {
  std::optional<SpatialView> spatial = view_spatial(region, takes);
  if (!spatial) return std::nullopt;
  const auto* op = spatial->contract.anchor->op.as<ops::Conv>();
  if (!op || !op->channels_last) return std::nullopt;
  return ConvView{std::move(*spatial), *op};
}

ConvShape conv_shape(const ConvView& view, const KernelShapes& shapes) {
  const Dims& x = shapes.inputs[static_cast<size_t>(view.spatial.x)].dims;
  ConvShape s = plane_shape<ConvShape>(view.spatial, view.op, shapes);
  s.out_channels = view.spatial.weight_dims[0];
  s.in_pixel_stride = shapes.inputs[static_cast<size_t>(view.spatial.x)].row_stride;
  s.out_pixel_stride = shapes.outputs[0].row_stride;
  if (x.size() == 5) {
    s.in_d = x[1];
    s.kernel_d = view.spatial.kernel_d();
    s.stride_d = view.op.strides[0];
    s.dilation_d = view.op.dilations[0];
    const auto depth_pads = depth_pads_of(view.op.pads, *shapes.symbols);
    s.pad_front = depth_pads[0];
    s.pad_back = depth_pads[1];
  }
  require_equal(s.in_channels, view.spatial.weight_dims[1] * s.groups, "the number of input channels of a convolution");
  require_bias(view.spatial, shapes, s.out_channels);
  return s;
}

double conv_flops(const RegionView& region, const ConvView& view) {
  const Dims& w = view.spatial.weight_dims;
  return 2 * elements_at_optimum(region, region.node.outputs[0]) *
         static_cast<double>(w[1] * view.spatial.kernel_d() * view.spatial.kernel_h() * view.spatial.kernel_w());
}

bool ConvView::is_pointwise() const {
  const Dims& w = spatial.weight_dims;
  return op.groups == 1 && w.size() == 4 && w[2] == 1 && w[3] == 1 &&
         std::all_of(op.strides.begin(), op.strides.end(), [](int64_t s) { return s == 1; }) &&
         std::all_of(op.pads.begin(), op.pads.end(), [](const Dim& pad) { return pad == Dim(0); });
}

ConvWeights conv_weights_of(const ConvView& view) {
  const Dims& d = view.spatial.weight_dims;
  return conv_weights(d[0], d[1], view.spatial.kernel_d() * view.spatial.kernel_h(), view.spatial.kernel_w(),
                      view.op.groups);
}

}  // namespace camshaft::cpu
