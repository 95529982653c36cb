// What the emulated compiler makes and the emulated driver loads: this header, and behind it a shared library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

struct Image {
  char magic[8] = {'e', 'm', 'u', 'l', 'a', 't', 'e', 'd'};
  uint32_t capability = 0;  ///< that it was compiled for
  uint32_t reserved = 0;
  uint64_t bytes = 0, checksum = 0;  ///< of the library
};

/// FNV-1a
inline uint64_t checksum(const void* data, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return hash;
}

}  // namespace emulator
