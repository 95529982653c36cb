#include "tools/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

InputFile::InputFile(const std::string& path) {
  // O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. Regular files ignore it.
  const Descriptor descriptor{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.fd < 0) fail(path, errno == ENOENT ? "there is no such file" : std::strerror(errno));
  struct stat info {};
  if (fstat(descriptor.fd, &info) != 0) fail(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail(path, "it is a directory, not a file");
  if (!S_ISREG(info.st_mode)) fail(path, "it is not a regular file; copy its contents to one");
  if (info.st_size == 0) fail(path, "it is empty");
  const auto size = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.fd, 0);
  if (address == MAP_FAILED) fail(path, std::string("mapping it failed: ") + std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

InputFile::~InputFile() {
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace camshaft::tools
