#include "onnx/checksum.h"

#include <immintrin.h>
#include <zlib.h>

namespace camshaft::onnx {

namespace {

uint32_t by_zlib(std::span<const std::byte> bytes, uint32_t before) {
  return static_cast<uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// x^n modulo the polynomial, with the first coefficient in the lowest bit, as a carry-less product of 64 bits takes it.
constexpr int64_t power(int n) {
  uint32_t remainder = 1;
  for (int i = 0; i < n; ++i) remainder = remainder << 1 ^ (remainder >> 31 != 0 ? 0x04C11DB7U : 0);
  int64_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= static_cast<int64_t>(remainder >> bit & 1) << (31 - bit);
  return reversed << 1;
}

constexpr size_t lane = 16, lanes = 4;

// Folding (Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009): 128
// bits that lie `distance` bits before others are multiplied by x^distance and added to them, without changing the
// remainder.
template <int distance>
__attribute__((target("pclmul,sse4.1"))) inline __m128i folded(__m128i block, __m128i into) {
  const __m128i factors = _mm_set_epi64x(power(distance - 32), power(distance + 32));
  return _mm_xor_si128(
      into, _mm_xor_si128(_mm_clmulepi64_si128(block, factors, 0x00), _mm_clmulepi64_si128(block, factors, 0x11)));
}

__attribute__((target("pclmul,sse4.1"))) uint32_t by_folding(std::span<const std::byte> bytes, uint32_t before) {
  const auto at = [&](size_t offset) __attribute__((target("sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.data() + offset));
  };
  __m128i block[lanes];
  for (size_t i = 0; i < lanes; ++i) block[i] = at(i * lane);
  block[0] = _mm_xor_si128(block[0], _mm_cvtsi32_si128(static_cast<int>(~before)));
  size_t done = lanes * lane;
  for (; done + lanes * lane <= bytes.size(); done += lanes * lane)
    for (size_t i = 0; i < lanes; ++i) block[i] = folded<lanes * lane * 8>(block[i], at(done + i * lane));
  for (size_t i = 1; i < lanes; ++i) block[i] = folded<lane * 8>(block[i - 1], block[i]);
  // What is left has the remainder of all before it.
  std::byte last[lane];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(last), block[lanes - 1]);
  return by_zlib(bytes.subspan(done), by_zlib(last, ~uint32_t{0}));
}

}  // namespace

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t before) {
  static const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return folds && bytes.size() >= 2 * lanes * lane ? by_folding(bytes, before) : by_zlib(bytes, before);
}

}  // namespace camshaft::onnx
