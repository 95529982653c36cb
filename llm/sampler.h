// The next token of a sequence, from the logits of its last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "llm/sampling_params.h"
#include "llm/token_counts.h"

namespace camshaft::llm {

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;
  int32_t rank = 0;  ///< 1: the likeliest
  bool operator==(const TokenLogprob&) const = default;
};

/// Of fewer logits in all rows together, one thread has read them when others have woken.
constexpr size_t logits_worth_threads = 500'000;

/// What the choice depends on beside the logits.
struct SamplingState {
  const SamplingParams* params = nullptr;
  const TokenCounts* counts = nullptr;  ///< where there are penalties
  std::span<const uint32_t> allowed;    ///< bit mask of tokens; empty: all
  std::span<const int32_t> eos_token_ids;
  int32_t generated = 0;          ///< tokens of the text so far
  std::span<const int32_t> text;  ///< these
};

/// What is known of a row beforehand: the first of the largest logits, or of the NaNs (-1: it is not known), and that
/// logit.
struct KnownRow {
  int64_t likeliest = -1;
  float largest = 0;
};

/// Works on one row of logits at a time: prepare(), then any number of draws. The order is vLLM's: masks, bias, minimal
/// length, penalties; temperature, min-p, top-k, top-p. Of equal logits the one with the lowest id is the likelier.
/// Memory is made once. Not safe from several threads.
class Sampler {
 public:
  enum class Problem { none, not_finite, nothing_allowed };

  explicit Sampler(int32_t vocabulary);

  /// Reads a row, and changes it where the state says so. With a problem nothing can be drawn.
  Problem prepare(float* logits, const SamplingState& state, const KnownRow& known = {});
  /// By a number in [0, 1); it is not looked at where the likeliest token is taken.
  int32_t draw(double random);
  /// The probability of a token as draw() has it.
  double probability(int32_t token);
  /// Those of all tokens.
  void write_probabilities(std::span<float> out);
  /// A token as draw() has it, of a guess that was drawn with the probabilities `guessed`: the guess itself with the
  /// probability min(1, p / q), else one of what p has more than q (Leviathan et al., "Fast Inference from Transformers
  /// via Speculative Decoding", 2023). Both numbers are in [0, 1) and independent of that which drew the guess.
  int32_t verify(int32_t guess, std::span<const float> guessed, double acceptance, double random);

  /// Appends the `count` likeliest tokens of a row, after all that the state says, the likeliest first, with logarithms
  /// of their probabilities at params.temperature (0 is taken for 1): fewer where others are excluded.
  Problem likeliest_tokens(float* logits, const SamplingState& state, size_t count, std::vector<TokenLogprob>& out);

  /// Appends logarithms of the probabilities of `token` and of the `count` likeliest tokens, by the row as the model
  /// gave it: prepare() has been called with state.params->logprobs, or read_logprobs() for this row.
  void logprobs(int32_t token, int32_t count, std::vector<TokenLogprob>& out);
  /// For logprobs() alone, without a choice. `count`: the largest that follows.
  Problem read_logprobs(const float* logits, int32_t count);

 private:
  struct Candidate {
    float logit = 0;
    int32_t token = 0;
  };
  static bool likelier(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  }
  enum class Kind { likeliest, list, all };

  Problem read(float* logits, const SamplingState& state);
  bool changes(const SamplingState& state) const;
  void change(float* logits, const SamplingState& state) const;
  void keep_logprobs(const float* logits, int32_t count);
  int32_t likeliest() const;
  void find_top(size_t count);
  void choose_from_list(double total, float least, float top_p);
  void choose_from_nucleus(float least, float top_p);
  bool find_end_of_nucleus(double wanted, size_t& last);
  void choose_from_all(float least);
  float weight(float logit) const;

  size_t size_;
  // The row that is drawn from.
  const float* row_ = nullptr;
  std::vector<float> maxima_;  ///< by chunk
  float largest_ = 0, scale_ = 1;
  Kind kind_ = Kind::likeliest;
  int32_t likeliest_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<double> cumulative_;  ///< weights of the list, or of blocks of the row
  float least_ = 0;                 ///< logits below have no weight
  int32_t last_tie_ = 0;            ///< nor have those equal to it behind this token
  // The row as the model gave it.
  std::vector<float> copy_;  ///< where it was changed
  const float* raw_ = nullptr;
  double log_total_ = 0;  ///< of exp(logit)
  std::vector<Candidate> raw_top_;

  std::vector<float> scratch_;  ///< of chunks, and of a block
  std::vector<float> weights_;  ///< of all tokens, for top-p
  std::vector<double> masses_;
};

}  // namespace camshaft::llm
