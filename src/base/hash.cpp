#include "base/hash.h"

#include "base/hash_avx2.h"

#define XXH_STATIC_LINKING_ONLY  // for the definition of XXH3_state_t
#include <xxhash.h>

#include <new>

namespace camshaft {
namespace {

XXH3_state_t* state_of(std::byte* bytes) {
  return std::launder(reinterpret_cast<XXH3_state_t*>(bytes));
}
const XXH3_state_t* state_of(const std::byte* bytes) {
  return std::launder(reinterpret_cast<const XXH3_state_t*>(bytes));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The distribution's library is compiled for SSE2, with which the checksums of a 350 MB engine in memory take 19 ms;
// with AVX2 they take 11, and with AVX-512 no less.
#if defined(__x86_64__)
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#endif

}  // namespace

uint64_t hash64(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (has_avx2()) return hash64_avx2(bytes.data(), bytes.size());
#endif
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t hash64(std::string_view text) {
  return hash64(bytes_of(text));
}

Hash128 hash128(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

Hash128 hash128(std::string_view text) {
  return hash128(bytes_of(text));
}

Hasher::Hasher() {
  static_assert(sizeof state_ >= sizeof(XXH3_state_t) && alignof(Hasher) >= alignof(XXH3_state_t));
  XXH3_state_t* state = new (state_) XXH3_state_t;
  XXH3_INITSTATE(state);
  // The 64- and the 128-bit hash accumulate alike (xxhash.h documents that they share the state); they differ only in
  // how the digest is taken.
  XXH3_128bits_reset(state);
}

void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_of(state_), bytes.data(), bytes.size());
}

void Hasher::add(std::string_view text) {
  add(bytes_of(text));
}

uint64_t Hasher::hash64() const {
  return XXH3_64bits_digest(state_of(state_));
}

Hash128 Hasher::hash128() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_of(state_));
  return {hash.low64, hash.high64};
}

std::string to_hex(uint64_t hash) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, hash >>= 4) text[static_cast<size_t>(i)] = digits[hash & 15];
  return text;
}

std::string to_hex(const Hash128& hash) {
  return to_hex(hash.high) + to_hex(hash.low);
}

}  // namespace camshaft
