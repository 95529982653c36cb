// f32 convolution of images with few channels, as they enter a model: lying channel by channel, or channels-last. A
// general convolution has little to do for each of its pointers there (three channels, three taps), and would have the
// image transposed before. Here the lines that an output row sees lie in L1 as planes, one for each channel and
// remainder of the column by the stride, so that the neighbours of a tile's pixels are neighbours whatever the stride
// and each step of the sum needs one address; an element is broadcast to all output channels. A pooling behind it reads
// the rows from cache, band by band, and they are never written elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/window/pool.h"

namespace camshaft::cpu {

/// Everything about one shape that does not depend on the data. Copyable; immutable; safe to share.
class StemConvPlan {
 public:
  StemConvPlan() = default;
  /// The input is [batch, in_h, in_w, in_channels], or with `channels_first` [batch, in_channels, in_h, in_w] and
  /// dense. Throws Error(invalid_argument) for more than two axes, groups, or a size or stride that is not positive.
  StemConvPlan(const ConvShape& shape, bool channels_first);
  /// The same with `pool` behind it: channels last, of one batch, over the convolution's result without gaps; its
  /// out_pixel_stride is the output's.
  StemConvPlan(const ConvShape& shape, bool channels_first, const SpatialPool& pool);

  int64_t workspace_bytes(int threads) const { return thread_bytes_ * threads; }

 private:
  friend void stem_conv(const StemConvPlan&, const float*, const float*, float*, const Epilogue&, ThreadPool&, void*);
  class Worker;
  int64_t rows() const { return pool_ ? pool_->height.out : out_h_; }  // of the output, of an image
  void copy_line(const float* image, int64_t line, float* to) const;
  void prefetch_line(const float* image, int64_t line) const;

  ConvShape shape_;
  std::optional<SpatialPool> pool_;
  int64_t band_rows_ = 0, band_offset_ = 0;  // of the convolution, between it and the pooling; bytes before them
  int64_t out_h_ = 0, out_w_ = 0;
  int64_t x_step_ = 1, channel_step_ = 0, line_step_ = 0, image_step_ = 0;  // floats of the input
  int64_t pitch_ = 0, line_floats_ = 0;                                     // of a plane, of a line's planes
  int64_t ring_lines_ = 1;                                                  // as many as a row of the result sees
  int64_t thread_bytes_ = 0;
  int64_t first_column_ = 0, columns_ = 0;  // of the image's columns, those that are seen
  std::vector<int64_t> ways_;               // where in a channel's planes the first of them goes, the second, ...
  std::vector<int64_t> padding_;            // and zeros
  std::vector<int64_t> offsets_;            // [kernel_w][in_channels]: from a line's first float to the tap's
};

/// As conv(), with the same packed weights. With a pooling the epilogue, which is the convolution's, has neither
/// residual nor addend nor callback.
void stem_conv(const StemConvPlan& plan, const float* input, const float* packed, float* output,
               const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
