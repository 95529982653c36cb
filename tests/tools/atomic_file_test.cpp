#include "tools/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "camshaft/error.hpp"
#include "tools/temporary_folder.h"

namespace camshaft::tools::atomic_file_test {
namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(AtomicFile& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text)));
}

TEST(AtomicFile, AppearsOnCommitAndNotBefore) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out.bin";
  AtomicFile file(path);
  write(file, "head and tail");
  file.overwrite(2, std::as_bytes(std::span("AD", 2)));
  EXPECT_EQ(file.position(), 13u);
  EXPECT_FALSE(std::filesystem::exists(path));
  file.commit();
  EXPECT_EQ(contents(path), "heAD and tail");
}

TEST(AtomicFile, AProcessThatIsKilledLeavesNothing) {
  const TemporaryFolder folder;
  const int unnamed = open(folder.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed < 0) GTEST_SKIP() << "the file system has no files without a name";
  close(unnamed);
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(folder.path() + "/out.bin");
    write(file, "half of it");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(AtomicFile, AnAbandonedFileLeavesNothingAndTheOldOneStays) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out.bin";
  std::ofstream(path) << "old";
  {
    AtomicFile file(path);
    write(file, "new");
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(AtomicFile, PermissionsAreTheMasksAndTheMaskStays) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out.bin";
  const mode_t before = umask(027);
  {
    AtomicFile file(path);
    file.commit();
  }
  EXPECT_EQ(umask(before), 027u);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(AtomicFile, NamesWhatCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string absent = folder.path() + "/no/such/out.bin";
  try {
    AtomicFile file(absent);
    FAIL() << "it was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find(absent), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("create the folder"), std::string::npos);
  }
}

}  // namespace
}  // namespace camshaft::tools::atomic_file_test
