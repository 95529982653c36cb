// The narrow floating-point types: conversion to and from float, one value at a time or in bulk.
//
// Narrowing rounds to nearest, ties to even, and treats NaN, infinities and overflow as ONNX's Cast does. Widening is
// exact. Source of the formats: IEEE 754 (f16), OCP 8-bit floating point 1.0 (f8e4m3 = E4M3FN, f8e5m2), OCP
// microscaling formats 1.0 (f4e2m1, f8e8m0), Noune et al., "8-bit Numerical Formats for Deep Neural Networks", 2022
// (f8e4m3fnuz, f8e5m2fnuz: one NaN where IEEE 754 has minus zero, no infinities, the exponents one lower).
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace camshaft {

/// Which power of two a number becomes as f8e8m0: the one above, the one below, or the nearer one (ties go up).
enum class PowerRounding : uint8_t { up, down, nearest };

namespace float_detail {

/// condition ? a : b, in a form that compilers do not turn into a branch.
constexpr uint32_t select(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

/// A sign bit, `exponent_bits`, `mantissa_bits`; `largest` is the code of the largest finite magnitude.
template <int exponent_bits, int mantissa_bits, uint32_t largest, int exponent_bias = (1 << (exponent_bits - 1)) - 1>
struct Format {
  static constexpr int bias = exponent_bias;
  static constexpr int bits = 1 + exponent_bits + mantissa_bits;
  static constexpr uint32_t max_code = largest;
  static constexpr uint32_t sign = 1u << (bits - 1);

  // Both members compute the subnormal and the normal case and select: without branches, loops over them vectorise, and
  // random bits cost about 0.5 ns instead of the 5 ns of mispredicted branches.

  /// The code of |value| rounded; above max_code when it overflows. `magnitude`: a float's bits, no sign, not NaN.
  static constexpr uint32_t round(uint32_t magnitude) {
    // Added to this power of two, a float below the smallest normal value is rounded to whole steps of the subnormals.
    constexpr uint32_t magic = static_cast<uint32_t>(127 + 24 - bias - mantissa_bits) << 23;
    const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(magic);
    const uint32_t subnormal = std::bit_cast<uint32_t>(sum) - magic;
    constexpr int shift = 23 - mantissa_bits;
    const uint32_t kept = magnitude - (static_cast<uint32_t>(127 - bias) << 23);
    const uint32_t normal = (kept + ((1u << (shift - 1)) - 1) + ((kept >> shift) & 1)) >> shift;
    return select(magnitude < (static_cast<uint32_t>(128 - bias) << 23), subnormal, normal);
  }

  /// The float's bits of a finite code without its sign.
  static constexpr uint32_t widen(uint32_t code) {
    // mantissa * 2^(1 - bias - mantissa_bits), exact
    const auto scale = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - bias - mantissa_bits) << 23);
    const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(code)) * scale);
    const uint32_t normal = (code << (23 - mantissa_bits)) + (static_cast<uint32_t>(127 - bias) << 23);
    return select(code < (1u << mantissa_bits), subnormal, normal);
  }
};

using F16Format = Format<5, 10, 0x7bff>;
using F8E4M3Format = Format<4, 3, 0x7e>;
using F8E5M2Format = Format<5, 2, 0x7b>;
using F4E2M1Format = Format<2, 1, 0x7>;
using F8E4M3FNUZFormat = Format<4, 3, 0x7f, 8>;
using F8E5M2FNUZFormat = Format<5, 2, 0x7f, 16>;

constexpr uint8_t fnuz_nan = 0x80;

template <class Format>
constexpr uint8_t float_to_fnuz(float value, bool saturate) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t sign = (bits >> 24) & Format::sign;
  const uint32_t code = Format::round(magnitude);
  if (magnitude > 0x7f800000 || (code > Format::max_code && !saturate)) return fnuz_nan;
  if (code == 0) return 0;  // there is no minus zero
  return static_cast<uint8_t>(sign | (code > Format::max_code ? Format::max_code : code));
}

template <class Format>
constexpr float fnuz_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  return std::bit_cast<float>(select(code == fnuz_nan, 0x7fc00000, sign | Format::widen(code & 0x7f)));
}

/// Narrows to float so that rounding it once more equals rounding the double once: towards zero, the last bit set when
/// inexact ("round to odd", Boldo and Melquiond 2008).
constexpr float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if ((value < 0 ? -back : back) > (value < 0 ? -value : value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

}  // namespace float_detail

/// Overflow and infinities give infinity; NaN stays NaN (quiet, its sign and the top of its payload kept).
constexpr uint16_t float_to_f16(float value) {
  using Format = float_detail::F16Format;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t sign = (bits >> 16) & Format::sign;
  const uint32_t rounded = Format::round(magnitude);
  const uint32_t number = rounded < 0x7c00 ? rounded : 0x7c00;  // 65520 and above round up to infinity
  const uint32_t not_a_number = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  return static_cast<uint16_t>(sign | float_detail::select(magnitude > 0x7f800000, not_a_number, number));
}

constexpr float f16_to_float(uint16_t code) {
  const uint32_t magnitude = code & 0x7fff;
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000) << 16;
  const uint32_t special = 0x7f800000 | (magnitude & 0x3ff) << 13;
  return std::bit_cast<float>(
      sign | float_detail::select(magnitude >= 0x7c00, special, float_detail::F16Format::widen(magnitude)));
}

