// What the tactics of convolutions, alone and in chains, have in common.
#pragma once

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/tactic.h"
#include "backends/cpu/tactics/spatial_view.h"
#include "ir/ops/contract.h"

namespace camshaft::cpu {

struct ConvView {
  SpatialView spatial;
  ops::Conv op;

  /// That depthwise() takes it: one channel a group, one kernel a channel.
  bool is_depthwise() const {
    return op.groups > 1 && op.groups == spatial.weight_dims[0] && spatial.weight_dims[1] == 1 &&
           spatial.weight_dims.size() <= 4 && spatial.constant_weights;
  }
  /// One tap over two axes, each pixel once: a matrix product.
  bool is_pointwise() const;
};

/// nullopt unless the region is a channels-last convolution that view_spatial() takes.
std::optional<ConvView> view_conv(const RegionView& region, const ContractTakes& takes = {});

/// The problem of one set of shapes. Throws Error(invalid_argument) where channels or bias do not fit the weights.
ConvShape conv_shape(const ConvView& view, const KernelShapes& shapes);

ConvWeights conv_weights_of(const ConvView& view);

/// Multiplications and additions at the optimum shapes, those with padding too.
double conv_flops(const RegionView& region, const ConvView& view);

}  // namespace camshaft::cpu
