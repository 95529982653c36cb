// Runs the threads of a block on one host thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster.h"
#include "fiber.h"
#include "interface.h"

namespace emulator {

/// One launch of a kernel, shared by the host threads that run its blocks.
struct Launch {
  std::string name;
  const Kernel* kernel = nullptr;
  Enter enter = nullptr;
  Index blocks{}, threads{};
  unsigned shared_bytes = 0;
  unsigned cluster_blocks = 1;  ///< along y
  void** arguments = nullptr;
  bool is_odd = false;     ///< the first, third … launch of this process
  bool may_start = false;  ///< before the launch before has ended: its blocks have to wait for it

  /// Keeps the first message.
  void fail(const std::string& what);
  bool failed() const;
  const std::string& problem() const { return problem_; }

 private:
  mutable std::mutex mutex_;
  std::string problem_;
};

/// The threads of a block as fibers: a thread runs until it waits for others, then the next one does; in the order of
/// their numbers in one block and against it in the next one and in the next launch, so that one of the two shows where
/// a thread should have waited for another. When all that are left wait for threads that never come, the launch fails.
/// One for each host thread, which alone may use it.
class BlockRunner {
 public:
  static BlockRunner& of_this_host_thread();
  /// Null outside of kernels; for signal handlers.
  static BlockRunner* in_kernel();

  /// `cluster`: of the block, which is number `rank` there; null: it is alone.
  void run(Launch& launch, Index block, Cluster* cluster = nullptr, unsigned rank = 0);
  /// Ends the launch from within a kernel, or from a signal handler that interrupted it. Does not return.
  [[noreturn]] void fail(const std::string& what);
  /// Whether an address is just below the stack of the thread that runs.
  bool overflowed_at(const void* address) const;
  /// Whether it is in or near the dynamic shared memory: the distance to its end, or -1.
  long bytes_after_shared(const void* address) const;

 private:
  enum class State { runs, waits_for_block, waits_for_warp, waits_for_phase, finished };
  struct Thread {
    State state = State::runs;
    const char* what = "";  // it waits in
    Stack* stack = nullptr;
  };
  // Lanes that meet in one call after another. Two sets of what they bring, used in turn: a lane may begin the next
  // meeting before others have read what this one gave.
  struct Meeting {
    unsigned warp = 0, mask = 0;
    const char* what = "";
    Combine combine = nullptr;
    unsigned arrived = 0, round = 0;
    std::vector<unsigned> waiting;
    Lane lanes[2][32] = {};
  };

  BlockRunner();
  ~BlockRunner();
  static unsigned synchronize(unsigned vote);
  static void synchronize_cluster();
  static Lane* exchange(const char* what, unsigned mask, const void* given, unsigned bytes, Combine combine);
  static void yield();
  static void await_phase(const void* barrier);
  static void phase_ended(const void* barrier);
  static void fail_in_kernel(const char* what);
  static void work();  // of a fiber: threads that have not begun, one after another

  unsigned in_order(unsigned i) const { return is_reversed_ ? static_cast<unsigned>(threads_.size()) - 1 - i : i; }
  void enter(unsigned thread);
  void wait(State state, const char* what);
  std::string who_waits() const;
  Meeting& meeting(unsigned warp, unsigned mask);

  Block block_{};
  Launch* launch_ = nullptr;
  Cluster* cluster_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<unsigned> ready_;
  size_t next_ready_ = 0;
  std::vector<std::pair<const void*, unsigned>> await_phases_;  // barriers and the threads that wait for them
  unsigned begun_ = 0, finished_ = 0, current_ = 0;
  unsigned at_barrier_ = 0, votes_ = 0, counted_ = 0;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::vector<std::unique_ptr<Stack>> stacks_;
  std::vector<Stack*> idle_;
  Stack* running_ = nullptr;
  Turn host_;
  bool dead_ = false, is_reversed_ = false;
  std::byte* shared_ = nullptr;
  std::unique_ptr<std::byte[]> signal_stack_;
};

}  // namespace emulator
