#include "backends/cpu/machine_limits.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/limits.h"
#include "base/error.h"

namespace camshaft::cpu {
namespace {

TEST(MachineLimits, SumsWhatItReads) {
  std::vector<float> x(1024);
  std::iota(x.begin(), x.end(), 0.0f);
  for_each_target([&] { EXPECT_EQ(sum_floats(x.data(), 1024), 1023 * 512); });
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
}  // namespace camshaft::cpu
