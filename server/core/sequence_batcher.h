// Requests of sequences: one after another on the same instance, with controls and states as inputs.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "server/core/backend.h"
#include "server/core/rate_limiter.h"
#include "server/core/scheduler.h"
#include "server/core/sequence_tensors.h"

namespace camshaft::server {

/// Each instance has so many slots: max_batch_size of them (direct), or max_candidate_sequences (oldest). A sequence
/// has a slot from its first request to its last, or until it was idle for too long; others wait for one. A batch has
/// one request of each sequence at most, those that have waited longest first.
/// Where sequences are iterative a model may give a request back, which then runs once more, before others of its
/// sequence; the sequence ends with the first request that is not given back. Requests need no identity there.
class SequenceBatcher : public Scheduler {
 public:
  /// `claims`: of the limiter, by group.
  SequenceBatcher(std::vector<PlacedInstance> instances, const ModelConfig& config, const Signature& signature,
                  const std::filesystem::path& folder, ModelStatistics& statistics,
                  std::shared_ptr<RateLimiter> limiter = nullptr, std::vector<RateLimiter::Claim> claims = {});
  /// Runs what waits in slots, then stops.
  ~SequenceBatcher() override;
  void submit(PendingPtr& pending) override;

 private:
  /// Which sequence: those that the server makes of single requests are none of the clients', whatever their numbers.
  struct Key {
    bool own = false;
    SequenceId id;
    auto operator<=>(const Key&) const = default;
  };
  struct Sequence {
    std::deque<PendingPtr> waiting;
    size_t instance = 0;
    bool has_slot = false, running = false;
    bool ends = false;  ///< its last request waits or runs
    Clock::time_point last;
    std::vector<NamedTensor> states;
  };
  struct Rules {
    size_t slots = 1;  ///< an instance
    int64_t max_batch = 1;
    std::set<int64_t> preferred;
    int64_t enough = 1;  ///< requests that are not to wait for more
    std::chrono::microseconds max_delay{0};
    std::chrono::microseconds idle{1000000};
    bool iterative = false;
  };
  using Entry = std::map<Key, Sequence>::value_type;
  struct Taken {
    Key key;
    bool end = false;
    std::shared_ptr<PendingPtr> again;                 ///< what the model gave back; null where it cannot
    std::shared_ptr<std::vector<NamedTensor>> states;  ///< as the run leaves them
  };

  static Rules make_rules(const ModelConfig& config);
  void serve(size_t index);
  void end();
  void give_slots();
  void end_idle(size_t index, Clock::time_point now, std::optional<Clock::time_point>& wake);
  std::vector<Entry*> choose(size_t index, Clock::time_point now, std::optional<Clock::time_point>& wake);
  void drop_cancelled(size_t index, std::unique_lock<std::mutex>& lock);
  Key key_of(Request& request);
  void finish(Taken& taken);
  void prepare(Entry& entry, std::vector<PendingPtr>& batch, std::vector<Taken>& taken);

  const Rules rules_;
  const std::string model_;
  const SequenceTensors tensors_;
  ModelStatistics& statistics_;
  const std::shared_ptr<RateLimiter> limiter_;  ///< null: instances run when they can
  const std::vector<RateLimiter::Claim> claims_;
  std::mutex mutex_;
  std::map<Key, Sequence> sequences_;
  std::deque<Key> backlog_;
  uint64_t last_own_ = 0;     ///< number of a sequence that the server made
  std::vector<size_t> used_;  ///< slots, by instance
  std::vector<std::unique_ptr<std::condition_variable>> wake_;
  bool ending_ = false;
  std::vector<PlacedInstance> instances_;
  std::vector<std::thread> threads_;
};

}  // namespace camshaft::server
