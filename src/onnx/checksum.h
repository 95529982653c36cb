// The checksum of zip archives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace camshaft::onnx {

/// CRC-32 of what came before (0: nothing) and of these bytes, as zlib's crc32() computes it, at the speed of memory.
uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace camshaft::onnx
