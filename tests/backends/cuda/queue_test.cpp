// What a queue puts into its stream beside kernels.
#include "backends/cuda/driver/queue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "backends/cuda/run_node.h"
#include "test_random.h"

namespace camshaft::cuda::queue_test {
namespace {

// Of all sizes and at all places, as many as there may be, in both directions.
TEST(Queue, SmallCopiesMoveTheirBytesAlone) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  const auto queue = backend(0, cpu::backend())->make_queue();
  const size_t most = queue->most_small_copies();
  ASSERT_GT(most, 1U);
  constexpr size_t room = 9000;
  const auto pinned = queue->allocate_pinned(most * room, "a test"),
             back = queue->allocate_pinned(most * room, "a test");
  const auto on_device = queue->allocate(most * room, "a test");
  for (const size_t count : {most, size_t{1}}) {
    std::vector<std::byte> expected(most * room, std::byte{7}), seen(most * room);
    queue->copy_to_device(on_device.get(), expected);
    queue->synchronize();
    for (size_t i = 0; i < most * room; ++i) pinned.get()[i] = std::byte(random.integer(0, 255));
    std::memset(back.get(), 9, most * room);
    std::vector<SmallCopy> to, from;
    for (size_t i = 0; i < count; ++i) {
      const size_t bytes = i < 6 ? i + 1 : static_cast<size_t>(random.integer(1, 8192));
      const auto at = i * room + static_cast<size_t>(random.integer(0, 300)),
                 source = i * room + static_cast<size_t>(random.integer(0, 300));
      std::memcpy(expected.data() + at, pinned.get() + source, bytes);
      to.push_back({on_device.get() + at, pinned.get() + source, bytes});
      from.push_back({back.get() + source, on_device.get() + at, bytes});
    }
    queue->copy_small(to);
    queue->copy_small(from);
    queue->copy_to_host(seen, on_device.get());
    queue->synchronize();
    EXPECT_EQ(seen, expected) << count;
    std::vector<std::byte> returned(most * room, std::byte{9});
    for (const SmallCopy& copy : to) {
      const auto source = static_cast<size_t>(copy.from - pinned.get());
      std::memcpy(returned.data() + source, copy.from, copy.bytes);
    }
    EXPECT_EQ(std::memcmp(back.get(), returned.data(), returned.size()), 0) << count;
  }
}

// A kernel may read before its turn what no kernel before it writes: copies are none.
TEST(Queue, WhatComesBehindSmallCopiesDoesNotStartEarly) {
  SKIP_WITHOUT_GPU();
  const auto made = backend(0, cpu::backend())->make_queue();
  auto& queue = static_cast<Queue&>(*made);
  const auto pinned = queue.allocate_pinned(64, "a test");
  const auto on_device = queue.allocate(64, "a test");
  EXPECT_FALSE(queue.stream().take_wait());
  queue.copy_small(std::vector<SmallCopy>{{on_device.get(), pinned.get(), 64}});
  EXPECT_TRUE(queue.stream().take_wait());
  queue.synchronize();
}

}  // namespace
}  // namespace camshaft::cuda::queue_test