/// Overflow and infinities give infinity; NaN stays NaN (quiet, its sign and the top of its payload kept).
constexpr uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

constexpr float bf16_to_float(uint16_t code) {
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
}

/// Overflow and infinities give ±448 when saturating, else NaN (the type has no infinity).
constexpr uint8_t float_to_f8e4m3(float value, bool saturate = true) {
  using Format = float_detail::F8E4M3Format;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t sign = (bits >> 24) & Format::sign;
  const uint32_t overflow = saturate ? Format::max_code : 0x7f;
  const uint32_t rounded = Format::round(magnitude);
  const uint32_t number = rounded <= Format::max_code ? rounded : overflow;
  return static_cast<uint8_t>(sign | (magnitude > 0x7f800000 ? 0x7f : number));
}

constexpr float f8e4m3_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7f;
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  return std::bit_cast<float>(
      sign | float_detail::select(magnitude == 0x7f, 0x7fc00000, float_detail::F8E4M3Format::widen(magnitude)));
}

/// Overflow and infinities give ±57344 when saturating, else infinity.
constexpr uint8_t float_to_f8e5m2(float value, bool saturate = true) {
  using Format = float_detail::F8E5M2Format;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t sign = (bits >> 24) & Format::sign;
  const uint32_t overflow = saturate ? Format::max_code : 0x7c;
  const uint32_t rounded = Format::round(magnitude);
  const uint32_t number = rounded <= Format::max_code ? rounded : overflow;
  return static_cast<uint8_t>(sign | (magnitude > 0x7f800000 ? 0x7e : number));
}

constexpr float f8e5m2_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7f;
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t special = 0x7f800000 | (magnitude & 3) << 21;
  return std::bit_cast<float>(
      sign | float_detail::select(magnitude >= 0x7c, special, float_detail::F8E5M2Format::widen(magnitude)));
}

/// In the low four bits. The type has neither infinity nor NaN: overflow and infinities give ±6, NaN gives -0 (as the
/// standard's test cases have it).
constexpr uint8_t float_to_f4e2m1(float value) {
  using Format = float_detail::F4E2M1Format;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return Format::sign;
  const uint32_t sign = (bits >> 28) & Format::sign;
  const uint32_t code = Format::round(magnitude);
  return static_cast<uint8_t>(sign | (code > Format::max_code ? Format::max_code : code));
}

/// Of the low four bits.
constexpr float f4e2m1_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 8) << 28;
  return std::bit_cast<float>(sign | float_detail::F4E2M1Format::widen(code & 7));
}

/// Overflow and infinities give ±240 when saturating, else NaN (the type has no infinity). -0 becomes 0.
constexpr uint8_t float_to_f8e4m3fnuz(float value, bool saturate = true) {
  return float_detail::float_to_fnuz<float_detail::F8E4M3FNUZFormat>(value, saturate);
}

constexpr float f8e4m3fnuz_to_float(uint8_t code) {
  return float_detail::fnuz_to_float<float_detail::F8E4M3FNUZFormat>(code);
}

/// Overflow and infinities give ±57344 when saturating, else NaN (the type has no infinity). -0 becomes 0.
constexpr uint8_t float_to_f8e5m2fnuz(float value, bool saturate = true) {
  return float_detail::float_to_fnuz<float_detail::F8E5M2FNUZFormat>(value, saturate);
}

constexpr float f8e5m2fnuz_to_float(uint8_t code) {
  return float_detail::fnuz_to_float<float_detail::F8E5M2FNUZFormat>(code);
}

/// A biased exponent of eight bits. Numbers that round to more than 2^127 or less than 2^-127 give the nearest of the
/// two when saturating, else NaN; so do infinities and zero. The type has no sign: that of `value` is dropped.
constexpr uint8_t float_to_f8e8m0(float value, bool saturate = true, PowerRounding rounding = PowerRounding::up) {
  constexpr uint32_t nan = 0xff, largest = 0xfe;
  const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffff;
  if (magnitude > 0x7f800000) return nan;
  if (magnitude == 0x7f800000) return saturate ? largest : nan;
  constexpr uint32_t smallest = 0x00400000;  // 2^-127, a subnormal float
  if (magnitude <= smallest) {
    const bool reached = magnitude == smallest || (magnitude != 0 && rounding == PowerRounding::up) ||
                         (magnitude >= 0x00300000 && rounding == PowerRounding::nearest);
    return reached || saturate ? 0 : nan;
  }
  uint32_t code = magnitude >> 23;
  // Of the numbers between 2^-127 and 2^-126 the leading digit is not implied.
  const uint32_t fraction = code == 0 ? (magnitude - smallest) << 1 : magnitude & 0x007fffff;
  if (rounding == PowerRounding::up ? fraction != 0 : rounding == PowerRounding::nearest && fraction >= 0x00400000)
    ++code;
  if (code > largest) return saturate ? largest : nan;
  return static_cast<uint8_t>(code);
}

