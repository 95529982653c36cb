// What convolutions of one channel a group are given.
#pragma once

#include "backends/cuda/device/contract_parameters.h"

namespace camshaft::cuda {

/// A thread computes 8 channels of several pixels of a row, which share what they read; by lines it has 4 channels of
/// several pixels of several rows.
struct DepthwiseParameters {
  u32 items = 0, channels = 0;
  Divisor groups, strips,
      lines;  ///< of 8 channels; of pixels, of which a row has so many; of an image, of so many rows
  // (`out_h` moves what follows by 4 bytes, which decides how ptxas orders the loads of 5x5 windows: with it they take
  // 50 registers and 9.3 us in EfficientNet-B0's later layers on an H100, without it 42 registers and 11.9 us.)
  u32 out_w = 1, out_h = 1;
  i32 in_h = 1, in_w = 1, top = 0, left = 0;
  i64 image = 0, row = 0, pixel = 0;  ///< strides of the operand, in elements
  i64 tap = 0;                        ///< between the weights of one tap and the next
  const void* x = nullptr;
  const void* weights = nullptr;  ///< [taps][channels]
  void* c = nullptr;
  i64 c_row = 0;
  u32 c_vector = 0;
  EpilogueOperand operand[most_epilogue_operands] = {};
};

}  // namespace camshaft::cuda
