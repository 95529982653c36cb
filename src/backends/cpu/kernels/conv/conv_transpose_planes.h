// f32 transposed convolution over two axes with few output channels, or few a group. A product of so few columns fills
// a part of its vectors only, and finds the pointers of its rows for longer than it multiplies them. Here neighbouring
// pixels are the lanes: the lines that an output row sees lie in cache as planes, one for each input channel, an output
// channel and a remainder by the stride are a stream of sums, and a row of the result is its streams, dealt out in
// turn.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv/conv_transpose.h"

namespace camshaft::cpu {

/// Packed weights: for each phase (remainders by the strides), group and block of up to four output channels its taps,
/// as [kernel rows][input channels][kernel columns][outputs]. The same on all machines.
struct PlaneTransposeWeights {
  int64_t in_channels = 0, group_outputs = 0, groups = 1;  ///< group_outputs: output channels per group
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;

  int64_t floats() const { return in_channels * group_outputs * kernel_h * kernel_w; }
  bool operator==(const PlaneTransposeWeights&) const = default;
};

/// Between ONNX order, [in_channels, group_outputs, kernel_h, kernel_w], and floats() floats, exactly.
void pack_plane_transpose_weights(const PlaneTransposeWeights& weights, const float* iohw, float* packed);
void unpack_plane_transpose_weights(const PlaneTransposeWeights& weights, const float* packed, float* iohw);

/// What depends on the shape alone. Copyable, immutable, safe to share between threads.
class PlaneTransposePlan {
 public:
  PlaneTransposePlan() = default;
  /// Input and output are [batch, h, w, channels], or [batch, channels, h, w] and dense where `first_in` or `first_out`
  /// says so. Throws Error(invalid_argument) for a depth, channels that do not divide into the groups, or a size or
  /// stride that is not positive.
  PlaneTransposePlan(const ConvTransposeShape& shape, bool first_in, bool first_out);

  /// Whether the lines that a row of the result sees stay in cache.
  static bool fits(const ConvTransposeShape& shape);

  int64_t workspace_bytes(int threads) const { return thread_bytes_ * threads; }

 private:
  friend void plane_conv_transpose(const PlaneTransposePlan&, const float*, const float*, float*, const Epilogue&,
                                   ThreadPool&, void*);
  class Worker;
  struct Taps {
    std::vector<int64_t> kernel;  // positions in the kernel
    std::vector<int64_t> back;    // and how many pixels of the input before the group's own they are
  };
  static Taps taps_of_phase(int64_t kernel, int64_t stride, int64_t dilation, int64_t phase);

  ConvTransposeShape shape_;
  bool first_in_ = false, first_out_ = false;
  std::vector<Taps> vertical_, horizontal_;  // of each phase
  std::vector<int64_t> packed_;              // [phase down][phase across]: floats before its weights
  int64_t ring_lines_ = 1, reach_ = 0;       // lines that a row sees; pixels before a group that it sees
  int64_t first_group_ = 0, groups_ = 0;     // of stride_w pixels along a row of the padded result
  int64_t out_h_ = 0, out_w_ = 0;            // of the result
  /// Pixels of a line of the image, whose lines shape_ has as one: where windows neither overlap nor leave gaps, each
  /// pixel makes its own block of the result. 0 where they do.
  int64_t line_ = 0;
  /// Groups whose planes lie together are images of their own, which shape_ counts in its batch.
  int64_t image_groups_ = 1;
  int64_t tile_ = 0, pitch_ = 0;  // groups at once; floats of a plane
  int64_t thread_bytes_ = 0;
};

/// output[n, y, x, o] as of conv_transpose(), with `epilogue` of a bias, a clamp and an activation alone.
void plane_conv_transpose(const PlaneTransposePlan& plan, const float* input, const float* packed, float* output,
                          const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
