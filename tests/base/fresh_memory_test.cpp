#include "base/fresh_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace camshaft::fresh_memory_test {
namespace {

constexpr size_t page = 4096, huge = size_t{2} << 20;

bool is_zeros(const FreshMemory& memory) {
  return std::all_of(memory.data(), memory.data() + memory.bytes(), [](std::byte b) { return b == std::byte{0}; });
}

TEST(FreshMemory, IsZerosThatMoveToWhereTheyBelong) {
  for (const size_t bytes : {page, huge - page, huge, 3 * huge + page}) {
    void* const place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(place, MAP_FAILED);
    {
      FreshMemory memory(bytes);
      EXPECT_EQ(memory.bytes(), bytes);
      EXPECT_TRUE(is_zeros(memory));
      std::memset(memory.data(), 7, bytes);
      ASSERT_TRUE(memory.move_to(static_cast<std::byte*>(place)));
    }
    const auto* const moved = static_cast<const std::byte*>(place);
    EXPECT_TRUE(std::all_of(moved, moved + bytes, [](std::byte b) { return b == std::byte{7}; }));
    munmap(place, bytes);
  }
}

TEST(FreshMemory, ShortenedItHasItsFirstBytes) {
  FreshMemory memory(3 * huge);
  std::memset(memory.data(), 7, 3 * huge);
  memory.shorten(huge + page);
  EXPECT_EQ(memory.bytes(), huge + page);
  EXPECT_EQ(memory.data()[huge + page - 1], std::byte{7});
  memory.shorten(2 * huge);  // is longer than it is
  EXPECT_EQ(memory.bytes(), huge + page);
}

TEST(FreshMemory, TooMuchIsAnError) {
  EXPECT_THROW(FreshMemory(size_t{1} << 60), Error);
}

TEST(MemoryAhead, GivesWhatIsAskedForWhateverWasMadeReady) {
  MemoryAhead ahead;
  EXPECT_EQ(ahead.take(huge)->bytes(), huge);  // of none
  for (const size_t ready : {size_t{0}, page, huge, 4 * huge})
    for (const size_t asked : {page, huge, 2 * huge}) {
      ahead.prepare(ready);
      const auto memory = ahead.take(asked);
      EXPECT_EQ(memory->bytes(), asked);
      EXPECT_TRUE(is_zeros(*memory));
      std::memset(memory->data(), 7, asked);
    }
  ahead.prepare(huge);
  ahead.prepare(0);
  EXPECT_EQ(ahead.take(page)->bytes(), page);
  ahead.prepare(huge);  // and is destroyed with it
}

TEST(MemoryAhead, WhatCannotBeMadeReadyFailsWhereItIsTaken) {
  MemoryAhead ahead;
  ahead.prepare(size_t{1} << 60);
  EXPECT_THROW(ahead.take(size_t{1} << 60), Error);
  EXPECT_EQ(ahead.take(page)->bytes(), page);
}

}  // namespace
}  // namespace camshaft::fresh_memory_test
