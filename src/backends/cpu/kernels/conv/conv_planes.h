// f32 convolution over two axes of images with the channels first, read and written as they are. Neighbouring pixels
// are the lanes: the lines that an output row sees lie in cache as planes, one for each channel and remainder by the
// stride, padded with zeros. What conv() and depthwise() gain by channels as lanes, a convolution that stands alone
// pays for with two transposes: two thirds of the time of a depthwise one.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv/conv.h"

namespace camshaft::cpu {

/// Packed weights: for each group and block of up to four of its output channels [kernel rows][input channels][kernel
/// columns][outputs]. The same on all machines.
struct PlaneConvWeights {
  int64_t out_channels = 0, group_channels = 0, groups = 1;  ///< group_channels: input channels per group
  int64_t kernel_h = 1, kernel_w = 1;

  int64_t floats() const { return out_channels * group_channels * kernel_h * kernel_w; }
  bool operator==(const PlaneConvWeights&) const = default;
};

/// Between ONNX order, [out_channels, group_channels, kernel_h, kernel_w], and floats() floats, exactly.
void pack_plane_conv_weights(const PlaneConvWeights& weights, const float* oihw, float* packed);
void unpack_plane_conv_weights(const PlaneConvWeights& weights, const float* packed, float* oihw);

/// What depends on the shape alone. Copyable, immutable, safe to share between threads.
class PlaneConvPlan {
 public:
  PlaneConvPlan() = default;
  /// Input and output are [batch, channels, h, w], dense. Throws Error(invalid_argument) for a depth, channels that do
  /// not divide into the groups, a size or stride that is not positive, or what does not fit.
  explicit PlaneConvPlan(const ConvShape& shape);

  /// Whether the lines that a row of the result sees stay in cache: asks for channels, groups, kernel, strides and
  /// dilations only.
  static bool fits(const ConvShape& shape);

  int64_t workspace_bytes(int threads) const { return thread_bytes_ * threads; }

 private:
  friend void plane_conv(const PlaneConvPlan&, const float*, const float*, float*, const Epilogue&, ThreadPool&, void*);
  class Worker;
  void plan_tiles(bool sees_each_once);
  int64_t lines_at_once() const {
    return shares_lines_ || rows_ == 1 ? shape_.kernel_h + rows_ - 1 : rows_ * shape_.kernel_h;
  }

  ConvShape shape_;
  bool in_place_ = false;               // whether planes are read where the image has them
  int64_t phases_ = 1;                  // remainders by the stride that some tap sees
  int64_t rows_ = 1;                    // of the result that are computed at once
  bool shares_lines_ = false;           // whether each of these sees the lines of the one before but for one
  int64_t ring_lines_ = 1, reach_ = 0;  // lines that these see; pixels behind its own that a row sees, by the stride
  int64_t tile_ = 0, tiles_ = 0, pitch_ = 0;  // pixels of a row at once; floats of a plane
  int64_t thread_bytes_ = 0;
};

/// output[n, o, y, x] of conv(), with `epilogue` of a bias, a clamp and an activation alone. `output` must not overlap
/// `input`.
void plane_conv(const PlaneConvPlan& plan, const float* input, const float* packed, float* output,
                const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
