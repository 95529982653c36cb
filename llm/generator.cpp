#include "llm/generator.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "camshaft/error.hpp"
#include "llm/json_fields.h"

namespace camshaft::llm {

namespace {

SchedulerConfig scheduler_config(const GeneratorConfig& config) {
  SchedulerConfig made = config.scheduler;
  made.generates = config.pooling == Pooling::none;
  // What the cache of prefixes has is not computed, and gives no rows.
  if (!made.generates && config.pooling != Pooling::last) made.enable_prefix_caching = false, made.num_host_blocks = 0;
  return made;
}

int32_t blocks_of_longest(const SchedulerConfig& config) {
  return (config.max_model_len + config.block_size - 1) / config.block_size;
}

size_t vocabulary_of(const GeneratorConfig& config, const StepModel& model) {
  const auto refuse = [](const char* message) { throw Error(ErrorCode::invalid_argument, message); };
  if (config.pooling == Pooling::none) {
    if (model.hidden_size() > 0)
      refuse("the engine gives hidden states, of which pooling_type says what becomes an embedding: last, cls or mean");
    return static_cast<size_t>(model.vocabulary());
  }
  if (model.hidden_size() == 0) refuse("the engine gives logits: it generates text, and there is nothing to pool");
  if (config.vocab_size < 1) refuse("vocab_size is needed for an engine that gives hidden states");
  return static_cast<size_t>(config.vocab_size);
}

size_t sampling_threads(const GeneratorConfig& config) {
  if (config.sampling_threads > 0) return static_cast<size_t>(config.sampling_threads);
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 8);
}

constexpr const char* embedding_is_not_finite =
    "the model's embedding has a NaN or an infinity: its weights or its precision do not fit this prompt (build it "
    "with a wider type, or verify it)";

}  // namespace

GeneratorConfig parse_generator_config(std::string_view json) {
  GeneratorConfig config;
  SchedulerConfig& scheduler = config.scheduler;
  JsonFields fields(json, "configuration of a generator");
  fields.read("max_num_seqs", scheduler.max_num_seqs);
  fields.read("max_num_batched_tokens", scheduler.max_num_batched_tokens);
  fields.read("max_model_len", scheduler.max_model_len);
  fields.read("block_size", scheduler.block_size);
  fields.read("num_blocks", scheduler.num_blocks);
  fields.read("num_host_blocks", scheduler.num_host_blocks);
  fields.read("enable_prefix_caching", scheduler.enable_prefix_caching);
  fields.read("num_speculative_tokens", scheduler.num_speculative_tokens);
  fields.read("prompt_logprob_rows", scheduler.prompt_logprob_rows);
  fields.read("eos_token_ids", config.eos_token_ids);
  fields.read("seed", config.seed);
  fields.read("prompt_lookup_min", config.prompt_lookup_min);
  fields.read("prompt_lookup_max", config.prompt_lookup_max);
  fields.read("max_step_shapes", config.max_step_shapes);
  fields.read("sampling_threads", config.sampling_threads);
  fields.read("num_cross_blocks", config.num_cross_blocks);
  fields.read("max_loras", config.max_loras);
  fields.read("draft_num_blocks", config.draft.num_blocks);
  fields.read("draft_max_model_len", config.draft.max_model_len);
  fields.read("draft_samples", config.draft.samples);
  fields.read("enable_chunked_prefill", scheduler.enable_chunked_prefill);
  fields.read("vocab_size", config.vocab_size);
  fields.take("pooling_type",
              [&](const nlohmann::json& name) { config.pooling = parse_pooling(JsonFields::get<std::string>(name)); });
  fields.finish();
  scheduler.generates = config.pooling == Pooling::none;
  return config;
}

