#include <cmath>
#include <limits>

#include "ir/ops/reduce.h"
#include "reference/random_tensor.h"
#include "reference/single_op.h"

namespace camshaft::ops::normalize_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

void expect_close(const Tensor& got, const std::vector<double>& want) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(values[i], rounded(got.dtype(), want[i]), tolerance(got.dtype(), want[i])) << i;
}

TEST(Softmax, ByHand) {
  const Tensor x = f32({1, 2}, {0, std::log(3.0f)});
  const std::vector<double> y = run_op(Softmax{1}, {x})[0].to_doubles();
  EXPECT_NEAR(y[0], 0.25, 1e-7);
  EXPECT_NEAR(y[1], 0.75, 1e-7);
  EXPECT_EQ(run_op(Softmax{0}, {x})[0], f32({1, 2}, {1, 1}));
  EXPECT_NEAR(run_op(Softmax{1, true}, {x})[0].to_doubles()[0], std::log(0.25), 1e-7);
  EXPECT_EQ(run_op(Softmax{0}, {f32({3}, {1000, 1000, -infinity})})[0], f32({3}, {0.5f, 0.5f, 0}));
  EXPECT_EQ(run_op(Softmax{0, true}, {f32({2}, {-1000, 0})})[0], f32({2}, {-1000, 0}));
  for (const double v : run_op(Softmax{0}, {f32({2}, {-infinity, -infinity})})[0].to_doubles())
    EXPECT_TRUE(std::isnan(v));
  EXPECT_EQ(run_op(Softmax{1}, {Tensor(DType::f32, {2, 0})})[0].size(), 0);
}

TEST(Softmax, LikeNaiveLoops) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const Dims dims{random.integer(1, 5), random.integer(1, 40), random.integer(1, 5)};
    const Softmax op{random.integer(0, 2), random.integer(0, 1) == 1};
    const Tensor x = random_tensor(random, dtypes[random.integer(0, 3)], dims);
    const std::vector<double> v = x.to_doubles();
    const int64_t length = dims[static_cast<size_t>(op.axis)];
    int64_t inner = 1;
    for (size_t i = static_cast<size_t>(op.axis) + 1; i < 3; ++i) inner *= dims[i];
    std::vector<double> want;
    for (int64_t i = 0; i < x.size(); ++i) {
      double sum = 0;
      const int64_t first = i / (inner * length) * inner * length + i % inner;
      for (int64_t j = 0; j < length; ++j) sum += std::exp(v[static_cast<size_t>(first + j * inner)]);
      const double value = v[static_cast<size_t>(i)];
      want.push_back(op.log ? value - std::log(sum) : std::exp(value) / sum);
    }
    ASSERT_NO_FATAL_FAILURE(expect_close(run_op(op, {x})[0], want)) << to_string(Op(op)) << to_string(dims);
  }
}

TEST(LayerNorm, ByHand) {
  const Tensor x = f32({2, 2}, {1, 3, -5, -5});
  EXPECT_EQ(run_op(LayerNorm{1, 0}, {f32({1, 2}, {1, 3})})[0], f32({1, 2}, {-1, 1}));
  EXPECT_EQ(run_op(LayerNorm{1, 1e-30}, {x, f32({2}, {2, 3}), f32({2}, {10, 20})})[0], f32({2, 2}, {8, 23, 10, 20}));
  EXPECT_EQ(run_op(LayerNorm{1, 0, true}, {f32({1, 2}, {3, 3})})[0], f32({1, 2}, {1, 1}));
  // Clamped: the larger of the mean square and epsilon, not their sum. NaN stays.
  EXPECT_EQ(run_op(LayerNorm{1, 4, true, true}, {f32({3, 2}, {3, 3, 1, 1, 0, 0})})[0],
            f32({3, 2}, {1, 1, 0.5, 0.5, 0, 0}));
  EXPECT_TRUE(std::isnan(run_op(LayerNorm{1, 4, true, true}, {f32({1, 1}, {std::nanf("")})})[0].to_doubles()[0]));
  EXPECT_THROW(run_op(LayerNorm{1, 4, false, true}, {x}), Error);
  // A large offset does not cancel the variance away.
  EXPECT_EQ(run_op(LayerNorm{0, 0}, {f32({2}, {16777214, 16777216})})[0], f32({2}, {-1, 1}));
}

