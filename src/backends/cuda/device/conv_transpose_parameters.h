// What transposed convolutions are given.
#pragma once

#include "backends/cuda/device/contract_parameters.h"

namespace camshaft::cuda {

/// A thread computes 8 channels of 4 pixels of a row that are a stride apart, and so take the same taps.
struct ConvTransposeParameters {
  u32 items = 0, in_channels = 0, out_channels = 0, out_w = 0;
  Divisor groups, phases, quads, out_h;  ///< of 8 channels; remainders by the stride; pixels of one, by 4; rows
  i32 in_h = 1, in_w = 1, top = 0, left = 0;
  i64 image = 0, row = 0, pixel = 0;  ///< strides of the operand, in elements
  i64 pitch = 0;                      ///< between the weights of one input channel and the next
  const void* x = nullptr;
  const void* weights = nullptr;  ///< [in channels][taps][out channels]
  void* c = nullptr;
  i64 c_row = 0;
  u32 c_vector = 0;
  EpilogueOperand operand[most_epilogue_operands] = {};
};

}  // namespace camshaft::cuda
