// What convolutions without tensor cores have in common: depthwise ones and transposed ones.
#pragma once

#include <optional>

#include "backends/cuda/codegen/direct_conv_text.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/tactics/epilogue.h"

namespace camshaft::cuda {

/// A channels-last convolution over one or two axes whose weights are a constant.
struct DirectView {
  ContractView contract;
  EpilogueView epilogue;
  int32_t x = -1, weights = -1;  ///< region inputs
  Dims weight_dims;              ///< as stored in the model; the third and fourth are height and width
  DirectWindow window;
  DType dtype = DType::f32;

  int64_t taps() const { return weight_dims[2] * weight_dims[3]; }
};

/// nullopt unless the contraction's operands are such, of f32, f16 or bf16, with steps and windows of at most 1024.
/// `strides`, `dilations`: those of its operator, which the caller has looked at.
std::optional<DirectView> view_direct(const RegionView& region, ContractView contract, const Dims& strides,
                                      const Dims& dilations, const DeviceFacts& device);

/// Where the images lie, for the parameters of device/depthwise.cuh and device/conv_transpose.cuh.
struct ImageShape {
  int32_t in_h = 1, in_w = 1, top = 0, left = 0;
  int64_t image = 0, row = 0, pixel = 0;  ///< strides in elements
  int64_t batch = 0, out_h = 1, out_w = 1;
  bool is_empty = false;  ///< the operand: it has no memory on the device
};

/// Throws Error(invalid_argument) where bias or channels (`in_channels`) do not fit, Error(unsupported) for images that
/// are too large.
ImageShape image_shape(const DirectView& view, const Shape& pads, int64_t in_channels, int64_t out_channels,
                       const KernelShapes& shapes);

}  // namespace camshaft::cuda
