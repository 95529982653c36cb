// Random numbers that are a function of a counter.
#pragma once

#include <cstdint>

namespace camshaft::llm {

/// What a number is for: those for different things are independent.
enum class Purpose : uint32_t { draw, guess, acceptance };

/// A number in [0, 1), the same for the same arguments: one for each token of a sample, whatever else runs. Philox 4x32
/// with ten rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011).
inline double uniform(uint64_t seed, uint64_t position, uint32_t sample, Purpose purpose = Purpose::draw) {
  uint32_t counter[4] = {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), sample,
                         static_cast<uint32_t>(purpose)};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0], b = uint64_t{0xCD9E8D57u} * counter[2];
    counter[0] = static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0];
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1];
    counter[3] = static_cast<uint32_t>(a);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  const uint64_t bits = (uint64_t{counter[0]} << 32) | counter[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace camshaft::llm
