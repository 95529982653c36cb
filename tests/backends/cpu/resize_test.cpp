#include "backends/cpu/kernels/window/resize.h"

#include <gtest/gtest.h>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "ir/ops/resize.h"
#include "test_random.h"

namespace camshaft::cpu::resize_test {
namespace {

ResizeAxis random_axis(RandomData& data, int64_t taps) {
  ResizeAxis axis;
  axis.in = data.integer(1, 12);
  axis.out = data.integer(0, 20);
  axis.taps = taps;
  for (int64_t i = 0; i < axis.out * taps; ++i) {
    axis.index.push_back(static_cast<int32_t>(data.integer(0, axis.in - 1)));
    axis.weight.push_back(taps == 1 ? 1.0f : data.floats(1)[0]);
  }
  for (int64_t i = 0; i < axis.out; ++i) {
    if (data.integer(0, 7) == 0) axis.index[static_cast<size_t>(i * taps)] = -1;
  }
  return axis;
}

// Against sums in double.
void check_taps(RandomData& data, const ResizeAxis& h, const ResizeAxis& w, int64_t batch, int64_t channels, bool last,
                int threads) {
  const auto in = data.floats(batch * channels * h.in * w.in);
  std::vector<float> out(static_cast<size_t>(batch * channels * h.out * w.out) + 1, 8.0f);
  ThreadPool pool(threads);
  Resize2d(batch, channels, h, w, last, -3.0f).run(pool, in.data(), out.data());
  ASSERT_EQ(out.back(), 8.0f);
  const auto at = [&](int64_t b, int64_t c, int64_t y, int64_t x, int64_t height, int64_t width) {
    return static_cast<size_t>(last ? ((b * height + y) * width + x) * channels + c
                                    : ((b * channels + c) * height + y) * width + x);
  };
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t y = 0; y < h.out; ++y) {
        for (int64_t x = 0; x < w.out; ++x) {
          double expected = 0;
          for (int64_t r = 0; r < h.taps; ++r) {
            for (int64_t k = 0; k < w.taps; ++k) {
              const auto row = static_cast<size_t>(y * h.taps + r), column = static_cast<size_t>(x * w.taps + k);
              if (h.index[row] < 0 || w.index[column] < 0) continue;
              expected += static_cast<double>(h.weight[row]) * w.weight[column] *
                          in[at(b, c, h.index[row], w.index[column], h.in, w.in)];
            }
          }
          const bool outside =
              h.index[static_cast<size_t>(y * h.taps)] < 0 || w.index[static_cast<size_t>(x * w.taps)] < 0;
          ASSERT_NEAR(out[at(b, c, y, x, h.out, w.out)], outside ? -3.0 : expected, 2e-5)
              << channels << " channels, " << w.in << " to " << w.out << " columns";
        }
      }
    }
  }
}

