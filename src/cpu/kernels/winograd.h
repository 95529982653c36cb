// f32 3x3 stride-1 convolution on channels-last tensors by Winograd's F(4x4, 3x3): four times fewer multiplications
// than conv(), weights four times as large (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015;
// interpolation points 0, +-1, +-2). An alternative tactic: measure it against conv(). It pays with many pixels and
// many channels, and loses where the weights' memory traffic decides (512 channels at 7x7, batch 1).
//
// Rounding errors are about twenty times those of conv(): 1.5e-6 of the sum of the terms' sizes was measured. A NaN or
// an infinity in the input makes all of the 4x4 outputs of the tiles that see it NaN.
#pragma once

#include <cstdint>

#include "cpu/kernels/conv.h"

namespace camshaft::cpu {

/// 36 packed matrices [in_channels, out_channels], one for each point of the transformed tile.
struct WinogradWeights {
  int64_t out_channels = 0, in_channels = 0;
  PackedLayout layout;  ///< of one matrix

  int64_t matrix_stride() const { return (layout.floats() + 15) / 16 * 16; }
  int64_t floats() const { return 36 * matrix_stride(); }
  bool operator==(const WinogradWeights&) const = default;
};

WinogradWeights winograd_weights(int64_t out_channels, int64_t in_channels);
/// Transforms ONNX weights [out_channels, in_channels, 3, 3] into `packed` (floats() floats, 64-byte aligned). The
/// transform rounds: the original weights cannot be recovered bit by bit.
void pack_winograd_weights(const WinogradWeights& weights, const float* oihw, float* packed);
/// Moves packed weights from one machine's layout to another's, exactly. `from` and `to` differ in `layout` only.
void repack_winograd_weights(const WinogradWeights& from, const float* packed, const WinogradWeights& to, float* out);

/// Whether winograd() can compute this shape: 3x3, stride 1, one group, at least one channel. A dilated convolution is
/// computed as the plain ones of which it is made: of every d-th pixel of every d-th line.
bool winograd_supports(const ConvShape& shape);
/// Outputs that are computed for each one that is wanted, at least 1: tiles are 4x4 whatever the image's size, and with
/// a dilation every phase has its own.
double winograd_waste(int64_t out_h, int64_t out_w, int64_t dilation_h, int64_t dilation_w);
int64_t winograd_workspace_bytes(const ConvShape& shape, int threads);
/// As conv(), with `packed` from pack_winograd_weights. `residual` may be `output` itself. Needs no plan.
/// Throws Error(unsupported) for shapes that winograd_supports refuses.
void winograd(const ConvShape& shape, const float* input, const float* packed, float* output, const Epilogue& epilogue,
              ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
