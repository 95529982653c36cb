#include "backends/cpu/kernels/move/concat.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"

namespace camshaft::cpu::concat_test {
namespace {

std::vector<uint8_t> bytes(RandomData& data, int64_t n) {
  std::vector<uint8_t> values(static_cast<size_t>(n));
  for (uint8_t& v : values) v = static_cast<uint8_t>(data.integer(0, 255));
  return values;
}

TEST(Concat, EmptyPartsToo) {
  RandomData data;
  for (int round = 0; round < 30; ++round) {
    // More rows than are copied one part after the other, too.
    const int64_t outer = round % 4 == 0 ? 1 : data.integer(0, round % 4 == 1 ? 900 : 50);
    const int64_t sizes[3] = {data.integer(0, 3000), 0, data.integer(1, 9)};
    std::vector<uint8_t> parts[3];
    const void* in[3];
    for (int k = 0; k < 3; ++k) {
      parts[k] = bytes(data, outer * sizes[k]);
      in[k] = parts[k].data();
    }
    const int64_t row = sizes[0] + sizes[2];
    std::vector<uint8_t> whole(static_cast<size_t>(outer * row));
    ThreadPool pool(1 + round % 3);
    concat(pool, outer, 3, sizes, in, whole.data());
    for (int64_t o = 0; o < outer; ++o) {
      ASSERT_EQ(std::memcmp(&whole[static_cast<size_t>(o * row)], parts[0].data() + o * sizes[0],
                            static_cast<size_t>(sizes[0])),
                0);
      ASSERT_EQ(std::memcmp(&whole[static_cast<size_t>(o * row + sizes[0])], parts[2].data() + o * sizes[2],
                            static_cast<size_t>(sizes[2])),
                0);
    }
  }
}

// One element of each: vectors of them are interleaved, by each instruction set and with what no vector is left for.
TEST(Concat, ElementsOfEqualParts) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t width = int64_t{1} << data.integer(0, 3), outer = data.integer(2, round % 5 ? 200 : 30000);
      const int parts = static_cast<int>(data.integer(2, 5));
      std::vector<uint8_t> from[5];
      const void* in[5];
      int64_t sizes[5];
      for (int k = 0; k < parts; ++k) {
        sizes[k] = width;
        from[k] = bytes(data, outer * width);
        in[k] = from[k].data();
      }
      const auto size = static_cast<size_t>(outer * parts * width);
      std::vector<uint8_t> whole(size + 1, 77);
      ThreadPool pool(1 + round % 3);
      concat(pool, outer, parts, sizes, in, whole.data());
      for (int64_t i = 0; i < outer * parts; ++i)
        ASSERT_EQ(std::memcmp(&whole[static_cast<size_t>(i * width)], from[i % parts].data() + i / parts * width,
                              static_cast<size_t>(width)),
                  0);
      ASSERT_EQ(whole[size], 77);
    }
  });
}

// Parts of single elements and a few, of as many rows as are copied part by part and more: nothing is written behind.
TEST(Concat, ShortParts) {
  RandomData data;
  for (int round = 0; round < 200; ++round) {
    const int64_t outer = data.integer(2, round % 10 ? 300 : 30000);
    const int parts = static_cast<int>(data.integer(2, 5));
    int64_t sizes[5], row = 0;
    std::vector<uint8_t> from[5];
    const void* in[5];
    for (int k = 0; k < parts; ++k) {
      sizes[k] = data.integer(0, 3) ? data.integer(1, round % 2 ? 5 : 80) : data.integer(0, 8);
      row += sizes[k];
      from[k] = bytes(data, outer * sizes[k]);
      in[k] = from[k].data();
    }
    std::vector<uint8_t> whole(static_cast<size_t>(outer * row + 1));
    whole.back() = 77;
    ThreadPool pool(1 + round % 3);
    concat(pool, outer, parts, sizes, in, whole.data());
    EXPECT_EQ(whole.back(), 77);
    int64_t offset = 0;
    for (int k = 0; k < parts; offset += sizes[k], ++k)
      for (int64_t o = 0; o < outer; ++o)
        ASSERT_EQ(
            std::memcmp(whole.data() + o * row + offset, from[k].data() + o * sizes[k], static_cast<size_t>(sizes[k])),
            0)
            << "part " << k << " of " << sizes[k] << " bytes, row " << o;
  }
}

}  // namespace
}  // namespace camshaft::cpu::concat_test
