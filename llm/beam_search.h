// Beam search: which continuations of a request's beams go on, and which texts have ended.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/sampler.h"
#include "llm/sampling_params.h"

namespace camshaft::llm {

/// Of one request. Each beam brings its 2 * beam_width likeliest tokens; those that end a text complete it, and the
/// beam_width likeliest others go on, as in vLLM's LLM.beam_search. A text's score is the logarithm of its probability
/// over its length, without the token that ends it, to the power of length_penalty (Wu et al., "Google's Neural Machine
/// Translation System", 2016, in the form that Transformers and vLLM have). Of equal texts the one that was there first
/// is before the other; of equal continuations that of the better beam, then the one with the lower token. Memory is
/// made once.
class BeamSearch {
 public:
  /// What is known of a beam: its tokens, with the prompt, and those that may come next, the likeliest first.
  struct Row {
    std::span<const int32_t> tokens;
    std::span<const TokenLogprob> candidates;
  };
  /// A beam that goes on: `token` behind the beam of this place.
  struct Next {
    int32_t parent = 0, token = 0;
    double cum_logprob = 0;
  };
  struct Text {
    std::vector<int32_t> tokens;  ///< with the prompt, and the token that ended it
    double cum_logprob = 0, score = 0;
    bool has_ended = false;  ///< else it was cut at the longest
  };

  /// `longest`: tokens with which texts are cut; `ends`: those that end one.
  BeamSearch(const BeamSearchParams& params, int32_t prompt_length, int32_t longest, std::vector<int32_t> ends);

  /// One step. `beams`: first the prompt, then those of next(), in their order, each a token longer.
  void advance(std::span<const Row> beams);
  /// The best one first; empty when the search has ended.
  std::span<const Next> next() const { return next_; }
  /// The best so far, at most beam_width, the best one first.
  std::span<const Text> texts() const { return std::span(texts_).first(completed_); }

 private:
  struct Candidate {
    int32_t parent = 0, token = 0, order = 0;
    double cum_logprob = 0;
    bool ends = false;
  };
  bool is_end(int32_t token) const;
  double score(double cum_logprob, int32_t length) const;
  void complete(const Row& beam, const Candidate& candidate, bool has_ended);
  bool none_can_come_in(int32_t length) const;

  BeamSearchParams params_;
  size_t width_;
  int32_t prompt_length_, longest_;
  std::vector<int32_t> ends_;
  std::vector<Candidate> candidates_;
  std::vector<double> cum_logprobs_;  ///< of the beams
  std::vector<Next> next_;
  std::vector<Text> texts_;  ///< the first `completed_`
  size_t completed_ = 0;
};

}  // namespace camshaft::llm
