#include "base/cache_sizes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace camshaft::cache_sizes_test {
namespace {

void describe(const std::string& folder, int index, int level, const char* type, const char* size) {
  const std::string cache = folder + "/index" + std::to_string(index);
  std::filesystem::create_directories(cache);
  std::ofstream(cache + "/level") << level << '\n';
  std::ofstream(cache + "/type") << type << '\n';
  std::ofstream(cache + "/size") << size << '\n';
}

TEST(CacheSizes, AreReadAsLinuxDescribesThem) {
  const TemporaryFolder folder;
  const std::string caches = folder.path();
  EXPECT_EQ(described_cache_bytes(caches, 2), 0) << "nothing is described";
  describe(caches, 0, 1, "Instruction", "32K");
  describe(caches, 1, 1, "Data", "48K");
  describe(caches, 2, 2, "Unified", "1024K");
  EXPECT_EQ(described_cache_bytes(caches, 1), 48 << 10);
  EXPECT_EQ(described_cache_bytes(caches, 2), 1 << 20);
  EXPECT_EQ(described_cache_bytes(caches, 3), 0) << "no third level";
  describe(caches, 3, 3, "Unified", "32M");
  EXPECT_EQ(described_cache_bytes(caches, 3), 32 << 20);
  describe(caches, 3, 3, "Unified", "garbled");
  EXPECT_EQ(described_cache_bytes(caches, 3), 0);
}

TEST(CacheSizes, AreNoLargerThanTheCLibrarysSums) {
  const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (level3 > 0) {
    EXPECT_LE(level3_cache_bytes(), level3);
  }
  EXPECT_GE(level2_cache_bytes(), 0);
}

}  // namespace
}  // namespace camshaft::cache_sizes_test
