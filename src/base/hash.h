// XXH3 hashes: checksums and cache keys. Fast (above 10 GB/s), the same on every platform, not for security.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace camshaft {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  auto operator<=>(const Hash128&) const = default;
};

uint64_t hash64(std::span<const std::byte> bytes);
uint64_t hash64(std::string_view text);
Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);

/// Hashes what is added piece by piece; the result depends on the bytes alone, not on where the pieces end.
class Hasher {
 public:
  Hasher();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  /// Of all that was added so far, equal to hash64 of it. More can be added afterwards.
  uint64_t hash64() const;
  Hash128 hash128() const;

 private:
  alignas(64) std::byte state_[576];  // XXH3_state_t, whose header is kept out of this one
};

/// 16 (32) lower-case hexadecimal digits.
std::string to_hex(uint64_t hash);
std::string to_hex(const Hash128& hash);

}  // namespace camshaft
