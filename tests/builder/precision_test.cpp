// What an engine is judged by, of the precisions that its build allowed.
#include "builder/precision.h"

#include <gtest/gtest.h>

#include "runtime/backends.h"

namespace camshaft::precision_test {
namespace {

BuildOptions allowed(bool fp16, bool bf16, bool tf32) {
  BuildOptions options;
  options.fp16 = fp16;
  options.bf16 = bf16;
  options.tf32 = tf32;
  return options;
}

TEST(UsedPrecisions, ToleranceIsOfWhatIsUsed) {
  const BuildOptions all = allowed(true, true, true);
  const auto tolerance = [&](const Precision& used) { return with_used_precisions(all, used).default_tolerance(); };
  EXPECT_EQ(tolerance({}), 1e-4);
  EXPECT_EQ(tolerance({DType::f16, ops::Rounding::none}), 0.02);
  EXPECT_EQ(tolerance({DType::f16, ops::Rounding::tf32}), 0.02);
  EXPECT_EQ(tolerance({DType::f32, ops::Rounding::tf32}), 0.02);
  EXPECT_EQ(tolerance({DType::bf16, ops::Rounding::none}), 0.1);
  EXPECT_EQ(tolerance({DType::f32, ops::Rounding::bf16}), 0.1);
}

TEST(UsedPrecisions, WhatADeviceDoesNotGainFromExcusesNothing) {
  const auto cpu = find_backend("cpu");
  for (const BuildOptions& options :
       {allowed(true, false, false), allowed(false, true, false), allowed(false, false, true)}) {
    const Precision used = choose_precision(options, *cpu);
    const double tolerance = with_used_precisions(options, used).default_tolerance();
    EXPECT_EQ(tolerance > 1e-4, used.noise() > 0x1p-22);
  }
}

TEST(UsedPrecisions, WhoAsksForAToleranceGetsIt) {
  BuildOptions options = allowed(false, true, false);
  options.tolerance = 0.25;
  EXPECT_EQ(with_used_precisions(options, {}).effective_tolerance(), 0.25);
}

}  // namespace
}  // namespace camshaft::precision_test
