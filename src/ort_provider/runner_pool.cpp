#include "ort_provider/runner_pool.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "ort_provider/work_stream.h"

namespace camshaft::ort_provider {

std::unique_ptr<Runner> RunnerPool::take(const WorkStream* stream) {
  const std::lock_guard lock(mutex_);
  const auto in = [&](const WorkStream* wanted) {
    return std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& idle) { return idle.stream.get() == wanted; });
  };
  auto found = in(stream);
  if (found == idle_.rend()) found = in(nullptr);
  if (found == idle_.rend()) return nullptr;
  std::unique_ptr<Runner> runner = std::move(found->runner);
  idle_.erase(std::next(found).base());
  return runner;
}

void RunnerPool::give_back(std::unique_ptr<Runner> runner, std::shared_ptr<WorkStream> stream) {
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back({std::move(runner), stream});
  }
  if (stream) stream->remember(shared_from_this());
}

void RunnerPool::settle(const WorkStream& stream) {
  std::vector<Idle> settled;
  {
    const std::lock_guard lock(mutex_);
    const auto end =
        std::partition(idle_.begin(), idle_.end(), [&](const Idle& i) { return i.stream.get() != &stream; });
    std::move(end, idle_.end(), std::back_inserter(settled));
    idle_.erase(end, idle_.end());
  }
  std::exception_ptr failure;
  for (Idle& idle : settled) {
    try {
      idle.runner->context.synchronize();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
    give_back(std::move(idle.runner), nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace camshaft::ort_provider
