#include "backends/cpu/device.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>

namespace camshaft::cpu::device_test {
namespace {

TEST(Device, TellsWhatTuningDependsOn) {
  const DeviceInfo info = describe_cpu();
  EXPECT_EQ(info.kind, "cpu");
  EXPECT_GE(info.cores, 1);
  EXPECT_NE(info.code.find("camshaft "), std::string::npos);
  EXPECT_NE(info.code.find("highway "), std::string::npos);
}

TEST(Device, IsNamedAsTheSystemNamesIt) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "ARM processors have no name of their own, and under QEMU the system's is another one's";
#endif
  std::ifstream info("/proc/cpuinfo");
  constexpr std::string_view field = "model name";
  for (std::string line; std::getline(info, line);) {
    if (line.rfind(field, 0) != 0) continue;
    EXPECT_EQ(describe_cpu().name, line.substr(line.find(": ") + 2));
    return;
  }
  GTEST_SKIP() << "the system does not name it";
}

TEST(Device, ACpuWithoutVectorsIsNamed) {
  EXPECT_NE(isa_warning("baseline").find("AVX2"), std::string::npos);
  EXPECT_EQ(isa_warning("avx2"), "");
  EXPECT_EQ(isa_warning("avx512"), "");
}

}  // namespace
}  // namespace camshaft::cpu::device_test
