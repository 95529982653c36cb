#include "backends/cpu/kernels/reduce/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"

namespace camshaft::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Two roundings more a result than exp has, and those of a sum of f32, which is of at most 256 terms.
double allowed(const Softmax& softmax, double expected) {
  const double relative = 1e-6 + 0x1p-24 * static_cast<double>(std::min<int64_t>(softmax.axis, 256));
  return softmax.logarithm ? relative + 1e-6 * (1 + std::fabs(expected)) : relative * expected + 1e-9;
}

void check(const Softmax& softmax, const std::vector<float>& x, int threads) {
  ThreadPool pool(threads);
  std::vector<float> y(x.size() + 1, 9.0f);
  softmax.run(pool, x.data(), y.data());
  ASSERT_EQ(y.back(), 9.0f);
  std::vector<float> in_place = x;
  softmax.run(pool, in_place.data(), in_place.data());
  for (int64_t o = 0; o < softmax.outer; ++o) {
    for (int64_t i = 0; i < softmax.inner; ++i) {
      const auto at = [&](int64_t a) { return static_cast<size_t>((o * softmax.axis + a) * softmax.inner + i); };
      double top = -infinity, sum = 0;
      for (int64_t a = 0; a < softmax.axis; ++a) top = std::max<double>(top, x[at(a)]);
      for (int64_t a = 0; a < softmax.axis; ++a) sum += std::exp(x[at(a)] - top);
      for (int64_t a = 0; a < softmax.axis; ++a) {
        const double log = x[at(a)] - top - std::log(sum);
        const double expected = softmax.logarithm ? log : std::exp(log);
        const float got = y[at(a)];
        if (std::isnan(expected) || std::isinf(expected)) {
          ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected) << got << " for " << expected;
        } else {
          ASSERT_NEAR(got, expected, allowed(softmax, expected));
        }
        ASSERT_TRUE(in_place[at(a)] == got || std::isnan(got));
      }
    }
  }
}

TEST(Softmax, RandomShapes) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t inner = round % 2 ? 1 : data.integer(1, 300);
      Softmax softmax{data.integer(0, 9), data.integer(1, inner > 1 ? 40 : 1500), inner, round % 3 == 0};
      check(softmax, data.floats(softmax.outer * softmax.axis * softmax.inner, 5), 1 + round % 3);
    }
  });
}

TEST(Softmax, InfinitiesAndNan) {
  for_each_target([&] {
    for (const bool logarithm : {false, true}) {
      for (const int64_t n : {3, 16, 21, 40}) {
        std::vector<float> masked(static_cast<size_t>(n), -infinity);
        check({1, n, 1, logarithm}, masked, 1);
        check({1, n, 1, logarithm}, std::vector<float>(static_cast<size_t>(n), -200.0f), 1);
        masked[1] = 2;
        check({1, n, 1, logarithm}, masked, 1);
        check({1, 1, n, logarithm}, std::vector<float>(static_cast<size_t>(n), 3.0f), 1);
        masked[2] = std::nanf("");
        std::vector<float> y(masked.size());
        ThreadPool pool(1);
        Softmax{1, n, 1, logarithm}.run(pool, masked.data(), y.data());
        for (float v : y) EXPECT_TRUE(std::isnan(v)) << n;
      }
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu
