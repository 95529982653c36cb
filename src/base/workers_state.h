// What a set of workers keeps. Internal to the thread pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/worker.h"
#include "base/workers.h"

namespace camshaft {

/// One session: what it has of the workers.
struct WorkerLease {
  int most = 1;                  ///< threads that it can use, the caller among them
  int share = 1;                 ///< of the threads that may run; guarded by the set's mutex
  std::vector<Worker*> members;  ///< the session's own; reserved for most - 1
  uint32_t seen_changes = 0;
  unsigned generation = 0;  ///< in which the workers were taken
};

struct Workers::State {
  State(int limit, bool oversubscribed);
  ~State();

  /// Takes part in the division; as many workers as there are for it. Throws Error(out_of_memory) where workers must be
  /// started first (they are at the first call of a pool, and in a forked child) and cannot.
  void begin(WorkerLease& lease);
  void end(WorkerLease& lease);
  /// Takes or gives back workers after what others did.
  void adapt(WorkerLease& lease);
  /// In a forked child, in the middle of a session: as many new workers as there were.
  void renew(WorkerLease& lease);
  /// So that sessions of `threads` threads need not start any.
  void prepare(int threads);
  /// Of a child that was just forked, which holds the mutex: the threads are not its own.
  void forget_workers();

  std::mutex mutex;
  const int limit;
  const bool oversubscribed;
  /// Counts what may change a session's share.
  std::atomic<uint32_t> changes{0};

 private:
  void start_workers(int threads);
  void divide();
  void take(WorkerLease& lease);
  void announce_change() { changes.fetch_add(1, std::memory_order_release); }

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> free_;
  std::vector<WorkerLease*> sessions_;
  int leased_ = 0;
};

}  // namespace camshaft
