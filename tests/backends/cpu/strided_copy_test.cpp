#include "backends/cpu/kernels/move/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/each_target.h"
#include "backends/cpu/guarded.h"
#include "backends/cpu/kernels/move/strided.h"
#include "backends/cpu/random_data.h"
#include "test_random.h"

namespace camshaft::cpu::strided_copy_test {
namespace {

std::vector<uint8_t> bytes(RandomData& data, int64_t n) {
  std::vector<uint8_t> values(static_cast<size_t>(n));
  for (uint8_t& v : values) v = static_cast<uint8_t>(data.integer(0, 255));
  return values;
}

TEST(StridedCopy, TransposesSlicesAndExpansions) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 300; ++round) {
      const int64_t width = std::vector<int64_t>{1, 2, 4, 8, 16}[static_cast<size_t>(round % 5)];
      const int64_t rank = data.integer(0, 6);
      std::vector<int64_t> dims, in_dims;
      for (int64_t d = 0; d < rank; ++d)
        dims.push_back(data.integer(0, 30) == 0 ? 0 : data.integer(1, rank < 3 ? 300 : rank < 4 ? 40 : 7));
      // The input: permuted dims, some of them larger and stepped through, backwards at times, or broadcast.
      std::vector<size_t> order(dims.size());
      std::iota(order.begin(), order.end(), 0);
      if (round % 3) data.shuffle(order);
      std::vector<int64_t> strides(dims.size());
      int64_t step = 1, first = 0;
      for (size_t k = order.size(); k-- > 0;) {
        const size_t d = order[k];
        const int64_t stepping = data.integer(0, 4) == 0 ? data.integer(2, 3) : 1;
        if (data.integer(0, 6) == 0) continue;  // broadcast
        const bool backwards = data.integer(0, 5) == 0;
        strides[d] = backwards ? -step * stepping : step * stepping;
        if (backwards && dims[d] > 0) first += (dims[d] - 1) * stepping * step;
        step *= std::max<int64_t>(dims[d], 1) * stepping;
      }
      const auto in = bytes(data, step * width);
      const auto dense = contiguous_strides(dims);
      int64_t total = 1;
      for (int64_t n : dims) total *= n;
      std::vector<uint8_t> out(static_cast<size_t>(total * width) + 1, 0x5a);
      ThreadPool pool(1 + round % 3);
      StridedCopy(width, dims, strides).run(pool, in.data() + first * width, out.data());
      ASSERT_EQ(out.back(), 0x5a);
      for (int64_t i = 0; i < total; ++i) {
        int64_t at = first;
        for (size_t d = 0; d < dims.size(); ++d) at += i / dense[d] % dims[d] * strides[d];
        ASSERT_EQ(std::memcmp(&out[static_cast<size_t>(i * width)], &in[static_cast<size_t>(at * width)],
                              static_cast<size_t>(width)),
                  0)
            << "round " << round << " element " << i;
      }
    }
  });
}

// Short blocks whose elements change places: of every width, up to two vectors long and beyond, of so few that no
// vector holds them, between axes that lie apart, and where the memory ends.
TEST(StridedCopy, ShortBlocksChangePlaces) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 400; ++round) {
      const int64_t width = std::vector<int64_t>{1, 2, 4, 8, 16}[static_cast<size_t>(round % 5)];
      const int64_t outer = data.integer(1, 3), blocks = data.integer(1, round % 3 ? 9 : 300);
      std::vector<int64_t> of_block;
      for (int64_t axes = data.integer(2, 3); axes > 0; --axes) of_block.push_back(data.integer(1, 5));
      int64_t block = 1;
      for (const int64_t n : of_block) block *= n;
      // The input is [outer, blocks and a gap, axes in another order].
      std::vector<size_t> order(of_block.size());
      std::iota(order.begin(), order.end(), 0);
      data.shuffle(order);
      std::vector<int64_t> in_of_block(of_block.size());
      int64_t step = 1;
      for (size_t k = order.size(); k-- > 0;) in_of_block[order[k]] = step, step *= of_block[order[k]];
      const int64_t apart = (blocks + data.integer(0, 1)) * block;
      std::vector<int64_t> dims{outer, blocks}, strides{apart, block};
      dims.insert(dims.end(), of_block.begin(), of_block.end());
      strides.insert(strides.end(), in_of_block.begin(), in_of_block.end());
      const auto in = bytes(data, ((outer - 1) * apart + blocks * block) * width);
      Tensor unguarded(DType::u8, {std::ssize(in)});
      std::copy(in.begin(), in.end(), unguarded.as_mutable<uint8_t>());
      const Tensor readable = guarded(unguarded);
      std::vector<uint8_t> out(static_cast<size_t>(outer * blocks * block * width) + 64, 0x5a);
      ThreadPool pool(1 + round % 2);
      StridedCopy(width, dims, strides).run(pool, readable.data(), out.data());
      const auto dense = contiguous_strides(dims);
      for (int64_t i = 0; i < outer * blocks * block; ++i) {
        int64_t at = 0;
        for (size_t d = 0; d < dims.size(); ++d) at += i / dense[d] % dims[d] * strides[d];
        ASSERT_EQ(std::memcmp(&out[static_cast<size_t>(i * width)], &in[static_cast<size_t>(at * width)],
                              static_cast<size_t>(width)),
                  0)
            << "round " << round << " element " << i;
      }
      for (size_t i = out.size() - 64; i < out.size(); ++i) ASSERT_EQ(out[i], 0x5a);
    }
  });
}

