// Errors of the vector functions over a sample of all f32 bit patterns, in units of the last place of the true result.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/pointwise/tile_kernels.h"

namespace camshaft::cpu::vector_math_test {
namespace {

// The largest error over every 2657th float with lowest <= |x| <= highest, both signs where wanted.
double largest_ulp(ScalarFunction function, double (*exact)(double), float lowest, float highest, bool negative,
                   float& where) {
  std::vector<float> x;
  for (uint32_t bits = std::bit_cast<uint32_t>(lowest); bits <= std::bit_cast<uint32_t>(highest); bits += 2657) {
    x.push_back(std::bit_cast<float>(bits));
    if (negative) x.push_back(-x.back());
  }
  std::vector<float> y(x.size());
  const void* in[3] = {x.data(), nullptr, nullptr};
  find_kernel(function, DType::f32)(in, y.data(), static_cast<int64_t>(x.size()), 0);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = exact(x[i]);
    const float rounded = static_cast<float>(expected);
    if (std::isinf(rounded)) {
      EXPECT_EQ(y[i], rounded) << x[i];
      continue;
    }
    const float magnitude = std::fabs(rounded);
    const double ulp = static_cast<double>(std::nextafter(magnitude, INFINITY)) - magnitude;
    const double error = std::fabs(y[i] - expected) / ulp;
    if (error > worst) where = x[i];
    worst = std::max(worst, error);
  }
  return worst;
}

TEST(VectorMath, ErrorsInUnitsOfTheLastPlace) {
  using F = ScalarFunction;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const struct {
    F function;
    double (*exact)(double);
    float lowest, highest;
    bool negative;
    double limit;
  } cases[] = {
      {F::exp, std::exp, 1e-30f, 120.0f, true, 1.5},   {F::log, std::log, 1e-44f, 3.4e38f, false, 2},
      {F::log1p, std::log1p, 1e-30f, 3e38f, false, 3}, {F::log1p, std::log1p, 1e-30f, 0.5f, true, 4},
      {F::tanh, std::tanh, 1e-30f, 30.0f, true, 5.5},  {F::erf, std::erf, 1e-30f, 30.0f, true, 6.5},
      {F::sigmoid, sigmoid, 1e-30f, 87.3f, true, 2.5}, {F::sin, std::sin, 1e-30f, 10.0f, true, 4},
      {F::cos, std::cos, 1e-30f, 10.0f, true, 4},      {F::sin, std::sin, 40000.0f, 1e30f, true, 4},
      {F::asin, std::asin, 1e-30f, 1.0f, true, 4},     {F::acos, std::acos, 1e-30f, 1.0f, true, 4},
      {F::atan, std::atan, 1e-30f, 1e30f, true, 4},
  };
  for_each_target([&] {
    for (const auto& c : cases) {
      float where = 0;
      const double error = largest_ulp(c.function, c.exact, c.lowest, c.highest, c.negative, where);
      EXPECT_LE(error, c.limit) << to_string(c.function) << " at " << where;
      RecordProperty(std::string(to_string(c.function)), std::to_string(error));
    }
  });
}

float libm_sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

TEST(VectorMath, BeyondTheRangeWhatLibmGives) {
  using F = ScalarFunction;
  const struct {
    F function;
    float (*exact)(float);
    float from;  // the first argument that rounds to 1, and a little
  } cases[] = {{F::tanh, std::tanh, 9.1f}, {F::erf, std::erf, 4.0f}, {F::sigmoid, libm_sigmoid, 104.0f}};
  for_each_target([&] {
    for (const auto& c : cases) {
      std::vector<float> x;
      for (float at = c.from; at < 1e38f; at *= 1.01f) x.push_back(at);
      x.push_back(INFINITY);
      for (size_t i = x.size(); i-- > 0;) x.push_back(-x[i]);
      std::vector<float> y(x.size());
      const void* in[3] = {x.data(), nullptr, nullptr};
      find_kernel(c.function, DType::f32)(in, y.data(), static_cast<int64_t>(x.size()), 0);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], c.exact(x[i])) << to_string(c.function) << " of " << x[i];
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::vector_math_test
