#include "backends/cpu/kernels/move/fill.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"

namespace camshaft::cpu::fill_test {
namespace {

constexpr uint8_t guard = 0x5a;

// Short ones, and what is written past the caches (from 16 MiB on), wherever they begin.
TEST(Fill, RepeatsAnElementAndWritesNothingElse) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const int64_t width = std::vector<int64_t>{1, 2, 4, 8, 16}[static_cast<size_t>(round % 5)];
      const bool large = round < 20;
      const int64_t bytes = large ? (int64_t{16} << 20) + data.integer(-100, 300) : data.integer(0, 700);
      const int64_t count = bytes / width, before = data.integer(0, 70), behind = 64;
      std::vector<uint8_t> element(static_cast<size_t>(width));
      for (uint8_t& byte : element) byte = static_cast<uint8_t>(data.integer(0, 255));
      std::vector<uint8_t> memory(static_cast<size_t>(before + count * width + behind), guard);
      fill_elements(width, element.data(), memory.data() + before, count);
      SCOPED_TRACE(std::to_string(count) + " elements of " + std::to_string(width) + " bytes behind " +
                   std::to_string(before));
      for (int64_t i = 0; i < before; ++i) ASSERT_EQ(memory[static_cast<size_t>(i)], guard);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(std::memcmp(memory.data() + before + i * width, element.data(), element.size()), 0) << i;
      for (int64_t i = before + count * width; i < std::ssize(memory); ++i)
        ASSERT_EQ(memory[static_cast<size_t>(i)], guard) << "behind the last";
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::fill_test
