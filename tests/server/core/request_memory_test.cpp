#include "server/core/request_memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/core/status.h"

namespace camshaft::server::request_memory_test {
namespace {

TEST(RequestMemory, HoldsNoMoreThanItMay) {
  const auto memory = std::make_shared<RequestMemory>(100);
  auto first = memory->hold(60);
  EXPECT_THROW(memory->hold(41), ServerError);
  const auto second = memory->hold(40);
  EXPECT_EQ(memory->in_use(), 100U);
  try {
    memory->take(1);
    FAIL();
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), StatusCode::resource_exhausted);
    EXPECT_NE(std::string(error.what()).find("--request-memory-limit"), std::string::npos);
  }
  first.reset();
  EXPECT_EQ(memory->in_use(), 40U);
  EXPECT_NO_THROW(memory->hold(60));
}

TEST(RequestMemory, SizesThatNoMachineHas) {
  RequestMemory memory(100);
  memory.take(50);
  EXPECT_THROW(memory.take(std::numeric_limits<uint64_t>::max()), ServerError);
  EXPECT_THROW(memory.take(std::numeric_limits<uint64_t>::max() - 49), ServerError);
  EXPECT_EQ(memory.in_use(), 50U);
  EXPECT_GT(default_request_memory(), uint64_t{64} << 20);
}

}  // namespace
}  // namespace camshaft::server::request_memory_test
