#include "backends/cpu/kernels/move/concat.h"

#include <gtest/gtest.h>

#include <cstring>

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

}  // namespace
}  // namespace camshaft::cpu::concat_test
