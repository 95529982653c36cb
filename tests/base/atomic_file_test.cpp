#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace camshaft::atomic_file_test {
namespace {
bool gives_names = true;
}
}  // namespace camshaft::atomic_file_test

// In the place of libc's: as on a file system that gives files without a name none.
extern "C" int linkat(int from, const char* path, int to, const char* name, int flags) {
  if (camshaft::atomic_file_test::gives_names)
    return static_cast<int>(syscall(SYS_linkat, from, path, to, name, flags));
  errno = EOPNOTSUPP;
  return -1;
}

namespace camshaft::atomic_file_test {
namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string io_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    return error.what();
  }
  return "no error";
}

TEST(AtomicFile, appears_on_commit_and_not_before) {
  TemporaryFolder folder;
  const std::string path = folder.file("out.bin");
  AtomicFile file(path);
  file.write("head");
  file.pad_to(10000);
  file.write(std::string(600000, 'x'));
  file.write("tail");
  EXPECT_EQ(file.position(), 610004u);
  file.overwrite(2, std::as_bytes(std::span("AD", 2)));
  EXPECT_FALSE(std::filesystem::exists(path));
  file.commit();
  EXPECT_EQ(contents(path), "heAD" + std::string(9996, '\0') + std::string(600000, 'x') + "tail");
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_THROW(file.write("more"), Error);
  EXPECT_THROW(file.commit(), Error);
}

TEST(AtomicFile, pieces_of_any_size_follow_each_other) {
  TemporaryFolder folder;
  const std::string path = folder.file("out.bin");
  constexpr size_t block = 2 << 20;
  AtomicFile file(path);
  std::string expected;
  char letter = 'a';
  for (const size_t size :
       {size_t{1}, block - 1, 2 * block, block + 7, block - 8, 3 * block + 5, size_t{0}, size_t{9}}) {
    const std::string piece(size, letter++);
    file.write(piece);
    expected += piece;
    if (letter == 'e') file.overwrite(0, std::as_bytes(std::span("A", 1)));  // in the midst of a block
  }
  EXPECT_EQ(file.position(), expected.size());
  file.commit();
  expected[0] = 'A';
  EXPECT_TRUE(contents(path) == expected);
}

TEST(AtomicFile, an_abandoned_file_leaves_nothing_and_the_old_one_stays) {
  TemporaryFolder folder;
  const std::string path = folder.file("out.bin");
  std::ofstream(path) << "old";
  try {
    AtomicFile file(path);
    file.write(std::string(1 << 20, 'n'));
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFile, a_process_that_is_killed_leaves_nothing) {
  TemporaryFolder folder;
  const int unnamed = open(folder.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed < 0) GTEST_SKIP() << "the file system has no files without a name";
  close(unnamed);
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(folder.file("out.bin"));
    file.write(std::string(4 << 20, 'n'));
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(AtomicFile, keeps_permissions_and_follows_links) {
  TemporaryFolder folder;
  const std::string path = folder.file("real.bin"), link = folder.file("link.bin"), fresh = folder.file("new.bin");
  std::ofstream(path) << "old";
  chmod(path.c_str(), 0640);
  std::filesystem::create_symlink("real.bin", link);
  AtomicFile file(link);
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(contents(path), "new");
  struct stat info {};
  stat(path.c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  const mode_t mask = umask(027);
  AtomicFile second(fresh);
  second.commit();
  umask(mask);
  stat(fresh.c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(AtomicFile, names_what_cannot_be_written) {
  TemporaryFolder folder;
  const std::string absent = folder.file("no/such/out.bin");
  const std::string message = io_error_of([&] { AtomicFile file(absent); });
  EXPECT_NE(message.find(absent), std::string::npos) << message;
  EXPECT_NE(message.find("create the folder"), std::string::npos) << message;
  EXPECT_NE(io_error_of([&] { AtomicFile file(folder.path()); }).find("directory"), std::string::npos);
  EXPECT_NE(io_error_of([] { AtomicFile file(""); }).find("empty"), std::string::npos);
  if (geteuid() != 0) {
    chmod(folder.path().c_str(), 0500);
    EXPECT_NE(io_error_of([&] { AtomicFile file(folder.file("x")); }).find("ermission"), std::string::npos);
    chmod(folder.path().c_str(), 0700);
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(AtomicFile, writes_a_device_directly) {
  AtomicFile null("/dev/null");
  null.write(std::string(1 << 20, 'x'));
  null.commit();
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const std::string message = io_error_of([] {
    AtomicFile full("/dev/full");
    full.write(std::string(1 << 20, 'x'));
    full.commit();
  });
  EXPECT_NE(message.find("/dev/full"), std::string::npos) << message;
  EXPECT_NE(message.find("No space left"), std::string::npos) << message;
}

TEST(AtomicFile, a_full_disk_leaves_nothing) {
  TemporaryFolder folder;
  const std::string disk = folder.file("disk");
  std::filesystem::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=256k") != 0) GTEST_SKIP() << "mounting takes root";
  const std::string path = disk + "/out.bin";
  std::ofstream(path) << "old";
  const std::string message = io_error_of([&] {
    AtomicFile file(path);
    for (int i = 0; i < 100; ++i) file.write(std::string(10000, 'x'));
    file.commit();
  });
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find("No space left"), std::string::npos) << message;
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(disk), {}), 1);
  umount(disk.c_str());
}

TEST(AtomicFile, what_gets_no_name_is_copied) {
  TemporaryFolder folder;
  const std::string path = folder.file("out.bin");
  std::ofstream(path) << "old";
  chmod(path.c_str(), 0640);
  const std::string large(5'000'000, 'x');
  gives_names = false;
  {
    AtomicFile file(path);
    file.write(large);
    file.overwrite(0, std::as_bytes(std::span("y", 1)));
    EXPECT_EQ(contents(path), "old");
    file.commit();
  }
  { AtomicFile file(folder.file("dropped")); }
  gives_names = true;
  EXPECT_EQ(contents(path), "y" + large.substr(1));
  EXPECT_EQ(folder.entries(), 1u);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(AtomicFile, the_limit_on_file_sizes_leaves_nothing) {
  TemporaryFolder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 100000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = io_error_of([&] {
    AtomicFile file(folder.file("out.bin"));
    file.write(std::string(1 << 20, 'x'));
    file.commit();
  });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("File too large"), std::string::npos) << message;
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace
}  // namespace camshaft::atomic_file_test
