#include "cpu/device.h"

#include <gtest/gtest.h>

namespace camshaft::cpu {
namespace {

TEST(Device, TellsWhatTuningDependsOn) {
  const DeviceInfo info = describe_cpu();
  EXPECT_EQ(info.kind, "cpu");
  EXPECT_GE(info.cores, 1);
  EXPECT_NE(info.code.find("camshaft "), std::string::npos);
  EXPECT_NE(info.code.find("highway "), std::string::npos);
}

TEST(Device, ACpuWithoutVectorsIsNamed) {
  EXPECT_NE(isa_warning("baseline").find("AVX2"), std::string::npos);
  EXPECT_EQ(isa_warning("avx2"), "");
  EXPECT_EQ(isa_warning("avx512"), "");
}

}  // namespace
}  // namespace camshaft::cpu
