#include "backends/cpu/kernels/move/pad.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/move/strided.h"
#include "backends/cpu/random_data.h"
#include "base/error.h"

namespace camshaft::cpu::pad_test {
namespace {

std::vector<uint8_t> bytes(RandomData& data, int64_t n) {
  std::vector<uint8_t> values(static_cast<size_t>(n));
  for (uint8_t& v : values) v = static_cast<uint8_t>(data.integer(0, 255));
  return values;
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

// Which of n elements continues them at `at`, step by step.
int64_t continued(PadMode mode, int64_t at, int64_t n) {
  while (at < 0 || at >= n) {
    if (mode == PadMode::edge || n == 1) return at < 0 ? 0 : n - 1;
    if (mode == PadMode::wrap) {
      at += at < 0 ? n : -n;
    } else {
      at = at < 0 ? -at : 2 * (n - 1) - at;
    }
  }
  return at;
}

// With axes that are left as they are at the end, in the middle and at the front, and sizes of 1.
TEST(Pad, RandomModes) {
  RandomData data;
  for (int round = 0; round < 300; ++round) {
    const PadMode mode = std::vector<PadMode>{PadMode::reflect, PadMode::edge, PadMode::wrap}[round % 3];
    const int64_t width = std::vector<int64_t>{1, 2, 4, 8}[static_cast<size_t>(round % 4)];
    const int64_t rank = data.integer(1, 5);
    std::vector<int64_t> dims, before, after;
    for (int64_t d = 0; d < rank; ++d) {
      const bool stays = data.integer(0, 1) == 0, is_long = d + 1 == rank && round % 5 == 0;
      dims.push_back(data.integer(1, is_long ? 100 : 6));
      before.push_back(stays ? 0 : data.integer(-1, is_long ? 70 : 8));
      const int64_t left = dims.back() + std::min<int64_t>(before.back(), 0);
      if (left < 1) before.back() = 0;
      after.push_back(stays ? 0 : data.integer(std::max<int64_t>(-1, 1 - left), 8));
    }
    int64_t total = 1, out_total = 1;
    for (int64_t n : dims) total *= n;
    const auto in = bytes(data, total * width);
    Pad pad(width, dims, before, after, mode);
    for (int64_t n : pad.out_dims()) out_total *= n;
    std::vector<uint8_t> out(static_cast<size_t>(out_total * width) + 1, 0x5a);
    ThreadPool pool(1 + round % 3);
    pad.run(pool, in.data(), out.data());
    ASSERT_EQ(out.back(), 0x5a);
    const auto dense = contiguous_strides(pad.out_dims()), in_strides = contiguous_strides(dims);
    for (int64_t i = 0; i < out_total; ++i) {
      int64_t from = 0;
      for (size_t d = 0; d < dims.size(); ++d) {
        const int64_t first = std::max<int64_t>(-before[d], 0), n = dims[d] - first - std::max<int64_t>(-after[d], 0);
        const int64_t at = i / dense[d] % pad.out_dims()[d] - std::max<int64_t>(before[d], 0);
        from += (first + continued(mode, at, n)) * in_strides[d];
      }
      ASSERT_EQ(std::memcmp(&out[static_cast<size_t>(i * width)], &in[static_cast<size_t>(from * width)],
                            static_cast<size_t>(width)),
                0)
          << round << " at " << i;
    }
  }
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

// Lines of many short rows, and far more padding than rows of it at a time, by every mode.
TEST(Pad, ManyShortRows) {
  RandomData data;
  for (int round = 0; round < 60; ++round) {
    const int64_t width = std::vector<int64_t>{1, 2, 4, 8}[static_cast<size_t>(round % 4)];
    const std::vector<int64_t> dims{data.integer(1, 4), data.integer(1, 900), data.integer(4, 9)};
    std::vector<int64_t> before, after;
    for (const int64_t n : dims) {
      before.push_back(data.integer(0, std::min<int64_t>(3, n)));
      after.push_back(data.integer(0, std::min<int64_t>(3, n)));
    }
    if (round % 3 == 0) before[1] = after[1] = 0;  // taken with the first
    constexpr PadMode modes[] = {PadMode::constant, PadMode::edge, PadMode::wrap, PadMode::reflect};
    const PadMode mode = modes[data.integer(0, 3)];
    const auto in = bytes(data, dims[0] * dims[1] * dims[2] * width);
    const Pad pad(width, dims, before, after, mode);
    const std::vector<int64_t>& size = pad.out_dims();
    std::vector<uint8_t> out(static_cast<size_t>(size[0] * size[1] * size[2] * width) + 1, 0x5a);
    const std::vector<uint8_t> value = bytes(data, width);
    ThreadPool pool(1 + round % 3);
    pad.run(pool, in.data(), out.data(), value.data());
    ASSERT_EQ(out.back(), 0x5a);
    const auto source = [&](size_t d, int64_t i) -> int64_t {
      const int64_t n = dims[d], at = i - before[d], period = std::max<int64_t>(1, 2 * (n - 1));
      if (at >= 0 && at < n) return at;
      if (mode == PadMode::constant) return -1;
      if (mode == PadMode::edge) return at < 0 ? 0 : n - 1;
      if (mode == PadMode::wrap) return (at + 4 * n) % n;
      const int64_t turned = (at + 8 * period) % period;
      return n == 1 ? 0 : turned < n ? turned : period - turned;
    };
    for (int64_t i = 0; i < size[0] * size[1] * size[2]; ++i) {
      const int64_t a = source(0, i / (size[1] * size[2])), b = source(1, i / size[2] % size[1]),
                    c = source(2, i % size[2]);
      const uint8_t* expected =
          a < 0 || b < 0 || c < 0 ? value.data() : &in[static_cast<size_t>(((a * dims[1] + b) * dims[2] + c) * width)];
      ASSERT_EQ(std::memcmp(&out[static_cast<size_t>(i * width)], expected, static_cast<size_t>(width)), 0)
          << "round " << round << ", element " << i;
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

TEST(Pad, AnEmptyDimThatStaysEmpty) {
  ThreadPool pool(2);
  for (const PadMode mode : {PadMode::constant, PadMode::edge}) {
    Pad pad(4, {2, 0}, {0, 1}, {0, -1}, mode);
    EXPECT_EQ(pad.out_dims(), (std::vector<int64_t>{2, 0}));
    pad.run(pool, nullptr, nullptr);
  }
  EXPECT_THROW(Pad(4, {1}, {2}, {-3}, PadMode::edge), Error);
}

}  // namespace
}  // namespace camshaft::cpu::pad_test
