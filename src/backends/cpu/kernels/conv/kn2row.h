// f32 convolution by steps of one pixel as products where the image lies (kn2row: Anderson et al., "Low-memory
// GEMM-based convolution algorithms for deep neural networks", 2017): each tap of an output channel is a row of one
// product over all input channels, which is added, shifted, to the pixels that see it. That is a transposed convolution
// by columns (conv_transpose_columns.h) with the kernel turned round. For few output channels of many.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/conv/conv_transpose.h"

namespace camshaft::cpu {

/// Weights as kn2row reads them: [in_channels, out_channels / groups, taps], the last tap first. The same on all
/// machines.
struct Kn2rowWeights {
  int64_t out_channels = 0, group_channels = 0, groups = 1;  ///< group_channels: input channels per group
  int64_t taps = 1;

  int64_t floats() const { return out_channels * group_channels * taps; }
  bool operator==(const Kn2rowWeights&) const = default;
};

/// Between ONNX order, [out_channels, group_channels, taps], and floats() floats, exactly.
void pack_kn2row_weights(const Kn2rowWeights& weights, const float* oihw, float* packed);
void unpack_kn2row_weights(const Kn2rowWeights& weights, const float* packed, float* oihw);

/// The transposed convolution that computes `shape`, of dense pixels. Throws Error(invalid_argument) unless its strides
/// are 1.
ConvTransposeShape kn2row_shape(const ConvShape& shape);

}  // namespace camshaft::cpu