TEST(LayerNorm, LikeNaiveLoops) {
  Random random = test_random();
  for (int round = 0; round < 40; ++round) {
    const DType dtype = dtypes[random.integer(0, 3)];
    const Dims dims{random.integer(1, 5), random.integer(1, 7), random.integer(2, 30)};
    const LayerNorm op{random.integer(1, 2), 1e-3, random.integer(0, 1) == 1};
    const Dims normalised(dims.begin() + op.axis, dims.end());
    const auto length = static_cast<size_t>(element_count(normalised));
    const Tensor x = random_tensor(random, dtype, dims), scale = random_tensor(random, dtype, normalised);
    const Tensor bias = random.integer(0, 1) ? random_tensor(random, dtype, normalised) : Tensor();
    const std::vector<double> v = x.to_doubles(), s = scale.to_doubles();
    std::vector<double> want;
    for (size_t row = 0; row < v.size(); row += length) {
      double mean = 0, squares = 0;
      for (size_t i = 0; i < length; ++i) {
        mean += v[row + i] / static_cast<double>(length);
        squares += v[row + i] * v[row + i] / static_cast<double>(length);
      }
      if (op.root_mean_square) mean = 0;
      for (size_t i = 0; i < length; ++i)
        want.push_back((v[row + i] - mean) / std::sqrt(squares - mean * mean + op.epsilon) * s[i] +
                       (bias.defined() ? bias.to_doubles()[i] : 0.0));
    }
    ASSERT_NO_FATAL_FAILURE(expect_close(run_op(op, {x, scale, bias})[0], want))
        << to_string(Op(op)) << to_string(dims);
  }
}

TEST(GroupNorm, LikeNaiveLoops) {
  Random random = test_random();
  for (int round = 0; round < 40; ++round) {
    const DType dtype = dtypes[random.integer(0, 3)];
    const int64_t images = random.integer(1, 3), width = random.integer(1, 4), positions = random.integer(2, 30);
    const GroupNorm op{random.integer(1, 4), 1e-3, random.integer(0, 1) == 1};
    const int64_t channels = op.groups * width;
    const Tensor x = random_tensor(
        random, dtype, op.channels_last ? Dims{images, positions, channels} : Dims{images, channels, positions});
    const Tensor scale = random_tensor(random, dtype, {channels}), bias = random_tensor(random, dtype, {channels});
    const std::vector<double> v = x.to_doubles(), s = scale.to_doubles(), b = bias.to_doubles();
    std::vector<double> want(v.size());
    const auto index = [&](int64_t n, int64_t c, int64_t p) {
      return static_cast<size_t>(op.channels_last ? (n * positions + p) * channels + c
                                                  : (n * channels + c) * positions + p);
    };
    for (int64_t n = 0; n < images; ++n)
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0, squares = 0;
        const auto count = static_cast<double>(width * positions);
        for (int64_t k = c / width * width; k < (c / width + 1) * width; ++k)
          for (int64_t p = 0; p < positions; ++p) {
            sum += v[index(n, k, p)];
            squares += v[index(n, k, p)] * v[index(n, k, p)];
          }
        const double mean = sum / count, variance = squares / count - mean * mean;
        const auto channel = static_cast<size_t>(c);
        for (int64_t p = 0; p < positions; ++p)
          want[index(n, c, p)] =
              (v[index(n, c, p)] - mean) / std::sqrt(variance + op.epsilon) * s[channel] + b[channel];
      }
    ASSERT_NO_FATAL_FAILURE(expect_close(run_op(op, {x, scale, bias})[0], want)) << to_string(Op(op));
  }
}

}  // namespace
}  // namespace camshaft::ops::normalize_test