TEST(Resize, RandomTapsInBothLayouts) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      const int64_t taps[] = {1, 2, 4, 3};
      ResizeAxis h = random_axis(data, taps[round % 4]);
      ResizeAxis w = random_axis(data, round % 5 == 0 ? 2 : taps[round % 4]);
      if (round % 9 == 0) h = ResizeAxis::identity(5);
      if (round % 7 == 0) w = ResizeAxis::identity(data.integer(1, 70));
      if (round % 10 == 0) {  // wider than the line that is kept on the stack
        w.in = 5000;
        for (int32_t& i : w.index) i = i < 0 ? i : static_cast<int32_t>(data.integer(0, 4999));
      }
      check_taps(data, h, w, data.integer(1, 2), data.integer(1, 40), round % 2 == 0, 1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// As images have them: the columns that an output column sees lie beside each other, and next to those of its
// neighbours. More columns and channels than are combined at once.
TEST(Resize, LinesOfNeighbours) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 12; ++round) {
      ResizeAxis h = random_axis(data, 2), w = random_axis(data, round % 3 ? 2 : 4);
      w.in = data.integer(1, 400);
      w.out = data.integer(w.in / 2 + 1, 2 * w.in);
      w.index.clear();
      w.weight = data.floats(w.out * w.taps);
      for (int64_t x = 0; x < w.out; ++x) {
        const bool outside = data.integer(0, 30) == 0;
        for (int64_t k = 0; k < w.taps; ++k)
          w.index.push_back(outside ? -1 : static_cast<int32_t>(std::min(w.in - 1, x * w.in / w.out + k)));
      }
      check_taps(data, h, w, 1, data.integer(4, round % 4 ? 90 : 600), true, 1 + round % 3);
      check_taps(data, h, w, 1, data.integer(1, 3), false, 1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Images of lines up to a vector's length and beyond, before and after, whose columns are all inside.
TEST(Resize, NarrowImages) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const ResizeAxis h = random_axis(data, data.integer(1, 4));
      ResizeAxis w{data.integer(1, 20), data.integer(1, 20), data.integer(1, 5), {}, {}};
      for (int64_t i = 0; i < w.out * w.taps; ++i) {
        w.index.push_back(static_cast<int32_t>(data.integer(0, w.in - 1)));
        w.weight.push_back(data.floats(1)[0]);
      }
      check_taps(data, h, w, data.integer(1, 2), data.integer(1, 9), false, 1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Any axes and types, growing and shrinking, on lines longer than vectors.
TEST(Resize, NearestPicksElements) {
  Random random = test_random();
  constexpr DType types[] = {DType::f32, DType::u8, DType::i64, DType::f16, DType::boolean, DType::i32};
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const int64_t rank = random.integer(1, 5);
      ops::Resize op;
      Dims dims;
      for (int64_t d = 0; d < rank; ++d) {
        dims.push_back(random.integer(1, round % 5 == 0 && d + 1 == rank ? 200 : 7));
        if (random.integer(0, 2) == 0) continue;
        op.axes.push_back(d);
        // Lines that become twice as long have a way of their own.
        const bool doubles = round % 4 == 1 && d + 2 >= rank;
        op.sizes.emplace_back(doubles ? 2 * dims.back() : random.integer(round % 20 == 0 ? 0 : 1, 2 * dims.back() + 9));
        op.scales.push_back(0);
      }
      op.coordinate = static_cast<ops::ResizeCoordinate>(random.integer(0, 4));
      op.nearest = static_cast<ops::ResizeNearest>(random.integer(0, 4));
      Tensor x(types[round % 6], dims);
      for (size_t i = 0; i < x.bytes(); ++i)
        x.mutable_data()[i] = static_cast<std::byte>(random.integer(0, x.dtype() == DType::boolean ? 1 : 255));
      NodeTest(op, {x}, {}, "resize").check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Rows below and above a vector's length, of every width of elements: whole vectors, tails, and rows cut between
// threads.
TEST(Resize, NearestDoublesLinesAndRows) {
  Random random = test_random();
  constexpr DType types[] = {DType::u8, DType::f16, DType::f32, DType::i64};
  for_each_target([&] {
    for (int round = 0; round < 80; ++round) {
      const Dims dims{random.integer(1, 3), random.integer(1, 9), random.integer(1, round % 4 ? 70 : 400)};
      ops::Resize op;
      op.axes = {1, 2};
      op.sizes = {Dim(2 * dims[1]), Dim(2 * dims[2])};
      op.scales = {0, 0};
      op.coordinate = ops::ResizeCoordinate::asymmetric;
      op.nearest = ops::ResizeNearest::floor;
      Tensor x(types[round % 4], dims);
      for (size_t i = 0; i < x.bytes(); ++i) x.mutable_data()[i] = static_cast<std::byte>(random.integer(0, 255));
      NodeTest(op, {x}, {}, "resize").check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Any axes, one or two at a time: volumes, channels, and images without a batch.
TEST(Resize, InterpolatesAlongAnyAxes) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      ops::Resize op;
      op.mode = random.integer(0, 1) ? ops::ResizeMode::linear : ops::ResizeMode::cubic;
      op.antialias = random.integer(0, 3) == 0;
      Dims dims;
      const int64_t rank = random.integer(1, 5);
      for (int64_t d = 0; d < rank; ++d) {
        dims.push_back(random.integer(1, round % 5 == 0 && d + 1 == rank ? 60 : 7));
        if (random.integer(0, 2) == 0) continue;
        op.axes.push_back(d);
        op.sizes.emplace_back(random.integer(round % 20 == 0 ? 0 : 1, 2 * dims.back() + 9));
        op.scales.push_back(0);
      }
      op.coordinate = static_cast<ops::ResizeCoordinate>(random.integer(0, 4));
      op.exclude_outside = op.mode == ops::ResizeMode::cubic && random.integer(0, 1);
      if (op.axes.empty()) continue;
      Tensor x(DType::f32, dims);
      for (int64_t i = 0; i < x.size(); ++i) x.as_mutable<float>()[i] = static_cast<float>(random.uniform(-1, 1));
      NodeTest(op, {x}, {}, "resize", 3e-6).check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(IntegerResize, AgreesWithTheReference) {
  Random random = test_random();
  constexpr DType types[] = {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::i32};
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      ops::Resize op;
      op.mode = random.integer(0, 1) ? ops::ResizeMode::linear : ops::ResizeMode::cubic;
      op.antialias = random.integer(0, 3) == 0;
      const int64_t spatial = random.integer(1, 3), first = random.integer(1, 2);
      const bool keeps_first = spatial == 3 && random.integer(0, 3) == 0;  // a volume's planes are images
      Dims dims;
      for (int64_t d = 0; d < spatial + 2; ++d) {
        dims.push_back(random.integer(1, round % 5 || spatial == 3 ? 9 : 40));
        if (d < first || d >= first + spatial || (keeps_first && d == first)) continue;
        op.axes.push_back(d);
        op.sizes.emplace_back(random.integer(round % 20 == 0 ? 0 : 1, 2 * dims.back() + 9));
        op.scales.push_back(0);
      }
      op.coordinate = static_cast<ops::ResizeCoordinate>(random.integer(0, 4));
      op.exclude_outside = op.mode == ops::ResizeMode::cubic && random.integer(0, 1);
      Tensor x(types[round % 6], dims);
      for (size_t i = 0; i < x.bytes(); ++i) x.mutable_data()[i] = static_cast<std::byte>(random.integer(0, 255));
      NodeTest(op, {x}, {}, "integer_resize").check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Resize, BadIndicesAreRefused) {
  ResizeAxis axis = ResizeAxis::identity(3);
  axis.index[1] = 3;
  EXPECT_THROW(Resize2d(1, 1, axis, ResizeAxis::identity(2), false), Error);
}

}  // namespace
}  // namespace camshaft::cpu::resize_test
