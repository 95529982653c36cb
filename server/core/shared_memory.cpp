#include "server/core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/core/bus_error_guard.h"
#include "server/core/client_memory.h"
#include "server/core/cuda_memory.h"

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

struct SharedMemory::CudaMapping {
  CudaMapping(const std::string& name, std::string_view handle, int64_t device, uint64_t byte_size)
      : region{name, device, byte_size}, memory(device, handle) {
    if (byte_size == 0 || byte_size > memory.span().size())
      refuse_region("failed to register shared memory region '" + name + "': it has " + std::to_string(byte_size) +
                    " bytes, and the allocation on GPU " + std::to_string(device) + " has " +
                    std::to_string(memory.span().size()));
  }
  const CudaRegion region;
  const CudaAllocation memory;
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
  add(name, {mapping, nullptr});
}

void SharedMemory::register_cuda_region(const std::string& name, std::string_view handle, int64_t device,
                                        uint64_t byte_size) {
  check_allowed();
  if (name.empty()) refuse_region("'region name' is necessary to register cuda shared memory region");
  try {
    add(name, {nullptr, std::make_shared<const CudaMapping>(name, handle, device, byte_size)});
  } catch (const ServerError& error) {
    if (error.code() == StatusCode::already_exists) throw;
    throw ServerError(error.code(), "failed to register CUDA shared memory region '" + name + "': " + error.what());
  }
}

void SharedMemory::add(const std::string& name, Registered region) {
  const std::lock_guard lock(mutex_);
  if (!regions_.emplace(name, std::move(region)).second)
    throw ServerError(StatusCode::already_exists, "shared memory region '" + name + "' already in manager");
}

void SharedMemory::let_go(const std::string& name, bool cuda) {
  check_allowed();
  std::vector<Registered> gone;  // what is let go is unmapped without the lock
  const std::lock_guard lock(mutex_);
  for (auto at = regions_.begin(); at != regions_.end();) {
    const bool meant = (name.empty() || at->first == name) && (at->second.cuda != nullptr) == cuda;
    if (meant) gone.push_back(std::move(at->second));
    at = meant ? regions_.erase(at) : std::next(at);
  }
}

std::vector<SharedMemory::Region> SharedMemory::status(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<Region> all;
  for (const auto& [own, registered] : regions_)
    if (registered.system && (name.empty() || own == name)) all.push_back(registered.system->region);
  if (all.empty() && !name.empty())
    throw ServerError(StatusCode::not_found, "Unable to find system shared memory region: '" + name + "'");
  return all;
}

std::vector<SharedMemory::CudaRegion> SharedMemory::cuda_status(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<CudaRegion> all;
  for (const auto& [own, registered] : regions_)
    if (registered.cuda && (name.empty() || own == name)) all.push_back(registered.cuda->region);
  if (all.empty() && !name.empty())
    throw ServerError(StatusCode::not_found, "Unable to find cuda shared memory region: '" + name + "'");
  return all;
}

SharedMemory::Slice SharedMemory::slice(const std::string& name, uint64_t offset, uint64_t byte_size) const {
  Registered registered;
  {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(name);
    if (found == regions_.end()) refuse_region("Unable to find shared memory region: '" + name + "'");
    registered = found->second;
  }
  const uint64_t all = registered.cuda ? registered.cuda->region.byte_size : registered.system->region.byte_size;
  if (offset > all || (offset == all && byte_size > 0))
    refuse_region("Invalid offset for shared memory region: '" + name + "'");
  if (byte_size > all - offset) refuse_region("Invalid offset + byte size for shared memory region: '" + name + "'");
  if (registered.cuda) {
    const CudaAllocation& memory = registered.cuda->memory;
    return {memory.span().subspan(offset, byte_size), registered.cuda, nullptr, memory.device()};
  }
  const std::shared_ptr<const Mapping>& mapping = registered.system;
  const Region& region = mapping->region;
  if (*mapping->guard->broken() || region.offset + offset + byte_size > size_of_file(mapping->file.get()))
    refuse_region("shared memory region '" + name + "' is shorter than when it was registered: unregister it");
  return {{mapping->begin + mapping->before + offset, byte_size}, mapping, mapping->guard->broken()};
}

Bytes input_bytes(const SharedMemory::Slice& slice, DType dtype) {
  const Bytes shared{slice.span, slice.owner, slice.device};
  if (is_floating(dtype)) return shared;
  auto copy = std::make_shared<std::vector<std::byte>>(slice.span.size());
  copy_bytes(copy->data(), shared);
  return {*copy, copy};
}

}  // namespace camshaft::server
