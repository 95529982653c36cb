// What a draft model has of a sequence.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "llm/block_pool.h"
#include "llm/sampling_params.h"

namespace camshaft::llm {

/// Blocks of the draft model's own cache, which go back to their pool with it, and the tokens that it proposes.
struct DraftState {
  /// `pool` must outlive it. `most_blocks`, `most_proposed`: room, so that nothing is allocated later. `guesses_by`:
  /// how tokens are guessed; unless it takes the likeliest one, the probabilities of all `vocabulary` are kept.
  DraftState(BlockPool& of, size_t most_blocks, size_t most_proposed, SamplingParams guesses_by, size_t vocabulary)
      : pool(of), params(std::move(guesses_by)), width(vocabulary) {
    blocks.reserve(most_blocks);
    proposed.reserve(most_proposed);
  }
  ~DraftState() { release(); }
  DraftState(const DraftState&) = delete;
  DraftState& operator=(const DraftState&) = delete;

  /// Room for what it has while its text is guessed: of those that wait there may be many.
  void begin() {
    if (is_sampled()) probabilities.resize(proposed.capacity() * width);
  }
  /// It has nothing of the sequence any more.
  void release() {
    for (size_t i = blocks.size(); i-- > 0;) pool.release(blocks[i]);
    blocks.clear();
    proposed.clear();
    probabilities = {};
    computed = published = 0;
  }

  bool is_sampled() const { return !params.is_greedy(); }
  /// Those that a token was drawn by, of sampled ones.
  std::span<float> probabilities_of(size_t place) { return std::span(probabilities).subspan(place * width, width); }

  BlockPool& pool;
  SamplingParams params;
  size_t width;
  std::vector<BlockId> blocks;
  int32_t computed = 0;              ///< tokens of the sequence whose keys and values are in its cache
  int32_t published = 0;             ///< full blocks that others may find
  int32_t wanted = 0;                ///< tokens that are to be proposed in this step
  std::vector<int32_t> proposed;     ///< behind `computed` tokens; all but the last one are in its cache, too
  std::vector<float> probabilities;  ///< of all tokens, for each that is proposed
};

}  // namespace camshaft::llm
