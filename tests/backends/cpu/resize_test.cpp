#include "backends/cpu/kernels/window/resize.h"

#include <gtest/gtest.h>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "base/error.h"

namespace camshaft::cpu {
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

TEST(Resize, RandomTapsInBothLayouts) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      const int64_t taps[] = {1, 2, 4, 3};
      ResizeAxis h = random_axis(data, taps[round % 4]);
      ResizeAxis w = random_axis(data, round % 5 == 0 ? 2 : taps[round % 4]);
      if (round % 9 == 0) h = ResizeAxis::identity(5);
      if (round % 10 == 0) {  // wider than the line that is kept on the stack
        w.in = 5000;
        for (int32_t& i : w.index) i = i < 0 ? i : static_cast<int32_t>(data.integer(0, 4999));
      }
      const int64_t batch = data.integer(1, 2), channels = data.integer(1, 40);
      const bool last = round % 2 == 0;
      const auto in = data.floats(batch * channels * h.in * w.in);
      std::vector<float> out(static_cast<size_t>(batch * channels * h.out * w.out) + 1, 8.0f);
      ThreadPool pool(1 + round % 3);
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
              ASSERT_NEAR(out[at(b, c, y, x, h.out, w.out)], outside ? -3.0 : expected, 2e-5) << "round " << round;
            }
          }
        }
      }
    }
  });
}

TEST(Resize, BadIndicesAreRefused) {
  ResizeAxis axis = ResizeAxis::identity(3);
  axis.index[1] = 3;
  EXPECT_THROW(Resize2d(1, 1, axis, ResizeAxis::identity(2), false), Error);
}

}  // namespace
}  // namespace camshaft::cpu
