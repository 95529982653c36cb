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
#include "server/core/scheduler.h"
#include "server/core/sequence_tensors.h"

namespace camshaft::server {

/// Each instance has so many slots: max_batch_size of them (direct), or max_candidate_sequences (oldest). A sequence
/// has a slot from its first request to its last, or until it was idle for too long; others wait for one. A batch has
/// one request of each sequence at most, those that have waited longest first.
class SequenceBatcher : public Scheduler {
 public:
  SequenceBatcher(std::vector<PlacedInstance> instances, const ModelConfig& config, const Signature& signature,
                  const std::filesystem::path& folder, ModelStatistics& statistics);
  /// Runs what waits in slots, then stops.
  ~SequenceBatcher() override;
  void submit(PendingPtr& pending) override;

 private:
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
  };
  using Entry = std::map<SequenceId, Sequence>::value_type;
  struct Taken {
    SequenceId id;
    bool end = false;
    std::shared_ptr<std::vector<NamedTensor>> states;  ///< as the run leaves them
  };

  static Rules make_rules(const ModelConfig& config);
  void serve(size_t index);
  void end();
  void give_slots();
  void end_idle(size_t index, Clock::time_point now, std::optional<Clock::time_point>& wake);
  std::vector<Entry*> choose(size_t index, Clock::time_point now, std::optional<Clock::time_point>& wake);
  void drop_cancelled(size_t index, std::unique_lock<std::mutex>& lock);
  void prepare(Entry& entry, std::vector<PendingPtr>& batch, std::vector<Taken>& taken);

  const Rules rules_;
  const std::string model_;
  const SequenceTensors tensors_;
  ModelStatistics& statistics_;
  std::mutex mutex_;
  std::map<SequenceId, Sequence> sequences_;
  std::deque<SequenceId> backlog_;
  std::vector<size_t> used_;  ///< slots, by instance
  std::vector<std::unique_ptr<std::condition_variable>> wake_;
  bool ending_ = false;
  std::vector<PlacedInstance> instances_;
  std::vector<std::thread> threads_;
};

}  // namespace camshaft::server
