#include "server/core/private_copy.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

namespace fs = std::filesystem;

constexpr size_t block_bytes = size_t{1} << 20;

// Closes itself.
struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int number;
};

bool write_all(int to, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(to, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

// Where both are on one disk the kernel copies, or has both share what they have. Returns 0, or the error's number.
int copy_bytes(int from, int to) {
  for (;;) {
    const ssize_t copied = copy_file_range(from, nullptr, to, nullptr, size_t{1} << 30, 0);
    if (copied > 0) continue;
    if (copied == 0) break;
    if (errno == ENOSPC) return errno;
    break;
  }
  // What is left, or all: some file systems copy nothing, and say so by 0 bytes.
  std::vector<char> block(block_bytes);
  for (;;) {
    const ssize_t count = read(from, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return 0;
    if (!write_all(to, block.data(), static_cast<size_t>(count))) return errno;
  }
}

}  // namespace

PrivateFile::PrivateFile(const fs::path& file, const fs::path& folder) {
  const Descriptor from(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (from.number < 0)
    throw ServerError(StatusCode::internal, "cannot read " + file.string() + ": " + std::strerror(errno));
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  descriptor_ = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor_ >= 0 && copy_bytes(from.number, descriptor_) == 0) return;
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = memfd_create("camshaft-engine", MFD_CLOEXEC);
  lseek(from.number, 0, SEEK_SET);
  const int error = descriptor_ < 0 ? errno : copy_bytes(from.number, descriptor_);
  if (error == 0) return;
  if (descriptor_ >= 0) close(descriptor_);
  throw ServerError(error == ENOSPC || error == ENOMEM ? StatusCode::resource_exhausted : StatusCode::internal,
                    "cannot copy " + file.string() + ", neither to " + folder.string() +
                        " nor into memory: " + std::strerror(error) + "; --engine-cache names another folder");
}

PrivateFile::~PrivateFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string PrivateFile::path() const {
  return "/proc/self/fd/" + std::to_string(descriptor_);
}

PrivateFolder::PrivateFolder(const fs::path& folder, const fs::path& parent) {
  std::error_code error;
  fs::create_directories(parent, error);
  std::string name = (parent / "model-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw ServerError(StatusCode::resource_exhausted,
                      "cannot make a folder in " + parent.string() + ": " + std::strerror(errno));
  path_ = name;
  fs::copy(folder, path_, fs::copy_options::recursive, error);
  if (!error) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  throw ServerError(StatusCode::resource_exhausted,
                    "cannot copy " + folder.string() + " to " + parent.string() + ": " + error.message());
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace camshaft::server
