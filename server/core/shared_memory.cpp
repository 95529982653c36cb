#include "server/core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/core/bus_error_guard.h"

namespace camshaft::server {

class SharedMemoryFile {
 public:
  explicit SharedMemoryFile(int file) : file_(file) {}
  ~SharedMemoryFile() {
    if (file_ >= 0) close(file_);
  }
  SharedMemoryFile(const SharedMemoryFile&) = delete;
  SharedMemoryFile& operator=(const SharedMemoryFile&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

namespace {

[[noreturn]] void refuse_region(const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, message);
}

// The file's size, which its client may change at any time.
uint64_t size_of_file(int file) {
  struct stat state {};
  return fstat(file, &state) != 0 || state.st_size < 0 ? 0 : static_cast<uint64_t>(state.st_size);
}

// The only form that shm_open() takes everywhere: nothing that leads elsewhere.
void check_key(const std::string& key) {
  const bool plain = key.size() > 1 && key.size() < 255 && key.front() == '/' && key.find('/', 1) == key.npos &&
                     key != "/." && key != "/.." && key.find('\0') == key.npos;
  if (!plain)
    refuse_region("Unable to open shared memory region: '" + key + "': a key is '/' and a name without another '/'");
}

}  // namespace

struct SharedMemory::Mapping {
  Mapping(Region described, int opened) : region(std::move(described)), file(opened) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    before = region.offset % page;
    size = before + region.byte_size;
    void* mapped =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), static_cast<off_t>(region.offset - before));
    if (mapped == MAP_FAILED) refuse_region("Unable to map shared memory region: '" + region.key + "'");
    begin = static_cast<std::byte*>(mapped);
    try {
      guard = std::make_unique<BusErrorGuard>(begin, size);
    } catch (...) {
      munmap(begin, size);
      throw;
    }
  }
  ~Mapping() {
    guard.reset();
    munmap(begin, size);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const Region region;
  SharedMemoryFile file;
  std::byte* begin = nullptr;
  uint64_t before = 0, size = 0;
  std::unique_ptr<BusErrorGuard> guard;
};

void SharedMemory::check_allowed() const {
  if (!allowed_)
    throw ServerError(StatusCode::unsupported,
                      "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.");
}

void SharedMemory::register_region(const std::string& name, const std::string& key, uint64_t offset,
                                   uint64_t byte_size) {
  check_allowed();
  if (name.empty()) refuse_region("'region name' is necessary to register system shared memory region");
  check_key(key);
  if (byte_size == 0) refuse_region("failed to register shared memory region '" + name + "': it has no bytes");
  const int file = shm_open(key.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) refuse_region("Unable to open shared memory region: '" + key + "'");
  SharedMemoryFile held(file);
  uint64_t end = 0;
  if (__builtin_add_overflow(offset, byte_size, &end) || end > size_of_file(file))
    refuse_region("failed to register shared memory region '" + name + "': invalid args: it has " +
                  std::to_string(byte_size) + " bytes from byte " + std::to_string(offset) + " on, and '" + key +
                  "' has " + std::to_string(size_of_file(file)));
  const auto mapping = std::make_shared<const Mapping>(Region{name, key, offset, byte_size}, dup(file));
  const std::lock_guard lock(mutex_);
  if (!regions_.emplace(name, mapping).second)
    throw ServerError(StatusCode::already_exists, "shared memory region '" + name + "' already in manager");
}

void SharedMemory::unregister(const std::string& name) {
  check_allowed();
  // What is let go is unmapped without the lock.
  std::map<std::string, std::shared_ptr<const Mapping>> gone;
  const std::lock_guard lock(mutex_);
  if (name.empty()) {
    gone.swap(regions_);
  } else if (const auto found = regions_.find(name); found != regions_.end()) {
    gone.insert(regions_.extract(found));
  }
}

std::vector<SharedMemory::Region> SharedMemory::status(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<Region> all;
  for (const auto& [own, mapping] : regions_)
    if (name.empty() || own == name) all.push_back(mapping->region);
  if (all.empty() && !name.empty())
    throw ServerError(StatusCode::not_found, "Unable to find system shared memory region: '" + name + "'");
  return all;
}

SharedMemory::Slice SharedMemory::slice(const std::string& name, uint64_t offset, uint64_t byte_size) const {
  std::shared_ptr<const Mapping> mapping;
  {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(name);
    if (found == regions_.end()) refuse_region("Unable to find shared memory region: '" + name + "'");
    mapping = found->second;
  }
  const Region& region = mapping->region;
  if (offset > region.byte_size || (offset == region.byte_size && byte_size > 0))
    refuse_region("Invalid offset for shared memory region: '" + name + "'");
  if (byte_size > region.byte_size - offset)
    refuse_region("Invalid offset + byte size for shared memory region: '" + name + "'");
  if (*mapping->guard->broken() || region.offset + offset + byte_size > size_of_file(mapping->file.get()))
    refuse_region("shared memory region '" + name + "' is shorter than when it was registered: unregister it");
  return {{mapping->begin + mapping->before + offset, byte_size}, mapping, mapping->guard->broken()};
}

Bytes input_bytes(const SharedMemory::Slice& slice, DType dtype) {
  if (is_floating(dtype)) return {slice.span, slice.owner};
  auto copy = std::make_shared<const std::vector<std::byte>>(slice.span.begin(), slice.span.end());
  return {*copy, copy};
}

}  // namespace camshaft::server
