#include "base/cache_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/temporary_folder.h"

namespace camshaft::cache_folder_test {
namespace {

namespace fs = std::filesystem;

class Cache : public ::testing::Test {
 protected:
  // Of so many bytes, used so many seconds after the epoch.
  void add(const std::string& name, size_t bytes, time_t used) {
    std::ofstream(fs::path(folder_.path()) / name) << std::string(bytes, 'x');
    const timespec times[] = {{.tv_sec = used, .tv_nsec = 0}, {.tv_sec = used, .tv_nsec = 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (fs::path(folder_.path()) / name).c_str(), times, 0), 0);
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) found.insert(entry.path().filename().string());
    return found;
  }
  void trim(uint64_t most) { trim_cache(folder_.path(), "a_", ".engine", most); }

  TemporaryFolder folder_;
};

TEST_F(Cache, WhatWasUsedLongestAgoGoes) {
  add("a_1.engine", 100, 1000);
  add("a_2.engine", 100, 3000);
  add("a_3.engine", 100, 2000);
  trim(300);
  EXPECT_EQ(names(), (std::set<std::string>{"a_1.engine", "a_2.engine", "a_3.engine"}));
  trim(299);
  EXPECT_EQ(names(), (std::set<std::string>{"a_2.engine", "a_3.engine"}));
  note_use(fs::path(folder_.path()) / "a_3.engine");
  trim(100);
  EXPECT_EQ(names(), (std::set<std::string>{"a_3.engine"}));
}

TEST_F(Cache, NothingOlderStaysThanWhatWent) {
  add("a_1.engine", 10, 1000);
  add("a_2.engine", 500, 2000);
  add("a_3.engine", 100, 3000);
  trim(200);
  EXPECT_EQ(names(), (std::set<std::string>{"a_3.engine"}));
}

TEST_F(Cache, TheLastOneStaysHoweverLargeItIs) {
  add("a_1.engine", 1000, 1000);
  trim(10);
  EXPECT_EQ(names(), (std::set<std::string>{"a_1.engine"}));
}

TEST_F(Cache, FilesOfOthersAreLeft) {
  for (const char* name : {"b_1.engine", "a_1.txt", "note"}) add(name, 1000, 1000);
  fs::create_directory(fs::path(folder_.path()) / "a_folder.engine");
  fs::create_symlink("/etc/hostname", fs::path(folder_.path()) / "a_link.engine");
  add("a_1.engine", 10, 1000);
  add("a_2.engine", 10, 2000);
  trim(10);
  EXPECT_EQ(names(),
            (std::set<std::string>{"b_1.engine", "a_1.txt", "note", "a_folder.engine", "a_link.engine", "a_2.engine"}));
  EXPECT_NO_THROW(trim_cache(fs::path(folder_.path()) / "none", "", "", 0));
}

TEST_F(Cache, UsesThatFollowAtOnceHaveAnOrder) {
  add("a_1.engine", 10, 1000);
  add("a_2.engine", 10, 1000);
  const fs::path first = fs::path(folder_.path()) / "a_1.engine", second = fs::path(folder_.path()) / "a_2.engine";
  for (int i = 0; i < 100; ++i) {
    note_use(i % 2 ? first : second);
    note_use(i % 2 ? second : first);
    add("a_3.engine", 10, 500);
    trim(10);
    EXPECT_EQ(names(), (std::set<std::string>{i % 2 ? "a_2.engine" : "a_1.engine"}));
    add(i % 2 ? "a_1.engine" : "a_2.engine", 10, 1000);
  }
}

TEST_F(Cache, UseIsNoChange) {
  add("a_1.engine", 10, 1000);
  const auto before = fs::last_write_time(fs::path(folder_.path()) / "a_1.engine");
  note_use(fs::path(folder_.path()) / "a_1.engine");
  EXPECT_EQ(fs::last_write_time(fs::path(folder_.path()) / "a_1.engine"), before);
}

}  // namespace
}  // namespace camshaft::cache_folder_test
