// Compiling candidates for the contests to come, on all cores.
#pragma once

#include <chrono>
#include <vector>

#include "base/cancellation.h"
#include "compile/tune/contestant.h"

namespace camshaft {

/// The contestants of several contests, which are asked for in order. Compiling a kernel may take a second: those of
/// the next few contests are compiled at once, as many as keep all cores busy and do not take too much memory.
/// (Compiled beside a device that measures, they disturb it: ResNet-50 took 0.24 ms, and 0.22.)
class CompileAhead {
 public:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    RegionView region;
    std::vector<const Tactic*> candidates;
  };
  /// `threads`: that the kernels will run on. Nothing is begun after `end`.
  CompileAhead(const Backend& backend, std::vector<Entry> entries, int threads, Clock::time_point end,
               Cancellation cancellation)
      : backend_(backend),
        entries_(std::move(entries)),
        threads_(threads),
        end_(end),
        cancellation_(std::move(cancellation)),
        compiled_(entries_.size()) {}

  /// Those of entry `e`, no less than the last one asked for; those that there was no time for cannot be measured.
  /// Throws Error(cancelled).
  std::vector<Contestant> take(size_t e);

 private:
  void compile_from(size_t first);

  const Backend& backend_;
  std::vector<Entry> entries_;
  int threads_;
  Clock::time_point end_;
  Cancellation cancellation_;
  std::vector<std::vector<Contestant>> compiled_;
  size_t until_ = 0;  // those before are compiled
};

}  // namespace camshaft
