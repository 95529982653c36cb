// Convolution on channels-last (NDHWC) tensors as a matrix product whose rows are found through pointers, so that no
// im2col matrix is built (Dukhan, "The Indirect Convolution Algorithm", 2019): conv() in f32, a ConvPlan for elements
// of any type. 2-D is the case of depth 1, 1-D that of height 1 too.
//
// Use: conv_weights() + pack once per model; ConvPlan once per shape; conv() per run.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// The packed weights' description; depends on the weights alone, not on the image size, strides, pads or dilations.
/// One packed matrix a group (K = kernel_h * kernel_w * in_channels / groups in that order, N = out_channels / groups).
struct ConvWeights {
  int64_t out_channels = 0, group_channels = 0;  ///< group_channels: input channels per group
  int64_t kernel_h = 1, kernel_w = 1;            ///< kernel_h: lines of the kernel, of all depths
  int64_t groups = 1;
  PackedLayout layout;  ///< of one group

  int64_t group_stride() const { return (layout.floats() + 15) / 16 * 16; }
  int64_t floats() const { return groups * group_stride(); }
  bool operator==(const ConvWeights&) const = default;
};

/// Describes weights of ONNX shape [out_channels, group_channels, kernel_h, kernel_w] as this machine wants them
/// packed.
ConvWeights conv_weights(int64_t out_channels, int64_t group_channels, int64_t kernel_h, int64_t kernel_w,
                         int64_t groups);
/// From ONNX order (OIHW, contiguous) to `packed` (weights.floats() floats, 64-byte aligned), and back exactly; for a
/// layout of any machine.
void pack_conv_weights(const ConvWeights& weights, const float* oihw, float* packed);
/// The same on all threads; allocates nothing.
void pack_conv_weights(const ConvWeights& weights, const float* oihw, float* packed, ThreadPool& pool);
void unpack_conv_weights(const ConvWeights& weights, const float* packed, float* oihw);

/// Sizes in elements. A pad is in pixels and may be negative (cropping).
struct ConvShape {
  int64_t batch = 1, in_h = 1, in_w = 1, in_channels = 0, out_channels = 0;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  int64_t groups = 1;
  /// Floats from a pixel to the next, 0 for dense: a slice of a concatenation is read or written in place.
  int64_t in_pixel_stride = 0, out_pixel_stride = 0;
  /// The third axis, outside the other two; conv() alone knows it.
  int64_t in_d = 1, kernel_d = 1, stride_d = 1, dilation_d = 1, pad_front = 0, pad_back = 0;
  Words words = Words::f32;  ///< of pixels and weights; conv() alone knows pairs (bf16_pairs.h), without gates

  int64_t out_d() const { return out_size(in_d + pad_front + pad_back, kernel_d, stride_d, dilation_d); }
  int64_t out_h() const { return out_size(in_h + pad_top + pad_bottom, kernel_h, stride_h, dilation_h); }
  int64_t out_w() const { return out_size(in_w + pad_left + pad_right, kernel_w, stride_w, dilation_w); }
  static int64_t out_size(int64_t padded, int64_t kernel, int64_t stride, int64_t dilation) {
    const int64_t covered = (kernel - 1) * dilation + 1;
    return padded < covered ? 0 : (padded - covered) / stride + 1;
  }
};

/// Up to so many bytes a pixel a line of the kernel is one piece of the image (ConvPlan::Method::kernel_rows). Of wider
/// pixels the pieces are long enough by themselves, and the padded copy would cost more than it saves.
inline constexpr int64_t kFewPixelBytes = 48;

/// Everything about one shape that does not depend on the data. Copyable; immutable after construction; safe to share
/// between threads and contexts.
class ConvPlan {
 public:
  ConvPlan() = default;
  /// Throws Error(invalid_argument) if channels do not divide into groups, or a size or stride is not positive.
  explicit ConvPlan(const ConvShape& shape, int64_t element_bytes = 4);

  const ConvShape& shape() const { return shape_; }
  /// For `threads` threads and fewer. `gates`: conv() gets some.
  int64_t workspace_bytes(int threads, bool gates = false) const;

  enum class Method {
    pointwise,      ///< 1x1, stride 1: a plain product over all pixels
    kernel_rows,    ///< few channels: a row of the kernel is one contiguous piece of a (padded copy of the) image
    kernel_points,  ///< one pointer per kernel position and pixel; padding points at zeros
  };
  Method method() const { return method_; }

  /// What products of other types than f32 need to do the same (T: float, uint8_t): K is taps() pieces of depth()
  /// contiguous elements, rows() are the pixels of the result.
  int64_t rows() const;
  int64_t taps() const { return taps_; }
  int64_t depth() const { return depth_; }
  /// Elements of the padded copy of the input that find_rows() looks into; 0: it looks into the input itself.
  int64_t copy_elements() const { return padded_copy_ ? shape_.batch * image_stride_ : 0; }
  template <class T>
  void copy_padded(const T* input, T padding, T* copy, ThreadPool& pool) const;
  /// The pointer of tap t of row row0 + r goes to pointers[t * stride + r]; `zeros` where it lies in the padding. Not
  /// for Method::pointwise.
  template <class T>
  void find_rows(const T* input, const T* zeros, int64_t row0, int64_t rows, const T** pointers, int64_t stride) const;

 private:
  friend void conv(const ConvPlan&, const float*, const float*, float*, const Epilogue&, ThreadPool&, void*,
                   const float*);
  static void fill(const void* context, int64_t row0, int64_t rows, const float** pointers, int64_t stride,
                   int64_t* out_rows);
  int64_t copy_bytes() const;
  bool is_one_pixel() const;

  ConvShape shape_;
  Method method_ = Method::kernel_points;
  bool padded_copy_ = false;
  int64_t taps_ = 1, depth_ = 0;        // pieces of K, elements in a piece
  int64_t image_stride_ = 0;            // elements from image to image, of the input or its padded copy
  int64_t taps_h_ = 1, taps_w_ = 1;     // taps_h_: lines of the kernel, of all depths
  std::vector<int64_t> row_offset_;     // [out_d * out_h][taps_h]: elements from the image's start, -1 in the padding
  std::vector<int64_t> column_offset_;  // [out_w][taps_w]
  std::vector<float> zeros_;            // what padding points at: `depth_` floats
};

/// output[n, y, x, o] = epilogue(sum over input[n, y*s + i*d - pad, x*s + j*d - pad, c] * weights[o, c, i, j]).
/// `gates`, if any, are [batch, in_channels], dense: input[n, y, x, c] counts gates[n, c] times. They are for
/// Method::pointwise with one group alone. `packed` is by conv_weights() of this machine. In the epilogue a row is a
/// pixel ((n * out_d + z) * out_h + y) * out_w + x, a column an output channel; residual_ld is the residual's pixel
/// stride. `output` must not overlap `input`.
void conv(const ConvPlan& plan, const float* input, const float* packed, float* output, const Epilogue& epilogue,
          ThreadPool& pool, void* workspace, const float* gates = nullptr);

}  // namespace camshaft::cpu