constexpr float f8e8m0_to_float(uint8_t code) {
  if (code == 0xff) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23);
}

/// From double in one rounding (through float it would round twice).
constexpr uint16_t double_to_f16(double value) {
  return float_to_f16(float_detail::round_to_odd(value));
}
constexpr uint16_t double_to_bf16(double value) {
  return float_to_bf16(float_detail::round_to_odd(value));
}
constexpr uint8_t double_to_f8e4m3(double value, bool saturate = true) {
  return float_to_f8e4m3(float_detail::round_to_odd(value), saturate);
}
constexpr uint8_t double_to_f8e5m2(double value, bool saturate = true) {
  return float_to_f8e5m2(float_detail::round_to_odd(value), saturate);
}
constexpr uint8_t double_to_f4e2m1(double value) {
  return float_to_f4e2m1(float_detail::round_to_odd(value));
}

constexpr uint8_t double_to_f8e4m3fnuz(double value, bool saturate = true) {
  return float_to_f8e4m3fnuz(float_detail::round_to_odd(value), saturate);
}
constexpr uint8_t double_to_f8e5m2fnuz(double value, bool saturate = true) {
  return float_to_f8e5m2fnuz(float_detail::round_to_odd(value), saturate);
}
constexpr uint8_t double_to_f8e8m0(double value, bool saturate = true, PowerRounding rounding = PowerRounding::up) {
  return float_to_f8e8m0(float_detail::round_to_odd(value), saturate, rounding);
}

/// Widens `count` elements of any floating dtype (f64 is narrowed). 4-bit elements are packed two to a byte, the first
/// in the low half. Throws Error(internal) for a dtype that is not floating.
void convert_to_float(DType from, const void* source, float* destination, int64_t count);
/// The inverse; `saturate` as in ONNX's Cast, used by the 8-bit types only; f8e8m0 rounds up. Of an odd number of 4-bit
/// elements, the last byte's high half is set to zero.
void convert_from_float(DType to, const float* source, void* destination, int64_t count, bool saturate = true);

/// Values as C++ types, for code that is generic over element types.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  constexpr explicit F16(float value) : bits(float_to_f16(value)) {}
  constexpr explicit F16(double value) : bits(double_to_f16(value)) {}
  constexpr explicit operator float() const { return f16_to_float(bits); }
};
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  constexpr explicit BF16(float value) : bits(float_to_bf16(value)) {}
  constexpr explicit BF16(double value) : bits(double_to_bf16(value)) {}
  constexpr explicit operator float() const { return bf16_to_float(bits); }
};
struct F8E4M3 {
  uint8_t bits = 0;
  F8E4M3() = default;
  constexpr explicit F8E4M3(float value, bool saturate = true) : bits(float_to_f8e4m3(value, saturate)) {}
  constexpr explicit F8E4M3(double value, bool saturate = true) : bits(double_to_f8e4m3(value, saturate)) {}
  constexpr explicit operator float() const { return f8e4m3_to_float(bits); }
};
struct F8E5M2 {
  uint8_t bits = 0;
  F8E5M2() = default;
  constexpr explicit F8E5M2(float value, bool saturate = true) : bits(float_to_f8e5m2(value, saturate)) {}
  constexpr explicit F8E5M2(double value, bool saturate = true) : bits(double_to_f8e5m2(value, saturate)) {}
  constexpr explicit operator float() const { return f8e5m2_to_float(bits); }
};
struct F8E4M3FNUZ {
  uint8_t bits = 0;
  F8E4M3FNUZ() = default;
  constexpr explicit F8E4M3FNUZ(float value, bool saturate = true) : bits(float_to_f8e4m3fnuz(value, saturate)) {}
  constexpr explicit F8E4M3FNUZ(double value, bool saturate = true) : bits(double_to_f8e4m3fnuz(value, saturate)) {}
  constexpr explicit operator float() const { return f8e4m3fnuz_to_float(bits); }
};
struct F8E5M2FNUZ {
  uint8_t bits = 0;
  F8E5M2FNUZ() = default;
  constexpr explicit F8E5M2FNUZ(float value, bool saturate = true) : bits(float_to_f8e5m2fnuz(value, saturate)) {}
  constexpr explicit F8E5M2FNUZ(double value, bool saturate = true) : bits(double_to_f8e5m2fnuz(value, saturate)) {}
  constexpr explicit operator float() const { return f8e5m2fnuz_to_float(bits); }
};
struct F8E8M0 {
  uint8_t bits = 0;
  F8E8M0() = default;
  constexpr explicit F8E8M0(float value, bool saturate = true, PowerRounding rounding = PowerRounding::up)
      : bits(float_to_f8e8m0(value, saturate, rounding)) {}
  constexpr explicit F8E8M0(double value, bool saturate = true, PowerRounding rounding = PowerRounding::up)
      : bits(double_to_f8e8m0(value, saturate, rounding)) {}
  constexpr explicit operator float() const { return f8e8m0_to_float(bits); }
};

}  // namespace camshaft
