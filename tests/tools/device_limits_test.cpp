#include "tools/device_limits.h"

#include <gtest/gtest.h>

namespace camshaft::tools::device_limits_test {
namespace {

TEST(DeviceLimits, AreSaid) {
  EXPECT_EQ(describe_limits(nlohmann::json::object()), "unknown");
  EXPECT_EQ(describe_limits({{"memory_gbs", 4800.0}, {"half_gflops", 1.07e6}}),
            "4800 GB/s of memory, 1070 TFLOP/s in f16 and bf16");
}

}  // namespace
}  // namespace camshaft::tools::device_limits_test
