#include "backends/cpu/kernels/move/fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/move/row_copy.h"
#include "backends/cpu/random_data.h"

namespace camshaft::cpu::fill_test {
namespace {

constexpr uint8_t guard = 0x5a;

// Short ones, and what is written past the caches or by blocks (from 16 MiB on), wherever they begin.
TEST(Fill, RepeatsAnElementAndWritesNothingElse) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const int64_t width = std::vector<int64_t>{1, 2, 4, 8, 16}[static_cast<size_t>(round % 5)];
      const bool large = round < 5;
      const int64_t bytes = large ? (int64_t{48} << 20) + data.integer(-100, 300) : data.integer(0, 700);
      const int64_t count = bytes / width, before = data.integer(0, 70), behind = 64;
      std::vector<uint8_t> element(static_cast<size_t>(width));
      for (uint8_t& byte : element) byte = static_cast<uint8_t>(data.integer(0, 255));
      std::vector<uint8_t> memory(static_cast<size_t>(before + count * width + behind), guard);
      fill_elements(width, element.data(), memory.data() + before, count);
      SCOPED_TRACE(std::to_string(count) + " elements of " + std::to_string(width) + " bytes behind " +
                   std::to_string(before));
      for (int64_t i = 0; i < before; ++i) ASSERT_EQ(memory[static_cast<size_t>(i)], guard);
      int64_t equal = 0;
      while (equal < count && std::memcmp(memory.data() + before + equal * width, element.data(), element.size()) == 0)
        ++equal;
      ASSERT_EQ(equal, count);
      for (int64_t i = before + count * width; i < std::ssize(memory); ++i)
        ASSERT_EQ(memory[static_cast<size_t>(i)], guard) << "behind the last";
    }
  });
}

// Below a word, above vectors and above what is filled without a call; of one element for all rows, too.
TEST(Fill, FillsRowsEachWithItsElement) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 400; ++round) {
      const int64_t width = std::vector<int64_t>{1, 2, 4, 8, 16}[static_cast<size_t>(round % 5)];
      const int64_t count = round % 50 == 0 ? data.integer(0, 1500) : data.integer(1, round % 2 ? 9 : 90);
      const int64_t rows = data.integer(0, 12), bytes = count * width, before = data.integer(0, 70);
      const int64_t in_step = data.integer(0, 2) * width, out_step = bytes + data.integer(0, 1) * data.integer(0, 40);
      std::vector<char> in(static_cast<size_t>(rows * in_step + width));
      for (char& byte : in) byte = static_cast<char>(data.integer(-128, 127));
      std::vector<char> memory(static_cast<size_t>(before + rows * out_step + 64), static_cast<char>(guard));
      std::vector<char> expected = memory;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < count; ++i)
          std::copy_n(in.begin() + r * in_step, width, expected.begin() + before + r * out_step + i * width);
      fill_rows(width, count, in.data(), in_step, memory.data() + before, out_step, rows);
      ASSERT_EQ(memory, expected) << rows << " rows of " << count << " elements of " << width << " bytes";
    }
  });
}

// Of any number of vectors and parts of one, with gaps between them, and one row again and again.
TEST(RowCopy, CopiesRowsAndWritesNothingElse) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 300; ++round) {
      const bool repeats = round % 3 == 0;
      const int64_t bytes = data.integer(least_vector_row, round % 5 ? 500 : repeats ? 9000 : most_vector_row);
      const int64_t count = data.integer(1, 20), in_step = repeats ? 0 : bytes + data.integer(0, 70);
      const int64_t out_step = bytes + data.integer(0, 1) * data.integer(0, 70), before = data.integer(0, 70);
      std::vector<char> in(static_cast<size_t>((count - 1) * in_step + bytes));
      for (char& byte : in) byte = static_cast<char>(data.integer(-128, 127));
      std::vector<char> memory(static_cast<size_t>(before + count * out_step + 64), static_cast<char>(guard));
      std::vector<char> expected = memory;
      for (int64_t r = 0; r < count; ++r)
        std::copy_n(in.begin() + r * in_step, bytes, expected.begin() + before + r * out_step);
      copy_vector_rows(bytes, in.data(), in_step, memory.data() + before, out_step, count);
      ASSERT_EQ(memory, expected) << count << " rows of " << bytes << " bytes, " << in_step << " and " << out_step
                                  << " apart";
    }
  });
}

// Rows that are repeated by blocks, past the caches and through them, and rows that are longer than such a block.
TEST(RowCopy, RepeatsRowsBeyondTheCaches) {
  RandomData data;
  for_each_target([&] {
    for (const int64_t total : {least_repeated_blocks, least_streamed_bytes}) {
      for (const int64_t size : {3, 40, 4000, 131072, 200003}) {
        const int64_t count = total / size + 2, before = data.integer(0, 70);
        std::vector<char> row(static_cast<size_t>(size));
        for (char& byte : row) byte = static_cast<char>(data.integer(-128, 127));
        std::vector<char> memory(static_cast<size_t>(before + count * size + 64), static_cast<char>(guard));
        copy_rows(size, row.data(), 0, memory.data() + before, size, count);
        int64_t equal = 0;
        while (equal < count && std::memcmp(memory.data() + before + equal * size, row.data(), row.size()) == 0)
          ++equal;
        ASSERT_EQ(equal, count) << "rows of " << size << " bytes";
        for (int64_t i = 0; i < 64; ++i)
          ASSERT_EQ(memory[memory.size() - 1 - static_cast<size_t>(i)], static_cast<char>(guard));
      }
    }
  });
}

// Zeros are written in another way.
TEST(Fill, OfZerosBeyondTheCaches) {
  const int64_t count = least_repeated_blocks / 8 + 5;
  std::vector<double> memory(static_cast<size_t>(count) + 1, 7);
  const double zero = 0;
  for_each_target([&] {
    std::fill(memory.begin(), memory.end(), 7);
    fill_elements(8, &zero, memory.data(), count);
    EXPECT_EQ(std::count(memory.begin(), memory.end(), 0.0), count);
    EXPECT_EQ(memory.back(), 7);
  });
}

}  // namespace
}  // namespace camshaft::cpu::fill_test
