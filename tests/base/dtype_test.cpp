#include "base/dtype.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace camshaft::dtype_test {
namespace {

TEST(DType, names_parse_back) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  }
  EXPECT_EQ(to_string(DType::boolean), "bool");
  EXPECT_EQ(to_string(DType::bf16), "bf16");
}

TEST(DType, an_unknown_name_lists_the_known_ones) {
  try {
    parse_dtype("float32");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("'float32'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("f4e2m1"), std::string::npos);
  }
}

TEST(DType, sizes) {
  EXPECT_EQ(bit_width(DType::f64), 64);
  EXPECT_EQ(bit_width(DType::f16), 16);
  EXPECT_EQ(bit_width(DType::f8e5m2), 8);
  EXPECT_EQ(bit_width(DType::u4), 4);
  EXPECT_EQ(bit_width(DType::boolean), 8);
  EXPECT_EQ(byte_size(DType::f32, 3), 12u);
  EXPECT_EQ(byte_size(DType::i4, 0), 0u);
  EXPECT_EQ(byte_size(DType::i4, 3), 2u);
  EXPECT_EQ(byte_size(DType::f4e2m1, 4), 2u);
  EXPECT_EQ(bit_width(DType::u2), 2);
  EXPECT_EQ(byte_size(DType::i2, 0), 0u);
  EXPECT_EQ(byte_size(DType::i2, 4), 1u);
  EXPECT_EQ(byte_size(DType::u2, 5), 2u);
  EXPECT_TRUE(is_packed(DType::u2) && is_packed(DType::f4e2m1));
  EXPECT_FALSE(is_packed(DType::u8) || is_packed(DType::string));
  EXPECT_EQ(byte_size(DType::i4, INT64_MAX), size_t{1} << 62);
  EXPECT_THROW(bit_width(DType::string), Error);
  EXPECT_THROW(byte_size(DType::f32, -1), Error);
  EXPECT_THROW(byte_size(DType::f32, INT64_MAX), Error);
  EXPECT_THROW(byte_size(static_cast<DType>(dtype_count), 1), Error);
}

TEST(DType, classes) {
  EXPECT_TRUE(is_floating(DType::f4e2m1));
  EXPECT_FALSE(is_floating(DType::i64));
  EXPECT_TRUE(is_integer(DType::i64));
  EXPECT_TRUE(is_integer(DType::u4));
  EXPECT_FALSE(is_integer(DType::boolean));
  EXPECT_FALSE(is_integer(DType::f32));
  EXPECT_TRUE(is_signed(DType::f64));
  EXPECT_TRUE(is_signed(DType::i4));
  EXPECT_FALSE(is_signed(DType::u8));
  EXPECT_FALSE(is_signed(DType::string));
}

}  // namespace
}  // namespace camshaft::dtype_test
