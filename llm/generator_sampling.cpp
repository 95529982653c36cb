// What a generator draws of the logits of a step.
#include <algorithm>

#include "llm/generator.h"
#include "llm/philox.h"

namespace camshaft::llm {

const char* Generator::message_of(Sampler::Problem problem) {
  if (problem == Sampler::Problem::not_finite)
    return "the model's logits have a NaN or an infinity: its weights or its precision do not fit this prompt (build "
           "it with a wider type, or verify it)";
  return "no token may come next: all are excluded by the mask, by allowed_token_ids, min_tokens or logit_bias, or by "
         "the model";
}

void Generator::list_guided() {
  size_t rows = 0;
  for (Sequence* const sequence : stepped_) {
    if (!sequence->params->is_guided || !has_text(*sequence)) continue;
    sequence->guide_row = rows;
    guided_.push_back({sequence->request, sequence->sample, sequence->drafts, rows});
    rows += 1 + sequence->drafts.size();
  }
  guide_masks_.assign(rows * mask_words(), 0);
}

// Of guided requests with tokens that the caller names beside.
void Generator::combine_masks() {
  if (guided_.empty()) return;
  for (const Sequence* const sequence : stepped_) {
    if (!sequence->params->is_guided || sequence->allowed.empty() || !has_text(*sequence)) continue;
    uint32_t* const masks = guide_masks_.data() + sequence->guide_row * mask_words();
    for (size_t i = 0; i < (1 + sequence->drafts.size()) * mask_words(); ++i)
      masks[i] &= sequence->allowed[i % mask_words()];
  }
}

bool Generator::has_text(const Sequence& sequence) const {
  return sequence.computed + sequence.scheduled == sequence.length() + std::ssize(sequence.drafts);
}

void Generator::sample_all(const StepOutputs& outputs) {
  const bool reads_many = (outputs.likeliest == nullptr || inputs_.reads_logits) &&
                          inputs_.logits_indices.size() * vocabulary_ >= logits_worth_threads;
  workers_.run(
      stepped_.size(), [&](size_t place, size_t worker) { sample(*stepped_[place], samplers_[worker], outputs); },
      reads_many);
}

// N-grams, and drafts that take the likeliest token, are certain of what they guess, so that rejection sampling is:
// accept a guess with the probability p that the target gives it, else draw from p without it. To draw from p and go on
// while that is the guess does just this, with the numbers that would have been drawn without guesses: of the same
// logits the text is the same.
void Generator::sample(Sequence& sequence, Sampler& sampler, const StepOutputs& outputs) const {
  const SamplingParams& params = *sequence.params;
  sequence.problem = Sampler::Problem::none;
  sequence.drawn.clear();
  sequence.drawn_logprobs.clear();
  sequence.prompt_logprobs.clear();
  const auto drafts = static_cast<int32_t>(sequence.drafts.size());
  const int32_t text_rows = has_text(sequence) ? 1 + drafts : 0, prompt_rows = sequence.rows - text_rows;
  auto row = static_cast<size_t>(sequence.first_row);
  for (int32_t i = 0; i < prompt_rows; ++i, ++row) {
    sequence.problem = sampler.read_logprobs(outputs.logits + row * vocabulary_, *params.prompt_logprobs);
    if (sequence.problem != Sampler::Problem::none) return;
    sampler.logprobs(sequence.tokens[static_cast<size_t>(sequence.prompt_logprobs_from + i)], *params.prompt_logprobs,
                     sequence.prompt_logprobs);
  }
  for (int32_t i = 0; i < text_rows; ++i, ++row) {
    const KnownRow known =
        outputs.likeliest == nullptr ? KnownRow() : KnownRow{outputs.likeliest[row], outputs.largest[row]};
    float* const logits = outputs.logits == nullptr ? nullptr : outputs.logits + row * vocabulary_;
    if (sequence.beams != nullptr) {
      const auto count = static_cast<size_t>(2 * params.beam_search->beam_width);
      sequence.problem = sampler.likeliest_tokens(logits, state_of(sequence, 0), count, sequence.drawn_logprobs);
      return;
    }
    sequence.problem = sampler.prepare(logits, state_of(sequence, static_cast<size_t>(i)), known);
    if (sequence.problem != Sampler::Problem::none) {
      // Behind a guess it is the next step's, which says so: a guide has no mask behind the end of its text.
      if (i > 0) sequence.problem = Sampler::Problem::none;
      return;
    }
    for (int32_t other = 0; other <= sequence.forks; ++other)
      draw(sequence, sequence.sample + other, sampler, static_cast<size_t>(i));
    if (sequence.forks > 0) return;
    const int32_t token = sequence.drawn.back();
    sequence.tokens.push_back(token);
    if (sequence.counts != nullptr) sequence.counts->add(token);
    if (i == drafts || token != sequence.drafts[static_cast<size_t>(i)]) return;
    if (reason_to_finish(sequence) != FinishReason::none) return;
  }
}

// `row`: how many guesses have come true.
void Generator::draw(Sequence& sequence, int32_t sample, Sampler& sampler, size_t row) const {
  const SamplingParams& params = *sequence.params;
  const auto random = [&](Purpose purpose) {
    if (params.is_greedy()) return 0.0;
    return uniform(sequence.seed, static_cast<uint64_t>(sequence.generated()), static_cast<uint32_t>(sample), purpose);
  };
  const bool is_guess_drawn = row < sequence.drafts.size() && sequence.draft != nullptr && sequence.draft->is_sampled();
  const int32_t token = is_guess_drawn ? sampler.verify(sequence.drafts[row], sequence.draft->probabilities_of(row),
                                                        random(Purpose::acceptance), random(Purpose::draw))
                                       : sampler.draw(random(Purpose::draw));
  sequence.drawn.push_back(token);
  if (params.logprobs) sampler.logprobs(token, *params.logprobs, sequence.drawn_logprobs);
}

std::span<const uint32_t> Generator::mask_of(const Sequence& sequence, size_t row) const {
  if (!sequence.params->is_guided) return sequence.allowed;
  return std::span(guide_masks_).subspan((sequence.guide_row + row) * mask_words(), mask_words());
}

// `row`: 0, or how many guesses have come true.
SamplingState Generator::state_of(const Sequence& sequence, size_t row) const {
  return {sequence.params.get(),  sequence.counts.get(),
          mask_of(sequence, row), config_.eos_token_ids,
          sequence.generated(),   std::span(sequence.tokens).subspan(static_cast<size_t>(sequence.prompt_length))};
}

}  // namespace camshaft::llm
