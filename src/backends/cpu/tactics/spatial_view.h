// What the convolution kernels have in common: a channels-last contraction with f32 weights of known size.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "backends/cpu/tactics/contract_epilogue.h"

namespace camshaft::cpu {

struct SpatialView {
  ContractView contract;
  ContractEpilogue epilogue;
  int32_t x = -1, weights = -1;  ///< region inputs
  Dims weight_dims;              ///< as stored in the model, 3 to 5 axes
  bool constant_weights = true;
  bool rounded_x = false;  ///< x is bf16, the weights f32

  int64_t kernel_d() const { return weight_dims.size() == 5 ? weight_dims[2] : 1; }
  int64_t kernel_h() const { return weight_dims.size() >= 4 ? weight_dims[weight_dims.size() - 2] : 1; }
  int64_t kernel_w() const { return weight_dims.back(); }
};

/// nullopt unless the anchor's x is f32, or rounded where that is taken, of rank 3 to 5 and its weights are f32 of
/// known, positive sizes. Does not look at the operator.
std::optional<SpatialView> view_spatial(const RegionView& region, const ContractTakes& takes = {});

/// Height and width, the last two axes, of a per-axis field (strides, dilations, …); 1-D has height `missing`.
template <class T>
std::pair<int64_t, int64_t> two(const std::vector<T>& values, int64_t missing) {
  if (values.size() == 1) return {missing, values[0]};
  return {values[values.size() - 2], values.back()};
}

/// Throws Error(invalid_argument) above 2^31: sums of positions in the kernels then stay far from overflow.
int64_t pad_of(const Dim& pad, const SymbolBindings& symbols);

/// Begin and end pads of the last two axes: {top, left, bottom, right}. Throws Error(invalid_argument) above 2^31.
std::array<int64_t, 4> pads_of(const Shape& pads, const SymbolBindings& symbols);

/// The same of the third axis from the back, {front, back}; 0 where there is none.
std::array<int64_t, 2> depth_pads_of(const Shape& pads, const SymbolBindings& symbols);

/// What convolutions and transposed ones have in common: a ConvShape or a ConvTransposeShape with the sizes of the
/// image and of the kernel in the last two axes. `op` is ops::Conv or ops::ConvTranspose. The number of output channels
/// is left to the caller.
template <class ShapeOfConv, class Op>
ShapeOfConv plane_shape(const SpatialView& view, const Op& op, const KernelShapes& shapes) {
  const Dims& x = shapes.inputs[static_cast<size_t>(view.x)].dims;
  ShapeOfConv s;
  s.batch = x[0];
  s.in_h = x.size() >= 4 ? x[x.size() - 3] : 1;
  s.in_w = x[x.size() - 2];
  s.in_channels = x.back();
  s.kernel_h = view.kernel_h();
  s.kernel_w = view.kernel_w();
  std::tie(s.stride_h, s.stride_w) = two(op.strides, 1);
  std::tie(s.dilation_h, s.dilation_w) = two(op.dilations, 1);
  const std::array<int64_t, 4> pads = pads_of(op.pads, *shapes.symbols);
  s.pad_top = pads[0];
  s.pad_left = pads[1];
  s.pad_bottom = pads[2];
  s.pad_right = pads[3];
  s.groups = op.groups;
  return s;
}

/// Throws Error(invalid_argument) unless the convolution's own bias, if there is one, has `out_channels` elements.
void require_bias(const SpatialView& view, const KernelShapes& shapes, int64_t out_channels);

}  // namespace camshaft::cpu
