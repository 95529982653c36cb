// What the tactics of convolutions of 8-bit numbers have in common.
#pragma once

#include "backends/cpu/tactics/conv_view.h"
#include "backends/cpu/tactics/integer_epilogue.h"

namespace camshaft::cpu {

struct IntegerConvView {
  ConvView conv;  ///< as if of f32, without an epilogue
  IntegerEpilogue epilogue;
  int32_t x_zero = -1, weights_zero = -1, bias = -1;  ///< region inputs
  DType of_x = DType::u8, of_weights = DType::i8;
};

/// nullopt unless the region is a channels-last convolution of 8-bit numbers, of rank 3 to 5 and with weights of
/// known sizes.
std::optional<IntegerConvView> view_integer_conv(const RegionView& region);

}  // namespace camshaft::cpu
