#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/first_touch.h"
#include "base/large_memory.h"

namespace camshaft {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::io, path + ": could not be read: " + reason);
}

void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& folder) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw Error(ErrorCode::io, folder + ": a temporary file could not be written: " + std::strerror(errno) +
                                     "; set TMPDIR to a folder with enough room");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  std::shared_ptr<const MappedFile> file = open_with_descriptor(path);
  close(std::exchange(const_cast<MappedFile&>(*file).descriptor_, -1));
  return file;
}

std::shared_ptr<const MappedFile> MappedFile::open_with_descriptor(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  // O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. Regular files ignore it.
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->descriptor_ < 0) fail(path, errno == ENOENT ? "there is no such file" : std::strerror(errno));
  struct stat info {};
  if (fstat(file->descriptor_, &info) != 0) fail(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail(path, "it is a directory, not a file");
  if (!S_ISREG(info.st_mode)) fail(path, "it is not a regular file; copy its contents to one");
  if (info.st_size == 0) fail(path, "it is empty");
  file->size_ = static_cast<size_t>(info.st_size);
  file->map();
  return file;
}

void MappedFile::map() {
  std::byte* const place = size_ >= least_large ? map_large(size_, false) : nullptr;
  void* address = mmap(place, size_, PROT_READ, MAP_PRIVATE | (place ? MAP_FIXED : 0), descriptor_, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    if (place) munmap(place, size_);
    fail(path_, std::string("mapping it failed: ") + std::strerror(error));
  }
  data_ = static_cast<const std::byte*>(address);
  mapped_ = true;
  // A wish: what is not cached yet is then read into huge pages (95 % of a 200 MB engine, 77 % without).
  madvise(address, size_, MADV_HUGEPAGE);
}

std::shared_ptr<const MappedFile> MappedFile::in_unnamed_file(std::span<const std::byte> bytes, std::string name) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = std::move(name);
  const char* const wanted = std::getenv("TMPDIR");
  const std::string folder = wanted && *wanted ? wanted : "/tmp";
  std::string pattern = folder + "/camshaft-XXXXXX";
  file->descriptor_ = mkostemp(pattern.data(), O_CLOEXEC);
  if (file->descriptor_ < 0)
    throw Error(ErrorCode::io, folder + ": a temporary file could not be made: " + std::strerror(errno) +
                                   "; set TMPDIR to a folder that can be written");
  unlink(pattern.c_str());
  write_all(file->descriptor_, bytes, folder);
  file->size_ = bytes.size();
  if (!bytes.empty()) file->map();
  return file;
}

std::shared_ptr<const MappedFile> MappedFile::from_bytes(std::span<const std::byte> bytes, std::string name) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->owned_ = AlignedBuffer(bytes.size(), "the bytes of " + name);
  file->path_ = std::move(name);
  spread_over_nodes(file->owned_.bytes());
  if (!bytes.empty()) std::memcpy(file->owned_.data(), bytes.data(), bytes.size());
  file->data_ = file->owned_.data();
  file->size_ = file->owned_.size();
  return file;
}

MappedFile::~MappedFile() {
  if (mapped_) munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) close(descriptor_);
}

void MappedFile::prefetch(size_t offset, size_t size) const {
  if (!mapped_ || offset >= size_) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = offset / page * page;
  const size_t end = offset + std::min(size, size_ - offset);
  madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_WILLNEED);
}

void MappedFile::release(size_t offset, size_t size) const {
  if (!mapped_ || offset >= size_) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = offset + std::min(size, size_ - offset);
  // The file's last page has nothing else.
  const size_t whole = end == size_ ? end : end / page * page;
  if (whole > begin) madvise(const_cast<std::byte*>(data_) + begin, whole - begin, MADV_DONTNEED);
}

}  // namespace camshaft
