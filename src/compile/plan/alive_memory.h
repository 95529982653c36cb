// How much memory the values of a plan take while it runs, and whether it may grow.
#pragma once

#include "compile/plan/plan.h"
#include "ir/dim.h"

namespace camshaft {

/// The bytes alive at each step, at the sizes `symbols`: of values in the arena, from the step that first writes one to
/// the last that reads it or what is seen in it. Sizes without a value do not decide. Call merge() as parts find their
/// places.
class AliveMemory {
 public:
  AliveMemory(const Plan& plan, const SymbolBindings& symbols);

  /// Accounts for `part`, a root, lying in the root `whole` (`counted`: that is in the arena); false, with nothing
  /// changed, if more memory would be alive at some step than at any before the first merge.
  bool merge(int32_t part, int32_t whole, bool counted);
  /// The step that first writes a root; SIZE_MAX: none does.
  size_t first_step(int32_t root) const { return lifetimes_[static_cast<size_t>(root)].first; }

 private:
  struct Lifetime {
    int64_t bytes = 0;
    size_t first = SIZE_MAX, last = 0;
  };
  void count(const Lifetime& life, int64_t bytes);

  std::vector<Lifetime> lifetimes_;  // of roots in the arena
  std::vector<int64_t> alive_;       // bytes at each step
  int64_t peak_ = 0;
};

}  // namespace camshaft
