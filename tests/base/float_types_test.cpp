#include "base/float_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "test_random.h"

namespace camshaft::float_types_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// The oracle knows nothing of bit tricks: the values of all codes, computed by their definition, and a search.
struct Oracle {
  struct Entry {
    double value;
    uint32_t code;
  };
  std::vector<Entry> positive;  // finite, ascending; one more at the end stands for the overflow

  Oracle(int exponent_bits, int mantissa_bits, uint32_t largest) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    for (uint32_t code = 0; code <= largest + 1; ++code) {
      const int exponent = static_cast<int>(code >> mantissa_bits);
      const double mantissa = static_cast<double>(code & ((1u << mantissa_bits) - 1));
      const double one = static_cast<double>(1 << mantissa_bits);
      positive.push_back(
          {exponent == 0 ? std::ldexp(mantissa / one, 1 - bias) : std::ldexp(1 + mantissa / one, exponent - bias),
           code});
    }
  }
  double largest() const { return positive[positive.size() - 2].value; }
  uint32_t overflow_code() const { return positive.back().code; }

  uint32_t round(double magnitude) const {
    const auto above = std::lower_bound(positive.begin(), positive.end(), magnitude,
                                        [](const Entry& entry, double value) { return entry.value < value; });
    if (above == positive.end()) return overflow_code();
    if (above == positive.begin()) return above->code;
    const auto below = above - 1;
    const double up = above->value - magnitude, down = magnitude - below->value;
    if (up != down) return up < down ? above->code : below->code;
    return above->code % 2 == 0 ? above->code : below->code;
  }
};

// Random values of all magnitudes near the format's range, every value of the format, every midpoint, and the floats
// right beside each.
std::vector<double> interesting(const Oracle& oracle, Random& random) {
  std::vector<double> values;
  const auto add = [&](double value) {
    values.insert(values.end(), {value, static_cast<double>(std::nextafterf(static_cast<float>(value), inf)),
                                 static_cast<double>(std::nextafterf(static_cast<float>(value), 0.0f)),
                                 std::nextafter(value, 1e300), std::nextafter(value, 0.0)});
  };
  for (size_t i = 0; i + 1 < oracle.positive.size(); ++i) {
    add(oracle.positive[i].value);
    add((oracle.positive[i].value + oracle.positive[i + 1].value) / 2);
  }
  const int low = std::ilogb(oracle.positive[1].value) - 3, high = std::ilogb(oracle.largest()) + 3;
  for (int i = 0; i < 20000; ++i) {
    const int exponent = low + static_cast<int>(random.integer(0, high - low - 1));
    values.push_back(std::ldexp(1 + static_cast<double>(random.integer(0, (1 << 20) - 1)) / (1 << 20), exponent));
  }
  return values;
}

template <class FromFloat, class FromDouble, class ToFloat>
void check(const Oracle& oracle, int bits, uint32_t overflow, FromFloat from_float, FromDouble from_double,
           ToFloat to_float) {
  Random random = test_random();
  const uint32_t sign = 1u << (bits - 1);
  for (const double value : interesting(oracle, random)) {
    const auto single = static_cast<float>(value);
    const auto expect = [&](double v) {
      const uint32_t code = oracle.round(v);
      return code == oracle.overflow_code() ? overflow : code;
    };
    ASSERT_EQ(from_float(single), expect(static_cast<double>(single))) << single;
    ASSERT_EQ(from_float(-single), expect(static_cast<double>(single)) | sign) << single;
    ASSERT_EQ(from_double(value), expect(value)) << value;
    ASSERT_EQ(from_double(-value), expect(value) | sign) << value;
  }
  for (size_t i = 0; i + 1 < oracle.positive.size(); ++i) {
    const auto& [value, code] = oracle.positive[i];
    ASSERT_EQ(static_cast<double>(to_float(code)), value);
    ASSERT_EQ(static_cast<double>(to_float(code | sign)), -value);
    ASSERT_TRUE(std::signbit(to_float(code | sign)));
  }
}

TEST(FloatTypes, f16_rounds_to_nearest_even) {
  check(
      Oracle(5, 10, 0x7bff), 16, 0x7c00, [](float v) { return float_to_f16(v); },
      [](double v) { return double_to_f16(v); }, [](uint32_t c) { return f16_to_float(static_cast<uint16_t>(c)); });
}

TEST(FloatTypes, bf16_rounds_to_nearest_even) {
  check(
      Oracle(8, 7, 0x7f7f), 16, 0x7f80, [](float v) { return float_to_bf16(v); },
      [](double v) { return double_to_bf16(v); }, [](uint32_t c) { return bf16_to_float(static_cast<uint16_t>(c)); });
}

