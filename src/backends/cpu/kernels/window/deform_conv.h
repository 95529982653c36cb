// f32 deformable convolution over two axes: each tap of each window reads the image where an offset says, between the
// pixels (Zhu et al., "Deformable ConvNets v2", 2019).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// One problem; fill in the fields and run. All tensors are dense, channels first.
struct DeformConvolution {
  int64_t batch = 1, in_channels = 0, out_channels = 0;
  int64_t in_h = 1, in_w = 1, out_h = 1, out_w = 1;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_left = 0;
  int64_t groups = 1;         ///< of the weights
  int64_t offset_groups = 1;  ///< channels of a group share their offsets

  struct Operands {
    const float* x;        ///< [batch, in_channels, in_h, in_w]
    const float* weights;  ///< [out_channels, in_channels / groups, kernel_h, kernel_w]
    const float* offsets;  ///< [batch, offset_groups, kernel_h * kernel_w, (down, across), out_h, out_w], in pixels
    const float* bias;     ///< [out_channels], or none
    const float* mask;     ///< [batch, offset_groups, kernel_h * kernel_w, out_h, out_w]: factors, or none
    float* y;              ///< [batch, out_channels, out_h, out_w]
  };

  /// 64-byte aligned.
  size_t workspace_bytes(int threads) const;
  /// The samples of some output pixels become the columns of a product with the weights, some after the other, so that
  /// they stay in cache. Pixels outside of the image count as zero; taps that lie wholly outside, whatever the mask.
  void run(const Operands& operands, ThreadPool& pool, std::byte* workspace) const;

 private:
  int64_t taps() const { return kernel_h * kernel_w; }
  int64_t pixels_at_once(int threads) const;
  void sample(const Operands& operands, int64_t image, int64_t offset_group, int64_t first, int64_t count,
              float* columns, int64_t column_step) const;
};

}  // namespace camshaft::cpu
