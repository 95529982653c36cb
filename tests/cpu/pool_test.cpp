#include "cpu/kernels/pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cpu/each_target.h"
#include "cpu/random_data.h"

namespace camshaft::cpu {
namespace {

TEST(Pool, RandomProblemsInBothLayouts) {
  RandomData data(31);
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      Pool2d p;
      p.batch = data.pick(1, 2);
      p.channels = data.pick(1, 40);
      p.in_height = round % 6 == 0 ? 1 : data.pick(1, 20);
      p.in_width = data.pick(1, 30);
      p.kernel_height = p.in_height == 1 ? 1 : data.pick(1, 5);
      p.kernel_width = data.pick(1, 5);
      p.stride_height = data.pick(1, 3);
      p.stride_width = data.pick(1, 3);
      p.dilation_height = data.pick(1, 2);
      p.dilation_width = data.pick(1, 2);
      p.pad_top = data.pick(0, p.kernel_height - 1);
      p.pad_bottom = data.pick(0, p.kernel_height - 1);
      p.pad_left = data.pick(0, p.kernel_width - 1);
      p.pad_right = data.pick(0, p.kernel_width - 1);
      const int64_t up = round % 2;  // ceil mode
      const auto size = [&](int64_t in, int64_t pads, int64_t kernel, int64_t dilation, int64_t stride) {
        const int64_t room = in + pads - dilation * (kernel - 1) - 1;
        return room < 0 ? 0 : (room + (up ? stride - 1 : 0)) / stride + 1;
      };
      p.out_height = size(p.in_height, p.pad_top + p.pad_bottom, p.kernel_height, p.dilation_height, p.stride_height);
      p.out_width = size(p.in_width, p.pad_left + p.pad_right, p.kernel_width, p.dilation_width, p.stride_width);
      p.channels_last = data.pick(0, 1) != 0;
      p.average = data.pick(0, 1) != 0;
      p.count_include_pad = data.pick(0, 1) != 0;

      const auto in = data.floats(p.batch * p.channels * p.in_height * p.in_width);
      const int64_t total = p.batch * p.channels * p.out_height * p.out_width;
      std::vector<float> out(static_cast<size_t>(total) + 1, 55.0f);
      ThreadPool pool(1 + round % 3);
      p.run(pool, in.data(), out.data());
      ASSERT_EQ(out.back(), 55.0f);
      const auto at = [&](int64_t b, int64_t c, int64_t y, int64_t x, int64_t height, int64_t width) {
        return static_cast<size_t>(p.channels_last ? ((b * height + y) * width + x) * p.channels + c
                                                   : ((b * p.channels + c) * height + y) * width + x);
      };
      for (int64_t i = 0; i < total; ++i) {
        const int64_t x = i % p.out_width, y = i / p.out_width % p.out_height;
        const int64_t c = i / (p.out_width * p.out_height) % p.channels;
        const int64_t b = i / (p.out_width * p.out_height * p.channels);
        double sum = 0, best = -INFINITY;
        int64_t count = 0;
        for (int64_t r = 0; r < p.kernel_height; ++r) {
          for (int64_t k = 0; k < p.kernel_width; ++k) {
            const int64_t iy = y * p.stride_height - p.pad_top + r * p.dilation_height;
            const int64_t ix = x * p.stride_width - p.pad_left + k * p.dilation_width;
            const bool inside = iy >= 0 && iy < p.in_height && ix >= 0 && ix < p.in_width;
            const bool in_padding = iy < p.in_height + p.pad_bottom && ix < p.in_width + p.pad_right;
            count += p.count_include_pad ? in_padding : inside;
            if (!inside) continue;
            sum += in[at(b, c, iy, ix, p.in_height, p.in_width)];
            best = std::max<double>(best, in[at(b, c, iy, ix, p.in_height, p.in_width)]);
          }
        }
        const double expected = !p.average ? best : count ? sum / static_cast<double>(count) : 0;
        const float got = out[at(b, c, y, x, p.out_height, p.out_width)];
        if (std::isinf(expected)) {
          ASSERT_EQ(got, expected);
        } else {
          ASSERT_NEAR(got, expected, p.average ? 1e-5 : 0) << "round " << round;
        }
      }
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu
