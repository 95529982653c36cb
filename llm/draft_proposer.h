// Speculation by a draft model: a small one of the same vocabulary guesses what the large one will say.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "llm/sampler.h"
#include "llm/sequence.h"
#include "llm/step_batch.h"
#include "llm/step_model.h"
#include "llm/step_shapes.h"
#include "llm/workers.h"

namespace camshaft::llm {

struct DraftConfig {
  int32_t num_blocks = 0;     ///< of its cache
  int32_t block_size = 16;    ///< tokens of each
  int32_t max_model_len = 0;  ///< longer texts are not guessed; 0: any that the model has
  bool samples = false;       ///< guesses are drawn as the text is; else they are the likeliest tokens
};

/// Runs the draft model for all sequences at once, with a cache of its own. Whoever verifies the guesses leaves the
/// model's distribution as it is (rejection sampling as in Leviathan et al., "Fast Inference from Transformers via
/// Speculative Decoding", 2023):
///
/// - Where it takes the likeliest token, it is certain of that as n-grams are: the model draws, and goes on while the
///   guess is what was drawn. The text is the one without guesses.
/// - Where it draws as the text is drawn (DraftConfig::samples), by the request's temperature, top-k, top-p, min-p,
///   penalties and masks, it keeps the probabilities for Sampler::verify(). More guesses come true; the text is another
///   one of the same distribution, which depends on what was guessed.
///
/// Where its cache has no room sequences are not guessed. Not safe from several threads.
class DraftProposer {
 public:
  /// `model`, `workers` and `samplers`, one for each of these, must outlive it; `config` is the large model's. Throws
  /// Error(invalid_argument).
  DraftProposer(StepModel& model, const DraftConfig& draft, const SchedulerConfig& config, int32_t max_step_shapes,
                Workers& workers, std::vector<Sampler>& samplers);

  /// For a sequence with these parameters, whose `draft` it is to be; must not outlive the proposer.
  std::unique_ptr<DraftState> make_state(const SamplingParams& params);
  /// Fills `draft->proposed` of sequences that decode, of `served` in the order in which they are served; of others
  /// reads on in their prompts. Throws what the model throws.
  void propose(std::span<Sequence* const> served);

  const BlockPool& pool() const { return pool_; }
  /// Passes of the draft model.
  int64_t steps() const { return steps_; }

 private:
  int32_t blocks_for(int32_t tokens) const { return (tokens + draft_.block_size - 1) / draft_.block_size; }
  int32_t most_guesses(const Sequence& sequence) const;
  void keep_what_came_true(Sequence& sequence);
  bool begin(Sequence& sequence);
  bool take_blocks(DraftState& state, int32_t end);
  void read(Sequence& sequence);
  void run();
  void guess(size_t row, Sampler& sampler, const StepOutputs& outputs) const;

  StepModel& model_;
  DraftConfig draft_;
  SchedulerConfig config_;  ///< of its own steps
  int32_t most_proposed_;
  int32_t tokens_of_step_;  ///< of the large model's
  BlockPool pool_;
  StepShapes shapes_;
  StepBatch batch_;
  Workers& workers_;
  std::vector<Sampler>& samplers_;
  std::vector<Sequence*> behind_;     ///< whose prompts are read, once those that decode have their tokens
  std::vector<Sequence*> proposing_;  ///< of the pass, by row
  int64_t steps_ = 0;
};

}  // namespace camshaft::llm
