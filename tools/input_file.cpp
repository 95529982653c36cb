#include "tools/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "camshaft/error.hpp"

namespace camshaft::tools {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io, path + ": could not be read: " + reason);
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

std::vector<std::byte> read_file(const std::string& path) {
  // O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. Regular files ignore it.
  const Descriptor descriptor{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.fd < 0) fail(path, errno == ENOENT ? "there is no such file" : std::strerror(errno));
  struct stat info {};
  if (fstat(descriptor.fd, &info) != 0) fail(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail(path, "it is a directory, not a file");
  if (!S_ISREG(info.st_mode)) fail(path, "it is not a regular file; copy its contents to one");
  if (info.st_size == 0) fail(path, "it is empty");
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(descriptor.fd, bytes.data() + done, std::min(bytes.size() - done, size_t{1} << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, std::strerror(errno));
    if (count == 0) fail(path, "it became shorter while it was read");
    done += static_cast<size_t>(count);
  }
  return bytes;
}

}  // namespace camshaft::tools
