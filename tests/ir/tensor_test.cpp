#include "ir/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace camshaft::tensor_test {
namespace {

TEST(Tensor, ElementCount) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3}), 6);
  EXPECT_EQ(element_count({2, 0, 3}), 0);
  EXPECT_THROW(element_count({2, -1}), Error);
  EXPECT_THROW(element_count({int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(element_count({0, int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(Tensor::elided(DType::f32, {int64_t{1} << 50}), Error);
  EXPECT_TRUE(Tensor::elided(DType::f32, {2}) == Tensor::elided(DType::f32, {2}));
  EXPECT_FALSE(Tensor::elided(DType::f32, {2}) == Tensor(DType::f32, {2}));
}

TEST(Tensor, StartsAtZeroAndAligned) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::i4, DType::boolean}) {
    const Tensor t(dtype, {3, 7});
    EXPECT_TRUE(t.defined());
    EXPECT_EQ(t.size(), 21);
    EXPECT_EQ(t.bytes(), byte_size(dtype, 21));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
    EXPECT_EQ(t.to_doubles(), std::vector<double>(21, 0.0));
  }
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(Tensor(DType::f32, {0, 4}).bytes(), 0u);
  EXPECT_EQ(Tensor(DType::string, {2}).as<std::string>()[1], "");
}

TEST(Tensor, TooLargeIsAnError) {
#if !defined(CAMSHAFT_SANITIZED)  // its allocator ends the program instead
  try {
    Tensor(DType::f32, {int64_t{1} << 45});
    FAIL() << "128 TiB were allocated";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
    EXPECT_NE(std::string(e.what()).find("f32[35184372088832]"), std::string::npos) << e.what();
  }
#endif
  EXPECT_THROW(Tensor(DType::f64, {std::numeric_limits<int64_t>::max()}), Error);
  EXPECT_THROW(Tensor(DType::string, {std::numeric_limits<int64_t>::max()}), Error);
}

TEST(Tensor, SharedBytesCannotBeWritten) {
  Tensor t = Tensor::of<float>(DType::f32, {2}, {1, 2});
  t.as_mutable<float>()[0] = 3;
  {
    Tensor copy = t;
    EXPECT_EQ(copy.data(), t.data());
    EXPECT_THROW(copy.mutable_data(), Error);
    EXPECT_THROW(t.mutable_data(), Error);
  }
  EXPECT_NO_THROW(t.mutable_data());
  EXPECT_EQ(t.to_doubles(), (std::vector<double>{3, 2}));
  const float outside[] = {5, 6};
  Tensor view(DType::f32, {2}, std::as_bytes(std::span(outside)), nullptr);
  EXPECT_EQ(view.to_doubles(), (std::vector<double>{5, 6}));
  EXPECT_THROW(view.mutable_data(), Error);
  EXPECT_THROW(Tensor(DType::f32, {3}, std::as_bytes(std::span(outside)), nullptr), Error);
}

TEST(Tensor, OfWantsAllElements) {
  EXPECT_THROW(Tensor::of<float>(DType::f32, {3}, {1, 2}), Error);
  EXPECT_THROW(Tensor::of<float>(DType::f16, {2}, {1, 2}), Error);
  EXPECT_THROW(Tensor::of<std::string>(DType::string, {1}, {"a", "b"}), Error);
  EXPECT_EQ(Tensor::of<uint8_t>(DType::i4, {3}, {0xf1, 0x08}).to_ints(), (std::vector<int64_t>{1, -1, -8}));
}

TEST(Tensor, ScalarsOfEachType) {
  for (int d = 0; d <= static_cast<int>(DType::boolean); ++d) {
    const auto dtype = static_cast<DType>(d);
    const Tensor t = Tensor::scalar(dtype, 1);
    EXPECT_EQ(t.rank(), 0);
    EXPECT_EQ(t.to_doubles(), std::vector<double>{1}) << to_string(dtype);
    if (is_signed(dtype)) {
      EXPECT_EQ(Tensor::scalar(dtype, -4).to_doubles(), std::vector<double>{-4}) << to_string(dtype);
    }
  }
  EXPECT_EQ(Tensor::scalar(DType::boolean, 7).to_ints(), std::vector<int64_t>{1});
  // One rounding: through float this would become 1 + 2^-9 instead of 1 + 2^-10.
  EXPECT_EQ(Tensor::scalar(DType::f16, 1 + 0x1.8p-10 - 0x1p-40).to_doubles(), std::vector<double>{1 + 0x1p-10});
  EXPECT_THROW(Tensor::scalar(DType::string, 1), Error);
  EXPECT_THROW(Tensor(DType::string, {1}).to_ints(), Error);
  EXPECT_EQ(Tensor::scalar(DType::f64, -0x1p63).to_ints(), std::vector<int64_t>{INT64_MIN});
  for (const double whole : {std::nan(""), HUGE_VAL, 0x1p63, -0x1.1p63}) {
    EXPECT_THROW(Tensor::scalar(DType::f64, whole).to_ints(), Error) << whole;
  }
}

TEST(Tensor, Equality) {
  const auto f32 = [](Dims dims, const std::vector<float>& v) { return Tensor::of(DType::f32, std::move(dims), v); };
  EXPECT_TRUE(f32({2}, {1, 2}) == f32({2}, {1, 2}));
  EXPECT_FALSE(f32({2}, {1, 2}) == f32({2}, {1, 3}));
  EXPECT_FALSE(f32({2}, {1, 2}) == f32({1, 2}, {1, 2}));
  EXPECT_FALSE(f32({1}, {0.0f}) == f32({1}, {-0.0f}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(f32({1}, {nan}) == f32({1}, {nan}));
  EXPECT_FALSE(Tensor(DType::f32, {0}) == Tensor());
  EXPECT_FALSE(Tensor(DType::i32, {2}) == Tensor(DType::u32, {2}));
  EXPECT_TRUE(Tensor::of<std::string>(DType::string, {1}, {"a"}) == Tensor::of<std::string>(DType::string, {1}, {"a"}));
  EXPECT_FALSE(Tensor::of<std::string>(DType::string, {1}, {"a"}) ==
               Tensor::of<std::string>(DType::string, {1}, {"b"}));
  // The last half byte of an odd number of 4-bit elements is no element.
  const auto u4 = [](uint8_t last) { return Tensor::of<uint8_t>(DType::u4, {3}, {0x21, last}); };
  EXPECT_TRUE(u4(0x03) == u4(0xf3));
  EXPECT_FALSE(u4(0x03) == u4(0x04));
}

TEST(Tensor, Reshaped) {
  const Tensor t = Tensor::from_ints({1, 2, 3, 4, 5, 6});
  const Tensor r = t.reshaped({2, 3});
  EXPECT_EQ(r.dims(), (Dims{2, 3}));
  EXPECT_EQ(r.data(), t.data());
  EXPECT_EQ(r.to_ints(), t.to_ints());
  EXPECT_THROW(t.reshaped({4}), Error);
}

TEST(Tensor, ScalarsOfNumbersThatTheTypeLacks) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto ints = [](DType dtype, double value) { return Tensor::scalar(dtype, value).to_ints()[0]; };
  EXPECT_EQ(ints(DType::i64, 1e300), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ints(DType::i64, -infinity), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(ints(DType::i32, -1.9), -1);
  EXPECT_EQ(ints(DType::u8, -1), 255);
  EXPECT_EQ(ints(DType::i8, std::nan("")), 0);
  EXPECT_EQ(ints(DType::i4, -infinity), 0);
  EXPECT_EQ(ints(DType::u2, infinity), 3);
  EXPECT_EQ(ints(DType::i4, -3), -3);
  EXPECT_EQ(Tensor::scalar(DType::u64, 1.5e19).as<uint64_t>()[0], 15000000000000000000u);
  EXPECT_EQ(Tensor::scalar(DType::u64, infinity).as<uint64_t>()[0], std::numeric_limits<uint64_t>::max());
}

}  // namespace
}  // namespace camshaft::tensor_test
