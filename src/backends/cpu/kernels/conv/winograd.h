// f32 3x3 stride-1 convolution on channels-last tensors by Winograd's F(4x4, 3x3) and F(2x2, 3x3): four and 2.25 times
// fewer multiplications than conv(), weights four and 1.8 times as large (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015). An alternative to measure against conv(): it pays with many pixels and many
// channels, and loses where the weights' memory traffic decides (512 channels at 7x7, batch 1).
//
// Errors with 256 channels, as parts of the largest result (root mean square; largest), where summing 9 * 256 terms one
// by one gives 1.3e-7; 1.0e-6: F(2x2) 0.9e-7; 0.5e-6, and F(4x4) 2.6e-7; 2.0e-6 with the points 0, +-sqrt(1/2),
// +-sqrt(2) used here (with 0, +-1, +-2 it would be 5.5e-7; 10e-6). So F(2x2) is as good as the plain sum. But a NaN
// or an infinity in the input makes all outputs of the tiles that see it NaN.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/gemm/product_shares.h"
#include "backends/cpu/kernels/row_channel_shares.h"

namespace camshaft::cpu {

/// Packed matrices [in_channels, out_channels], one for each point of the transformed tile.
struct WinogradWeights {
  int64_t tile = 4;  ///< outputs of a tile along an axis: 4 or 2
  int64_t out_channels = 0, in_channels = 0;
  PackedLayout layout;  ///< of one matrix

  int64_t matrix_stride() const { return (layout.floats() + 15) / 16 * 16; }
  int64_t points() const { return (tile + 2) * (tile + 2); }
  int64_t floats() const { return points() * matrix_stride(); }
  bool operator==(const WinogradWeights&) const = default;
};

WinogradWeights winograd_weights(int64_t tile, int64_t out_channels, int64_t in_channels);
/// Transforms ONNX weights [out_channels, in_channels, 3, 3] into `packed` (floats() floats, 64-byte aligned). The
/// transform rounds: the original weights cannot be recovered bit by bit.
void pack_winograd_weights(const WinogradWeights& weights, const float* oihw, float* packed);

/// Whether winograd() can compute this shape: 3x3, stride 1, one group, at least one channel. A dilated convolution is
/// computed as the plain ones of which it is made: of every d-th pixel of every d-th line.
bool winograd_supports(const ConvShape& shape);
/// Outputs that are computed for each one that is wanted, at least 1: tiles are whole whatever the image's size, and
/// with a dilation every phase has its own.
double winograd_waste(int64_t tile, int64_t out_h, int64_t out_w, int64_t dilation_h, int64_t dilation_w);
/// How winograd() is cut for threads.
struct WinogradShares {
  /// All threads work on a block of tiles, one phase after the other: the input's transform, a product for each point,
  /// the output's. Else each has lines of tiles (the rows of `input`) for itself, through all phases.
  bool is_shared = false;
  ProductShape products;
  RowChannelShares input, output;  ///< of tiles, or of lines of them where a dilation puts others in between
};
/// For at most `most` threads; of the first block where there are several.
WinogradShares winograd_shares(int64_t tile, const ConvShape& shape, int most);
int64_t winograd_workspace_bytes(int64_t tile, const ConvShape& shape, int threads);
/// As conv(), with `packed` from pack_winograd_weights. `residual` may be `output` itself. Needs no plan.
/// Throws Error(unsupported) for shapes that winograd_supports refuses.
void winograd(const WinogradWeights& weights, const ConvShape& shape, const float* input, const float* packed,
              float* output, const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
