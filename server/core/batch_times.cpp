#include "server/core/batch_times.h"

namespace camshaft::server {

void BatchTimes::add(int64_t batch, std::chrono::nanoseconds time) {
  const auto measured = static_cast<double>(time.count());
  const std::lock_guard lock(mutex_);
  const auto [at, first] = nanoseconds_.try_emplace(batch, measured);
  if (!first) at->second += (measured - at->second) / 8;
}

std::chrono::nanoseconds BatchTimes::expected(int64_t batch) const {
  const auto whole = [](double ns) { return std::chrono::nanoseconds(static_cast<int64_t>(ns)); };
  const std::lock_guard lock(mutex_);
  if (nanoseconds_.empty()) return std::chrono::nanoseconds(0);
  const auto above = nanoseconds_.lower_bound(batch);
  if (above != nanoseconds_.end() && (above->first == batch || above == nanoseconds_.begin()))
    return whole(above->second);
  const auto below = std::prev(above);
  if (above == nanoseconds_.end())
    return whole(below->second * static_cast<double>(batch) / static_cast<double>(below->first));
  const double share = static_cast<double>(batch - below->first) / static_cast<double>(above->first - below->first);
  return whole(below->second + share * (above->second - below->second));
}

bool BatchTimes::empty() const {
  const std::lock_guard lock(mutex_);
  return nanoseconds_.empty();
}

}  // namespace camshaft::server