// Few of short items lie side by side, and many along another axis: blocks become places of an image, and others.
TEST(StridedCopy, ShortItemsAlongALongerAxis) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const int64_t width = std::vector<int64_t>{1, 2, 4, 8, 16}[static_cast<size_t>(round % 5)];
      std::vector<int64_t> dims;
      for (int d = 0; d < 6; ++d) dims.push_back(data.integer(1, 4));
      dims[static_cast<size_t>(data.integer(0, 3))] = data.integer(8, 40);
      std::vector<size_t> order(dims.size());
      std::iota(order.begin(), order.end(), 0);
      data.shuffle(order);
      std::vector<int64_t> strides(dims.size());
      int64_t count = 1;
      for (const size_t d : order) strides[d] = count, count *= dims[d];
      const auto in = bytes(data, count * width);
      std::vector<uint8_t> out(in.size());
      ThreadPool pool(1 + round % 3);
      StridedCopy(width, dims, strides).run(pool, in.data(), out.data());
      const auto dense = contiguous_strides(dims);
      for (int64_t i = 0; i < count; ++i) {
        int64_t at = 0;
        for (size_t d = 0; d < dims.size(); ++d) at += i / dense[d] % dims[d] * strides[d];
        ASSERT_TRUE(std::equal(&out[static_cast<size_t>(i * width)], &out[static_cast<size_t>(i * width)] + width,
                               &in[static_cast<size_t>(at * width)]))
            << "round " << round << " element " << i;
      }
    }
  });
}

// Rows of any length that follow themselves 16 times and more, of some kilobytes and of less.
TEST(StridedCopy, RepeatsARow) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t size = data.integer(1, round % 4 ? 700 : 5000), count = data.integer(10, round % 10 ? 60 : 900);
      const auto in = bytes(data, 2 * size);
      std::vector<uint8_t> out(static_cast<size_t>(2 * count * size));
      ThreadPool pool(1 + round % 3);
      StridedCopy(1, {2, count, size}, {size, 0, 1}).run(pool, in.data(), out.data());
      for (int64_t r = 0; r < 2 * count; ++r)
        ASSERT_TRUE(std::equal(out.begin() + r * size, out.begin() + (r + 1) * size, in.begin() + r / count * size))
            << "row " << r << " of " << size;
    }
  });
}