TEST(FloatTypes, f8e4m3_rounds_to_nearest_even) {
  for (const bool saturate : {true, false}) {
    check(
        Oracle(4, 3, 0x7e), 8, saturate ? 0x7e : 0x7f, [=](float v) { return float_to_f8e4m3(v, saturate); },
        [=](double v) { return double_to_f8e4m3(v, saturate); },
        [](uint32_t c) { return f8e4m3_to_float(static_cast<uint8_t>(c)); });
  }
}

TEST(FloatTypes, f8e5m2_rounds_to_nearest_even) {
  for (const bool saturate : {true, false}) {
    check(
        Oracle(5, 2, 0x7b), 8, saturate ? 0x7b : 0x7c, [=](float v) { return float_to_f8e5m2(v, saturate); },
        [=](double v) { return double_to_f8e5m2(v, saturate); },
        [](uint32_t c) { return f8e5m2_to_float(static_cast<uint8_t>(c)); });
  }
}

TEST(FloatTypes, f4e2m1_rounds_to_nearest_even) {
  check(
      Oracle(2, 1, 7), 4, 7, [](float v) { return float_to_f4e2m1(v); }, [](double v) { return double_to_f4e2m1(v); },
      [](uint32_t c) { return f4e2m1_to_float(static_cast<uint8_t>(c)); });
}

TEST(FloatTypes, fnuz_types_round_to_nearest_even) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const float e4 = f8e4m3fnuz_to_float(byte), e5 = f8e5m2fnuz_to_float(byte);
    EXPECT_EQ(std::isnan(e4), code == 0x80);
    EXPECT_EQ(std::isnan(e5), code == 0x80);
    EXPECT_EQ(float_to_f8e4m3fnuz(e4), byte);
    EXPECT_EQ(float_to_f8e5m2fnuz(e5), byte);
    if (code == 0x80) continue;
    // Half of what the types of the same widths with the usual exponent mean.
    EXPECT_TRUE((code & 0x7f) == 0x7f || e4 * 2 == f8e4m3_to_float(byte)) << code;
    EXPECT_TRUE((code & 0x7f) >= 0x7c || e5 * 2 == f8e5m2_to_float(byte)) << code;
    const auto next = static_cast<uint8_t>(code + 1);
    if ((code & 0x7f) == 0x7f || code == 0xff) continue;
    const float tie = (e4 + f8e4m3fnuz_to_float(next)) / 2, even = code % 2 ? f8e4m3fnuz_to_float(next) : e4;
    EXPECT_EQ(f8e4m3fnuz_to_float(float_to_f8e4m3fnuz(tie)), even);
    EXPECT_EQ(f8e4m3fnuz_to_float(double_to_f8e4m3fnuz(tie + (e4 - tie) * 1e-12)), e4);
  }
  EXPECT_EQ(f8e4m3fnuz_to_float(0x7f), 240);
  EXPECT_EQ(f8e5m2fnuz_to_float(0x7f), 57344);
  EXPECT_EQ(float_to_f8e4m3fnuz(-0.0f), 0);
  EXPECT_EQ(float_to_f8e4m3fnuz(-1e-9f), 0);
  EXPECT_EQ(float_to_f8e4m3fnuz(-inf), 0xff);
  EXPECT_EQ(float_to_f8e4m3fnuz(-inf, false), 0x80);
  EXPECT_EQ(float_to_f8e5m2fnuz(1e9f), 0x7f);
  EXPECT_EQ(float_to_f8e5m2fnuz(1e9f, false), 0x80);
  EXPECT_EQ(float_to_f8e5m2fnuz(nan), 0x80);
}

TEST(FloatTypes, f8e8m0_holds_powers_of_two) {
  for (int code = 0; code < 255; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const double value = std::ldexp(1.0, code - 127);
    EXPECT_EQ(static_cast<double>(f8e8m0_to_float(byte)), value);
    for (const auto rounding : {PowerRounding::up, PowerRounding::down, PowerRounding::nearest})
      EXPECT_EQ(double_to_f8e8m0(value, false, rounding), byte);
    if (code == 254) break;
    EXPECT_EQ(double_to_f8e8m0(value * 1.49, true, PowerRounding::nearest), byte);
    EXPECT_EQ(double_to_f8e8m0(value * 1.5, true, PowerRounding::nearest), byte + 1);
    EXPECT_EQ(double_to_f8e8m0(value * 1.01), byte + 1);
    EXPECT_EQ(double_to_f8e8m0(value * 1.99, true, PowerRounding::down), byte);
  }
  EXPECT_TRUE(std::isnan(f8e8m0_to_float(0xff)));
  EXPECT_EQ(float_to_f8e8m0(nan), 0xff);
  EXPECT_EQ(float_to_f8e8m0(0), 0);
  EXPECT_EQ(float_to_f8e8m0(0, false, PowerRounding::nearest), 0xff);
  EXPECT_EQ(float_to_f8e8m0(1e-45f), 0);
  EXPECT_EQ(float_to_f8e8m0(inf), 0xfe);
  EXPECT_EQ(float_to_f8e8m0(inf, false), 0xff);
  EXPECT_EQ(float_to_f8e8m0(0x1.8p127f), 0xfe);
  EXPECT_EQ(float_to_f8e8m0(0x1.8p127f, false, PowerRounding::nearest), 0xff);
  EXPECT_EQ(double_to_f8e8m0(1e300), 0xfe);
}

