// What the convolution kernels have in common: a channels-last contraction with constant f32 weights.
#pragma once

#include <array>
#include <utility>

#include "cpu/contract_epilogue.h"

namespace camshaft::cpu {

struct SpatialView {
  ContractView contract;
  ContractEpilogue epilogue;
  int32_t x = -1, weights = -1;  ///< region inputs
  Dims weight_dims;              ///< as stored in the model, 3 or 4 axes

  int64_t kernel_h() const { return weight_dims.size() == 4 ? weight_dims[2] : 1; }
  int64_t kernel_w() const { return weight_dims.back(); }
};

/// nullopt unless the anchor's x is f32 of rank 3 or 4 and its weights are an f32 constant. Does not look at the
/// operator.
std::optional<SpatialView> view_spatial(const RegionView& region);

/// Height and width of a per-axis field (strides, dilations, …) of 1-D or 2-D operators: 1-D has height `missing`.
template <class T>
std::pair<int64_t, int64_t> two(const std::vector<T>& values, int64_t missing, size_t start = 0) {
  if (values.size() - start == 1) return {missing, values[start]};
  return {values[start], values[start + 1]};
}

/// Begin and end pads of both axes: {top, left, bottom, right}. Throws Error(invalid_argument) above 2^31.
std::array<int64_t, 4> pads_of(const Shape& pads, const SymbolBindings& symbols);

/// Throws Error(invalid_argument) unless the convolution's own bias, if there is one, has `out_channels` elements.
void require_bias(const SpatialView& view, const KernelShapes& shapes, int64_t out_channels);

}  // namespace camshaft::cpu
