// What sampling images between their pixels is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Channels of a thread.
constexpr u32 group_channels = 8;

struct GridSampleParameters {
  u32 items = 0, channels = 0;  ///< threads' pieces of work; of an image
  Divisor points, groups;       ///< of an image's grid; of channels, of which a thread takes group_channels
  i64 size[3] = {}, stride[3] = {}, plane = 1;
};

}  // namespace camshaft::cuda