TEST(FloatTypes, infinities_and_nan_follow_onnx_cast) {
  EXPECT_EQ(float_to_f16(inf), 0x7c00);
  EXPECT_EQ(float_to_f16(-inf), 0xfc00);
  EXPECT_EQ(float_to_f16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(f16_to_float(0xfc00), -inf);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(nan))));
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(std::bit_cast<float>(0xff800001u)))));
  EXPECT_EQ(float_to_bf16(inf), 0x7f80);
  EXPECT_EQ(float_to_bf16(-inf), 0xff80);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7fffffffu)))));

  EXPECT_EQ(float_to_f8e4m3(inf), 0x7e);
  EXPECT_EQ(float_to_f8e4m3(-inf), 0xfe);
  EXPECT_EQ(float_to_f8e4m3(-inf, false), 0xff);
  EXPECT_EQ(float_to_f8e4m3(464.0f, false), 0x7e);  // the tie between 448 and the next step goes to 448
  EXPECT_EQ(float_to_f8e4m3(465.0f, false), 0x7f);
  EXPECT_TRUE(std::isnan(f8e4m3_to_float(float_to_f8e4m3(nan))));
  EXPECT_EQ(float_to_f8e5m2(inf), 0x7b);
  EXPECT_EQ(float_to_f8e5m2(-inf, false), 0xfc);
  EXPECT_EQ(f8e5m2_to_float(0xfc), -inf);
  EXPECT_TRUE(std::isnan(f8e5m2_to_float(float_to_f8e5m2(nan, false))));

  EXPECT_EQ(float_to_f4e2m1(inf), 7);
  EXPECT_EQ(float_to_f4e2m1(-inf), 15);
  EXPECT_EQ(float_to_f4e2m1(nan), 8);
  EXPECT_TRUE(std::isnan(f16_to_float(double_to_f16(std::nan("")))));
  EXPECT_EQ(double_to_f16(1e300), 0x7c00);
  EXPECT_EQ(double_to_f16(-1e300), 0xfc00);
  EXPECT_EQ(double_to_f16(1e-300), 0);
}

TEST(FloatTypes, from_double_rounds_once) {
  // Just above the tie between 1 and 1 + 2^-10: through float it would be the tie, and go down to even.
  const double value = 1 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(double_to_f16(value), 0x3c01);
  EXPECT_EQ(float_to_f16(static_cast<float>(value)), 0x3c00);
  EXPECT_EQ(static_cast<float>(F16(-value)), -(1 + 0x1p-10f));
  EXPECT_EQ(static_cast<float>(BF16(3.0f)), 3.0f);
  EXPECT_EQ(static_cast<float>(F8E4M3(1e9)), 448.0f);
  EXPECT_EQ(static_cast<float>(F8E5M2(1e9f, false)), inf);
}

TEST(FloatTypes, bulk_agrees_with_single_values) {
  Random random = test_random();
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::f4e2m1}) {
    for (const int64_t count : {0, 1, 2, 3, 17, 100}) {
      // Small halves: exact in all the types.
      std::vector<float> values(count), back(count + 1, -77.0f);
      for (float& value : values) value = static_cast<float>(random.integer(-3, 3)) / 2;
      std::vector<uint8_t> bytes(byte_size(dtype, count) + 1, 0xa5);
      convert_from_float(dtype, values.data(), bytes.data(), count);
      convert_to_float(dtype, bytes.data(), back.data(), count);
      EXPECT_EQ(bytes.back(), 0xa5);
      EXPECT_EQ(back.back(), -77.0f);
      back.pop_back();
      EXPECT_EQ(back, values) << to_string(dtype) << " " << count;
    }
  }
  uint8_t pair[2] = {0xff, 0xff};
  const float three[3] = {1, -6, 0.5f};
  convert_from_float(DType::f4e2m1, three, pair, 3);
  EXPECT_EQ(pair[0], 0xf2);  // the first element in the low half
  EXPECT_EQ(pair[1], 0x01);
  const float large = 1e6f;
  convert_from_float(DType::f8e5m2, &large, pair, 1, false);
  EXPECT_EQ(pair[0], 0x7c);
  EXPECT_THROW(convert_to_float(DType::i32, pair, nullptr, 0), Error);
  EXPECT_THROW(convert_from_float(DType::string, three, pair, 1), Error);
}

}  // namespace
}  // namespace camshaft::float_types_test
