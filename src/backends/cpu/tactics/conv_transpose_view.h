// What the kernels of transposed convolutions have in common: a channels-last one with weights of known sizes.
#pragma once

#include "backends/cpu/kernels/conv/conv_transpose.h"
#include "backends/cpu/tactics/spatial_view.h"
#include "ir/ops/contract.h"

namespace camshaft::cpu {

struct TransposeView {
  SpatialView spatial;
  ops::ConvTranspose op;
};

/// Weights are packed once for each remainder by the strides. Real models have at most 32 by 32.
inline constexpr int64_t most_transpose_phases = 4096;

/// `any_weights`: also such as are no constant.
std::optional<TransposeView> view_transpose(const RegionView& region, bool any_weights = false);

/// What the operator and its weights say of the shape: not the image and the pads.
ConvTransposeShape known_transpose_shape(const TransposeView& view);

/// Of all its products, at the sizes that it is tuned for.
double transpose_flops(const RegionView& region, const TransposeView& view);

/// All of it. Throws Error(invalid_argument) where the operands do not fit each other.
ConvTransposeShape transpose_shape(const TransposeView& view, const KernelShapes& shapes);

}  // namespace camshaft::cpu
