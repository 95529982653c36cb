// The sizes that steps are padded to.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/scheduler.h"

namespace camshaft::llm {

struct StepShape {
  int32_t tokens = 0, sequences = 0, rows = 0;
  bool operator==(const StepShape&) const = default;
};

/// Few of them, as an engine plans memory and kernels for each shape of its inputs and keeps 16 plans by default. Steps
/// that decode alone have powers of two of sequences; those with parts of prompts have all sequences, the others being
/// empty, and a number of tokens out of a geometric row.
class StepShapes {
 public:
  /// `most`: 0 for the sizes as they are. `reads_all`: of prompts alone (SchedulerConfig::generates), whether rows of
  /// all tokens are read, else one of each. `reads_images`: whether steps may have images, which are plans of their
  /// own: these have sizes of parts of prompts alone, and all together are `most`. Throws Error(invalid_argument) for
  /// fewer than 8.
  StepShapes(const SchedulerConfig& config, int32_t most, bool reads_all = false, bool reads_images = false);

  /// The cheapest one that has room.
  StepShape fit(int32_t tokens, int32_t sequences, int32_t rows, bool has_images = false) const;
  const std::vector<StepShape>& all() const { return shapes_; }
  /// What the largest have.
  StepShape largest() const { return largest_; }

 private:
  void add_prompts(int32_t most);

  std::vector<StepShape> shapes_;
  std::vector<StepShape> image_shapes_;  ///< those of them that steps with images have
  StepShape largest_;
};

}  // namespace camshaft::llm
