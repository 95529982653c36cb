// f16, bf16 and f8e4m3 as bit patterns: scalar conversions, for tails, constants and machines without the
// instructions.
#pragma once

#include <bit>
#include <cstdint>

#include "base/float_types.h"

namespace camshaft::cpu {

/// Element types of narrow floats in memory. Distinct types, so that templates can tell them from integers.
enum class Half : uint16_t {};
enum class BFloat : uint16_t {};
enum class Float8 : uint8_t {};  ///< E4M3

inline float to_float(Half half) {
  const uint32_t bits = static_cast<uint16_t>(half);
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // A denormal half is a whole number of 2^-24.
  if (magnitude < 0x400u) return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude * 0x1p-24f));
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

/// Rounds to nearest, ties to even; overflows to infinity; NaN stays NaN.
inline Half to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return Half(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return Half(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Denormal result: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits of the sum.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return Half(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return Half(sign | ((rounded >> 13) - (112u << 10)));
}

inline float to_float(BFloat value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

inline float to_float(Float8 value) {
  return f8e4m3_to_float(static_cast<uint8_t>(value));
}
inline float to_float(int8_t value) {
  return static_cast<float>(value);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
inline BFloat to_bfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t quiet = bits >> 16 | 0x40u;
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return BFloat((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

}  // namespace camshaft::cpu
