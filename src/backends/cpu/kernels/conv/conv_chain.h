// An inverted bottleneck by bands of output rows: 1x1 expansion, depthwise convolution and 1x1 projection, of which the
// first or the last may be missing. What lies between them never leaves the cache: the expansion writes its lines into
// a ring buffer of as many as the band's depthwise rows see, and those go straight into the projection.
#pragma once

#include "backends/cpu/kernels/conv/conv.h"

namespace camshaft::cpu {

struct ConvChain {
  ConvShape depthwise;                             ///< pixel strides 0: those of x and y are given below
  int64_t x_channels = 0;                          ///< of the expansion's input; 0: no expansion
  int64_t y_channels = 0;                          ///< of the projection's output; 0: no projection
  int64_t x_pixel_stride = 0, y_pixel_stride = 0;  ///< floats from pixel to pixel, 0: dense
};

/// Weights as conv() and depthwise() take them. The epilogues of the expansion, and of the depthwise convolution where
/// a projection follows, have neither residual nor addend nor callback.
struct ConvChainOperands {
  const float* x = nullptr;
  float* y = nullptr;  ///< overlaps no input
  const float* expand = nullptr;
  const float* depthwise = nullptr;
  const float* project = nullptr;
  Epilogue expand_epilogue, depthwise_epilogue, project_epilogue;
};

/// How a chain is cut. Immutable; safe to share.
class ConvChainPlan {
 public:
  /// Bands of about `band_pixels` output pixels.
  ConvChainPlan(const ConvChain& chain, int64_t band_pixels);
  int64_t workspace_bytes(int threads) const { return thread_bytes_ * threads; }

 private:
  friend void conv_chain(const ConvChainPlan&, const ConvChainOperands&, ThreadPool&, void*);
  void run_rows(const ConvChainOperands& o, int64_t image, int64_t y0, int64_t y1, char* memory) const;

  ConvChain chain_;
  ConvShape shape_;  // of one image's depthwise convolution, as it runs here
  int64_t band_rows_ = 1, ring_lines_ = 1;
  int64_t ring_bytes_ = 0, rows_bytes_ = 0, thread_bytes_ = 0;
};

/// Each thread takes an even part of all rows; lines that two threads see are expanded twice.
void conv_chain(const ConvChainPlan& plan, const ConvChainOperands& operands, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
