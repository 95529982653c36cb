// Which weights stay in memory, and which come in for each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace camshaft {

/// Of each step the blocks of weights that it reads, in ascending order.
using StepBlocks = std::vector<std::vector<uint32_t>>;

/// Bytes of a file or of a range of addresses; at least one.
struct ByteRange {
  size_t offset = 0, bytes = 0;
};
/// The blocks that they lie in, each once, in ascending order.
std::vector<uint32_t> blocks_of(const std::vector<ByteRange>& ranges, size_t block_bytes);

/// Everything that runs read fits into `staying + window` blocks.
struct StreamingPlan {
  std::vector<bool> stays;  ///< of each block
  size_t staying = 0;       ///< blocks that stay once they were read
  size_t window = 0;        ///< blocks that are there for a while: those of a step, and of the next that has some
  size_t loads = 0;         ///< blocks that a run brings in once those that stay are there
};

/// Of each block (or of anything else that steps read) whether it must stay so that all others are read by steps that
/// follow each other, steps that read only what stays aside. Those whose readers are farthest from each other stay
/// first.
std::vector<bool> far_uses(const StepBlocks& steps, size_t blocks);

/// What becomes of blocks that steps far from each other read.
enum class FarUses : uint8_t {
  come_again,  ///< they stay if the budget allows it, and else come in for each
  stay,        ///< as far_uses() says: who has a place for each block needs that
};

/// The plan that brings in least within `budget` blocks (of `blocks` that there are). Two steps that follow each other
/// always fit into its window, so that one comes in while the other is computed. Each step keeps what is above a level
/// that is the same for all, which makes the window small; what room is left is spread over the plan, so that bringing
/// in goes on all the time. Blocks that steps far from each other read stay first. Where the budget is less than
/// least_blocks(), `staying + window` is more than it.
StreamingPlan plan_streaming(const StepBlocks& steps, size_t blocks, size_t budget,
                             FarUses far_uses = FarUses::come_again);

/// The least budget for which there is a plan.
size_t least_blocks(const StepBlocks& steps, size_t blocks, FarUses far_uses = FarUses::come_again);

/// For a plan in which blocks of far uses stay: of each block that comes in its place in the window, below 0 of others.
/// Those of a step, and of the one before, have different places; the one that was left for the longest time is taken
/// first.
std::vector<int32_t> places_in_window(const StepBlocks& steps, const StreamingPlan& plan);

}  // namespace camshaft
