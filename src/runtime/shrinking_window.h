// The window of a streaming plan of which one block after the other stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/streaming_plan.h"

namespace camshaft {

/// The most blocks that come in for a step and the one before it, which a plan counts after each of thousands of
/// blocks. Steps that read none of those are left out: where all of a step's blocks stay, those around it meet, and the
/// window may grow.
class ShrinkingWindow {
 public:
  /// `readers`: of each block its steps, in ascending order. Both must outlive the window.
  ShrinkingWindow(const StepBlocks& steps, const StepBlocks& readers, std::vector<bool> stays);

  void keep(uint32_t block);  ///< one that comes in
  size_t size();

 private:
  struct Step {
    size_t coming = 0, together = 0;  // blocks of its own, and with those of the step before
    int64_t before = -1, after = -1;  // steps that read blocks that come in; below 0: none
  };

  size_t with_the_step_before(size_t s) const;
  void set_together(Step& step, size_t together);
  void leave_out(size_t s);

  const StepBlocks& steps_;
  const StepBlocks& readers_;
  std::vector<bool> stays_;
  std::vector<Step> list_;
  std::vector<size_t> steps_with_;  // of each number of blocks together
  size_t largest_ = 0;              // no step has more
};

}  // namespace camshaft
