#include "server/core/kept_engines.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "server/core/temporary_folder.h"

namespace camshaft::server::kept_engines_test {
namespace {

namespace fs = std::filesystem;

class KeptEngines : public testing::Test {
 protected:
  // A file that was used so many seconds after others.
  void keep(const std::string& name, uint64_t bytes, int second) {
    folder_.write(name, std::string(bytes, 'x'));
    const timespec times[] = {{.tv_sec = 1000000 + second, .tv_nsec = 0}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
    utimensat(AT_FDCWD, (folder_.path() / name).c_str(), times, 0);
  }
  bool is_there(const std::string& name) const { return fs::exists(folder_.path() / name); }
  void trim(uint64_t most_bytes) const { trim_engines({folder_.path(), most_bytes}); }

  TemporaryFolder folder_;
};

TEST_F(KeptEngines, WhatWasUsedTheLongestAgoGoes) {
  keep("a.engine", 100, 1);
  keep("b.engine", 100, 3);
  keep("c.engine", 100, 2);
  trim(300);
  EXPECT_TRUE(is_there("a.engine"));
  trim(299);
  EXPECT_FALSE(is_there("a.engine"));
  EXPECT_TRUE(is_there("b.engine") && is_there("c.engine"));
  note_engine_use(folder_.path() / "c.engine");
  trim(100);
  EXPECT_FALSE(is_there("b.engine"));
  EXPECT_TRUE(is_there("c.engine"));
}

TEST_F(KeptEngines, TheLastOneAndOtherFilesStay) {
  keep("a.engine", 100, 1);
  keep("b.engine", 100, 2);
  keep("notes.txt", 100, 0);
  fs::create_directory(folder_.path() / "model-abc");
  trim(1);
  EXPECT_FALSE(is_there("a.engine"));
  EXPECT_TRUE(is_there("b.engine") && is_there("notes.txt") && is_there("model-abc"));
}

TEST_F(KeptEngines, ASmallOneDoesNotStayForItsSize) {
  keep("old.engine", 1, 1);
  keep("large.engine", 200, 2);
  keep("new.engine", 50, 3);
  trim(100);
  EXPECT_FALSE(is_there("large.engine") || is_there("old.engine"));
}

TEST_F(KeptEngines, NothingGoesWithoutALimit) {
  keep("a.engine", 100, 1);
  keep("b.engine", 100, 2);
  trim(0);
  EXPECT_TRUE(is_there("a.engine"));
  EXPECT_NO_THROW(trim_engines({folder_.path() / "none", 1}));
}

}  // namespace
}  // namespace camshaft::server::kept_engines_test
