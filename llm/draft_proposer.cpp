#include "llm/draft_proposer.h"

#include <algorithm>
#include <string>

#include "camshaft/error.hpp"
#include "llm/philox.h"

namespace camshaft::llm {

namespace {

// Of a sequence, that the draft has not seen: when all guesses came true the last one, and what the model said then.
constexpr int32_t tokens_of_a_step = 2;

// Of the draft's own steps, with room for all that decode.
SchedulerConfig config_of_draft(const DraftConfig& draft, SchedulerConfig config) {
  config.max_num_batched_tokens = std::max(config.max_num_batched_tokens, tokens_of_a_step * config.max_num_seqs);
  if (draft.max_model_len > 0) config.max_model_len = std::min(config.max_model_len, draft.max_model_len);
  config.block_size = draft.block_size;
  config.num_blocks = draft.num_blocks;
  config.num_speculative_tokens = 0;
  config.prompt_logprob_rows = 0;
  return config;
}

int32_t checked_count(const SchedulerConfig& config) {
  if (config.num_speculative_tokens < 1)
    throw Error(ErrorCode::invalid_argument, "num_speculative_tokens is " +
                                                 std::to_string(config.num_speculative_tokens) +
                                                 ": a draft model must guess 1 or more, or be left out");
  return config.num_speculative_tokens;
}

}  // namespace

DraftProposer::DraftProposer(StepModel& model, const DraftConfig& draft, const SchedulerConfig& config,
                             int32_t max_step_shapes, Workers& workers, std::vector<Sampler>& samplers)
    : model_(model),
      draft_(draft),
      config_(config_of_draft(draft, config)),
      most_proposed_(checked_count(config)),
      tokens_of_step_(config.max_num_batched_tokens),
      pool_(draft.num_blocks, draft.block_size, config.enable_prefix_caching),
      shapes_(config_, max_step_shapes),
      batch_(shapes_.largest(), blocks_for(config_.max_model_len), model),
      workers_(workers),
      samplers_(samplers) {
  behind_.reserve(static_cast<size_t>(config.max_num_seqs));
  proposing_.reserve(static_cast<size_t>(config.max_num_seqs));
}

std::unique_ptr<DraftState> DraftProposer::make_state(const SamplingParams& params) {
  // Of what a text is drawn by all that does not depend on how far it is: any guess will do.
  SamplingParams guesses_by;
  guesses_by.temperature = 0;
  if (draft_.samples && !params.is_greedy()) {
    guesses_by = params;
    guesses_by.logprobs.reset();
    guesses_by.min_tokens = 0;
  }
  return std::make_unique<DraftState>(pool_, static_cast<size_t>(batch_.table_width()),
                                      static_cast<size_t>(most_proposed_), std::move(guesses_by),
                                      static_cast<size_t>(model_.vocabulary()));
}

void DraftProposer::propose(std::span<Sequence* const> served) {
  // What a step of the large model has room for: whoever is served first has all its guesses.
  int32_t room = std::max(tokens_of_step_ - static_cast<int32_t>(served.size()), 0);
  RequestId reading = 0;
  batch_.clear();
  behind_.clear();
  proposing_.clear();
  for (Sequence* const sequence : served) {
    if (sequence->draft == nullptr) continue;  // of a search by beams
    DraftState& state = *sequence->draft;
    keep_what_came_true(*sequence);
    const int32_t most = most_guesses(*sequence);
    if (most <= 0) {
      state.release();
      continue;
    }
    const bool decodes = sequence->missing() == 1;
    state.wanted = decodes ? std::min(most, room) : 0;
    room -= state.wanted;
    if (decodes && state.wanted == 0) continue;
    // Samples of one request read their prompt once: the others find it in the cache, a step later.
    if (state.blocks.empty() && (reading == sequence->request || !begin(*sequence))) continue;
    const int32_t unread = sequence->length() - state.computed;
    if (config_.enable_prefix_caching && unread >= draft_.block_size) reading = sequence->request;
    if (unread > tokens_of_a_step) {
      behind_.push_back(sequence);
    } else {
      read(*sequence);
    }
  }
  for (Sequence* const sequence : behind_) read(*sequence);
  if (batch_.tokens() > 0) run();
  for (int32_t count = 1;; ++count) {
    std::erase_if(proposing_, [&](const Sequence* sequence) {
      const DraftState& state = *sequence->draft;
      return state.wanted <= count || std::ssize(state.proposed) < count;
    });
    if (proposing_.empty()) return;
    batch_.clear();
    for (const Sequence* const sequence : proposing_) {
      const DraftState& state = *sequence->draft;
      batch_.begin_sequence(sequence->length() + count - 1, state.blocks);
      batch_.add_tokens(std::span(state.proposed).last(1));
      batch_.add_row(0);
    }
    run();
  }
}

// 0 where nothing will be guessed any more.
int32_t DraftProposer::most_guesses(const Sequence& sequence) const {
  if (!sequence.takes_guesses()) return 0;
  const int32_t longest = std::min(sequence.longest - 1, config_.max_model_len);
  return std::min(most_proposed_, longest - sequence.length());
}

// A step adds the guesses that came true and one token more: of what was proposed, the keys and values of all but the
// last token of the text are right, and those behind them are written over. That token is read, perhaps once more, as
// what comes next is asked of it.
void DraftProposer::keep_what_came_true(Sequence& sequence) {
  DraftState& state = *sequence.draft;
  const std::span<const int32_t> tokens = sequence.tokens;
  if (!state.proposed.empty()) state.computed += static_cast<int32_t>(state.proposed.size()) - 1;
  state.proposed.clear();
  state.computed = std::min(state.computed, sequence.length() - 1);
  const int32_t size = draft_.block_size;
  for (; (state.published + 1) * size <= state.computed; ++state.published) {
    const auto at = static_cast<size_t>(state.published);
    state.blocks[at] = pool_.publish(state.blocks[at], at == 0 ? -1 : state.blocks[at - 1], sequence.salt,
                                     tokens.subspan(at * static_cast<size_t>(size), static_cast<size_t>(size)));
  }
}

// With room for all that is known and the guesses behind it: whoever has just given its blocks up, for want of one
// more, begins again when others have given up some, too.
bool DraftProposer::begin(Sequence& sequence) {
  DraftState& state = *sequence.draft;
  const std::span<const int32_t> tokens = sequence.tokens;
  pool_.find_prefix(tokens.first(tokens.size() - 1), sequence.salt, state.blocks);
  state.published = static_cast<int32_t>(state.blocks.size());
  state.computed = state.published * draft_.block_size;
  const int32_t rest =
      blocks_for(std::min(sequence.length() + most_proposed_, config_.max_model_len)) - state.published;
  if (rest > pool_.available()) {
    state.release();
    return false;
  }
  state.begin();
  return true;
}

// For the tokens up to `end`; all or none.
bool DraftProposer::take_blocks(DraftState& state, int32_t end) {
  const int32_t missing = blocks_for(end) - static_cast<int32_t>(state.blocks.size());
  if (missing > pool_.available()) return false;
  for (int32_t i = 0; i < missing; ++i) state.blocks.push_back(pool_.allocate());
  return true;
}

// As many of the tokens that the draft has not seen as the pass has room for. The last one is left until the large
// model has come as far.
void DraftProposer::read(Sequence& sequence) {
  DraftState& state = *sequence.draft;
  const int32_t end = state.wanted > 0 ? sequence.length() : sequence.length() - 1;
  const int32_t tokens = std::min(end - state.computed, config_.max_num_batched_tokens - batch_.tokens());
  if (tokens <= 0) return;
  const bool goes_on = state.computed + tokens == sequence.length();
  if (!take_blocks(state, state.computed + tokens + (goes_on ? state.wanted - 1 : 0))) return state.release();
  batch_.begin_sequence(state.computed, state.blocks);
  batch_.add_tokens(
      std::span(sequence.tokens).subspan(static_cast<size_t>(state.computed), static_cast<size_t>(tokens)));
  if (goes_on) {
    batch_.add_row(tokens - 1);
    proposing_.push_back(&sequence);
  }
  state.computed += tokens;
}

// Those that propose have a row each, in their order.
void DraftProposer::run() {
  StepInputs inputs = batch_.padded_to(shapes_.fit(batch_.tokens(), batch_.sequences(), batch_.rows()));
  inputs.reads_logits =
      std::ranges::any_of(proposing_, [](const Sequence* sequence) { return sequence->draft->is_sampled(); });
  const StepOutputs outputs = model_.run(inputs);
  ++steps_;
  const size_t logits = proposing_.size() * static_cast<size_t>(model_.vocabulary());
  const bool reads_many = inputs.reads_logits && logits >= logits_worth_threads;
  workers_.run(
      proposing_.size(), [&](size_t row, size_t worker) { guess(row, samplers_[worker], outputs); }, reads_many);
}

// Where the logits are not finite the sequence is not guessed.
void DraftProposer::guess(size_t row, Sampler& sampler, const StepOutputs& outputs) const {
  const Sequence& sequence = *proposing_[row];
  DraftState& draft = *sequence.draft;
  const size_t place = draft.proposed.size();
  SamplingState state;
  state.params = &draft.params;
  KnownRow known;
  if (draft.is_sampled()) {
    state.counts = sequence.counts.get();
    state.allowed = sequence.allowed;
    state.generated = sequence.generated() + static_cast<int32_t>(place);
  } else if (outputs.likeliest != nullptr) {
    known = {outputs.likeliest[row], outputs.largest[row]};
  }
  float* const logits =
      outputs.logits == nullptr ? nullptr : outputs.logits + row * static_cast<size_t>(model_.vocabulary());
  if (sampler.prepare(logits, state, known) != Sampler::Problem::none) return;
  double random = 0;
  if (draft.is_sampled()) {
    random = uniform(sequence.seed, static_cast<uint64_t>(state.generated), static_cast<uint32_t>(sequence.sample),
                     Purpose::guess);
    sampler.write_probabilities(draft.probabilities_of(place));
  }
  draft.proposed.push_back(sampler.draw(random));
}

}  // namespace camshaft::llm
