#include "backends/cpu/machine_limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/limits.h"
#include "base/error.h"

namespace camshaft::cpu::machine_limits_test {
namespace {

TEST(MachineLimits, SumsWhatItReads) {
  std::vector<float> x(1024);
  std::iota(x.begin(), x.end(), 0.0f);
  for_each_target([&] { EXPECT_EQ(sum_floats(x.data(), 1024), 1023 * 512); });
}

TEST(MachineLimits, SumsExponentials) {
  std::vector<float> x(1024);
  double want = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 0.01f * (static_cast<float>(i) - 512);
    want += 1 + std::exp(-static_cast<double>(x[i]));
  }
  for_each_target([&] { EXPECT_NEAR(sum_exponentials(x.data(), 1024), want, 1e-5 * want); });
}

TEST(MachineLimits, CountsItsOperations) {
  for_each_target([&] {
    const double one = spin_fma(1);
    EXPECT_GE(one, 24);
    EXPECT_EQ(spin_fma(1000), 1000 * one);
  });
}

TEST(MachineLimits, NeedsAThread) {
  EXPECT_THROW(measure_limits(0), Error);
}

}  // namespace
}  // namespace camshaft::cpu::machine_limits_test
