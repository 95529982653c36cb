#include "server/core/response_cache.h"

#include <gtest/gtest.h>

#include "server/core/make_pending.h"

namespace camshaft::server::response_cache_test {
namespace {

ResponseCache::Key key_of(float value, int64_t size, uint64_t owner = 1) {
  ModelStatistics statistics;
  return ResponseCache::key(*make_pending(statistics, std::make_shared<Answer>(), 1, size, Clock::now(), value), owner);
}

TEST(ResponseCache, KeysTellValuesShapesAndOwnersApart) {
  EXPECT_EQ(key_of(1, 4), key_of(1, 4));
  EXPECT_NE(key_of(1, 4), key_of(2, 4));
  EXPECT_NE(key_of(1, 4), key_of(1, 5));
  EXPECT_NE(key_of(1, 4, 1), key_of(1, 4, 2));
  EXPECT_NE(ResponseCache::next_owner(), ResponseCache::next_owner());
}

TEST(ResponseCache, GivesBackCopies) {
  ResponseCache cache(10000);
  std::vector<float> values = {1, 2};
  cache.insert({1, 1}, {{"y", DType::f32, {2}, {std::as_bytes(std::span(values)), nullptr}}});
  values = {8, 9};
  const auto found = cache.find({1, 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(*reinterpret_cast<const float*>(found->front().data.span.data()), 1);
  EXPECT_FALSE(cache.find({1, 2}));
}

TEST(ResponseCache, ForgetsWhatWasUsedLongestAgo) {
  ResponseCache cache(3 * 1300);
  for (uint64_t i = 0; i < 3; ++i) cache.insert({i, 0}, {float_tensor("y", {256}, static_cast<float>(i))});
  EXPECT_TRUE(cache.find({0, 0}));
  cache.insert({3, 0}, {float_tensor("y", {256}, 3)});
  EXPECT_TRUE(cache.find({0, 0}));
  EXPECT_FALSE(cache.find({1, 0}));
  EXPECT_TRUE(cache.find({3, 0}));
  cache.insert({4, 0}, {float_tensor("y", {100000}, 3)});  // larger than all of it
  EXPECT_FALSE(cache.find({4, 0}));
  EXPECT_TRUE(cache.find({0, 0}));
}

}  // namespace
}  // namespace camshaft::server::response_cache_test
