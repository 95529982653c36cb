// Resizing of f32 images: nearest, linear, cubic, antialiased or not, given where each output takes its values from.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Where the outputs along one axis come from: out[i] = sum over k < taps of weight[i * taps + k] * in[index[i * taps +
/// k]]. Nearest has one tap of weight 1, linear two, cubic four, antialiased filters more. Indices are clamped by the
/// caller; an index[i * taps] of -1 says that output i lies outside and takes the extrapolation value.
struct ResizeAxis {
  int64_t in = 1, out = 1, taps = 1;
  std::vector<int32_t> index;
  std::vector<float> weight;

  /// out[i] = in[i].
  static ResizeAxis identity(int64_t size);
};

/// Resizes height and width of a dense [batch, channels, height, width] tensor, or [batch, height, width, channels]
/// with channels_last. 1-D: a height of identity(1). Built once a shape; `run` allocates nothing.
class Resize2d {
 public:
  /// With channels_last, floats from a pixel to the next of either side may be given; 0: dense. Throws Error(internal)
  /// where an axis' lists are of the wrong length or an index is outside [-1, in).
  Resize2d(int64_t batch, int64_t channels, ResizeAxis height, ResizeAxis width, bool channels_last,
           float extrapolation = 0, int64_t in_pixel_stride = 0, int64_t out_pixel_stride = 0);

  void run(ThreadPool& pool, const float* in, float* out) const;

  // Read by the kernels.
  int64_t batch, channels;
  ResizeAxis height, width;
  bool channels_last;
  float extrapolation;
  int64_t in_pixel, out_pixel;  ///< floats from pixel to pixel, channels last
  bool nearest;                 ///< one tap of weight 1 each way: values are copied
  bool keeps_columns = false;   ///< columns stay as they are: only rows are combined
  int64_t widest = 1;           ///< columns from the first to the last that one of the result sees

  /// Of two taps, channels first: whether each of so many neighbours of the result sees two neighbours of the image,
  /// and the weights of their first columns and of their second ones.
  static constexpr int64_t pair_group = 4;
  std::vector<uint8_t> pairs;
  std::vector<float> pair_weights;

 private:
  void find_pairs();
};

}  // namespace camshaft::cpu
