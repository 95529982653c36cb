// One row of a stem convolution's result (stem_conv.h). Internal to the kernels.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

struct StemConvRow {
  const float* const* line = nullptr;  ///< the planes of the lines that the row sees, in the kernel's order
  int64_t lines = 0;
  const int64_t* offsets = nullptr;  ///< of a line's taps, in the order of the packed weights
  int64_t depth = 0;                 ///< taps of a line
  int64_t pixels = 0, channels = 0;
  int64_t first_pixel = 0;  ///< the row's first pixel among the output's
  int64_t out_step = 0;     ///< floats from a pixel of the output to the next
};

}  // namespace camshaft::cpu