Generator::Generator(StepModel& model, const GeneratorConfig& config, StepModel* draft)
    : model_(model),
      config_(config),
      scheduler_(scheduler_config(config)),
      shapes_(scheduler_.config(), config.max_step_shapes, config.pooling == Pooling::mean, model.image_width() > 0),
      cross_(model.cross_sizes()),
      batch_(shapes_.largest(), blocks_of_longest(scheduler_.config()), model),
      workers_(config.pooling == Pooling::none ? sampling_threads(config) : 1),
      vocabulary_(vocabulary_of(config, model)) {
  if (config.prompt_lookup_min < 1 || config.prompt_lookup_max < config.prompt_lookup_min)
    throw Error(ErrorCode::invalid_argument, "prompt_lookup_min is " + std::to_string(config.prompt_lookup_min) +
                                                 " and prompt_lookup_max " + std::to_string(config.prompt_lookup_max) +
                                                 ": the first must be 1 or more, the second not below it");
  for (const int32_t token : config.eos_token_ids)
    if (token < 0 || static_cast<size_t>(token) >= vocabulary_)
      throw Error(ErrorCode::invalid_argument, "eos_token_ids names token " + std::to_string(token) +
                                                   ", the vocabulary has " + std::to_string(vocabulary_));
  if (draft != nullptr && draft->vocabulary() != model.vocabulary())
    throw Error(ErrorCode::invalid_argument, "the draft model has a vocabulary of " +
                                                 std::to_string(draft->vocabulary()) + " tokens, the model one of " +
                                                 std::to_string(vocabulary_) +
                                                 ": what it guesses would be other words; take a draft of the same");
  if (draft != nullptr && (draft->image_width() > 0 || draft->has_mrope()))
    throw Error(ErrorCode::invalid_argument,
                "the draft model reads pictures, of which it would be shown none: take one of text alone");
  if (draft != nullptr && draft->cross_sizes().table_width > 0)
    throw Error(ErrorCode::invalid_argument,
                "the draft model sees an encoder, of which it would be shown nothing: take one of text alone");
  if (draft != nullptr)
    draft_ = std::make_unique<DraftProposer>(*draft, config.draft, scheduler_.config(), config.max_step_shapes,
                                             workers_, samplers_);
  if (scheduler_.config().num_host_blocks > 0) model.make_host_blocks(scheduler_.config().num_host_blocks);
  stepped_.reserve(static_cast<size_t>(shapes_.largest().sequences));
  stepped_beams_.reserve(static_cast<size_t>(shapes_.largest().sequences));
  ahead_.reserve(static_cast<size_t>(shapes_.largest().sequences));
  for (size_t worker = 0; config.pooling == Pooling::none && worker < workers_.count(); ++worker)
    samplers_.emplace_back(model.vocabulary());
}

// Of a step that was started ahead nobody wants to know any more, and the model may get another generator.
Generator::~Generator() {
  if (!ahead_.empty()) forget_started();
}

RequestId Generator::wants_images() const {
  check_between_steps();
  const Sequence* const sequence = scheduler_.wants_images();
  return sequence == nullptr ? 0 : sequence->request;
}

std::span<const Event> Generator::step() {
  plan_step();
  run_step();
  return finish_step();
}

std::span<const GuidedRows> Generator::plan_step() {
  check_between_steps();
  events_.clear();
  extents_.clear();
  event_tokens_.clear();
  event_logprobs_.clear();
  event_prompt_logprobs_.clear();
  event_embeddings_.clear();
  for (const Ended& ended : ended_) {
    Event& event = events_.emplace_back();
    extents_.push_back({});
    event.request = ended.request;
    event.sample = ended.sample;
    event.finish = FinishReason::abort;
  }
  ended_.clear();
  stepped_.clear();
  guided_.clear();
  failure_.clear();
  is_planned_ = true;
  has_run_ = false;
  is_started_ = take_started();
  if (is_started_ || requests_.empty()) return guided_;
  propose();
  if (!scheduler_.plan()) return guided_;
  build_inputs();
  list_guided();
  return guided_;
}

// What the draft throws ends the step's requests, as what the model throws does.
void Generator::propose() {
  if (draft_ == nullptr) return;
  try {
    draft_->propose(scheduler_.served());
  } catch (const std::exception& error) {
    failure_ = std::string("the draft model has failed: ") + error.what();
    for (Sequence* const sequence : scheduler_.served())
      if (sequence->draft != nullptr) sequence->draft->release();  // of which nobody knows what it holds
  }
}

void Generator::run_step() {
  has_run_ = true;
  if (!failure_.empty()) return;
  try {
    const bool starts_next = can_start_next();
    if (!is_started_) {
      copy_blocks();
      if (stepped_.empty()) return;
      if (!starts_next) {
        outputs_ = model_.run(inputs_);
        return;
      }
      model_.start(inputs_, false);
      is_started_ = true;
    }
    if (starts_next) start_next();
    is_started_ = false;
    outputs_ = model_.finish();
  } catch (const std::exception& error) {
    failure_ = error.what();
    if (failure_.empty()) failure_ = "the model has failed";
  }
}

