#include "base/index_range.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/divide_up.h"
#include "test_random.h"

namespace camshaft::index_range_test {
namespace {

TEST(IndexRange, AsByTryingEachIndex) {
  Random random = test_random();
  for (int round = 0; round < 5000; ++round) {
    const int64_t start = random.integer(-30, 30), step = random.integer(1, 7), size = random.integer(0, 20);
    const int64_t count = random.integer(0, 12), extent = random.integer(1, 9);
    int64_t inside = 0, whole = 0, first_inside = count, first_whole = count;
    for (int64_t i = count; i-- > 0;) {
      const int64_t at = start + i * step;
      if (at >= 0 && at < size) ++inside, first_inside = i;
      if (at >= 0 && at + extent <= size) ++whole, first_whole = i;
    }
    const IndexRange found = indices_inside(start, step, size, count);
    const IndexRange windows = windows_inside(start, step, extent, size, count);
    SCOPED_TRACE(testing::Message() << start << " + i * " << step << " in " << size << ", " << count << " of them, "
                                    << extent << " long");
    ASSERT_LE(found.first, found.past);
    ASSERT_EQ(found.past - found.first, inside);
    if (inside > 0) {
      ASSERT_EQ(found.first, first_inside);
    }
    ASSERT_LE(windows.first, windows.past);
    ASSERT_EQ(windows.past - windows.first, whole);
    if (whole > 0) {
      ASSERT_EQ(windows.first, first_whole);
    }
  }
}

TEST(IndexRange, NumbersAtTheEndsOfTheirType) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(indices_inside(-1, most, 5, most).first, 1);
  EXPECT_EQ(indices_inside(-1, most, 5, most).past, 1);
  EXPECT_EQ(indices_inside(0, 1, most, most).past, most);
  EXPECT_EQ(indices_inside(most, 1, 5, 3).past, 0);
}

TEST(DivideUp, PiecesAndMultiples) {
  EXPECT_EQ(divide_up(0, 4), 0);
  EXPECT_EQ(divide_up(8, 4), 2);
  EXPECT_EQ(divide_up(9, 4), 3);
  EXPECT_EQ(round_up(0, 16), 0);
  EXPECT_EQ(round_up(16, 16), 16);
  EXPECT_EQ(round_up(17, 16), 32);
}

}  // namespace
}  // namespace camshaft::index_range_test
