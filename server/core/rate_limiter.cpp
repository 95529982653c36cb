#include "server/core/rate_limiter.h"

#include <algorithm>

#include "server/core/status.h"

namespace camshaft::server {

RateLimiter::Claim make_claim(const inference::ModelInstanceGroup& group, int device) {
  RateLimiter::Claim claim;
  claim.priority = std::max<uint64_t>(1, group.rate_limiter().priority());
  for (const auto& resource : group.rate_limiter().resources())
    claim.resources[{resource.name(), resource.global() ? -1 : device}] = resource.count();
  return claim;
}

uint64_t RateLimiter::pool(const Key& key) const {
  const auto given = given_.find(key);
  if (given != given_.end()) return given->second;
  const auto everywhere = given_.find({key.first, -1});
  if (everywhere != given_.end()) return everywhere->second;
  const auto largest = largest_.find(key);
  return largest == largest_.end() ? 0 : largest->second;
}

void RateLimiter::admit(const Claim& claim, const std::string& model) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, count] : claim.resources) {
    uint64_t& largest = largest_[key];
    largest = std::max(largest, count);
    if (pool(key) < count)
      throw ServerError(StatusCode::invalid_argument, "model '" + model + "': resource count for '" + key.first +
                                                          "' is limited to " + std::to_string(pool(key)) +
                                                          " which will prevent scheduling of one or more model " +
                                                          "instances, the minimum required count is " +
                                                          std::to_string(count) + " (--rate-limit-resource)");
  }
}

bool RateLimiter::is_free(const Claim& claim) const {
  return std::all_of(claim.resources.begin(), claim.resources.end(), [&](const auto& wanted) {
    const auto used = used_.find(wanted.first);
    return (used == used_.end() ? 0 : used->second) + wanted.second <= pool(wanted.first);
  });
}

void RateLimiter::acquire(const Claim& claim, uint64_t& executions) {
  if (claim.resources.empty()) return;
  std::unique_lock lock(mutex_);
  wait_for(claim, executions, lock);
}

void RateLimiter::renew(const Claim& claim, uint64_t& executions) {
  if (claim.resources.empty()) return;
  std::unique_lock lock(mutex_);
  for (const auto& [key, count] : claim.resources) used_[key] -= count;
  wait_for(claim, executions, lock);
}

void RateLimiter::wait_for(const Claim& claim, uint64_t& executions, std::unique_lock<std::mutex>& lock) {
  executions = std::max(executions, served_ / claim.priority);
  const std::pair<uint64_t, uint64_t> place{executions * claim.priority, arrivals_++};
  waiting_.insert(place);
  changed_.notify_all();  // what was given back may be what others wait for
  changed_.wait(lock, [&] { return *waiting_.begin() == place && is_free(claim); });
  waiting_.erase(place);
  served_ = place.first;
  for (const auto& [key, count] : claim.resources) used_[key] += count;
  ++executions;
  changed_.notify_all();
}

void RateLimiter::release(const Claim& claim) {
  if (claim.resources.empty()) return;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, count] : claim.resources) used_[key] -= count;
  changed_.notify_all();
}

}  // namespace camshaft::server
