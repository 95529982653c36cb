// What the writer and the reader of containers share: where the fields are.
#pragma once

#include <bit>
#include <cstring>

#include "engine/container.h"

namespace camshaft::container_format {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie in memory");

constexpr char magic[8] = {'C', 'A', 'M', 'S', 'H', 'A', 'F', 'T'};
constexpr size_t version_at = 8;
constexpr size_t section_count_at = 12;
constexpr size_t file_size_at = 16;
constexpr size_t header_size_at = 24;
constexpr size_t header_checksum_at = 32;
constexpr size_t fixed_size = 64;
constexpr size_t kind_size = 8;
constexpr size_t entry_offset_at = 8;
constexpr size_t entry_size_at = 16;
constexpr size_t entry_size = 24;
/// More sections than any engine needs; bounds the work on a hostile file.
constexpr uint32_t max_sections = 1024;

template <class T>
T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, size_t offset, T value) {
  std::memcpy(bytes.subspan(offset, sizeof value).data(), &value, sizeof value);
}

inline bool is_kind_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/// `value` <= 2^64 - 4096 is the caller's business.
inline uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

inline uint64_t chunk_count(uint64_t size) {
  return size / container_chunk + (size % container_chunk != 0);
}

/// XXH3-64 of the header without the field that holds it.
uint64_t header_checksum(std::span<const std::byte> header);

}  // namespace camshaft::container_format
