#include "ort_provider/work_stream.h"

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "ort_provider/runner_pool.h"

namespace camshaft::ort_provider {

namespace {

// By the device's number and the handle.
struct Streams {
  std::mutex mutex;
  std::map<std::pair<int, void*>, std::weak_ptr<WorkStream>> all;

  static Streams& instance() {
    static auto* const streams = new Streams;
    return *streams;
  }
};

}  // namespace

WorkStream::WorkStream(const cuda::Device& device, bool is_own, void* handle)
    : device_(device),
      stream_(is_own ? cuda::Stream(device) : cuda::Stream(device, handle)),
      is_own_(is_own),
      latest_moment_(device) {}

std::shared_ptr<WorkStream> WorkStream::make(const cuda::Device& device) {
  std::shared_ptr<WorkStream> made(new WorkStream(device, true, nullptr));
  Streams& streams = Streams::instance();
  const std::lock_guard lock(streams.mutex);
  streams.all[{device.facts().ordinal, made->handle()}] = made;
  return made;
}

std::shared_ptr<WorkStream> WorkStream::of(const cuda::Device& device, void* handle) {
  Streams& streams = Streams::instance();
  const std::lock_guard lock(streams.mutex);
  std::weak_ptr<WorkStream>& known = streams.all[{device.facts().ordinal, handle}];
  std::shared_ptr<WorkStream> found = known.lock();
  if (!found) known = found = std::shared_ptr<WorkStream>(new WorkStream(device, false, handle));
  return found;
}

WorkStream::~WorkStream() {
  Streams& streams = Streams::instance();
  const std::lock_guard lock(streams.mutex);
  const auto it = streams.all.find({device_.facts().ordinal, handle()});
  if (it != streams.all.end() && it->second.expired()) streams.all.erase(it);
}

uint64_t WorkStream::submitted() {
  if (stream_.is_recorded()) return 0;
  const std::lock_guard lock(mutex_);
  latest_moment_.record(stream_);
  return ++latest_;
}

uint64_t WorkStream::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

bool WorkStream::is_done(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return number <= done_;
}

void WorkStream::hold_back(const cuda::Stream& other) const {
  const std::lock_guard lock(mutex_);
  if (latest_ > done_) latest_moment_.hold_back(other);
}

void WorkStream::wait_for_work() {
  // Not under the mutex, so that others may put work into it meanwhile. An event that is recorded again meanwhile is
  // waited for at its later moment, or its earlier one, which had the number that is read here.
  const uint64_t number = latest();
  if (is_done(number)) return;
  latest_moment_.synchronize();
  const std::lock_guard lock(mutex_);
  done_ = std::max(done_, number);
}

void WorkStream::wait() {
  wait_for_work();
  std::vector<std::weak_ptr<RunnerPool>> pools;
  {
    const std::lock_guard lock(mutex_);
    pools = std::exchange(pools_, {});
  }
  std::exception_ptr failure;
  for (const std::weak_ptr<RunnerPool>& known : pools) {
    const std::shared_ptr<RunnerPool> pool = known.lock();
    if (!pool) continue;
    try {
      pool->settle(*this);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void WorkStream::remember(const std::shared_ptr<RunnerPool>& pool) {
  const std::lock_guard lock(mutex_);
  std::erase_if(pools_, [](const std::weak_ptr<RunnerPool>& known) { return known.expired(); });
  const bool is_known = std::any_of(pools_.begin(), pools_.end(), [&](const std::weak_ptr<RunnerPool>& known) {
    return !known.owner_before(pool) && !pool.owner_before(known);
  });
  if (!is_known) pools_.push_back(pool);
}

}  // namespace camshaft::ort_provider
