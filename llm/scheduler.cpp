#include "llm/scheduler.h"

#include <algorithm>
#include <string>

#include "camshaft/error.hpp"

namespace camshaft::llm {

const SchedulerConfig& checked(const SchedulerConfig& config) {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (config.max_num_seqs < 1)
    refuse("max_num_seqs is " + std::to_string(config.max_num_seqs) + ", it must be 1 or more");
  // Memory for a step of all is taken at once: of 10^8, with 2048 tokens in the vocabulary, it was 22 GB.
  constexpr int32_t most_seqs = 4096;
  if (config.max_num_seqs > most_seqs)
    refuse("max_num_seqs is " + std::to_string(config.max_num_seqs) + ", at most " + std::to_string(most_seqs) +
           " sequences are decoded at once");
  if (config.max_model_len < 1 + config.generates)
    refuse("max_model_len is " + std::to_string(config.max_model_len) +
           (config.generates ? ", a sequence has at least a token of prompt and one of text"
                             : ", a prompt has at least a token"));
  if (!config.enable_chunked_prefill && config.max_num_batched_tokens < config.max_model_len)
    refuse("max_num_batched_tokens, " + std::to_string(config.max_num_batched_tokens) + ", is below max_model_len, " +
           std::to_string(config.max_model_len) +
           ": prompts of this model are computed in one step; raise the first or lower the second");
  if (config.max_num_batched_tokens < config.max_num_seqs)
    refuse("max_num_batched_tokens, " + std::to_string(config.max_num_batched_tokens) + ", is below max_num_seqs, " +
           std::to_string(config.max_num_seqs) +
           ": a step decodes a token of each sequence; raise the first or "
           "lower the second");
  if (config.num_speculative_tokens < 0 || config.prompt_logprob_rows < 1)
    refuse(
        "num_speculative_tokens must be 0 or more, prompt_logprob_rows 1 or "
        "more");
  // Memory for a step of all with their guesses is taken at once, too.
  constexpr int32_t most_guesses = 1024;
  if (config.num_speculative_tokens > most_guesses)
    refuse("num_speculative_tokens is " + std::to_string(config.num_speculative_tokens) + ", at most " +
           std::to_string(most_guesses) + " are guessed in a step");
  if (config.num_blocks < 1) refuse("num_blocks is " + std::to_string(config.num_blocks) + ", it must be 1 or more");
  if (config.num_host_blocks < 0)
    refuse("num_host_blocks is " + std::to_string(config.num_host_blocks) + ", it must be 0 or more");
  if (config.num_host_blocks > 0 && !config.enable_prefix_caching)
    refuse("num_host_blocks is " + std::to_string(config.num_host_blocks) +
           ", and blocks in the host's memory are found as prefixes are: leave enable_prefix_caching true");
  return config;
}

namespace {

// The rows of logits that say how likely tokens of the prompt are, among those of this step.
int32_t prompt_rows(const Sequence& sequence, int32_t end) {
  if (!sequence.wants_prompt_logprobs()) return 0;
  const int32_t first = std::max(sequence.computed, sequence.prompt_logprobs_from - 1);
  return std::max(0, std::min(end, sequence.prompt_length - 1) - first);
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(checked(config)),
      pool_(config.num_blocks, config.block_size, config.enable_prefix_caching, nullptr, config.num_host_blocks) {
  order_.reserve(static_cast<size_t>(config_.max_num_seqs));
  slots_.reserve(static_cast<size_t>(config_.max_num_seqs));
  copies_.reserve(static_cast<size_t>(config_.max_num_seqs));
}

void Scheduler::check_fits(int32_t prompt_length, int32_t longest, const SamplingParams& params) const {
  if (prompt_length < 1)
    throw Error(ErrorCode::invalid_argument,
                "the prompt is empty: it must have a token at least, the "
                "model's first one");
  if (prompt_length + config_.generates > config_.max_model_len)
    throw Error(ErrorCode::invalid_argument, "the prompt has " + std::to_string(prompt_length) +
                                                 " tokens, max_model_len is " + std::to_string(config_.max_model_len) +
                                                 (config_.generates ? " with at least one of text" : "") +
                                                 ": shorten the prompt, or raise max_model_len where the model "
                                                 "allows it");
  if (blocks_for(longest) > pool_.size())
    throw Error(ErrorCode::invalid_argument, "a sequence of up to " + std::to_string(longest) + " tokens needs " +
                                                 std::to_string(blocks_for(longest)) +
                                                 " blocks of the cache, which has " + std::to_string(pool_.size()) +
                                                 ": lower max_tokens, or raise num_blocks");
  const int32_t sequences = params.sequences();
  if (sequences > config_.max_num_seqs)
    throw Error(ErrorCode::invalid_argument, (params.beam_search ? "beam_width is " : "n is ") +
                                                 std::to_string(sequences) + ", at most max_num_seqs, " +
                                                 std::to_string(config_.max_num_seqs) + ", run at once");
  if (!params.beam_search) return;
  // Beams are computed together: of their blocks the prompt's full ones are the same.
  const int64_t shared = prompt_length / config_.block_size;
  const int64_t blocks = shared + sequences * (blocks_for(longest) - shared);
  if (blocks > pool_.size())
    throw Error(ErrorCode::invalid_argument, std::to_string(sequences) + " beams of up to " + std::to_string(longest) +
                                                 " tokens need " + std::to_string(blocks) +
                                                 " blocks of the cache, which has " + std::to_string(pool_.size()) +
                                                 ": lower max_tokens or beam_width, or raise num_blocks");
}

void Scheduler::add(Sequence& sequence) {
  waiting_.insert(&sequence);
}

bool Scheduler::plan() {
  copies_.clear();
  tokens_left_ = config_.max_num_batched_tokens;
  prompt_rows_left_ = config_.prompt_logprob_rows;
  was_short_ = false;
  for (Sequence* sequence : order_) {
    sequence->scheduled = 0;
    sequence->drafts.clear();
  }
  // Whoever is preempted stands at the end: places up to i stay.
  for (size_t i = 0; i < order_.size(); ++i)
    if (order_[i]->missing() == 1) decode(*order_[i], static_cast<int32_t>(order_.size() - 1 - i));
  for (size_t i = 0; i < order_.size(); ++i)
    if (order_[i]->missing() > 1) prefill(*order_[i]);
  if (!was_short_) admit();
  return tokens_left_ < config_.max_num_batched_tokens;
}

void Scheduler::guess(Sequence& sequence, int32_t most) const {
  if (sequence.ngrams != nullptr) {
    sequence.ngrams->extend(sequence.tokens);
    sequence.ngrams->propose(sequence.tokens, most, sequence.drafts);
  } else if (sequence.draft != nullptr && most > 0) {
    const std::vector<int32_t>& proposed = sequence.draft->proposed;
    const auto end = proposed.begin() + std::min<std::ptrdiff_t>(most, std::ssize(proposed));
    sequence.drafts.assign(proposed.begin(), end);
  }
}

// `behind`: sequences that are served later and decode, too.
void Scheduler::decode(Sequence& sequence, int32_t behind) {
  if (sequence.takes_guesses()) {
    guess(sequence, std::min({config_.num_speculative_tokens, tokens_left_ - 1 - behind,
                              sequence.longest - sequence.length() - 1}));
    // Guesses are not worth another sequence's blocks.
    const auto end = sequence.length() + static_cast<int32_t>(sequence.drafts.size());
    if (!sequence.drafts.empty() && !take_blocks(sequence, end, 0)) sequence.drafts.clear();
  }
  schedule(sequence, 1 + static_cast<int32_t>(sequence.drafts.size()));
}

void Scheduler::prefill(Sequence& sequence) {
  const int32_t tokens = chunk(sequence);
  if (tokens > 0) schedule(sequence, tokens);
}

int32_t Scheduler::chunk(const Sequence& sequence) const {
  int32_t tokens = std::min(sequence.missing(), tokens_left_);
  if (!config_.enable_chunked_prefill && tokens < sequence.missing()) return 0;
  const int32_t excess = prompt_rows(sequence, sequence.computed + tokens) - prompt_rows_left_;
  if (excess <= 0) return tokens;
  // Its last row is of the last token but one of the prompt: what is behind has none.
  return std::min(tokens, std::max(sequence.prompt_logprobs_from - 1 - sequence.computed, 0) + prompt_rows_left_);
}

// Whoever is served last gives its blocks up until there are enough. False when that was the sequence itself, or a beam
// of the same request.
bool Scheduler::schedule(Sequence& sequence, int32_t tokens) {
  while (!take_blocks(sequence, sequence.computed + tokens, 0)) {
    was_short_ = true;
    Sequence& victim = *order_.back();
    preempt(victim);
    if (sequence.slot < 0) return false;
  }
  sequence.scheduled = tokens;
  count(sequence, 1);
  return true;
}

void Scheduler::count(const Sequence& sequence, int32_t sign) {
  tokens_left_ -= sign * sequence.scheduled;
  prompt_rows_left_ -= sign * prompt_rows(sequence, sequence.computed + sequence.scheduled);
}

// Blocks for the tokens up to `end`, of which those from `computed` on are written; all or none. `spare`: blocks that
// must be left.
bool Scheduler::take_blocks(Sequence& sequence, int32_t end, int32_t spare) {
  const auto written = static_cast<size_t>(sequence.computed / config_.block_size);
  const bool copies = written < sequence.blocks.size() && pool_.references(sequence.blocks[written]) > 1;
  const int32_t missing = std::max(0, blocks_for(end) - static_cast<int32_t>(sequence.blocks.size()));
  if (missing + copies + spare > pool_.available()) return false;
  if (copies) {
    const BlockId own = pool_.allocate();
    copies_.push_back({sequence.blocks[written], own});
    pool_.release(sequence.blocks[written]);
    sequence.blocks[written] = own;
  }
  for (int32_t i = 0; i < missing; ++i) sequence.blocks.push_back(pool_.allocate());
  return true;
}

void Scheduler::admit() {
  while (!waiting_.empty()) {
    Sequence& sequence = **waiting_.begin();
    if (sequence.waits_for_images()) return;
    if (admit(sequence)) continue;
    // It may take the place of one that is less urgent, but of none that came before it.
    if (tokens_left_ <= 0 || order_.empty() || order_.back()->priority <= sequence.priority) return;
    preempt(*order_.back());
  }
}

bool Scheduler::lets_none_in() const {
  if (waiting_.empty()) return true;
  const bool is_full = static_cast<int32_t>(order_.size()) + reserved_ >= config_.max_num_seqs;
  return is_full && order_.back()->priority <= (*waiting_.begin())->priority;
}

const Sequence* Scheduler::wants_images() const {
  if (waiting_.empty() || !(*waiting_.begin())->waits_for_images()) return nullptr;
  const Sequence* const sequence = *waiting_.begin();
  const auto wanted = static_cast<int32_t>(order_.size()) + reserved_ + 1 + sequence->forks;
  const bool has_place = wanted <= config_.max_num_seqs || order_.back()->priority > sequence->priority;
  return has_place ? sequence : nullptr;
}

bool Scheduler::admit(Sequence& sequence) {
  const auto wanted = static_cast<int32_t>(order_.size()) + reserved_ + 1 + sequence.forks;
  if (wanted > config_.max_num_seqs || tokens_left_ <= 0) return false;
  // Room for the whole prompt, and a block more for each that runs: who came last would be the first to be preempted,
  // and what was computed of it lost.
  const auto spare = static_cast<int32_t>(order_.size());
  if (pool_.available() <= spare) return false;
  if (!sequence.wants_prompt_logprobs()) {
    const std::span<const int32_t> tokens = sequence.tokens;
    pool_.find_prefix(tokens.first(tokens.size() - 1), sequence.salts(),
                      sequence.blocks);  // one is left to compute
  }
  sequence.published = static_cast<int32_t>(sequence.blocks.size());
  sequence.computed = sequence.published * config_.block_size;
  const int32_t rest = blocks_for(sequence.length()) - sequence.published + BlockPool::absent(sequence.blocks);
  const int32_t tokens = chunk(sequence);
  if (tokens <= 0 || rest + spare + sequence.fork_blocks > pool_.available()) {
    BlockPool::forget_absent(sequence.blocks);
    free_blocks(sequence);
    return false;
  }
  pool_.restore(sequence.blocks);
  waiting_.erase(&sequence);
  if (sequence.cached < 0) sequence.cached = sequence.computed;
  if (config_.enable_prefix_caching && !sequence.wants_prompt_logprobs()) {
    prefix_queried_ += sequence.length() - 1;
    prefix_hit_ += sequence.computed;
  }
  start(sequence);
  return schedule(sequence, tokens);
}

void Scheduler::commit(Sequence& sequence, int32_t computed) {
  sequence.computed = computed;
  const std::span<const int32_t> tokens = sequence.tokens;
  const int32_t size = config_.block_size;
  const BlockSalts salts = sequence.salts();
  for (; (sequence.published + 1) * size <= computed; ++sequence.published) {
    const auto at = static_cast<size_t>(sequence.published);
    sequence.blocks[at] = pool_.publish(sequence.blocks[at], at == 0 ? -1 : sequence.blocks[at - 1], salts.of(at),
                                        tokens.subspan(at * static_cast<size_t>(size), static_cast<size_t>(size)));
  }
}

void Scheduler::fork(Sequence& parent, Sequence& child, int32_t tokens) {
  share(parent, child, tokens);
  --parent.forks;
  --reserved_;
  start(child);
}

void Scheduler::replace(Sequence& sequence, const Sequence& by) {
  free_blocks(sequence);
  share(by, sequence, by.computed);
}

void Scheduler::unfork(Sequence& sequence, Sequence& heir) {
  const int32_t forks = sequence.forks + 1;
  stop(sequence);
  free_blocks(sequence);
  sequence.forks = 0;
  heir.forks += forks;
  reserved_ += forks;
}

// A full block is not written any more: of tokens in front of the last ones that `from` has computed there are only
// full ones.
void Scheduler::share(const Sequence& from, Sequence& to, int32_t tokens) {
  const int32_t size = config_.block_size;
  to.computed = tokens == from.computed ? tokens : tokens / size * size;
  to.published = std::min(from.published, to.computed / size);
  to.cached = from.cached;
  for (int32_t i = 0; i < blocks_for(to.computed); ++i) {
    const BlockId block = from.blocks[static_cast<size_t>(i)];
    pool_.retain(block);
    to.blocks.push_back(block);
  }
}

void Scheduler::remove(Sequence& sequence) {
  if (sequence.slot < 0) {
    waiting_.erase(&sequence);
    return;
  }
  stop(sequence);
  free_blocks(sequence);
}

void Scheduler::start(Sequence& sequence) {
  order_.insert(std::ranges::upper_bound(order_, &sequence, ServedBefore()), &sequence);
  sequence.slot = static_cast<int32_t>(slots_.size());
  slots_.push_back(&sequence);
  sequence.scheduled = 0;
  reserved_ += sequence.forks;
}

void Scheduler::stop(Sequence& sequence) {
  order_.erase(std::ranges::lower_bound(order_, &sequence, ServedBefore()));
  const auto slot = static_cast<size_t>(sequence.slot);
  slots_[slot] = slots_.back();
  slots_[slot]->slot = sequence.slot;
  slots_.pop_back();
  sequence.slot = -1;
  reserved_ -= sequence.forks;
}

// Of beams the best one is computed again; the others fork from it where they differ.
void Scheduler::preempt(Sequence& sequence) {
  Sequence* first = &sequence;
  if (sequence.beams == nullptr) {
    stand_back(sequence);
  } else {
    first = sequence.beams->front();
    const auto full = blocks_for(first->length());
    int32_t forks = -1, blocks = 0;
    for (Sequence* const beam : *sequence.beams) {
      const auto [differs, other] = std::ranges::mismatch(first->tokens, beam->tokens);
      if (beam != first) blocks += full - static_cast<int32_t>(differs - first->tokens.begin()) / config_.block_size;
      if (beam->slot < 0) continue;
      forks += 1 + beam->forks;
      stand_back(*beam);
      beam->forks = 0;
    }
    first->forks = forks;
    first->fork_blocks = blocks;
  }
  waiting_.insert(first);
  ++preemptions_;
}

void Scheduler::stand_back(Sequence& sequence) {
  count(sequence, -1);
  sequence.scheduled = 0;
  sequence.drafts.clear();
  stop(sequence);
  free_blocks(sequence);
}

void Scheduler::free_blocks(Sequence& sequence) {
  for (size_t i = sequence.blocks.size(); i-- > 0;) pool_.release(sequence.blocks[i]);
  sequence.blocks.clear();
  sequence.computed = sequence.published = 0;
  if (sequence.draft != nullptr) sequence.draft->release();
}

}  // namespace camshaft::llm
