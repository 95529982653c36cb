// Elements as bytes: what the kernels that move them share. Internal to the kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/with_type.h"

namespace camshaft::cpu {

/// A thread of its own pays from here: the time to copy this from L2 is about that of waking one.
inline constexpr int64_t least_bytes = 64 * 1024;

struct Bytes16 {
  uint64_t low, high;
};

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// with_width() of 16 bytes too, and of any other size.
template <class Visit>
void with_any_width(int64_t width, Visit&& visit) {
  if (width == 1 || width == 2 || width == 4 || width == 8) return with_width(width, visit);
  visit(Bytes16());
}

}  // namespace camshaft::cpu
