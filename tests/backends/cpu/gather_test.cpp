#include "backends/cpu/kernels/move/gather.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/move/strided.h"
#include "backends/cpu/random_data.h"
#include "base/cancellation_points.h"
#include "base/error.h"

namespace camshaft::cpu::gather_test {
namespace {

std::vector<uint8_t> bytes(RandomData& data, int64_t n) {
  std::vector<uint8_t> values(static_cast<size_t>(n));
  for (uint8_t& v : values) v = static_cast<uint8_t>(data.integer(0, 255));
  return values;
}

TEST(Gather, RowsElementsAndBadIndices) {
  RandomData data;
  for (int round = 0; round < 200; ++round) {
    Gather gather{round % 4 ? data.integer(0, 5) : data.integer(6, 40), data.integer(1, round % 3 ? 50 : 400),
                  std::vector<int64_t>{1, 2, 4, 8, 16, 3, data.integer(60, 700)}[static_cast<size_t>(round % 7)],
                  data.integer(0, round % 5 ? 200 : 20)};
    const auto in = bytes(data, gather.outer * gather.size * gather.inner_bytes);
    std::vector<int64_t> wide(static_cast<size_t>(gather.count));
    std::vector<int32_t> narrow(wide.size());
    // Neighbours that rise or fall until they stay, as relative positions do, or any.
    const int64_t step = data.integer(-1, 1), restarts = data.integer(2, 90);
    for (size_t k = 0; k < wide.size(); ++k) {
      const bool begins = round % 2 == 0 || k == 0 || data.integer(0, restarts) == 0;
      wide[k] = begins ? data.integer(-gather.size, gather.size - 1)
                       : std::clamp<int64_t>((wide[k - 1] + gather.size) % gather.size + step, 0, gather.size - 1);
      narrow[k] = static_cast<int32_t>(wide[k]);
    }
    std::vector<uint8_t> a(static_cast<size_t>(gather.outer * gather.count * gather.inner_bytes)), b(a.size());
    ThreadPool pool(1 + round % 3);
    gather.run(pool, in.data(), wide.data(), DType::i64, a.data());
    gather.run(pool, in.data(), narrow.data(), DType::i32, b.data());
    ASSERT_EQ(a, b);
    for (int64_t o = 0; o < gather.outer; ++o) {
      for (int64_t k = 0; k < gather.count; ++k) {
        const int64_t index = (wide[static_cast<size_t>(k)] + gather.size) % gather.size;
        ASSERT_EQ(std::memcmp(a.data() + (o * gather.count + k) * gather.inner_bytes,
                              in.data() + (o * gather.size + index) * gather.inner_bytes,
                              static_cast<size_t>(gather.inner_bytes)),
                  0);
      }
    }
  }
  const int64_t bad[] = {0, 7, -8};
  ThreadPool pool(1);
  for (const int64_t slices : {1, 20}) {
    const std::vector<float> in(static_cast<size_t>(7 * slices));
    std::vector<float> out(static_cast<size_t>(3 * slices));
    try {
      Gather{slices, 7, 4, 3}.run(pool, in.data(), bad, DType::i64, out.data());
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("index 7 "), std::string::npos) << error.what();
    }
  }
}

// So many slices that threads share them and that each takes several pieces.
TEST(Gather, FewPlacesOfManySlices) {
  RandomData data;
  for (const int64_t width : {1, 2, 4, 8})
    for (const int64_t count : {1, 5, 64}) {
      const Gather gather{400'000 / count + data.integer(0, 9), data.integer(1, 12), width, count};
      const auto in = bytes(data, gather.outer * gather.size * width);
      std::vector<int32_t> indices(static_cast<size_t>(count));
      for (int32_t& i : indices) i = static_cast<int32_t>(data.integer(-gather.size, gather.size - 1));
      std::vector<uint8_t> out(static_cast<size_t>(gather.outer * count * width)), expected = out;
      for (int64_t o = 0; o < gather.outer; ++o)
        for (int64_t k = 0; k < count; ++k) {
          const int64_t at = (indices[static_cast<size_t>(k)] + gather.size) % gather.size;
          std::memcpy(expected.data() + (o * count + k) * width, in.data() + (o * gather.size + at) * width,
                      static_cast<size_t>(width));
        }
      ThreadPool pool(static_cast<int>(data.integer(1, 3)));
      gather.run(pool, in.data(), indices.data(), DType::i32, out.data());
      ASSERT_TRUE(out == expected) << count << " of " << gather.size << " elements of " << width << " bytes";
    }
}

// Neighbours of each slice, or all of it: one piece of memory. One that is no neighbour, and those outside, end that.
TEST(Gather, NeighboursOfManySlices) {
  RandomData data;
  for (int round = 0; round < 120; ++round) {
    const int64_t count = data.integer(1, 70), size = count + (round % 3 ? data.integer(0, 9) : 0);
    const Gather gather{data.integer(2, 40), size, data.integer(1, 100), count};
    const auto in = bytes(data, gather.outer * size * gather.inner_bytes);
    std::vector<int64_t> indices(static_cast<size_t>(count));
    const int64_t first = data.integer(0, size - count);
    for (int64_t k = 0; k < count; ++k) indices[static_cast<size_t>(k)] = first + k;
    if (round % 4 == 0) indices[static_cast<size_t>(data.integer(0, count - 1))] = data.integer(-size, size - 1);
    std::vector<uint8_t> out(static_cast<size_t>(gather.outer * count * gather.inner_bytes)), expected = out;
    const auto row = static_cast<size_t>(gather.inner_bytes);
    for (int64_t o = 0; o < gather.outer; ++o)
      for (int64_t k = 0; k < count; ++k) {
        const int64_t at = (indices[static_cast<size_t>(k)] + size) % size;
        std::memcpy(expected.data() + static_cast<size_t>(o * count + k) * row,
                    in.data() + static_cast<size_t>(o * size + at) * row, row);
      }
    ThreadPool pool(static_cast<int>(data.integer(1, 3)));
    gather.run(pool, in.data(), indices.data(), DType::i64, out.data());
    ASSERT_TRUE(out == expected) << count << " of " << size << " rows of " << row << " bytes";
    for (int64_t k = 0; k < count; ++k) indices[static_cast<size_t>(k)] = size + k;  // neighbours, outside
    EXPECT_THROW(gather.run(pool, in.data(), indices.data(), DType::i64, out.data()), Error);
  }
}

// Two slices of long lists of neighbours: shared by their bytes, and copied so that a call can be cancelled meanwhile.
TEST(Gather, FewLongRuns) {
  RandomData data;
  const int64_t count = 60000;
  const Gather gather{2, count + 1, 64, count};
  const auto in = bytes(data, gather.outer * gather.size * gather.inner_bytes);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) indices[static_cast<size_t>(k)] = k + 1;
  const auto row = static_cast<size_t>(count * gather.inner_bytes);
  std::vector<uint8_t> expected(2 * row);
  for (size_t o = 0; o < 2; ++o) std::memcpy(expected.data() + o * row, in.data() + o * (row + 64) + 64, row);
  for (const int threads : {1, 3, 5}) {
    ThreadPool pool(threads);
    std::vector<uint8_t> out(2 * row);
    const int64_t before = cancellation_points_passed();
    gather.run(pool, in.data(), indices.data(), DType::i64, out.data());
    EXPECT_TRUE(out == expected) << threads << " threads";
    if (threads == 1) {
      EXPECT_GE(cancellation_points_passed() - before, static_cast<int64_t>(row >> 20));
    }
  }
  std::swap(indices[7], indices[50000]);  // no run any more
  ThreadPool pool(3);
  std::vector<uint8_t> out(2 * row);
  gather.run(pool, in.data(), indices.data(), DType::i64, out.data());
  for (size_t o = 0; o < 2; ++o) {
    std::swap_ranges(expected.begin() + static_cast<int64_t>(o * row) + 7 * 64,
                     expected.begin() + static_cast<int64_t>(o * row) + 8 * 64,
                     expected.begin() + static_cast<int64_t>(o * row) + 50000 * 64);
  }
  EXPECT_TRUE(out == expected);
}

// Many slices of one list of runs: rising, falling, of one index, across the ends of the axis, and what lies between.
TEST(Gather, RunsThatSlicesShare) {
  RandomData data;
  for (int round = 0; round < 60; ++round) {
    Gather gather{data.integer(8, 20), data.integer(1, round % 3 ? 700 : 20),
                  std::vector<int64_t>{1, 2, 4, 8}[static_cast<size_t>(round % 4)], data.integer(1024, 9000)};
    const auto in = bytes(data, gather.outer * gather.size * gather.inner_bytes);
    std::vector<int64_t> wide;
    const int64_t longest = round % 5 == 0 ? 12 : 300;
    while (std::ssize(wide) < gather.count) {
      const int64_t step = data.integer(-1, 1), length = data.integer(1, longest);
      int64_t index = data.integer(-gather.size, gather.size - 1);
      for (int64_t k = 0; k < length && index >= -gather.size && index < gather.size; ++k, index += step)
        wide.push_back(index);
    }
    wide.resize(static_cast<size_t>(gather.count));
    const std::vector<int32_t> narrow(wide.begin(), wide.end());
    std::vector<uint8_t> a(static_cast<size_t>(gather.outer * gather.count * gather.inner_bytes)), b(a.size()),
        want(a.size());
    for (int64_t o = 0; o < gather.outer; ++o)
      for (int64_t k = 0; k < gather.count; ++k)
        std::memcpy(want.data() + (o * gather.count + k) * gather.inner_bytes,
                    in.data() + (o * gather.size + (wide[static_cast<size_t>(k)] + gather.size) % gather.size) *
                                    gather.inner_bytes,
                    static_cast<size_t>(gather.inner_bytes));
    ThreadPool pool(1 + round % 3);
    for_each_target([&] {
      gather.run(pool, in.data(), wide.data(), DType::i64, a.data());
      gather.run(pool, in.data(), narrow.data(), DType::i32, b.data());
      ASSERT_EQ(a, want) << round;
      ASSERT_EQ(b, want) << round;
    });
  }
}

TEST(Gather, IndexOutsideOfSharedRuns) {
  constexpr int64_t slices = 9, size = 100, count = 20'000;
  const std::vector<float> in(slices * size);
  std::vector<float> out(slices * count);
  ThreadPool pool(3);
  // A run that leaves the axis at its end, and one that is beyond it; indices whose distance is beyond 64 bits.
  for (const int64_t first : {int64_t{95}, int64_t{100}, int64_t{-101}, std::numeric_limits<int64_t>::min(),
                              std::numeric_limits<int64_t>::max() - 20}) {
    std::vector<int64_t> indices(count);
    for (int64_t k = 0; k < count; ++k) indices[static_cast<size_t>(k)] = k % size;
    for (int64_t k = 0; k < 20; ++k) indices[static_cast<size_t>(12'000 + k)] = first + k;
    const int64_t number = first == 95 ? 12'005 : 12'000;
    try {
      Gather{slices, size, 4, count}.run(pool, in.data(), indices.data(), DType::i64, out.data());
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      const std::string place = "(number " + std::to_string(number) + " ";
      EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
    }
  }
}

TEST(GatherElements, AlongAMiddleAxis) {
  ThreadPool pool(2);
  std::vector<int16_t> in(2 * 3 * 4);
  std::iota(in.begin(), in.end(), int16_t{0});
  const std::vector<int64_t> indices = {0, -1, 2, 1, 1, 1, 0, 2};  // [1, 2, 4]
  std::vector<int16_t> out(8);
  GatherElements(2, {2, 3, 4}, {1, 2, 4}, 1).run(pool, in.data(), indices.data(), DType::i64, out.data());
  EXPECT_EQ(out, (std::vector<int16_t>{0, 9, 10, 7, 4, 5, 2, 11}));
}

// Against the definition: any rank and axis, indices of fewer positions than the tensor has, axes of one element.
TEST(GatherElements, AnyShape) {
  RandomData data;
  for (int round = 0; round < 300; ++round) {
    const int64_t rank = data.integer(1, 5), width = std::vector<int64_t>{1, 2, 4, 8}[static_cast<size_t>(round % 4)];
    const auto axis = static_cast<size_t>(data.integer(0, rank - 1));
    std::vector<int64_t> dims, counts;
    for (int64_t d = 0; d < rank; ++d) {
      dims.push_back(data.integer(1, 6));
      counts.push_back(data.integer(0, 3) > 0 ? dims.back() : data.integer(round % 10 == 0 ? 0 : 1, dims.back()));
    }
    counts[axis] = data.integer(1, 40);
    const std::vector<int64_t> strides = contiguous_strides(dims);
    int64_t elements = 1, count = 1;
    for (const int64_t n : dims) elements *= n;
    for (const int64_t n : counts) count *= n;
    const auto in = bytes(data, elements * width);
    std::vector<int64_t> wide(static_cast<size_t>(count));
    for (int64_t& index : wide) index = data.integer(-dims[axis], dims[axis] - 1);
    const std::vector<int32_t> narrow(wide.begin(), wide.end());
    std::vector<uint8_t> a(static_cast<size_t>(count * width)), b(a.size()), want(a.size());
    for (int64_t k = 0; k < count; ++k) {
      int64_t rest = k, offset = 0;
      for (size_t d = counts.size(); d-- > 0; rest /= counts[d]) {
        const int64_t index = wide[static_cast<size_t>(k)];
        offset += (d == axis ? (index + dims[d]) % dims[d] : rest % counts[d]) * strides[d];
      }
      std::memcpy(want.data() + k * width, in.data() + offset * width, static_cast<size_t>(width));
    }
    ThreadPool pool(1 + round % 3);
    const GatherElements gather(width, dims, counts, static_cast<int>(axis));
    gather.run(pool, in.data(), wide.data(), DType::i64, a.data());
    gather.run(pool, in.data(), narrow.data(), DType::i32, b.data());
    ASSERT_EQ(a, want);
    ASSERT_EQ(b, want);
  }
}

// On several threads, the first index that is outside is the one that is named.
TEST(GatherElements, IndexOutside) {
  ThreadPool pool(3);
  std::vector<float> in(10), out(100'000);
  std::vector<int64_t> indices(out.size(), 3);
  indices[70'000] = -11;
  indices[90'000] = 10;
  try {
    GatherElements(4, {10}, {100'000}, 0).run(pool, in.data(), indices.data(), DType::i64, out.data());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("index -11 (number 70000 "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace camshaft::cpu::gather_test