// What leaves goes first, as its blocks are written then; what comes may have just left.
void Generator::copy_blocks() {
  BlockPool& pool = scheduler_.pool();
  if (!pool.leaving().empty()) model_.offload_blocks(pool.leaving());
  if (!stepped_.empty() && !scheduler_.copies().empty()) model_.copy_blocks(scheduler_.copies());
  if (!pool.coming().empty()) model_.restore_blocks(pool.coming());
  pool.finish_copies();
}

std::span<const Event> Generator::finish_step() {
  is_planned_ = false;
  if (is_started_) forget_started();
  // What the model gave before is no other step's.
  if (!has_run_) failure_ = "the step that was planned was not run";
  if (!failure_.empty()) scheduler_.pool().abandon_copies();
  if (failure_.empty() && config_.pooling != Pooling::none) {
    for (Sequence* const sequence : stepped_) pool(*sequence, outputs_.hidden_states);
  } else if (failure_.empty()) {
    combine_masks();
    if (!stepped_.empty()) sample_all(outputs_);
    for (Sequence* const sequence : stepped_) tell(*sequence);
  } else {
    for (Sequence* const sequence : stepped_)
      if (sequence->beams == nullptr) fail(*sequence, failure_);
  }
  stepped_.clear();
  advance_beams();
  finish_events();
  return events_;
}

void Generator::build_inputs() {
  batch_.clear();
  for (Sequence* const sequence : scheduler_.running()) {
    batch_.begin_sequence(sequence->computed, sequence->blocks, sequence->cross.get(), sequence->pictures.get(),
                          sequence->lora);
    if (sequence->scheduled == 0) continue;
    stepped_.push_back(sequence);
    if (sequence->beams != nullptr) {
      BeamGroup& group = *requests_.at(sequence->request).beams;
      if (!group.is_stepped) stepped_beams_.push_back(sequence->request);
      group.is_stepped = true;
    }
    const int32_t known = sequence->scheduled - static_cast<int32_t>(sequence->drafts.size());
    const int32_t end = sequence->computed + known;
    batch_.add_tokens(
        std::span(sequence->tokens).subspan(static_cast<size_t>(sequence->computed), static_cast<size_t>(known)));
    batch_.add_tokens(sequence->drafts);
    // Of the prompt's tokens, and of the text's last one with all guesses.
    sequence->first_row = batch_.rows();
    if (sequence->wants_prompt_logprobs()) {
      const int32_t last = std::min(end, sequence->prompt_length - 1);
      for (int32_t p = std::max(sequence->computed, sequence->prompt_logprobs_from - 1); p < last; ++p)
        batch_.add_row(p - sequence->computed);
    }
    const PooledTokens pooled = pooled_tokens(config_.pooling, {sequence->computed, end}, sequence->length());
    for (int32_t p = pooled.begin; p < pooled.end; ++p) batch_.add_row(p - sequence->computed);
    if (end == sequence->length() && config_.pooling == Pooling::none)
      for (int32_t i = known - 1; i < sequence->scheduled; ++i) batch_.add_row(i);
    sequence->rows = batch_.rows() - sequence->first_row;
  }
  const bool has_images = batch_.image_rows() > 0;
  inputs_ = batch_.padded_to(shapes_.fit(batch_.tokens(), batch_.sequences(), batch_.rows(), has_images));
  inputs_.reads_logits = std::ranges::any_of(stepped_, [](const Sequence* s) { return s->reads_logits(); });
  count_step();
}

void Generator::count_step() {
  const auto tokens = std::transform_reduce(stepped_.begin(), stepped_.end(), int64_t{0}, std::plus(),
                                            [](const Sequence* sequence) { return sequence->scheduled; });
  ++statistics_.steps;
  statistics_.tokens += tokens;
  statistics_.padding += std::ssize(inputs_.input_ids) - tokens;
}

Event& Generator::begin_event(const Sequence& sequence) {
  extents_.push_back(
      {event_tokens_.size(), event_logprobs_.size(), event_prompt_logprobs_.size(), event_embeddings_.size()});
  Event& event = events_.emplace_back();
  event.request = sequence.request;
  event.sample = sequence.sample;
  event.cached_tokens = sequence.cached;
  return event;
}