// Blocks that follow themselves, within each other, as tiles of several dims do; larger than what is copied from the
// result, and between other dims of the result.
TEST(StridedCopy, RepeatsBlocks) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 200; ++round) {
      const int64_t width = std::vector<int64_t>{1, 2, 4, 8, 16}[static_cast<size_t>(round % 5)];
      const int64_t rank = data.integer(2, 7);
      std::vector<int64_t> dims, strides(static_cast<size_t>(rank));
      for (int64_t d = 0; d < rank; ++d)
        dims.push_back(data.integer(1, round % 20 == 0 && d > 0 ? 9 : 5) * (d + 1 == rank && round % 7 == 0 ? 40 : 1));
      int64_t step = 1;
      for (size_t d = dims.size(); d-- > 0;) {
        if (data.integer(0, 1) == 0) continue;  // repeats what is inside
        strides[d] = step;
        step = step * dims[d] + (round % 4 == 1 ? data.integer(0, 2) : 0);  // of a slice, rows lie further apart
      }
      const std::vector<int64_t> dense = contiguous_strides(dims);
      // A row of the result may be longer than what is written of it.
      std::vector<int64_t> to = dense;
      if (round % 3 == 0)
        for (size_t d = 0; d + 2 < dims.size(); ++d) to[d] += 3 * to[d] / dims.back();
      int64_t total = 1, last = 0;
      for (size_t d = 0; d < dims.size(); ++d) total *= dims[d], last += (dims[d] - 1) * to[d];
      if (round % 3 == 0) {
        // Strides grow outwards, or elements would overlap.
        bool grows = true;
        for (size_t d = 0; d + 1 < dims.size(); ++d) grows &= to[d] >= dims[d + 1] * to[d + 1];
        if (!grows) continue;
      }
      const auto in = bytes(data, step * width);
      std::vector<uint8_t> out(static_cast<size_t>((last + 1) * width) + 1, 0x5a), expected = out;
      for (int64_t i = 0; i < total; ++i) {
        int64_t from = 0, at = 0;
        for (size_t d = 0; d < dims.size(); ++d) {
          const int64_t k = i / dense[d] % dims[d];
          from += k * strides[d], at += k * to[d];
        }
        std::copy_n(in.begin() + from * width, width, expected.begin() + at * width);
      }
      ThreadPool pool(1 + round % 3);
      StridedCopy(width, dims, strides, to).run(pool, in.data(), out.data());
      ASSERT_EQ(out, expected) << "round " << round;
    }
  });
}

// Long rows, many of which are more than what is written through the caches, wherever they begin in a line.
// Tile of short rows: repeats within repeats, the outer ones of more than L2 holds, which threads share.
TEST(StridedCopy, RepeatsLargeBlocksOfShortRows) {
  for_each_target([&] {
    for (const int64_t outer : {1, 2}) {
      const std::vector<int64_t> dims{outer, 3, 7001, 2, 3, 2, 5}, strides{7001 * 15, 0, 15, 0, 5, 0, 1};
      std::vector<int32_t> in(static_cast<size_t>(outer * 7001 * 15));
      for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int32_t>(i);
      std::vector<int32_t> expected;
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < 3 * 7001 * 2 * 3 * 2 * 5; ++i)
          expected.push_back(static_cast<int32_t>(o * 7001 * 15 + i / 60 % 7001 * 15 + i / 10 % 3 * 5 + i % 5));
      for (const int threads : {1, 3}) {
        std::vector<int32_t> out(expected.size() + 1, -1);
        ThreadPool pool(threads);
        StridedCopy(4, dims, strides).run(pool, in.data(), out.data());
        EXPECT_EQ(out.back(), -1);
        out.pop_back();
        EXPECT_TRUE(out == expected) << threads << " threads";
      }
    }
  });
}

TEST(StridedCopy, RepeatsLongRowsPastTheCaches) {
  for_each_target([&] {
    for (const int64_t gap : {0, 3}) {
      const int64_t row = 1031, rows = (int64_t{34} << 20) / 4 / row, step = row + gap;
      std::vector<int32_t> in(static_cast<size_t>(row)), out(static_cast<size_t>(rows * step + 2), -1);
      for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int32_t>(i * i);
      const StridedCopy copy(4, {rows, row}, {0, 1}, {step, 1});
      ThreadPool pool(gap == 0 ? 1 : 3);
      copy.run(pool, in.data(), out.data() + 1);
      int64_t equal = 0;
      const auto wanted = [&](int64_t i) {
        const int64_t at = i - 1;
        return at < 0 || at >= rows * step || at % step >= row ? -1 : in[static_cast<size_t>(at % step)];
      };
      while (equal < std::ssize(out) && out[static_cast<size_t>(equal)] == wanted(equal)) ++equal;
      ASSERT_EQ(equal, std::ssize(out));
    }
  });
}

