#include "server/core/batch_times.h"

#include <cmath>

namespace camshaft::server {

void BatchTimes::add(int64_t batch, std::chrono::nanoseconds time) {
  const auto measured = static_cast<double>(time.count());
  const std::lock_guard lock(mutex_);
  const auto [at, first] = times_.try_emplace(batch, Times{measured, 0});
  if (first) return;
  Times& times = at->second;
  times.deviation += (std::abs(measured - times.mean) - times.deviation) / 8;
  times.mean += (measured - times.mean) / 8;
}

std::chrono::nanoseconds BatchTimes::between(int64_t batch, double deviations) const {
  const auto time = [&](const Times& times) { return times.mean + deviations * times.deviation; };
  const auto whole = [](double ns) { return std::chrono::nanoseconds(static_cast<int64_t>(ns)); };
  const std::lock_guard lock(mutex_);
  if (times_.empty()) return std::chrono::nanoseconds(0);
  const auto above = times_.lower_bound(batch);
  if (above != times_.end() && (above->first == batch || above == times_.begin())) return whole(time(above->second));
  const auto below = std::prev(above);
  if (above == times_.end())
    return whole(time(below->second) * static_cast<double>(batch) / static_cast<double>(below->first));
  const double share = static_cast<double>(batch - below->first) / static_cast<double>(above->first - below->first);
  return whole(time(below->second) + share * (time(above->second) - time(below->second)));
}

std::chrono::nanoseconds BatchTimes::expected(int64_t batch) const {
  return between(batch, 0);
}

std::chrono::nanoseconds BatchTimes::cautious(int64_t batch) const {
  return between(batch, 1);
}

bool BatchTimes::empty() const {
  const std::lock_guard lock(mutex_);
  return times_.empty();
}

}  // namespace camshaft::server
