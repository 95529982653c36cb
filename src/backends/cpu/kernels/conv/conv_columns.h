// f32 convolution over up to three axes of images with the channels first, by columns (im2col) of a block of pixels at
// a time, which stay in cache: nothing is transposed, weights are used as the model has them, and the pixels of many
// short rows, or of many small images, are neighbours. Where a sum has few terms, rows are short or channels many
// beside pixels, that is faster than what conv() and plane_conv() need to begin.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv/column_sums.h"
#include "backends/cpu/kernels/conv/conv.h"
#include "base/divide_up.h"

namespace camshaft::cpu {

/// What depends on the shape alone. Copyable, immutable, safe to share between threads.
class ColumnConvPlan {
 public:
  ColumnConvPlan() = default;
  /// Input and output are [batch, channels, d, h, w], dense. Throws Error(invalid_argument) if channels do not divide
  /// into groups, a size or stride is not positive, or what does not fit.
  explicit ColumnConvPlan(const ConvShape& shape);

  /// Whether the columns of some pixels stay in cache: asks for channels, groups and kernel only.
  static bool fits(const ConvShape& shape);

  int64_t workspace_bytes(int threads) const { return thread_bytes_ * threads; }

 private:
  friend void column_conv(const ColumnConvPlan&, const float*, const float*, float*, const Epilogue&, ThreadPool&,
                          void*);
  class Worker;
  // How many are kept; an even number.
  int64_t offsets() const {
    return looks_up_ ? round_up(shape_.kernel_d * shape_.kernel_h * shape_.kernel_w * block_, 2) : 0;
  }

  ConvShape shape_;
  bool in_place_ = false;  // whether columns are the image as it lies
  int64_t terms_ = 0;      // of a sum
  int64_t pixels_ = 0;     // of the result, of an image
  int64_t block_ = 0;      // of them that are computed at once, of all of `images_` images
  int64_t blocks_ = 0;     // of an image, or of so many
  int64_t images_ = 1;
  int64_t segments_ = 0;   // the most that a block has
  bool looks_up_ = false;  // whether these are short, and what they see is found once for many channels
  int64_t pitch_ = 0;
  std::vector<ColumnTap> taps_;
  int64_t thread_bytes_ = 0;
};

/// output[n, o, z, y, x] of conv(), of weights in ONNX order, with `epilogue` of a bias, a clamp and an activation
/// alone. `output` must not overlap `input`.
void column_conv(const ColumnConvPlan& plan, const float* input, const float* oihw, float* output,
                 const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
