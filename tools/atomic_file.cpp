#include "tools/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "camshaft/error.hpp"
#include "tools/format_bytes.h"

namespace camshaft::tools {

namespace {

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The permissions that open(path, O_CREAT, 0666) would have given. umask can only be read by setting it, which another
// thread might see; /proc says it without.
mode_t default_mode() {
  mode_t mask = 022;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    unsigned value = 0;
    if (std::sscanf(line.c_str(), "Umask: %o", &value) == 1) mask = static_cast<mode_t>(value);
  }
  return 0666 & ~mask;
}

std::string link_of(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

// A file in the folder that has no name yet: nothing of it stays where the process is killed. -1 where the file system
// has no such files, or /proc is not there to give it a name by.
int open_unnamed(const std::string& folder) {
  const int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 && access(link_of(fd).c_str(), F_OK) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), target_(path_) {
  if (path_.empty()) throw Error(ErrorCode::io, "the path of a file to write is empty");
  // Renaming over a symbolic link would replace the link; what it points to is meant.
  std::error_code ignored;
  if (std::filesystem::is_symlink(target_, ignored)) {
    const auto resolved = std::filesystem::weakly_canonical(target_, ignored);
    if (!ignored) target_ = resolved.string();
  }
  struct stat info {};
  const bool exists = stat(target_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) fail("could not be written", EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    fd_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail("could not be opened for writing", errno);
    return;
  }
  // Renaming asks for no permission on the target itself: a file that was made read-only on purpose would be lost.
  if (exists && access(target_.c_str(), W_OK) != 0) fail("could not be written", errno);
  fd_ = open_unnamed(folder_of(target_));
  is_unnamed_ = fd_ >= 0;
  if (!is_unnamed_) {
    temporary_ = folder_of(target_) + "/.camshaft-XXXXXX";
    fd_ = mkostemp(temporary_.data(), O_CLOEXEC);
    if (fd_ < 0) {
      temporary_.clear();
      fail("could not be created in " + folder_of(target_), errno);
    }
  }
  fchmod(fd_, exists ? info.st_mode & 0777 : default_mode());
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& action, int error) const {
  std::string message = path_ + ": " + action + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    message += " (after " + format_bytes(position_) + "); free some space or choose another place";
  } else if (error == EISDIR) {
    message += "; give the name of a file";
  } else if (error == ENOENT || error == ENOTDIR) {
    message += "; create the folder first";
  }
  throw Error(ErrorCode::io, message);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), size_t{1} << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("could not be written", errno);
    }
    position_ += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("could not be written", errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

void AtomicFile::give_temporary_name() {
  // Only a rename replaces a file, and only what has a name is renamed.
  for (unsigned number = 0;; ++number) {
    std::string name = folder_of(target_) + "/.camshaft-" + std::to_string(getpid()) + "-" + std::to_string(number);
    if (linkat(AT_FDCWD, link_of(fd_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = std::move(name);
      return;
    }
    if (errno != EEXIST) return copy_under_temporary_name();
  }
}

// Some file systems, as of FUSE, have files without a name and give them none later.
void AtomicFile::copy_under_temporary_name() {
  struct stat info {};
  std::string name = folder_of(target_) + "/.camshaft-XXXXXX";
  const int to = fstat(fd_, &info) == 0 ? mkostemp(name.data(), O_CLOEXEC) : -1;
  if (to < 0) fail("could not be given a name", errno);
  temporary_ = std::move(name);
  const int from = std::exchange(fd_, to);
  std::vector<std::byte> block(size_t{2} << 20);
  int error = fchmod(to, info.st_mode & 0777) == 0 ? 0 : errno;
  try {
    for (off_t copied = 0; error == 0 && copied < info.st_size;) {
      const ssize_t count = pread(from, block.data(), block.size(), copied);
      if (count > 0) {
        write(std::span(block).first(static_cast<size_t>(count)));
        copied += count;
      } else if (count == 0 || errno != EINTR) {
        error = count == 0 ? EIO : errno;
      }
    }
  } catch (...) {
    close(from);
    throw;
  }
  close(from);
  if (error == 0 && fsync(to) != 0) error = errno;
  if (error != 0) fail("could not be given a name", error);
}

void AtomicFile::commit() {
  if (temporary_.empty() && !is_unnamed_) {  // a device or a pipe: there is nothing to sync or to rename
    if (close(std::exchange(fd_, -1)) != 0) fail("could not be written", errno);
    return;
  }
  // Without fsync, a crash after the rename may leave a file of the right name with nothing in it.
  if (fsync(fd_) != 0) fail("could not be brought to the disk", errno);
  if (is_unnamed_) give_temporary_name();
  if (close(std::exchange(fd_, -1)) != 0) fail("could not be written", errno);
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail("could not be given its name", errno);
  temporary_.clear();
  // The rename itself lives in the folder. Not every file system can sync one; the data is safe by now either way.
  const int folder = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
}

}  // namespace camshaft::tools
