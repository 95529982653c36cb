// What instances of all models share and hold while they run: --rate-limit=execution_count.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "server/core/model_config.h"

namespace camshaft::server {

/// Resources by name and device; a device below 0: one pool for all. Safe from several threads.
class RateLimiter {
 public:
  using Key = std::pair<std::string, int>;
  /// What an instance group asks for.
  struct Claim {
    std::map<Key, uint64_t> resources;
    uint64_t priority = 1;  ///< an instance of priority 2 runs half as often as one of 1 where both wait
  };
  /// `given`: pools by --rate-limit-resource; others are as large as the largest claim.
  explicit RateLimiter(std::map<Key, uint64_t> given = {}) : given_(std::move(given)) {}

  /// Makes room for a claim in pools that are not given. Throws ServerError(invalid_argument) for one that a given pool
  /// can never meet.
  void admit(const Claim& claim, const std::string& model);
  /// Waits until all of a claim is free; of several that wait the one runs first that ran least for its priority.
  /// `executions` counts runs of an instance, from 0. Who comes anew, or was idle, is not ahead of others for that.
  void acquire(const Claim& claim, uint64_t& executions);
  void release(const Claim& claim);
  /// Both, without a moment in which others are alone: an instance that has more to do waits beside them.
  void renew(const Claim& claim, uint64_t& executions);

 private:
  bool is_free(const Claim& claim) const;
  void wait_for(const Claim& claim, uint64_t& executions, std::unique_lock<std::mutex>& lock);
  uint64_t pool(const Key& key) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, uint64_t> given_, largest_, used_;
  std::multiset<std::pair<uint64_t, uint64_t>> waiting_;  ///< weight, and a number of arrival
  uint64_t arrivals_ = 0;
  uint64_t served_ = 0;  ///< weight of the one that ran last
};

/// Of an instance group on a device.
RateLimiter::Claim make_claim(const inference::ModelInstanceGroup& group, int device);

}  // namespace camshaft::server
