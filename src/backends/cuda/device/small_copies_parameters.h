// What the kernel of small copies is given.
#pragma once

#include "backends/cuda/device/numbers.h"

namespace camshaft::cuda {

constexpr u32 most_copies_at_once = 16;

struct CopiedBytes {
  u8* to;
  const u8* from;
  u32 bytes;
};

struct SmallCopiesParameters {
  CopiedBytes copy[most_copies_at_once];
};

}  // namespace camshaft::cuda
