// What a draft model has of a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "llm/block_pool.h"

namespace camshaft::llm {

/// Blocks of the draft model's own cache, which go back to their pool with it, and the tokens that it proposes.
struct DraftState {
  /// `pool` must outlive it. `most_blocks`, `most_proposed`: room, so that nothing is allocated later.
  DraftState(BlockPool& of, size_t most_blocks, size_t most_proposed) : pool(of) {
    blocks.reserve(most_blocks);
    proposed.reserve(most_proposed);
  }
  ~DraftState() { release(); }
  DraftState(const DraftState&) = delete;
  DraftState& operator=(const DraftState&) = delete;

  /// It has nothing of the sequence any more.
  void release() {
    for (size_t i = blocks.size(); i-- > 0;) pool.release(blocks[i]);
    blocks.clear();
    proposed.clear();
    computed = published = 0;
  }

  BlockPool& pool;
  std::vector<BlockId> blocks;
  int32_t computed = 0;           ///< tokens of the sequence whose keys and values are in its cache
  int32_t published = 0;          ///< full blocks that others may find
  int32_t wanted = 0;             ///< tokens that are to be proposed in this step
  std::vector<int32_t> proposed;  ///< behind `computed` tokens; all but the last one are in its cache, too
};

}  // namespace camshaft::llm
