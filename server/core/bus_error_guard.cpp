#include "server/core/bus_error_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

// What the handler reads: it may take no lock. An entry counts while `begin` is not 0.
struct GuardedRange {
  std::atomic<uintptr_t> begin = 0, end = 0;
  std::atomic<std::atomic<bool>*> broken = nullptr;
};
std::array<GuardedRange, 1024> guarded_ranges;
std::mutex guarded_mutex;
struct sigaction action_before;
uintptr_t page_bytes = 4096;

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const GuardedRange& range : guarded_ranges) {
    const uintptr_t begin = range.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= range.end.load(std::memory_order_relaxed)) continue;
    range.broken.load(std::memory_order_relaxed)->store(true);
    void* page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
    if (mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
      break;
    errno = error;
    return;
  }
  // None of ours: as if this handler were not there.
  if ((action_before.sa_flags & SA_SIGINFO) != 0) return action_before.sa_sigaction(number, info, context);
  if (action_before.sa_handler != SIG_DFL && action_before.sa_handler != SIG_IGN)
    return action_before.sa_handler(number);
  signal(number, SIG_DFL);  // and the instruction is tried again
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &action_before);
  });
}

}  // namespace

BusErrorGuard::BusErrorGuard(std::byte* begin, size_t size) {
  install_handler();
  const std::lock_guard lock(guarded_mutex);
  while (place_ < guarded_ranges.size() && guarded_ranges[place_].begin != 0) ++place_;
  if (place_ == guarded_ranges.size())
    throw ServerError(StatusCode::resource_exhausted, "there are " + std::to_string(guarded_ranges.size()) +
                                                          " regions of shared memory: unregister some first");
  GuardedRange& range = guarded_ranges[place_];
  range.end = reinterpret_cast<uintptr_t>(begin) + size;
  range.broken = broken_.get();
  range.begin.store(reinterpret_cast<uintptr_t>(begin), std::memory_order_release);
}

BusErrorGuard::~BusErrorGuard() {
  const std::lock_guard lock(guarded_mutex);
  guarded_ranges[place_].begin = 0;
}

}  // namespace camshaft::server
