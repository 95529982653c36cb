#include "quantize/signal_powers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "test_random.h"

namespace camshaft::signal_powers_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

SignalPowers powers_of(const std::vector<std::vector<float>>& samples, int threads = 1) {
  ThreadPool pool(threads);
  SignalPowers powers;
  for (const std::vector<float>& x : samples) powers.add(x.data(), static_cast<int64_t>(x.size()), pool);
  return powers;
}

TEST(SignalPowers, AreMeanSquaresOfWhatIsFiniteAndNotAllZero) {
  const SignalPowers powers = powers_of({{3, -4}, {0, 0}, {}, {nan, 2, infinity, -infinity}, {1e30F, 0}});
  ASSERT_EQ(powers.powers().size(), 3);
  EXPECT_DOUBLE_EQ(powers.powers()[0], 12.5);
  EXPECT_DOUBLE_EQ(powers.powers()[1], 1);
  EXPECT_NEAR(powers.powers()[2] / 0.5e60, 1, 1e-6);
}

TEST(SignalPowers, TheSameWhateverTheThreads) {
  Random random = test_random();
  std::vector<float> x(100'003);
  for (float& value : x) value = static_cast<float>(random.normal());
  x[5] = infinity;
  const double one = powers_of({x}).powers()[0];
  EXPECT_NEAR(one, 1, 0.05);
  for (const int threads : {2, 3, 7}) EXPECT_EQ(powers_of({x}, threads).powers()[0], one);
}

// Against rounding itself: a loud sample and one of a tenth of a step.
TEST(SignalPowers, NoiseIsThatOfRounding) {
  Random random = test_random();
  std::vector<std::vector<float>> samples = {std::vector<float>(5000), std::vector<float>(5000)};
  for (size_t i = 0; i < 5000; ++i) {
    samples[0][i] = i % 2 == 0 ? 0 : static_cast<float>(random.normal());
    samples[1][i] = i % 2 == 0 ? 0 : static_cast<float>(0.002 * random.normal());
  }
  const SignalPowers powers = powers_of(samples);
  constexpr double step = 0.02;
  double noise = 0;
  for (size_t s = 0; s < 2; ++s) {
    double difference = 0, power = 0;
    for (const float x : samples[s]) {
      difference += std::pow(std::nearbyint(x / step) * step - x, 2);
      power += static_cast<double>(x) * x;
    }
    noise += difference / power / 2;
  }
  EXPECT_NEAR(powers.noise(step, 0.5), noise, 0.01);
  EXPECT_GT(noise, 0.4);
  EXPECT_EQ(SignalPowers().noise(step, 1), 0);
}

}  // namespace
}  // namespace camshaft::signal_powers_test
