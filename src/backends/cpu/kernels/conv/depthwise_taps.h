// Sums over taps that are found through pointers, each channel for itself: depthwise convolutions whose taps differ
// from pixel to pixel, as the transposed ones do.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft::cpu {

/// `rows` pixels of the result. Tap t of row r begins at pointers[t * pointer_stride + r], all channels side by side.
struct DepthwiseTaps {
  const float* const* pointers = nullptr;
  int64_t pointer_stride = 0;
  int64_t rows = 0;
  const int64_t* out_rows = nullptr;  ///< where each row goes, and which of the residual it takes
  const float* packed = nullptr;      ///< [taps, channels] in `layout`
  PackedLayout layout;
  float* out = nullptr;
  int64_t out_step = 0;  ///< floats from a row to the next
};

/// out[out_rows[r], c] = sum over t of tap[t, c] * weights[t, c], with the bias, the residual and the clamp of
/// `epilogue`; the rest of that is left to the caller.
void depthwise_taps(const DepthwiseTaps& taps, const Epilogue& epilogue);

}  // namespace camshaft::cpu