// Few channels of an image beside each other and back, of any size of element.
TEST(StridedCopy, HeadsPastTheCaches) {
  constexpr int64_t rows = 16500, heads = 8, row = 64;
  const std::vector<int64_t> dims{heads, rows, row}, strides{row, heads * row, 1};
  std::vector<float> x(static_cast<size_t>(rows * heads * row));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  for_each_target([&] {
    for (const int64_t shift : {0, 1, 3}) {  // floats behind a cache line
      std::vector<float> y(x.size() + 4, -1.0f);
      ThreadPool pool(shift == 1 ? 3 : 1);
      StridedCopy(4, dims, strides).run(pool, x.data(), y.data() + shift);
      for (int64_t h = 0, i = shift; h < heads; ++h)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t k = 0; k < row; ++k, ++i)
            ASSERT_EQ(y[static_cast<size_t>(i)], x[static_cast<size_t>((r * heads + h) * row + k)]);
      ASSERT_EQ(y[x.size() + static_cast<size_t>(shift)], -1.0f);
    }
  });
}

TEST(StridedCopy, InterleavesFewChannels) {
  RandomData data;
  for_each_target([&] {
    for (const int64_t width : {1, 2, 4}) {
      for (const int64_t channels : {1, 2, 3, 4, 5}) {
        for (const int64_t pixels : {0, 1, 15, 16, 63, 64, 65, 200, 4097}) {
          const auto in = bytes(data, channels * pixels * width);
          std::vector<uint8_t> out(in.size() + 1, 0x5a), back(in.size() + 1, 0x5a);
          ThreadPool pool(2);
          StridedCopy(width, {pixels, channels}, {1, pixels}).run(pool, in.data(), out.data());
          StridedCopy(width, {channels, pixels}, {1, channels}).run(pool, out.data(), back.data());
          ASSERT_EQ(out.back(), 0x5a);
          ASSERT_EQ(back.back(), 0x5a);
          for (int64_t i = 0; i < pixels * channels * width; ++i) {
            const int64_t element = i / width, from = element % channels * pixels + element / channels;
            ASSERT_EQ(out[static_cast<size_t>(i)], in[static_cast<size_t>(from * width + i % width)])
                << channels << " x " << pixels << ", " << width << " bytes, at " << i;
          }
          back.pop_back();
          ASSERT_EQ(back, in);
        }
      }
    }
  });
}

TEST(StridedCopy, ManyAxesThatCannotBeMerged) {
  constexpr int rank = 17;
  const std::vector<int64_t> dims(rank, 2);
  const std::vector<int64_t> dense = contiguous_strides(dims);
  const std::vector<int64_t> reversed(dense.rbegin(), dense.rend());
  std::vector<int32_t> in(size_t{1} << rank), out(in.size());
  std::iota(in.begin(), in.end(), 0);
  ThreadPool pool(2);
  StridedCopy(4, dims, reversed).run(pool, in.data(), out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    size_t mirrored = 0;
    for (int bit = 0; bit < rank; ++bit) mirrored |= (i >> bit & 1) << (rank - 1 - bit);
    ASSERT_EQ(out[i], static_cast<int32_t>(mirrored));
  }
}

TEST(StridedCopy, LargeTransposeOnSeveralThreads) {
  RandomData data;
  for_each_target([&] {
    for (const int64_t width : {1, 2, 4, 8}) {
      const int64_t rows = 531, columns = 723;
      const auto in = bytes(data, rows * columns * width);
      std::vector<uint8_t> out(in.size());
      ThreadPool pool(3);
      StridedCopy(width, {columns, rows}, {1, columns}).run(pool, in.data(), out.data());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          ASSERT_EQ(std::memcmp(&out[static_cast<size_t>((c * rows + r) * width)],
                                &in[static_cast<size_t>((r * columns + c) * width)], static_cast<size_t>(width)),
                    0);
        }
      }
    }
  });
}

