#include "backends/cpu/kernels/window/pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/each_target.h"
#include "backends/cpu/guarded.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/reduce.h"
#include "ir/ops/window_ops.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::pool_test {
namespace {

TEST(Pool, RandomProblemsInBothLayouts) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      SpatialPool p;
      p.batch = data.integer(1, 2);
      p.channels = data.integer(1, round % 4 == 0 ? 150 : 40);
      const int64_t up = round % 2;  // ceil mode
      const auto fill = [&](PoolAxis& a, int64_t most) {
        a.in = most == 1 ? 1 : data.integer(1, most);
        a.kernel = a.in == 1 ? 1 : data.integer(1, 5);
        a.stride = data.integer(1, 3);
        a.dilation = data.integer(1, 2);
        a.pad_before = data.integer(0, a.kernel - 1);
        a.pad_after = data.integer(0, a.kernel - 1);
        const int64_t room = a.in + a.pad_before + a.pad_after - a.dilation * (a.kernel - 1) - 1;
        a.out = room < 0 ? 0 : (room + (up ? a.stride - 1 : 0)) / a.stride + 1;
      };
      fill(p.depth, round % 3 == 0 ? 7 : 1);
      fill(p.height, round % 6 == 0 ? 1 : round % 3 == 0 ? 9 : 20);
      fill(p.width, round % 3 == 0 ? 12 : round % 10 == 1 ? 400 : 30);  // of 400 not all lines are combined at once
      p.channels_last = data.integer(0, 1) != 0;
      p.average = data.integer(0, 1) != 0;
      p.count_include_pad = data.integer(0, 1) != 0;

      const auto in = data.floats(p.batch * p.channels * p.depth.in * p.height.in * p.width.in);
      const int64_t total = p.batch * p.channels * p.depth.out * p.height.out * p.width.out;
      std::vector<float> out(static_cast<size_t>(total) + 1, 55.0f);
      ThreadPool pool(1 + round % 3);
      p.run(pool, in.data(), out.data());
      ASSERT_EQ(out.back(), 55.0f);
      const auto at = [&](int64_t b, int64_t c, const int64_t(&i)[3], int64_t depth, int64_t height, int64_t width) {
        return static_cast<size_t>(p.channels_last
                                       ? (((b * depth + i[0]) * height + i[1]) * width + i[2]) * p.channels + c
                                       : (((b * p.channels + c) * depth + i[0]) * height + i[1]) * width + i[2]);
      };
      for (int64_t i = 0; i < total; ++i) {
        const int64_t x = i % p.width.out, y = i / p.width.out % p.height.out;
        const int64_t z = i / (p.width.out * p.height.out) % p.depth.out;
        const int64_t plane = i / (p.width.out * p.height.out * p.depth.out);
        const int64_t c = plane % p.channels, b = plane / p.channels;
        double sum = 0, best = -INFINITY;
        int64_t count = 0;
        for (int64_t tap = 0; tap < p.depth.kernel * p.height.kernel * p.width.kernel; ++tap) {
          const int64_t k[3] = {tap / (p.height.kernel * p.width.kernel), tap / p.width.kernel % p.height.kernel,
                                tap % p.width.kernel};
          const PoolAxis* axes[3] = {&p.depth, &p.height, &p.width};
          const int64_t to[3] = {z, y, x};
          int64_t from[3];
          bool inside = true, in_padding = true;
          for (int a = 0; a < 3; ++a) {
            from[a] = to[a] * axes[a]->stride - axes[a]->pad_before + k[a] * axes[a]->dilation;
            inside = inside && from[a] >= 0 && from[a] < axes[a]->in;
            in_padding = in_padding && from[a] < axes[a]->in + axes[a]->pad_after;
          }
          count += p.count_include_pad ? in_padding : inside;
          if (!inside) continue;
          const double v = in[at(b, c, from, p.depth.in, p.height.in, p.width.in)];
          sum += v;
          best = std::max(best, v);
        }
        const double expected = !p.average ? best : count ? sum / static_cast<double>(count) : 0;
        const float got = out[at(b, c, {z, y, x}, p.depth.out, p.height.out, p.width.out)];
        if (std::isinf(expected)) {
          ASSERT_EQ(got, expected);
        } else {
          ASSERT_NEAR(got, expected, p.average ? 1e-5 : 0) << "round " << round;
        }
      }
    }
  });
}

