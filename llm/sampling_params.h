// How the tokens of a request are chosen, in vLLM's words.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/timestamp_rules.h"

namespace camshaft::llm {

/// A search for the likeliest texts in place of draws: see BeamSearch.
struct BeamSearchParams {
  int32_t beam_width = 1;
  float length_penalty = 1;     ///< the power of a text's length that its logarithm of probability is divided by
  bool early_stopping = false;  ///< the first beam_width texts that end are the last; else none is missed
  bool counts_prompt = true;    ///< in that length, as vLLM does
  bool operator==(const BeamSearchParams&) const = default;
};

struct SamplingParams {
  int32_t n = 1;                 ///< samples of one prompt
  float temperature = 1;         ///< 0: the likeliest token
  int32_t top_k = 0;             ///< of the likeliest tokens; 0 or -1: all
  float top_p = 1;               ///< the likeliest tokens that have this much of the probability together
  float min_p = 0;               ///< tokens that have this part of the likeliest one's probability
  float repetition_penalty = 1;  ///< divides what is likely already and in the prompt or the text
  float presence_penalty = 0;    ///< off the logits of what is in the text
  float frequency_penalty = 0;   ///< the same, for each time
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<int32_t> allowed_token_ids;  ///< none: all
  std::optional<uint64_t> seed;
  std::optional<int32_t> logprobs;         ///< of so many of the likeliest tokens, beside the one that was chosen
  std::optional<int32_t> prompt_logprobs;  ///< the same for each token of the prompt but the first
  std::vector<int32_t> stop_token_ids;
  std::optional<int32_t> max_tokens = 16;  ///< none: as many as the model's longest sequence has place for
  int32_t min_tokens = 0;
  bool ignore_eos = false;
  std::vector<int32_t> suppress_tokens;        ///< that never come
  std::vector<int32_t> begin_suppress_tokens;  ///< that the text does not begin with
  std::optional<TimestampRules> timestamps;
  std::optional<BeamSearchParams> beam_search;  ///< temperature divides the logits then; 0 is taken for 1
  bool is_guided = false;  ///< the caller says in each step which tokens may come next: Generator::plan_step()

  bool is_greedy() const { return temperature < 1e-5f; }
  /// Whether logits of some tokens become −inf by the parameters alone.
  bool excludes_tokens() const {
    return min_tokens > 0 || !suppress_tokens.empty() || !begin_suppress_tokens.empty() || timestamps.has_value();
  }
  /// Sequences that it is computed with, at most.
  int32_t sequences() const { return beam_search ? beam_search->beam_width : n; }
  bool has_penalties() const { return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0; }
};

/// Throws Error(invalid_argument) that names the parameter, its value and what may be there.
void check(const SamplingParams& params, int32_t vocabulary);

/// Of JSON: an object of these names, those left out or null being the defaults; "logit_bias" is an object or a list of
/// pairs. Throws Error(invalid_argument) for an unknown name or a value of another type.
SamplingParams parse_sampling_params(std::string_view json);

}  // namespace camshaft::llm
