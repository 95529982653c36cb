#include "cpu/kernels/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "camshaft/error.h"
#include "cpu/each_target.h"
#include "cpu/kernels/strided.h"
#include "cpu/random_data.h"

namespace camshaft::cpu {
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

TEST(StridedCopy, IntoAPartOfALargerTensor) {
  ThreadPool pool(1);
  std::vector<int32_t> out(12, -1);
  const std::vector<int32_t> in = {1, 2, 3, 4};
  StridedCopy(4, {2, 2}, {2, 1}, {6, 2}).run(pool, in.data(), out.data());
  EXPECT_EQ(out, (std::vector<int32_t>{1, -1, 2, -1, -1, -1, 3, -1, 4, -1, -1, -1}));
  EXPECT_TRUE(StridedCopy(4, {2, 3, 4}, {12, 4, 1}).is_plain());
  EXPECT_FALSE(StridedCopy(4, {2, 3}, {1, 2}).is_plain());
}

TEST(Concat, EmptyPartsToo) {
  RandomData data;
  for (int round = 0; round < 30; ++round) {
    const int64_t outer = round % 4 == 0 ? 1 : data.integer(0, 50);
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

std::vector<int32_t> padded(PadMode mode, const std::vector<int32_t>& in, int64_t before, int64_t after) {
  Pad pad(4, {static_cast<int64_t>(in.size())}, {before}, {after}, mode);
  std::vector<int32_t> out(static_cast<size_t>(pad.out_dims()[0]));
  ThreadPool pool(1);
  const int32_t value = 9;
  pad.run(pool, in.data(), out.data(), &value);
  return out;
}

TEST(Pad, Modes) {
  using V = std::vector<int32_t>;
  EXPECT_EQ(padded(PadMode::constant, {1, 2, 3}, 2, 1), (V{9, 9, 1, 2, 3, 9}));
  EXPECT_EQ(padded(PadMode::constant, {1, 2, 3}, -1, 1), (V{2, 3, 9}));
  EXPECT_EQ(padded(PadMode::constant, {1, 2, 3}, 4, -3), (V{9, 9, 9, 9}));
  EXPECT_EQ(padded(PadMode::constant, {1, 2, 3}, -3, 2), (V{9, 9}));
  EXPECT_EQ(padded(PadMode::reflect, {1, 2, 3}, 2, 2), (V{3, 2, 1, 2, 3, 2, 1}));
  EXPECT_EQ(padded(PadMode::edge, {1, 2, 3}, 2, 1), (V{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(padded(PadMode::wrap, {1, 2, 3}, 2, 4), (V{2, 3, 1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(padded(PadMode::edge, {1, 2, 3}, -2, 1), (V{3, 3}));
  EXPECT_THROW(padded(PadMode::constant, {1, 2, 3}, -2, -2), Error);
  EXPECT_THROW(padded(PadMode::constant, {1, 2, 3}, 4, -4), Error);  // crops more than there is
  EXPECT_THROW(padded(PadMode::edge, {}, 1, 0), Error);
}

TEST(Pad, RandomShapes) {
  RandomData data;
  for (int round = 0; round < 80; ++round) {
    const int64_t width = std::vector<int64_t>{1, 2, 4, 8}[static_cast<size_t>(round % 4)];
    const int64_t rank = data.integer(0, 4);
    std::vector<int64_t> dims, before, after;
    for (int64_t d = 0; d < rank; ++d) {
      dims.push_back(data.integer(1, 12));
      before.push_back(data.integer(-1, 5));
      const int64_t left = dims.back() + std::min<int64_t>(before.back(), 0);
      after.push_back(data.integer(std::max<int64_t>(-2, -left), 5));
    }
    int64_t total = 1, out_total = 1;
    for (int64_t n : dims) total *= n;
    const auto in = bytes(data, total * width);
    Pad pad(width, dims, before, after, PadMode::constant);
    for (int64_t n : pad.out_dims()) out_total *= n;
    std::vector<uint8_t> out(static_cast<size_t>(out_total * width) + 1, 0x5a);
    const std::vector<uint8_t> zero(static_cast<size_t>(width));
    ThreadPool pool(1 + round % 3);
    pad.run(pool, in.data(), out.data());
    ASSERT_EQ(out.back(), 0x5a);
    const auto dense = contiguous_strides(pad.out_dims()), in_strides = contiguous_strides(dims);
    for (int64_t i = 0; i < out_total; ++i) {
      int64_t at = 0;
      bool inside = true;
      for (size_t d = 0; d < dims.size(); ++d) {
        const int64_t k = i / dense[d] % pad.out_dims()[d] - before[d];
        inside &= k >= 0 && k < dims[d];
        at += k * in_strides[d];
      }
      const uint8_t* expected = inside ? &in[static_cast<size_t>(at * width)] : zero.data();
      ASSERT_EQ(std::memcmp(&out[static_cast<size_t>(i * width)], expected, static_cast<size_t>(width)), 0) << round;
    }
  }
}

// Found by fuzzing: a table of the long dim took 16 GiB.
TEST(Pad, LongDimsOfEmptyTensorsTakeNoMemory) {
  const int64_t most = int64_t{1} << 50;
  Pad pad(1, {most, 4, 0}, {0, most, 0}, {most, 0, 0}, PadMode::constant);
  EXPECT_EQ(pad.out_dims(), (std::vector<int64_t>{2 * most, most + 4, 0}));
  ThreadPool pool(2);
  pad.run(pool, nullptr, nullptr);
}

TEST(Gather, RowsElementsAndBadIndices) {
  RandomData data;
  for (int round = 0; round < 60; ++round) {
    Gather gather{data.integer(0, 5), data.integer(1, 50),
                  std::vector<int64_t>{1, 2, 4, 8, 16, 3, 400}[static_cast<size_t>(round % 7)], data.integer(0, 200)};
    const auto in = bytes(data, gather.outer * gather.size * gather.inner_bytes);
    std::vector<int64_t> wide(static_cast<size_t>(gather.count));
    std::vector<int32_t> narrow(wide.size());
    for (size_t k = 0; k < wide.size(); ++k)
      narrow[k] = static_cast<int32_t>(wide[k] = data.integer(-gather.size, gather.size - 1));
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
  try {
    Gather{1, 7, 4, 3}.run(pool, nullptr, bad, DType::i64, nullptr);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("index 7 "), std::string::npos) << error.what();
  }
}

TEST(GatherElements, AlongAMiddleAxis) {
  ThreadPool pool(2);
  std::vector<int16_t> in(2 * 3 * 4);
  std::iota(in.begin(), in.end(), int16_t{0});
  const std::vector<int64_t> indices = {0, -1, 2, 1, 1, 1, 0, 2};  // [1, 2, 4]
  std::vector<int16_t> out(8);
  GatherElements{2, {2, 3, 4}, {1, 2, 4}, 1}.run(pool, in.data(), indices.data(), DType::i64, out.data());
  EXPECT_EQ(out, (std::vector<int16_t>{0, 9, 10, 7, 4, 5, 2, 11}));
}

}  // namespace
}  // namespace camshaft::cpu
