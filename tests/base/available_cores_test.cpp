#include "base/available_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/first_touch.h"
#include "temporary_folder.h"

namespace camshaft::available_cores_test {
namespace {

class ControlGroups : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(folder_.path()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  double cores() const {
    const std::string folder = std::string(folder_.path());
    return control_group_cores({folder + "/groups", folder + "/cgroup"});
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ControlGroups, without_any_there_is_no_quota) {
  EXPECT_EQ(cores(), no_core_quota);
  write("groups", "not a line of a control group\n\n0:\n0::relative\n");
  EXPECT_EQ(cores(), no_core_quota);
}

TEST_F(ControlGroups, version_2_gives_quota_and_period) {
  write("groups", "0::/a/b\n");
  EXPECT_EQ(cores(), no_core_quota);
  write("cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(), no_core_quota);
  write("cgroup/a/b/cpu.max", "250000 100000\n");
  EXPECT_EQ(cores(), 2.5);
  for (const char* nonsense : {"", "x", "100000", "-1 100000", "100000 0"}) {
    write("cgroup/a/b/cpu.max", nonsense);
    EXPECT_EQ(cores(), no_core_quota) << nonsense;
  }
}

TEST_F(ControlGroups, a_group_has_no_more_than_those_above_it) {
  write("groups", "0::/a/b\n");
  write("cgroup/a/b/cpu.max", "800000 100000\n");
  write("cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(cores(), 3);
  write("cgroup/cpu.max", "50000 100000\n");  // a container's root; its path may be the host's and not be there
  EXPECT_EQ(cores(), 0.5);
}

TEST_F(ControlGroups, version_1_has_the_quota_with_its_controller) {
  write("groups", "12:memory:/m\n4:cpu,cpuacct:/job\n1:name=systemd:/s\n0::/unified\n");
  write("cgroup/memory/m/cpu.cfs_quota_us", "100000\n");
  write("cgroup/memory/m/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), no_core_quota);
  write("cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000\n");
  write("cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cores(), no_core_quota);
  write("cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(cores(), 4);
  write("cgroup/cpu/cpu.cfs_quota_us", "300000\n");
  write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 3);
  write("groups", "4:cpuset:/job\n");
  EXPECT_EQ(cores(), no_core_quota);
}

TEST(AvailableCores, are_those_of_the_affinity_at_most) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (size_t core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(MemoryNodes, are_counted_in_the_kernels_list) {
  const TemporaryFolder folder;
  const std::string file = std::string(folder.path()) + "/has_memory";
  EXPECT_EQ(memory_nodes(file), 1);
  for (const auto& [text, nodes] :
       {std::pair{"0", 1}, {"0-1\n", 2}, {"0,2\n", 2}, {"0-3,8-9\n", 6}, {"", 1}, {"x", 1}}) {
    std::ofstream(file) << text;
    EXPECT_EQ(memory_nodes(file), nodes) << text;
  }
}

}  // namespace
}  // namespace camshaft::available_cores_test
