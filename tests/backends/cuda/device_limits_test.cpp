// Limits of devices against the figures of their data sheets.
#include "backends/cuda/driver/device_limits.h"

#include <gtest/gtest.h>

namespace camshaft::cuda::device_limits_test {
namespace {

DeviceLimits limits(int capability, int multiprocessors, double hertz) {
  DeviceFacts facts;
  facts.features = features_of(capability);
  facts.multiprocessors = multiprocessors;
  facts.hertz = hertz;
  facts.memory_bytes_per_second = 1e12;
  return limits_of(facts);
}

TEST(DeviceLimits, OfDataSheets) {
  const DeviceLimits t4 = limits(75, 40, 1.59e9), a100 = limits(80, 108, 1.41e9), l4 = limits(89, 58, 2.04e9),
                     h100 = limits(90, 132, 1.83e9);
  EXPECT_NEAR(t4.f32_flops, 8.1e12, 0.1e12);
  EXPECT_NEAR(t4.half_flops, 65e12, 1e12);
  EXPECT_EQ(t4.tf32_flops, 0);
  EXPECT_NEAR(a100.f32_flops, 19.5e12, 0.1e12);
  EXPECT_NEAR(a100.half_flops, 312e12, 1e12);
  EXPECT_NEAR(a100.tf32_flops, 156e12, 1e12);
  EXPECT_NEAR(l4.f32_flops, 30.3e12, 0.1e12);
  EXPECT_NEAR(l4.half_flops, 121e12, 1e12);
  EXPECT_NEAR(h100.half_flops, 989.5e12, 1e12);
  EXPECT_NEAR(h100.tf32_flops, 494.7e12, 1e12);
  EXPECT_EQ(h100.memory_bytes, 1e12);
}

TEST(DeviceLimits, WhatIsUnknownIsNothing) {
  EXPECT_EQ(limits(90, 132, 0).half_flops, 0);
  EXPECT_EQ(limits(250, 132, 2e9).f32_flops, 0);
  EXPECT_EQ(limits(250, 132, 2e9).memory_bytes, 1e12);
}

}  // namespace
}  // namespace camshaft::cuda::device_limits_test
