// What adding up windows where they lie in images is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Arrays are along the height and the width.
struct Col2ImParameters {
  u32 pixels = 0;         ///< of all images
  Divisor height, width;  ///< of an image
  i32 windows[2] = {}, kernel[2] = {}, stride[2] = {}, dilation[2] = {};
  i32 before[2] = {};  ///< padding
};

}  // namespace camshaft::cuda
