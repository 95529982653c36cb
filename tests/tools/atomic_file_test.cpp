#include "tools/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "camshaft/error.hpp"
#include "tools/temporary_folder.h"

namespace camshaft::tools::atomic_file_test {
namespace {
bool gives_names = true;
}
}  // namespace camshaft::tools::atomic_file_test

// In the place of libc's: as on a file system that gives files without a name none.
extern "C" int linkat(int from, const char* path, int to, const char* name, int flags) {
  if (camshaft::tools::atomic_file_test::gives_names)
    return static_cast<int>(syscall(SYS_linkat, from, path, to, name, flags));
  errno = EOPNOTSUPP;
  return -1;
}

namespace camshaft::tools::atomic_file_test {
namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(AtomicFile& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text)));
}

TEST(AtomicFile, IsCopiedWhereItGetsNoName) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out.bin", large(5'000'000, 'x');
  gives_names = false;
  {
    AtomicFile file(path);
    write(file, large);
    file.overwrite(0, std::as_bytes(std::span("y", 1)));
    file.commit();
  }
  gives_names = true;
  EXPECT_EQ(contents(path), "y" + large.substr(1));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
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
