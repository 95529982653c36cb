#include "base/random.h"

#include <bit>
#include <cmath>

namespace camshaft {
namespace {

uint64_t splitmix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// ln(x) for normal x > 0, of + - * / alone: the C library's log differs in its last bit from one platform to the next.
// x = m * 2^e with m near 1, ln m = 2 artanh((m - 1) / (m + 1)); the series is cut below 2^-60.
double portable_log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
  return 2 * z * sum + exponent * 0.6931471805599453;
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = splitmix64(seed);
}

uint64_t Random::next() {
  const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

int64_t Random::integer(int64_t low, int64_t high) {
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;  // 0: all 2^64
  uint64_t offset = next();
  if (count != 0) {
    // Values from the last, incomplete round of `count` are drawn again.
    const uint64_t incomplete = (0 - count) % count;
    while (offset < incomplete) offset = next();
    offset %= count;
  }
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

// Marsaglia's polar method: sqrt is exact to the last bit everywhere (IEEE 754), sin and cos are not.
double Random::normal() {
  if (has_second_) {
    has_second_ = false;
    return second_;
  }
  double u, v, s;
  do {
    u = 2 * uniform() - 1;
    v = 2 * uniform() - 1;
    s = u * u + v * v;
  } while (s >= 1 || s == 0);
  const double scale = std::sqrt(-2 * portable_log(s) / s);
  second_ = v * scale;
  has_second_ = true;
  return u * scale;
}

CounterRandom::Block CounterRandom::block(Block counter, std::array<uint32_t, 2> key) {
  const auto multiply = [](uint32_t a, uint32_t b) { return static_cast<uint64_t>(a) * b; };
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = multiply(0xD2511F53, counter[0]), b = multiply(0xCD9E8D57, counter[2]);
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

CounterRandom::Block CounterRandom::numbers(uint64_t position, uint32_t attempt, uint32_t use) const {
  return block({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), attempt, use},
               {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
}

double CounterRandom::uniform(uint64_t position, int bits) const {
  const Block b = numbers(position, 0, 0);
  const uint64_t all = static_cast<uint64_t>(b[0]) << 32 | b[1];
  return std::ldexp(static_cast<double>(all >> (64 - bits)), -bits);
}

// Marsaglia's polar method: the first point of a sequence in the square that lies in the circle.
double CounterRandom::normal(uint64_t position) const {
  for (uint32_t attempt = 0;; ++attempt) {
    const Block b = numbers(position, attempt, 1);
    const auto coordinate = [](uint32_t high, uint32_t low) {
      return static_cast<double>((static_cast<uint64_t>(high) << 32 | low) >> 11) * 0x1p-52 - 1;
    };
    const double x = coordinate(b[0], b[1]), y = coordinate(b[2], b[3]), r = x * x + y * y;
    if (r > 0 && r < 1) return x * std::sqrt(-2 * portable_log(r) / r);
  }
}

}  // namespace camshaft
