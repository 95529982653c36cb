#include "base/memory_limit.h"

#include <gtest/gtest.h>

#include "base/aligned_buffer.h"
#include "base/error.h"

namespace camshaft::memory_limit_test {
namespace {

TEST(MemoryLimit, OneBufferIsAtMostTheMachinesMemory) {
  const size_t machine = largest_buffer();
  EXPECT_GT(machine, size_t{64} << 20);
  EXPECT_LT(machine, size_t{1} << 50);
  EXPECT_THROW(AlignedBuffer(machine + 1, "a test"), Error);
}

TEST(MemoryLimit, CanBeSet) {
  const size_t machine = largest_buffer();
  set_largest_buffer(1000);
  EXPECT_NO_THROW(AlignedBuffer(1000, "a test"));
  try {
    AlignedBuffer(1001, "a test");
    ADD_FAILURE() << "1001 bytes were given";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
  }
  set_largest_buffer(machine);
  EXPECT_NO_THROW(AlignedBuffer(1001, "a test"));
}

}  // namespace
}  // namespace camshaft::memory_limit_test
