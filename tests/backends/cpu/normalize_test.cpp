#include "backends/cpu/kernels/reduce/normalize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/reduce.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::normalize_test {
namespace {

struct Figures {
  double mean = 0, inverse = 0;
};

template <class At>
Figures figures(int64_t n, double epsilon, const At& at) {
  Figures f;
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) f.mean += at(i) / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (at(i) - f.mean) * (at(i) - f.mean);
  f.inverse = 1 / std::sqrt(squares / static_cast<double>(n) + epsilon);
  return f;
}

TEST(LayerNorm, RandomShapesFarFromZero) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      LayerNorm norm{data.integer(0, 40), data.integer(1, 1200), 1e-5f};
      auto x = data.floats(norm.rows * norm.length);
      const auto distance = static_cast<float>(data.integer(0, 1000));
      for (float& v : x) v += distance;  // a mean rounded to f32 would be off by 3e-5
      // Beginnings far from the rest.
      if (round % 5 == 0)
        for (size_t i = 0; i < x.size(); ++i)
          if (static_cast<int64_t>(i) % norm.length < 16) x[i] -= 2 * distance;
      const auto scale = data.floats(norm.length), bias = data.floats(norm.length);
      std::vector<float> y(x.size()), mean(static_cast<size_t>(norm.rows)), inverse(static_cast<size_t>(norm.rows));
      ThreadPool pool(1 + round % 3);
      norm.run(pool, x.data(), round % 4 ? scale.data() : nullptr, round % 3 ? bias.data() : nullptr, y.data(),
               mean.data(), inverse.data());
      for (int64_t r = 0; r < norm.rows; ++r) {
        const float* row = x.data() + r * norm.length;
        const Figures f = figures(norm.length, norm.epsilon, [&](int64_t i) { return row[i]; });
        const bool far = round % 5 == 0;  // the scalar baseline then adds up 1000 times what it is to be right to
        ASSERT_NEAR(mean[r], f.mean, (far ? 3e-6 : 4e-7) * distance + 1e-6);
        ASSERT_NEAR(inverse[r], f.inverse, (far ? 1e-4 : 1e-5) * f.inverse);
        for (int64_t i = 0; i < norm.length; ++i) {
          const double s = round % 4 ? scale[i] : 1, b = round % 3 ? bias[i] : 0, plain = (row[i] - f.mean) * f.inverse;
          const double error = (far ? 1e-4 : 2e-5) * (1 + std::abs(plain)) * std::abs(s) + 1e-6 * std::abs(b);
          ASSERT_NEAR(y[r * norm.length + i], plain * s + b, error) << "mean " << f.mean << " of " << norm.length;
        }
      }
    }
  });
}

TEST(RmsNorm, RandomShapes) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 20; ++round) {
      RmsNorm norm{data.integer(1, 40), data.integer(1, 900), 1e-6f};
      auto x = data.floats(norm.rows * norm.length);
      const auto scale = data.floats(norm.length);
      // Rows below the least mean square, of zeros and with NaN among them.
      if (round % 3 == 0) {
        norm.epsilon = 0, norm.least = round % 2 ? 0.3f : 1e-20f;
        for (float& v : x) v *= round % 2 ? 1 : 1e-11f;
        std::fill_n(x.begin(), norm.length, 0.0f);
        if (norm.rows > 1) x.back() = std::nanf("");
      }
      std::vector<float> y = x;  // in place
      ThreadPool pool(1 + round % 3);
      norm.run(pool, y.data(), scale.data(), y.data());
      for (int64_t r = 0; r < norm.rows; ++r) {
        double square = 0;
        const float* row = x.data() + r * norm.length;
        for (int64_t i = 0; i < norm.length; ++i) square += static_cast<double>(row[i]) * row[i];
        square /= static_cast<double>(norm.length);
        const double inverse = 1 / std::sqrt((square < norm.least ? norm.least : square) + norm.epsilon);
        for (int64_t i = 0; i < norm.length; ++i) {
          const double wanted = row[i] * inverse * scale[i], got = y[r * norm.length + i];
          ASSERT_TRUE(std::isnan(wanted) ? std::isnan(got) : std::abs(got - wanted) <= 1e-5)
              << got << " for " << wanted;
        }
      }
    }
  });
}