// By its last token.
FinishReason Generator::reason_to_finish(const Sequence& sequence) const {
  const SamplingParams& params = *sequence.params;
  const auto ends = [token = sequence.tokens.back()](const std::vector<int32_t>& tokens) {
    return std::ranges::find(tokens, token) != tokens.end();
  };
  if (sequence.generated() >= params.min_tokens &&
      ((!params.ignore_eos && ends(config_.eos_token_ids)) || ends(params.stop_token_ids)))
    return FinishReason::stop;
  return sequence.length() < sequence.longest ? FinishReason::none : FinishReason::length;
}

// Makes an event of what sampling found.
void Generator::tell(Sequence& sequence) {
  if (sequence.beams != nullptr) return scheduler_.commit(sequence, sequence.computed + sequence.scheduled);
  const bool failed = sequence.problem != Sampler::Problem::none;
  if (!failed && sequence.drawn.empty()) {
    scheduler_.commit(sequence, sequence.computed + sequence.scheduled);
    if (sequence.prompt_logprobs.empty()) return;
  }
  Event& event = begin_event(sequence);
  if (!sequence.prompt_logprobs.empty()) {
    event.first_prompt_token = sequence.prompt_logprobs_from;
    sequence.prompt_logprobs_from +=
        static_cast<int32_t>(sequence.prompt_logprobs.size()) / (1 + *sequence.params->prompt_logprobs);
    event_prompt_logprobs_.insert(event_prompt_logprobs_.end(), sequence.prompt_logprobs.begin(),
                                  sequence.prompt_logprobs.end());
  }
  if (!sequence.drawn.empty() && sequence.forks > 0) return begin_samples(sequence);
  event_tokens_.insert(event_tokens_.end(), sequence.drawn.begin(), sequence.drawn.end());
  event_logprobs_.insert(event_logprobs_.end(), sequence.drawn_logprobs.begin(), sequence.drawn_logprobs.end());
  statistics_.generated += std::ssize(sequence.drawn);
  statistics_.drafts += !sequence.drafts.empty();
  statistics_.drafted += std::ssize(sequence.drafts);
  const auto [drawn, guessed] = std::ranges::mismatch(sequence.drawn, sequence.drafts);
  statistics_.accepted += drawn - sequence.drawn.begin();
  if (failed) return fail(sequence, message_of(sequence.problem));
  if (!sequence.drawn.empty()) finish_or_commit(sequence, event);
}

// What the step has computed of a prompt, and with its last part the embedding.
void Generator::pool(Sequence& sequence, const float* hidden_states) {
  const auto width = sequence.pooled.size(), row = static_cast<size_t>(sequence.first_row);
  // Of one that was preempted all is computed again.
  if (sequence.computed == 0) std::ranges::fill(sequence.pooled, 0.0);
  add_rows({hidden_states + row * width, static_cast<size_t>(sequence.rows) * width}, sequence.pooled);
  scheduler_.commit(sequence, sequence.computed + sequence.scheduled);
  if (sequence.missing() > 0) return;
  Event& event = begin_event(sequence);
  const size_t at = event_embeddings_.size();
  event_embeddings_.resize(at + width);
  if (!finish_embedding(config_.pooling, sequence.pooled, sequence.prompt_length,
                        std::span(event_embeddings_).subspan(at))) {
    event_embeddings_.resize(at);
    return fail(sequence, embedding_is_not_finite);
  }
  event.finish = FinishReason::stop;
  end(sequence);
}

// All samples begin where the prompt ends, each with a token of its own from the same logits.
void Generator::begin_samples(Sequence& parent) {
  const RequestId request = parent.request;
  const auto params = parent.params;
  first_tokens_.swap(parent.drawn);
  first_logprobs_.swap(parent.drawn_logprobs);
  scheduler_.commit(parent, parent.length());
  const auto sample_of = [&](int32_t sample) -> Sequence& {
    return *requests_.at(request).samples[static_cast<size_t>(sample)];
  };
  for (int32_t sample = 1; sample < params->n; ++sample) scheduler_.fork(parent, sample_of(sample), parent.computed);
  const size_t width = first_logprobs_.size() / static_cast<size_t>(params->n);
  for (int32_t sample = 0; sample < params->n; ++sample) {
    Sequence& sequence = sample_of(sample);
    Event& event = sample == 0 ? events_.back() : begin_event(sequence);
    const auto place = static_cast<size_t>(sample);
    sequence.tokens.push_back(first_tokens_[place]);
    if (sequence.counts != nullptr) sequence.counts->add(first_tokens_[place]);
    event_tokens_.push_back(first_tokens_[place]);
    const auto from = first_logprobs_.begin() + static_cast<std::ptrdiff_t>(place * width);
    event_logprobs_.insert(event_logprobs_.end(), from, from + static_cast<std::ptrdiff_t>(width));
    ++statistics_.generated;
    finish_or_commit(sequence, event);
  }
}