// Channels of an image, channel shuffles: matrices of a few long lines, either way round.
TEST(StridedCopy, NarrowTransposes) {
  RandomData data;
  for_each_target([&] {
    for (const int64_t narrow : {2, 3, 4, 5}) {
      for (const int64_t length : {8, 16, 33, 100, 70000}) {
        for (const bool narrow_last : {true, false}) {
          const int64_t rows = narrow_last ? length : narrow, columns = narrow_last ? narrow : length;
          const auto in = bytes(data, 2 * rows * columns * 4);
          std::vector<uint8_t> out(in.size());
          ThreadPool pool(length == 70000 ? 3 : 1);
          StridedCopy(4, {2, rows, columns}, {rows * columns, 1, rows}).run(pool, in.data(), out.data());
          for (int64_t i = 0; i < 2 * rows * columns; ++i) {
            const int64_t matrix = i / (rows * columns), r = i / columns % rows, c = i % columns;
            const int64_t from = matrix * rows * columns + c * rows + r;
            ASSERT_EQ(std::memcmp(&out[static_cast<size_t>(i * 4)], &in[static_cast<size_t>(from * 4)], 4), 0)
                << rows << " x " << columns << ", element " << i;
          }
        }
      }
    }
  });
}

// Blocks of whole vectors, and what is left of them, of every width.
TEST(StridedCopy, TransposesOfEveryWidth) {
  RandomData data;
  for_each_target([&] {
    for (const int64_t width : {1, 2, 4, 8, 16}) {
      for (int round = 0; round < 12; ++round) {
        const int64_t rows = data.integer(2, 150), columns = data.integer(2, round % 3 ? 60 : 700);
        const auto in = bytes(data, rows * columns * width);
        std::vector<uint8_t> out(in.size() + 1);
        out.back() = 77;
        ThreadPool pool(1 + round % 2);
        StridedCopy(width, {rows, columns}, {1, rows}).run(pool, in.data(), out.data());
        EXPECT_EQ(out.back(), 77);
        for (int64_t i = 0; i < rows * columns; ++i) {
          const int64_t from = i % columns * rows + i / columns;
          ASSERT_EQ(std::memcmp(out.data() + i * width, in.data() + from * width, static_cast<size_t>(width)), 0)
              << rows << " x " << columns << " of " << width << " bytes, element " << i;
        }
      }
    }
  });
}

// To and from dense rows of a few elements, whose vectors end in the next row: nothing is read or written behind the
// matrices.
TEST(StridedCopy, TransposesToAndFromShortRows) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 600; ++round) {
      const int64_t width = int64_t{1} << random.integer(0, 3), narrow = random.integer(2, 18);
      const int64_t length = random.integer(1, round % 20 == 0 ? 30000 : 100);
      const bool narrow_last = random.integer(0, 1) == 1;
      const int64_t rows = narrow_last ? length : narrow, columns = narrow_last ? narrow : length, count = 3;
      const int64_t size = count * rows * columns;
      Tensor numbers(DType::u8, {size * width});
      for (int64_t i = 0; i < numbers.size(); ++i)
        numbers.as_mutable<uint8_t>()[i] = static_cast<uint8_t>(random.integer(0, 255));
      const Tensor in = guarded(numbers), out = guarded(Tensor(DType::u8, {size * width}));
      auto* to = const_cast<std::byte*>(out.data());
      ThreadPool pool(static_cast<int>(random.integer(1, 3)));
      StridedCopy(width, {count, rows, columns}, {rows * columns, 1, rows}).run(pool, in.data(), to);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t matrix = i / (rows * columns), r = i / columns % rows, c = i % columns;
        const int64_t from = matrix * rows * columns + c * rows + r;
        ASSERT_EQ(std::memcmp(to + i * width, in.data() + from * width, static_cast<size_t>(width)), 0)
            << rows << " x " << columns << " of " << width << " bytes, element " << i;
      }
    }
  });
}

TEST(StridedCopy, IntoAPartOfALargerTensor) {
  ThreadPool pool(1);
  std::vector<int32_t> out(12, -1);
  const std::vector<int32_t> in = {1, 2, 3, 4};
  StridedCopy(4, {2, 2}, {2, 1}, {6, 2}).run(pool, in.data(), out.data());
  EXPECT_EQ(out, (std::vector<int32_t>{1, -1, 2, -1, -1, -1, 3, -1, 4, -1, -1, -1}));
  EXPECT_TRUE(StridedCopy(4, {2, 3, 4}, {12, 4, 1}).is_plain());
  EXPECT_FALSE(StridedCopy(4, {2, 3}, {1, 2}).is_plain());
}

}  // namespace
}  // namespace camshaft::cpu::strided_copy_test