// Norms of f64, some of them in place, with rows below the least mean square, of zeros, and with NaN and infinities.
TEST(NormF64, AsTheReferenceHasThem) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      const int64_t rank = random.integer(1, 3);
      ops::LayerNorm op{random.integer(0, rank - 1), 1e-5, random.integer(0, 1) == 1};
      op.clamped = op.root_mean_square && random.integer(0, 1) == 1;
      if (op.clamped) op.epsilon = 0.5;
      Dims dims, row;
      for (int64_t d = 0; d < rank; ++d) {
        const bool is_long = round % 3 == 0 && d + 1 == rank;
        dims.push_back(round % 17 == 5 ? random.integer(0, 2) : random.integer(1, is_long ? 6000 : 40));
        if (d >= op.axis) row.push_back(dims.back());
      }
      const bool has_scale = random.integer(0, 3) > 0, has_bias = !op.root_mean_square && random.integer(0, 1) == 1;
      std::vector<Tensor> operands{random_tensor(random, DType::f64, dims)};
      auto* x = operands[0].as_mutable<double>();
      const bool far = round % 4 == 1;  // from zero, where sums one after the other lose digits, the reference's
      for (int64_t i = 0; i < operands[0].size(); ++i) x[i] += far ? 1000 : 0;
      if (round % 5 == 0 && operands[0].size() > 0) {
        const double special[] = {std::nan(""), std::numeric_limits<double>::infinity(), -0.0, 1e200};
        x[random.integer(0, operands[0].size() - 1)] = special[random.integer(0, 3)];
      }
      if (has_scale || has_bias) operands.push_back(has_scale ? random_tensor(random, DType::f64, row) : Tensor());
      if (has_bias) operands.push_back(random_tensor(random, DType::f64, row));
      NodeTest test(op, operands, {}, "layer_norm", far ? 1e-9 : 1e-12);
      if (round % 2) test.over = 0;
      test.check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFailure()) return;
    }
  });
}

// Sums of squares would lose the deviation beside such a mean.
TEST(GroupNorm, MeansFarFromZeroAndSpecialNumbers) {
  RandomData data;
  for_each_target([&] {
    for (const bool channels_last : {false, true}) {
      for (const float special : {0.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
        GroupNorm norm;
        norm.batch = 1, norm.groups = 3, norm.channels = 51, norm.spatial = 1000;
        norm.channels_last = channels_last;
        std::vector<float> x = data.floats(norm.channels * norm.spatial);
        for (float& value : x) value += 1000;
        if (special != 0) x[channels_last ? 700 * 51 + 20 : 20 * 1000 + 700] = special;  // in the second group
        std::vector<float> y(x.size());
        ThreadPool pool(2);
        norm.run(pool, x.data(), nullptr, nullptr, y.data());
        for (int64_t g = 0; g < 3; ++g) {
          const auto at = [&](int64_t i) {
            return static_cast<size_t>(channels_last ? i / 17 * 51 + g * 17 + i % 17 : g * 17000 + i);
          };
          const Figures f = figures(17000, norm.epsilon, [&](int64_t i) { return x[at(i)]; });
          for (int64_t i = 0; i < 17000; ++i) {
            if (special != 0 && g == 1)
              ASSERT_TRUE(std::isnan(y[at(i)])) << i;
            else
              ASSERT_NEAR(y[at(i)], (x[at(i)] - f.mean) * f.inverse, 4e-5) << i;
          }
        }
      }
    }
  });
}

TEST(GroupNorm, BothLayoutsAndEveryGrouping) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      GroupNorm norm;
      norm.batch = data.integer(1, 3);
      norm.groups = round % 5 == 0 ? 1 : data.integer(1, 40);
      norm.channels = norm.groups * (round % 7 == 0 ? 700 / norm.groups + 1 : data.integer(1, 6));
      norm.spatial = round % 6 == 1 ? 1 : data.integer(2, round % 2 ? 20 : 600);
      norm.channels_last = round % 2 == 0;
      const auto x = data.floats(norm.batch * norm.channels * norm.spatial);
      const auto scale = data.floats(norm.channels), bias = data.floats(norm.channels);
      std::vector<float> y(x.size());
      ThreadPool pool(1 + round % 3);
      norm.run(pool, x.data(), round % 4 ? scale.data() : nullptr, round % 3 ? bias.data() : nullptr, y.data());
      const int64_t width = norm.channels / norm.groups;
      const auto at = [&](int64_t b, int64_t c, int64_t s) {
        return norm.channels_last ? (b * norm.spatial + s) * norm.channels + c
                                  : (b * norm.channels + c) * norm.spatial + s;
      };
      for (int64_t b = 0; b < norm.batch; ++b) {
        for (int64_t g = 0; g < norm.groups; ++g) {
          const Figures f = figures(width * norm.spatial, norm.epsilon, [&](int64_t i) {
            return x[at(b, g * width + i / norm.spatial, i % norm.spatial)];
          });
          for (int64_t i = 0; i < width * norm.spatial; ++i) {
            const int64_t c = g * width + i / norm.spatial, k = at(b, c, i % norm.spatial);
            const double s = round % 4 ? scale[c] : 1, add = round % 3 ? bias[c] : 0;
            ASSERT_NEAR(y[k], (x[k] - f.mean) * f.inverse * s + add, 2e-4) << round;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::normalize_test