// Windows that fill lines one behind the other, which are then pooled as one; and such as do not, by a pixel or a step.
TEST(Pool, WindowsThatFillLines) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t stride = random.integer(1, 7), dilation = random.integer(1, 2);
      const int64_t kernel = random.integer(1, std::max<int64_t>(1, (stride - 1) / dilation + 1 + round % 2));
      const int64_t width = stride * random.integer(1, 9) + (round % 5 == 0 ? random.integer(0, stride - 1) : 0);
      const int64_t extent = (kernel - 1) * dilation + 1;
      if (width < extent) continue;
      ops::Pool op;
      op.kind = round % 2 ? ops::PoolKind::average : ops::PoolKind::max;
      const bool deep = round % 4 == 0;
      op.kernel = deep ? Dims{1, 1, kernel} : Dims{1, kernel};
      op.strides = deep ? Dims{1, 1, stride} : Dims{1, stride};
      op.dilations = deep ? Dims{1, 1, dilation} : Dims{1, dilation};
      op.pads.assign(2 * op.kernel.size(), Dim(0));
      // As many lines, of which one is padding and one is left out.
      const size_t lines = op.kernel.size() - 2;
      if (round % 3 == 0) op.pads[lines] = Dim(1), op.pads[op.kernel.size() + lines] = Dim(-1);
      Dims image{random.integer(1, 2), random.integer(1, 3)};
      if (deep) image.push_back(random.integer(1, 3));
      image.push_back(random.integer(2, 5));
      image.push_back(width);
      NodeTest(op, {random_tensor(random, DType::f32, image)}, {}, "pool", 1e-6).check(1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Many short lines of one window or some, which are pooled as longer ones: as many of them as divide all.
TEST(Pool, ManyShortLinesThatWindowsFill) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const int64_t stride = random.integer(1, 7), windows = random.integer(1, round % 4 ? 9 : 70);
      ops::Pool op;
      op.kind = round % 2 ? ops::PoolKind::average : ops::PoolKind::max;
      op.kernel = {random.integer(1, stride)};
      op.strides = {stride};
      op.dilations = {1};
      op.pads = {Dim(0), Dim(0)};
      const Dims image{random.integer(1, 5), random.integer(round % 10 ? 1 : 0, round % 3 ? 30 : 1000),
                       stride * windows};
      NodeTest(op, {random_tensor(random, DType::f32, image)}, {}, "pool", 1e-6).check(1 + round % 3);
      if (op.kind == ops::PoolKind::max)
        NodeTest(op, {random_tensor(random, DType::i8, image)}, {}, "max_pool").check(1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// No window lies inside them, so that there is nothing that two windows share. The image ends where readable memory
// does.
TEST(Pool, ImagesNarrowerThanAWindow) {
  for_each_target([&] {
    for (const int64_t channels : {1, 19})
      for (const int64_t kernel : {2, 3, 5})
        for (int64_t columns = 0; columns < kernel; ++columns) {
          SpatialPool p;
          p.channels = channels;
          p.channels_last = true;
          p.depth = p.height = {1, 1, 1, 1, 1, 0, 0};
          PoolAxis& w = p.width;
          w.in = columns, w.kernel = kernel, w.stride = kernel == 2 ? 2 : 1, w.dilation = 1;
          w.pad_before = kernel - 1, w.pad_after = kernel - 1 - columns, w.out = kernel == 2 ? 1 : kernel - 1;
          Tensor page(DType::f32, {columns * channels + 1024});
          std::fill_n(page.as_mutable<float>(), page.size(), 3.0F);
          const Tensor memory = guarded(page);
          std::vector<float> out(static_cast<size_t>(w.out * channels) + 1, 55.0F);
          ThreadPool pool(1);
          p.run(pool, memory.as<float>() + 1024, out.data());
          for (int64_t i = 0; i < w.out * channels; ++i) {
            const bool sees_any = i / channels * w.stride - w.pad_before + kernel > 0 && columns > 0;
            EXPECT_EQ(out[static_cast<size_t>(i)], sees_any ? 3 : -INFINITY) << kernel << " " << columns << " " << i;
          }
          EXPECT_EQ(out.back(), 55);
        }
  });
}

// The maximum of the numbers, -inf where there is none: as ONNX Runtime and the standard's reference have it.
TEST(Pool, MaximaPassOverNan) {
  Random random = test_random();
  constexpr float special[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      ops::Pool op;
      op.kind = ops::PoolKind::max;
      op.channels_last = round % 2 == 0;
      op.kernel = {random.integer(1, 3), random.integer(1, 4)};
      op.strides = {random.integer(1, 2), random.integer(1, 3)};
      op.dilations = {1, 1};
      op.pads.assign(4, Dim(0));
      const int64_t channels = random.integer(1, 40);
      const Dims x = op.channels_last ? Dims{1, 7, 9, channels} : Dims{1, channels, 7, 40};
      Tensor image = random_tensor(random, DType::f32, x);
      for (int64_t i = 0; i < image.size(); ++i)
        if (random.integer(0, 2) == 0) image.as_mutable<float>()[i] = special[random.integer(0, 2)];
      NodeTest{op, {image}, {}, "pool"}.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Small images, many of which see beyond an end of their lines: as one line with masks where the result has as many
// pixels, else with masks of the columns; what they stand beside is not read.
TEST(Pool, MaximaOfSmallImages) {
  Random random = test_random();
  constexpr float special[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(), -0.0F};
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      ops::Pool op;
      op.kind = ops::PoolKind::max;
      Dims x{random.integer(round % 20 ? 1 : 0, 2), random.integer(1, 9)};
      const bool keeps_size = round % 3 != 0;
      for (int axis = 0; axis < 2; ++axis) {
        op.kernel.push_back(random.integer(1, axis == 1 && round % 7 == 0 ? 9 : 5));
        op.dilations.push_back(random.integer(1, 3));
        op.strides.push_back(keeps_size ? 1 : random.integer(1, axis == 1 ? 9 : 3));
        x.push_back(random.integer(1, round % 4 ? 16 : 90));
      }
      for (int end = 0; end < 2; ++end)
        for (size_t axis = 0; axis < 2; ++axis) {
          const int64_t reach = (op.kernel[axis] - 1) * op.dilations[axis];
          op.pads.emplace_back(keeps_size ? (end ? reach - reach / 2 : reach / 2) : random.integer(reach / 2, reach));
        }
      Tensor image = random_tensor(random, DType::f32, x);
      for (int64_t i = 0; i < image.size() && round % 2; ++i)
        if (random.integer(0, 4) == 0) image.as_mutable<float>()[i] = special[random.integer(0, 3)];
      NodeTest{op, {image}, {}, "pool"}.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// The same of averages, with numbers alone: of how many taps is another matter at each end.
TEST(Pool, AveragesOfSmallImages) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      ops::Pool op;
      op.kind = ops::PoolKind::average;
      op.count_include_pad = round % 2 == 0;
      Dims x{random.integer(round % 20 ? 1 : 0, 2), random.integer(1, 9)};
      const bool keeps_size = round % 5 != 0;
      for (int axis = 0; axis < 2; ++axis) {
        op.kernel.push_back(random.integer(1, 5));
        op.dilations.push_back(random.integer(1, 3));
        op.strides.push_back(keeps_size ? 1 : random.integer(1, 2));
        x.push_back(random.integer(1, round % 4 ? 16 : 60));
      }
      for (int end = 0; end < 2; ++end)
        for (size_t axis = 0; axis < 2; ++axis) {
          const int64_t reach = (op.kernel[axis] - 1) * op.dilations[axis];
          op.pads.emplace_back(keeps_size ? (end ? reach - reach / 2 : reach / 2) : random.integer(reach / 2, reach));
        }
      NodeTest{op, {random_tensor(random, DType::f32, x)}, {}, "pool", 1e-5}.check(
          static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Whatever bits there are: of f64 NaN and infinities are among them.
Tensor random_bits(Random& random, DType dtype, const Dims& dims) {
  Tensor x(dtype, dims);
  for (size_t i = 0; i < x.bytes(); ++i) x.mutable_data()[i] = static_cast<std::byte>(random.integer(0, 255));
  if (dtype != DType::f64) return x;
  constexpr double special[] = {NAN, INFINITY, -INFINITY, 0.5, -0.0, 0.0};
  for (int64_t i = 0; i < x.size(); ++i)
    if (random.integer(0, 3) == 0) x.as_mutable<double>()[i] = special[random.integer(0, 5)];
  return x;
}

constexpr DType other_types[] = {DType::i8,  DType::u8,  DType::i16, DType::u16, DType::i32,
                                 DType::u32, DType::i64, DType::u64, DType::f64};

TEST(MaxPool, AgreesWithTheReferenceInAllTypes) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      const int64_t axes = random.integer(1, 3);
      ops::Pool op;
      op.kind = ops::PoolKind::max;
      op.channels_last = random.integer(0, 1) == 1;
      op.ceil_mode = random.integer(0, 1) == 1;
      Dims spatial;
      Shape ends;
      for (int64_t i = 0; i < axes; ++i) {
        const bool is_long = i + 1 == axes && !op.channels_last && random.integer(0, 2) == 0;
        spatial.push_back(is_long ? random.integer(250, 900) : random.integer(5, 12));
        op.kernel.push_back(random.integer(1, 3));
        op.strides.push_back(random.integer(1, 3));
        op.dilations.push_back(random.integer(1, 2));
        op.pads.emplace_back(random.integer(0, op.kernel.back() - 1));
        ends.emplace_back(random.integer(0, op.kernel.back() - 1));
      }
      op.pads.insert(op.pads.end(), ends.begin(), ends.end());
      Dims dims{random.integer(1, 2)};
      const int64_t channels = random.integer(round % 20 ? 1 : 0, op.channels_last ? 150 : 4);
      if (!op.channels_last) dims.push_back(channels);
      dims.insert(dims.end(), spatial.begin(), spatial.end());
      if (op.channels_last) dims.push_back(channels);
      const DType dtype = other_types[random.integer(0, std::ssize(other_types) - 1)];
      SCOPED_TRACE(to_string(dtype));
      const NodeTest test(op, {random_bits(random, dtype, dims)}, {}, "max_pool");
      test.check(1);
      test.check(3);
    }
  });
}

TEST(MaxPool, SmallImagesOfAllTypes) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      ops::Pool op;
      op.kind = ops::PoolKind::max;
      Dims x{random.integer(1, 2), random.integer(1, 30)};
      for (int axis = 0; axis < 2; ++axis) {
        op.kernel.push_back(random.integer(1, 5));
        op.dilations.push_back(random.integer(1, 2));
        op.strides.push_back(1);
        x.push_back(random.integer(1, 15));
      }
      for (int end = 0; end < 2; ++end)
        for (size_t axis = 0; axis < 2; ++axis) {
          const int64_t reach = (op.kernel[axis] - 1) * op.dilations[axis];
          op.pads.emplace_back(end ? reach - reach / 2 : reach / 2);
        }
      const DType dtype = other_types[static_cast<size_t>(round) % std::size(other_types)];
      SCOPED_TRACE(to_string(dtype));
      NodeTest(op, {random_bits(random, dtype, x)}, {}, "max_pool").check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(MaxPool, ImagesThatOneWindowSees) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 80; ++round) {
      ops::Pool op;
      op.kind = ops::PoolKind::max;
      op.ceil_mode = random.integer(0, 1) == 1;
      Dims x{random.integer(1, 3), random.integer(1, round % 4 ? 9 : 300)};
      const int64_t axes = random.integer(1, 3);
      for (int64_t axis = 0; axis < axes; ++axis) {
        x.push_back(random.integer(1, axes == 3 ? 6 : 20));
        op.kernel.push_back(x.back());
        op.strides.push_back(random.integer(1, 3));
      }
      op.dilations.assign(op.kernel.size(), 1);
      op.pads.assign(2 * op.kernel.size(), Dim(0));
      if (round % 5 == 0) op.pads.back() = Dim(op.kernel.back() - 1);  // more windows, or one that sees the end's pad
      const DType dtype = other_types[random.integer(0, std::ssize(other_types) - 1)];
      SCOPED_TRACE(to_string(dtype));
      NodeTest(op, {random_bits(random, dtype, x)}, {}, "max_pool").check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Lines of one and two vectors of each instruction set, and those that are combined together; windows any steps apart,
// also wider than what registers keep.
TEST(Pool, WindowsByUnequalSteps) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const size_t axes = round % 3 ? 2 : 3;
      ops::Pool op;
      op.kind = random.integer(0, 1) ? ops::PoolKind::max : ops::PoolKind::average;
      op.count_include_pad = random.integer(0, 1) == 1;
      op.ceil_mode = random.integer(0, 1) == 1;
      Dims x{random.integer(1, 2), random.integer(1, 9)};
      for (size_t a = 0; a < axes; ++a) {
        const bool row = a + 1 == axes;
        op.kernel.push_back(random.integer(1, row ? 18 : 5));
        op.strides.push_back(random.integer(1, row ? 9 : 3));
        op.dilations.push_back(random.integer(1, 2));
        const int64_t reach = (op.kernel[a] - 1) * op.dilations[a] + 1;
        x.push_back(std::max(reach, random.integer(1, !row ? 9 : round % 5 ? 34 : 150)));
      }
      for (size_t a = 0; a < 2 * axes; ++a) op.pads.emplace_back(random.integer(0, op.kernel[a % axes] - 1));
      if (round % 4 == 0) {  // pixels are cut off, too
        const int64_t reach = (op.kernel[axes - 1] - 1) * op.dilations[axes - 1] + 1;
        op.pads[axes - 1] = Dim(-random.integer(0, x.back() - reach));
      }
      NodeTest{op, {random_tensor(random, DType::f32, x)}, {}, "pool", 1e-5}.check(
          static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Every height, width and step for which rows and columns are shared between windows, over lines of one vector and
// more, with numbers that are none: maxima pass over these.
TEST(Pool, WindowsThatShareRows) {
  Random random = test_random();
  for_each_target([&] {
    for (int64_t kernel = 2; kernel <= 8; ++kernel)
      for (int64_t step = 1; step <= 3; ++step) {
        ops::Pool op;
        op.kind = random.integer(0, 1) ? ops::PoolKind::max : ops::PoolKind::average;
        op.count_include_pad = random.integer(0, 1) == 1;
        op.ceil_mode = random.integer(0, 1) == 1;
        op.kernel = {kernel, random.integer(2, 8)};
        op.strides = {step, random.integer(2, 3)};
        op.dilations = {1, 1};
        for (size_t a = 0; a < 4; ++a) op.pads.emplace_back(random.integer(0, op.kernel[a % 2] - 1));
        Tensor x = random_tensor(random, DType::f32, {2, 3, random.integer(8, 40), random.integer(33, 150)});
        if (op.kind == ops::PoolKind::max)
          for (int i = 0; i < 9; ++i)
            x.as_mutable<float>()[static_cast<size_t>(random.integer(0, x.size() - 1))] =
                i % 2 ? std::nanf("") : -INFINITY;
        NodeTest{op, {x}, {}, "pool", 1e-5}.check(static_cast<int>(random.integer(1, 3)));
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

// From vectors on: what is cut off may be longer than those.
TEST(Pool, RowsThatAreCut) {
  Random random = test_random();
  for_each_target([&] {
    for (const int64_t cut : {1, 7, 15, 16, 31, 47}) {
      ops::Pool op;
      op.kernel = {1, 3};
      op.strides = op.dilations = {1, 1};
      op.pads = {Dim(0), Dim(-cut), Dim(0), Dim(0)};
      NodeTest{op, {random_tensor(random, DType::f32, {1, 1, 1, 64})}, {}, "pool", 1e-5}.check(1);
    }
  });
}

TEST(Pool, LongRowsAndWideWindows) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 24; ++round) {
      const size_t axes = static_cast<size_t>(random.integer(1, 3));
      ops::Pool op;
      op.kind = random.integer(0, 1) ? ops::PoolKind::max : ops::PoolKind::average;
      op.count_include_pad = random.integer(0, 1) == 1;
      op.pads.assign(2 * axes, Dim(0));
      Dims x{1, random.integer(1, 3)};
      for (size_t a = 0; a < axes; ++a) {
        const bool row = a + 1 == axes;
        const int64_t size = row ? random.integer(1900, 4500) : random.integer(1, 3);
        const int64_t kernel = !row        ? random.integer(1, 2)
                               : round % 4 ? random.integer(1, 40)
                                           : random.integer(1000, 4000);
        x.push_back(size);
        op.kernel.push_back(kernel);
        op.strides.push_back(row && round % 5 == 0 ? random.integer(100, 3000) : random.integer(1, 4));
        op.dilations.push_back(row && kernel < 50 ? random.integer(1, 100) : 1);
        const int64_t missing = std::max<int64_t>(0, (kernel - 1) * op.dilations.back() + 1 - size);
        op.pads[a] = Dim(random.integer(0, kernel - 1) + missing);
        op.pads[axes + a] = Dim(random.integer(0, kernel - 1));
      }
      NodeTest{op, {random_tensor(random, DType::f32, x)}, {}, "pool", 1e-5}.check(
          static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(PoolIndices, AgreeWithTheReference) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const size_t axes = static_cast<size_t>(random.integer(1, 3));
      ops::MaxPoolIndices op;
      op.ceil_mode = random.integer(0, 1) == 1;
      op.column_major = random.integer(0, 2) == 0;
      op.pads.assign(2 * axes, Dim(0));
      Dims x{random.integer(1, 2), random.integer(round % 20 ? 1 : 0, 4)};
      for (size_t a = 0; a < axes; ++a) {
        const int64_t kernel = random.integer(1, round % 10 ? 4 : 30), dilation = random.integer(1, 3);
        const int64_t reach = (kernel - 1) * dilation + 1, begin = random.integer(0, reach),
                      end = random.integer(0, reach);
        op.kernel.push_back(kernel);
        op.strides.push_back(random.integer(1, 4));
        op.dilations.push_back(dilation);
        op.pads[a] = Dim(begin);
        op.pads[axes + a] = Dim(end);
        x.push_back(std::max<int64_t>(1, reach - begin - end) + random.integer(0, axes == 1 && round % 3 ? 900 : 9));
      }
      if (round % 3 == 0) {
        const DType dtype = other_types[random.integer(0, std::ssize(other_types) - 1)];
        SCOPED_TRACE(to_string(dtype));
        NodeTest{op, {random_bits(random, dtype, x)}, {}, "pool_indices"}.check(static_cast<int>(random.integer(1, 3)));
        continue;
      }
      Tensor image = random_tensor(random, DType::f32, x);
      constexpr float special[] = {std::numeric_limits<float>::quiet_NaN(),
                                   std::numeric_limits<float>::infinity(),
                                   -std::numeric_limits<float>::infinity(),
                                   0.5f,
                                   -0.0f,
                                   0.0f};
      for (int64_t i = 0; i < image.size(); ++i)
        if (random.integer(0, round % 4 ? 3 : 40) == 0) image.as_mutable<float>()[i] = special[random.integer(0, 5)];
      NodeTest{op, {image}, {}, "pool_indices"}.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::pool_test
