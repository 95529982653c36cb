// f32 transposed convolution over up to three axes of images with the channels first, by columns (col2im): each tap's
// product over all channels is computed where the image lies, and added to the pixels of the result that it belongs to
// while both are in cache. What it takes for each pixel of the result is one addition a tap, not one a channel.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv/column_sums.h"
#include "backends/cpu/kernels/conv/conv_transpose.h"

namespace camshaft::cpu {

/// What depends on the shape alone. Copyable, immutable, safe to share between threads.
class ColumnTransposePlan {
 public:
  ColumnTransposePlan() = default;
  /// Input and output are [batch, channels, d, h, w], dense. Throws Error(invalid_argument) if channels do not divide
  /// into the groups, or a size or stride is not positive.
  explicit ColumnTransposePlan(const ConvTransposeShape& shape);

  int64_t workspace_bytes(int threads) const { return thread_bytes_ * threads; }

 private:
  friend void column_conv_transpose(const ColumnTransposePlan&, const float*, const float*, float*, const Epilogue&,
                                    ThreadPool&, void*);
  class Worker;

  void plan_sizes();
  // Outputs and lines at once, of which a plane of the result has `floats`: as many outputs as the sums of some lines
  // leave room for, or, where a product is then of the taps of one plane, so many lines that one may be of all taps.
  void plan_small_bands(int64_t floats);
  void plan_high_bands(int64_t floats);

  struct Tap {
    int64_t phase = 0, behind = 0;  // the remainder that it goes to, and so many groups behind its pixel's own
  };

  ConvTransposeShape shape_;                    // two axes have no height here: their lines are the depth
  int64_t inner_taps_ = 1;                      // of a line or plane
  int64_t tap_rows_ = 1;                        // products of an output channel that are computed at once
  int64_t first_group_ = 0, groups_ = 0;        // of stride_w pixels along a row of the padded result
  int64_t tile_ = 0, tiles_ = 0, pitch_ = 0;    // of these at once; floats of a row of sums
  int64_t band_ = 0, bands_ = 0;                // along the depth of the result, at once
  int64_t outputs_ = 0, output_blocks_ = 0;     // channels at once, of a group
  int64_t chunk_ = 0;                           // pixels of the image whose products are computed at once
  bool by_lines_ = false;                       // whether these are whole lines, or parts of one, and not of a tile
  bool all_taps_ = false;                       // whether products are those of all taps, or of one along the depth
  std::vector<Tap> taps_;                       // of a line
  std::vector<bool> depth_seen_, height_seen_;  // of each remainder by the stride: whether a tap has it
  int64_t thread_bytes_ = 0;
};

/// output[n, o, z, y, x] as of conv_transpose(), of weights in ONNX order, with `epilogue` of a bias, a clamp and an
/// activation alone.
void column_conv_transpose(const ColumnTransposePlan& plan, const float* input, const float* iohw, float* output,
                           const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
