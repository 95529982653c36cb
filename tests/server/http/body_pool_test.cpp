#include "server/http/body_pool.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "server/core/status.h"

namespace camshaft::server::body_pool_test {
namespace {

TEST(BodyPool, AlignedAndUsedAgain) {
  const auto memory = std::make_shared<RequestMemory>(1 << 20);
  BodyPool pool(memory);
  const std::byte* first = nullptr;
  {
    const Body body = pool.take(5000);
    EXPECT_EQ(body.span.size(), 5000u);
    first = body.span.data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    EXPECT_EQ(memory->in_use(), 8192u);
  }
  EXPECT_EQ(memory->in_use(), 0u);
  EXPECT_EQ(pool.take(8192).span.data(), first);
  EXPECT_NE(pool.take(8193).span.data(), first);
}

TEST(BodyPool, LimitHolds) {
  const auto memory = std::make_shared<RequestMemory>(16384);
  BodyPool pool(memory);
  const Body one = pool.take(8000);
  Body two = pool.take(8000);
  EXPECT_THROW(pool.take(1), ServerError);
  two = {};
  EXPECT_NO_THROW(pool.take(1));
  EXPECT_THROW(pool.take(uint64_t{1} << 62), ServerError);
  EXPECT_EQ(memory->in_use(), 8192u);
}

TEST(BodyPool, BodiesOutliveIt) {
  Body body;
  {
    BodyPool pool(std::make_shared<RequestMemory>(1 << 20));
    body = pool.take(100);
  }
  body.span[99] = std::byte{1};
}

}  // namespace
}  // namespace camshaft::server::body_pool_test
