#include "base/large_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace camshaft::large_memory_test {
namespace {

constexpr size_t mib = size_t{1} << 20;

bool is_zero(const std::byte* data, size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(LargeMemory, IsAlignedClearedAndWritable) {
  for (const size_t bytes : {least_large, least_large + 1, 5 * mib + 7, 70 * mib})
    for (int again = 0; again < 3; ++again) {
      const auto memory = make_large(bytes, true);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % least_large, 0u);
      EXPECT_TRUE(is_zero(memory.get(), bytes)) << bytes << " bytes, time " << again;
      std::memset(memory.get(), 7, bytes);
    }
}

TEST(LargeMemory, IsUsedAgainByWhatFits) {
  auto memory = make_large(8 * mib, false);
  const std::byte* const data = memory.get();
  memory.reset();
  const size_t spare = spare_memory();
  EXPECT_GE(spare, 8 * mib);
  const auto small = make_large(2 * mib, false);  // half of it would lie idle
  EXPECT_NE(small.get(), data);
  memory = make_large(7 * mib, false);
  EXPECT_EQ(memory.get(), data);
  EXPECT_LE(spare_memory(), spare - 8 * mib);
}

TEST(LargeMemory, KeepsALittle) {
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < 20; ++i) held.push_back(make_large((2 + static_cast<size_t>(i)) * mib, false));
  held.clear();
  EXPECT_LE(spare_memory(), 64 * mib);
  make_large(100 * mib, false).reset();  // too large to be kept, nor may it drive the others out for nothing
  EXPECT_LE(spare_memory(), 64 * mib);
}

TEST(LargeMemory, KeepsMoreAsLongAsThereIsRoomForIt) {
  SpareRoom room;
  room.set(200 * mib);
  auto memory = make_large(150 * mib, false);
  const std::byte* const data = memory.get();
  memory.reset();
  EXPECT_GE(spare_memory(), 150 * mib);
  memory = make_large(140 * mib, true);
  EXPECT_EQ(memory.get(), data);
  EXPECT_TRUE(is_zero(memory.get(), 140 * mib));
  memory.reset();
  const auto other = make_large(300 * mib, false);  // for which new memory is needed
  EXPECT_LE(spare_memory(), 64 * mib);
  memory = make_large(150 * mib, false);
  memory.reset();
  EXPECT_GE(spare_memory(), 150 * mib);
  room.set(0);
  EXPECT_LE(spare_memory(), 64 * mib);
}

TEST(LargeMemory, AnImpossibleSize) {
  EXPECT_EQ(make_large(SIZE_MAX, false), nullptr);
  EXPECT_EQ(make_large(SIZE_MAX / 2, true), nullptr);
}

TEST(LargeMemory, OfSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        const size_t bytes = (2 + static_cast<size_t>((t + i) % 3) * 2) * mib;
        const auto memory = make_large(bytes, i % 2 == 0);
        ASSERT_TRUE(i % 2 != 0 || is_zero(memory.get(), bytes));
        std::memset(memory.get(), t + 1, bytes);
        ASSERT_TRUE(std::all_of(memory.get(), memory.get() + bytes,
                                [t](std::byte b) { return b == static_cast<std::byte>(t + 1); }));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace camshaft::large_memory_test