void Generator::finish_or_commit(Sequence& sequence, Event& event) {
  // Of what was computed, that behind the last guess which came true is wrong.
  scheduler_.commit(sequence, std::min(sequence.computed + sequence.scheduled, sequence.length() - 1));
  event.finish = reason_to_finish(sequence);
  if (event.finish == FinishReason::none) return;
  const int32_t token = sequence.tokens.back();
  if (event.finish == FinishReason::stop && !is_eos(sequence, token)) event.stop_token = token;
  end(sequence);
}

// Whether it ends this text.
bool Generator::is_eos(const Sequence& sequence, int32_t token) const {
  return !sequence.params->ignore_eos && std::ranges::find(config_.eos_token_ids, token) != config_.eos_token_ids.end();
}

// With all samples that have not begun; what it has said in this step stays.
void Generator::fail(Sequence& sequence, const std::string& message) {
  if (events_.empty() || events_.back().request != sequence.request || events_.back().sample != sequence.sample)
    begin_event(sequence);
  events_.back().finish = FinishReason::error;
  events_.back().error = message;
  if (sequence.forks > 0) {
    Entry& entry = requests_.at(sequence.request);
    for (int32_t sample = 1; sample < sequence.params->n; ++sample) {
      Event& event = begin_event(*entry.samples[static_cast<size_t>(sample)]);
      event.finish = FinishReason::error;
      event.error = message;
      entry.samples[static_cast<size_t>(sample)].reset();
      --entry.alive;
    }
  }
  end(sequence);
}

void Generator::end(Sequence& sequence) {
  scheduler_.remove(sequence);
  const auto found = requests_.find(sequence.request);
  found->second.samples[static_cast<size_t>(sequence.sample)].reset();
  if (--found->second.alive == 0) requests_.erase(found);
}

void Generator::finish_events() {
  for (size_t i = 0; i < events_.size(); ++i) {
    const Extent begin = extents_[i];
    const Extent end = i + 1 < events_.size() ? extents_[i + 1]
                                              : Extent{event_tokens_.size(), event_logprobs_.size(),
                                                       event_prompt_logprobs_.size(), event_embeddings_.size()};
    events_[i].tokens = std::span(event_tokens_).subspan(begin.tokens, end.tokens - begin.tokens);
    events_[i].logprobs = std::span(event_logprobs_).subspan(begin.logprobs, end.logprobs - begin.logprobs);
    events_[i].embedding = std::span(event_embeddings_).subspan(begin.embedding, end.embedding - begin.embedding);
    events_[i].prompt_logprobs =
        std::span(event_prompt_logprobs_).subspan(begin.prompt_logprobs, end.prompt_logprobs - begin.prompt_logprobs);
  }
}

GeneratorStatistics Generator::statistics() const {
  GeneratorStatistics made = statistics_;
  made.preemptions = scheduler_.preemptions();
  made.running = std::ssize(scheduler_.running());
  made.waiting = static_cast<int64_t>(scheduler_.waiting());
  const BlockPool& pool = scheduler_.pool();
  made.blocks = pool.size();
  made.free_blocks = pool.available();
  made.prefix_queried = scheduler_.prefix_queried();
  made.prefix_hit = scheduler_.prefix_hit();
  made.evictions = pool.evictions();
  made.host_blocks = pool.host_size();
  made.offloaded = pool.offloaded();
  made.restored = pool.restored();
  if (draft_ == nullptr) return made;
  made.draft_steps = draft_->steps();
  made.draft_blocks = draft_->pool().size();
  made.draft_free_blocks = draft_->pool().available();
  return made;
}

}  // namespace camshaft::llm
