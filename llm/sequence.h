// One sample of a request while it is decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "llm/block_pool.h"
#include "llm/draft_state.h"
#include "llm/ngram_index.h"
#include "llm/pictures.h"
#include "llm/sampler.h"
#include "llm/sampling_params.h"
#include "llm/step_model.h"
#include "llm/token_counts.h"

namespace camshaft::llm {

using RequestId = uint64_t;

/// Its vectors have room for the longest that it may become: nothing is allocated per token.
struct Sequence {
  RequestId request = 0;
  int32_t sample = 0;  ///< of the request's n
  std::shared_ptr<const SamplingParams> params;
  int32_t priority = 0;  ///< lower runs first
  uint64_t arrival = 0;
  uint64_t seed = 0;
  uint64_t salt = 0;  ///< of the prefix cache
  int32_t lora = -1;  ///< its adapter; -1: none

  std::vector<int32_t> tokens;  ///< the prompt, and what was generated
  int32_t prompt_length = 0;
  int32_t longest = 0;  ///< tokens with which it ends

  int32_t computed = 0;   ///< tokens whose keys and values are in the cache
  int32_t published = 0;  ///< full blocks that others may find
  int32_t cached = -1;    ///< tokens of the prompt that the cache had when it first ran; -1: it has not
  std::vector<BlockId> blocks;

  std::shared_ptr<const CrossKeys> cross;    ///< of a model with cross attention
  std::shared_ptr<const Pictures> pictures;  ///< where the prompt has some

  int32_t slot = -1;                 ///< row of the block table while it runs
  int32_t scheduled = 0;             ///< tokens of this step, drafts included
  int32_t first_row = 0;             ///< of its logits in this step
  int32_t rows = 0;                  ///< of its logits in this step
  std::vector<int32_t> drafts;       ///< of this step: tokens that are guessed to come next
  int32_t forks = 0;                 ///< samples, or beams, that begin beside it later
  int32_t fork_blocks = 0;           ///< that these need at once
  int32_t prompt_logprobs_from = 1;  ///< the first token of the prompt whose logprobs were not given yet

  std::unique_ptr<TokenCounts> counts;  ///< where there are penalties
  std::unique_ptr<NgramIndex> ngrams;   ///< where n-grams guess
  std::unique_ptr<DraftState> draft;    ///< where a draft model does
  std::vector<uint32_t> allowed;        ///< bit mask of tokens that may come next; empty: all
  bool has_changing_mask = false;       ///< the caller gives one for each token
  size_t guide_row = 0;                 ///< of a guided request: its first mask in this step

  /// All beams of its request, the best one first; null without beam search. They are preempted together.
  const std::vector<Sequence*>* beams = nullptr;

  // What sampling found in this step; of a beam its candidates, until all beams have theirs.
  Sampler::Problem problem = Sampler::Problem::none;
  std::vector<int32_t> drawn;  ///< tokens of the text; where it forks, the first one of each sample
  std::vector<TokenLogprob> drawn_logprobs, prompt_logprobs;

  std::vector<double> pooled;  ///< of an embedding: the sums of the rows so far

  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  BlockSalts salts() const { return pictures == nullptr ? BlockSalts(salt) : pictures->salts(); }
  /// It cannot run before somebody has computed their rows.
  bool waits_for_images() const { return pictures != nullptr && !pictures->are_ready(); }
  int32_t generated() const { return length() - prompt_length; }
  /// Tokens that are known and not computed; 1 while it decodes, 0 while it waits for other beams.
  int32_t missing() const { return length() - computed; }
  /// Not with a mask for the next token alone, nor before its samples are apart, nor beams.
  bool takes_guesses() const { return !has_changing_mask && forks == 0 && beams == nullptr; }
  bool wants_prompt_logprobs() const { return params->prompt_logprobs && prompt_logprobs_from < prompt_length; }
  /// Whether what is likeliest by the model alone does not suffice.
  bool reads_logits() const {
    return !params->is_greedy() || params->beam_search || params->is_guided || params->logprobs ||
           wants_prompt_logprobs() || !allowed.empty() || !params->logit_bias.empty() || params->excludes_tokens() ||
           params->has_penalties();
  }
};

/// Which of two is served first.
struct ServedBefore {
  bool operator()(const Sequence* a, const Sequence* b) const {
    if (a->priority != b->priority) return a->priority < b->priority;
    if (a->arrival != b->arrival) return a->arrival < b->arrival;
    return a->sample < b->sample;
  }
};

}  // namespace camshaft::llm
