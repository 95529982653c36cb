#include "server/core/classification.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace camshaft::server::classification_test {
namespace {

template <class T>
std::vector<std::string> classes_of(const std::vector<T>& values, DType dtype, std::vector<int64_t> shape,
                                    int64_t count, bool batched, std::vector<int64_t> expected_shape,
                                    const std::vector<std::string>& labels = {}) {
  const NamedTensor made =
      classified({"o", dtype, std::move(shape), {std::as_bytes(std::span(values)), nullptr}}, count, batched, labels);
  EXPECT_EQ(made.dtype, DType::string);
  EXPECT_EQ(made.shape, expected_shape);
  std::vector<std::string> texts;
  for (auto rest = made.data.span; !rest.empty();) {
    uint32_t size = 0;
    std::memcpy(&size, rest.data(), 4);
    texts.emplace_back(reinterpret_cast<const char*>(rest.data() + 4), size);
    rest = rest.subspan(4 + size);
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Classification, LargestFirst) {
  const std::vector<float> values = {0.1f, 0.7f, 0.2f, NAN, 0.7f};
  EXPECT_EQ(classes_of(values, DType::f32, {5}, 3, false, {3}), (Texts{"0.700000:1", "0.700000:4", "0.200000:2"}));
  EXPECT_EQ(classes_of(values, DType::f32, {5}, 9, false, {5}).back(), "nan:3");
  EXPECT_EQ(classes_of(values, DType::f32, {5}, 2, false, {2}, {"cat", "dog"}),
            (Texts{"0.700000:1:dog", "0.700000:4"}));
}

TEST(Classification, EachOfABatch) {
  const std::vector<int8_t> values = {1, -5, 3, 2, 9, 9};
  EXPECT_EQ(classes_of(values, DType::i8, {2, 3}, 1, true, {2, 1}), (Texts{"3:2", "9:1"}));
  EXPECT_EQ(classes_of(values, DType::i8, {2, 3}, 1, false, {1}), (Texts{"9:4"}));
  EXPECT_EQ(classes_of(std::vector<int8_t>{}, DType::i8, {0, 3}, 1, true, {0, 0}), Texts{});
  EXPECT_EQ(classes_of(std::vector<uint64_t>{~uint64_t{0}, 1}, DType::u64, {1, 2}, 1, true, {1, 1}),
            (Texts{"18446744073709551615:0"}));
}

TEST(Classification, WhatIsRefused) {
  const std::vector<float> few = {1, 2};
  const Bytes bytes{std::as_bytes(std::span(few)), nullptr};
  EXPECT_THROW(classified({"o", DType::f16, {2}, bytes}, 1, false, {}), ServerError);
  EXPECT_THROW(classified({"o", DType::string, {2}, bytes}, 1, false, {}), ServerError);
  EXPECT_THROW(classified({"o", DType::f32, {3}, bytes}, 1, false, {}), ServerError);
  EXPECT_THROW(classified({"o", DType::f32, {2'000'000}, bytes}, 1, false, {}), ServerError);
}

}  // namespace
}  // namespace camshaft::server::classification_test
