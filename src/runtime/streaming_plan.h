// Which weights stay in memory, and which come in for each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace camshaft {

/// Of each step the blocks of weights that it reads, in ascending order.
using StepBlocks = std::vector<std::vector<uint32_t>>;

/// Everything that runs read fits into `staying + window` blocks.
struct StreamingPlan {
  std::vector<bool> stays;  ///< of each block
  size_t staying = 0;       ///< blocks that stay once they were read
  size_t window = 0;        ///< blocks that are there for a while: those of a step, and of the next that has some
  size_t loads = 0;         ///< blocks that a run brings in once those that stay are there
};

/// The plan that brings in least within `budget` blocks (of `blocks` that there are). Two steps that follow each other
/// always fit into its window, so that one comes in while the other is computed. Each step keeps what is above a level
/// that is the same for all, which makes the window small; what room is left is spread over the plan, so that bringing
/// in goes on all the time. Blocks that steps far from each other read stay first. Where the budget is less than
/// least_blocks(), `staying + window` is more than it.
StreamingPlan plan_streaming(const StepBlocks& steps, size_t blocks, size_t budget);

/// The least budget for which there is a plan.
size_t least_blocks(const StepBlocks& steps, size_t blocks);

}  // namespace camshaft
