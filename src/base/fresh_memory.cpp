#include "base/fresh_memory.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/large_memory.h"

namespace camshaft {
namespace {

constexpr size_t small_page = 4096;

// Has the system find the pages.
void touch(const FreshMemory& memory) {
  volatile std::byte* const data = memory.data();
  for (size_t at = 0; at < memory.bytes(); at += small_page) data[at] = std::byte{0};
}

}  // namespace

FreshMemory::FreshMemory(size_t bytes) : bytes_(bytes) {
  if (bytes >= least_large) {
    data_ = map_large(bytes);
  } else {
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped != MAP_FAILED) data_ = static_cast<std::byte*>(mapped);
  }
  if (data_ == nullptr)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("no memory for {} bytes of weights: {}", bytes, std::strerror(errno)));
}

FreshMemory::~FreshMemory() {
  if (!is_moved_) munmap(data_, bytes_);
}

void FreshMemory::shorten(size_t bytes) {
  if (bytes >= bytes_) return;
  munmap(data_ + bytes, bytes_ - bytes);
  bytes_ = bytes;
}

bool FreshMemory::move_to(std::byte* to) {
  mprotect(data_, bytes_, PROT_READ);
  is_moved_ = mremap(data_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
  return is_moved_;
}

MemoryAhead::~MemoryAhead() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MemoryAhead::prepare(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes == 0) {
    ready_.reset();
    wanted_ = 0;
    return;
  }
  if (ready_ && ready_->bytes() >= bytes) return;
  ready_.reset();
  wanted_ = bytes;
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { work(); });
    pthread_setname_np(thread_.native_handle(), "camshaft-memory");
  }
  changed_.notify_all();
}

std::unique_ptr<FreshMemory> MemoryAhead::take(size_t bytes) {
  std::unique_ptr<FreshMemory> taken;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !is_working_; });  // what it has begun is the soonest to be had
    wanted_ = 0;
    taken = std::move(ready_);
  }
  if (!taken || taken->bytes() < bytes) {
    taken.reset();
    return std::make_unique<FreshMemory>(bytes);
  }
  taken->shorten(bytes);
  return taken;
}

void MemoryAhead::work() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    if (wanted_ == 0) {
      changed_.wait(lock);
      continue;
    }
    const size_t bytes = std::exchange(wanted_, 0);
    is_working_ = true;
    lock.unlock();
    std::unique_ptr<FreshMemory> made;
    try {
      made = std::make_unique<FreshMemory>(bytes);
      touch(*made);
    } catch (const Error&) {  // who takes it fails then, and says so
      made.reset();
    }
    lock.lock();
    is_working_ = false;
    ready_ = std::move(made);
    changed_.notify_all();
  }
}

}  // namespace camshaft
