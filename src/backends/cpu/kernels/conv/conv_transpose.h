// f32 transposed convolution over up to three axes, on channels-last tensors. The output pixels whose position has the
// same remainder by the stride see the same subset of the kernel: each such phase is a plain stride-1 convolution,
// computed as a product that reads the input and writes the output in place. Nothing is multiplied by an inserted zero,
// nothing is scattered and added (Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016).
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// Sizes in elements, pads in pixels (cut off the output). Two axes have a depth of 1.
struct ConvTransposeShape {
  int64_t batch = 1, in_h = 1, in_w = 1, in_channels = 0, out_channels = 0;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  int64_t output_padding_h = 0, output_padding_w = 0;
  int64_t in_d = 1, kernel_d = 1, stride_d = 1, dilation_d = 1, pad_front = 0, pad_back = 0, output_padding_d = 0;
  int64_t groups = 1;
  int64_t in_pixel_stride = 0, out_pixel_stride = 0;  ///< floats from a pixel to the next, 0 for dense

  bool is_depthwise() const { return groups > 1 && groups == in_channels && groups == out_channels; }
  int64_t out_d() const {
    return (in_d - 1) * stride_d + (kernel_d - 1) * dilation_d + 1 + output_padding_d - pad_front - pad_back;
  }
  int64_t out_h() const {
    return (in_h - 1) * stride_h + (kernel_h - 1) * dilation_h + 1 + output_padding_h - pad_top - pad_bottom;
  }
  int64_t out_w() const {
    return (in_w - 1) * stride_w + (kernel_w - 1) * dilation_w + 1 + output_padding_w - pad_left - pad_right;
  }
};

/// Description of packed weights; independent of image size and pads. One packed matrix for each (phase, group); of
/// groups of one channel one for each phase, [taps, channels].
struct ConvTransposeWeights {
  int64_t in_channels = 0, group_outputs = 0;  ///< group_outputs: output channels per group
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t kernel_d = 1, stride_d = 1, dilation_d = 1;
  int64_t groups = 1;
  int32_t panel_width = 0, panel_lanes = 0;
  /// Where windows do not overlap along the width, an input pixel's outputs in a line lie side by side: its phases
  /// there are the columns of one product, [kernel_w, group_outputs], that fill vectors which few outputs alone would
  /// not.
  bool joined = false;

  bool is_depthwise() const { return groups > 1 && groups == in_channels && group_outputs == 1; }
  int64_t matrices() const { return is_depthwise() ? 1 : groups; }  ///< of a phase
  int64_t phases_w() const { return joined ? 1 : stride_w; }
  int64_t phases() const { return stride_d * stride_h * phases_w(); }
  /// The remainders of phase `phase`, 0 <= phase < phases(): along the depth, the height and the width.
  struct Phase {
    int64_t d = 0, h = 0, w = 0;
  };
  Phase phase(int64_t index) const {
    return {index / (stride_h * phases_w()), index / phases_w() % stride_h, index % phases_w()};
  }
  /// Layout of a phase's matrices. K may be 0.
  PackedLayout layout(const Phase& phase) const;
  int64_t floats() const;
  /// Of the weights as the model has them.
  int64_t elements() const { return in_channels * group_outputs * kernel_d * kernel_h * kernel_w; }
  bool operator==(const ConvTransposeWeights&) const = default;
};

/// Describes weights of ONNX shape [in_channels, out_channels / groups, kernel...] as this machine wants them packed,
/// of a shape whose image and pads need not be known. `joined` only where can_join_phases() says so of the shapes to
/// come.
ConvTransposeWeights conv_transpose_weights(const ConvTransposeShape& shape, bool joined = false);
/// From ONNX order to `packed` (floats() floats, 64-byte aligned), and back exactly; for a layout of any machine.
void pack_conv_transpose_weights(const ConvTransposeWeights& weights, const float* iohw, float* packed);
void unpack_conv_transpose_weights(const ConvTransposeWeights& weights, const float* packed, float* iohw);
/// The same in a run, of weights that are no constant. `scratch`: 2 * weights.elements() floats.
void pack_conv_transpose_weights(const ConvTransposeWeights& weights, const float* iohw, float* packed, float* scratch,
                                 ThreadPool& pool);

/// Whether windows tile the width, and output pixels lie close together: the condition of ConvTransposeWeights::joined.
bool can_join_phases(const ConvTransposeShape& shape);

/// What depends on the shape alone. Copyable, immutable, safe to share between threads.
class ConvTransposePlan {
 public:
  ConvTransposePlan() = default;
  /// `joined` as in the weights to come. Throws Error(invalid_argument) if channels do not divide into groups, a size
  /// or stride is not positive, or `joined` is asked of a shape that cannot.
  explicit ConvTransposePlan(const ConvTransposeShape& shape, bool joined = false);

  const ConvTransposeShape& shape() const { return shape_; }
  int64_t workspace_bytes(int threads) const;

 private:
  friend void conv_transpose(const ConvTransposePlan&, const float*, const float*, float*, const Epilogue&, ThreadPool&,
                             void*);
  // One axis of one phase: outputs first, first + stride, ...
  struct Axis {
    int64_t first = 0, count = 0, taps = 0;
    std::vector<int64_t> offset;  // [count][taps]: floats of input, -1 outside
  };
  struct FillContext;
  int64_t joined_columns() const { return joined_ ? shape_.kernel_w * shape_.out_channels : 0; }
  static Axis axis(int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad, int64_t in, int64_t step,
                   int64_t phase);
  static void fill(const void* context, int64_t row0, int64_t rows, const float** pointers, int64_t stride,
                   int64_t* out_rows);

  ConvTransposeShape shape_;
  bool joined_ = false;
  int64_t scratch_bytes_ = 0;  // of one thread, the most that a phase needs
  std::vector<Axis> depth_, vertical_, horizontal_;
  std::vector<float> zeros_;
};

/// output[n, y, x, o] = epilogue(sum over (i, j, c) of input[n, (y + pad - i*d) / s, (x + pad - j*d) / s, c] *
/// weights[c, o, i, j], and so for a depth before y, where the divisions are exact and inside the input). Rows and
/// columns of the epilogue as in conv(); with a stride above 1 its callback runs in a second pass after all pixels are
/// done. With joined phases the residual's rows must be as close together as the output's.
void conv_transpose(const ConvTransposePlan& plan, const float* input, const float* packed, float* output,
                    const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
