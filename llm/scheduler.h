// Which sequences run in a step, with how many tokens, and in which blocks.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "llm/block_pool.h"
#include "llm/sequence.h"

namespace camshaft::llm {

struct SchedulerConfig {
  int32_t max_num_seqs = 32;             ///< that run at once
  int32_t max_num_batched_tokens = 512;  ///< of a step
  int32_t max_model_len = 0;             ///< tokens of the longest sequence
  int32_t block_size = 16;
  int32_t num_blocks = 0;
  int32_t num_host_blocks = 0;  ///< in the host's memory, for what leaves the cache; 0: it is computed again
  bool enable_prefix_caching = true;
  int32_t num_speculative_tokens = 0;  ///< that are guessed for a sequence and step; 0: none
  int32_t prompt_logprob_rows = 64;    ///< of a step: the memory of their logits
  bool enable_chunked_prefill = true;  ///< else a prompt is computed in one step
  bool generates = true;               ///< else prompts are computed, and nothing follows
};

/// The configuration. Throws Error(invalid_argument), naming what does not fit together.
const SchedulerConfig& checked(const SchedulerConfig& config);

/// In-flight batching: a step decodes all sequences that have come so far, and the rest of its tokens are parts of
/// prompts. Those with the lowest priority, and among them those that came last, give their blocks up when others need
/// some, and are computed again later; a request that comes takes the place of one with a lower priority. Knows no
/// model; sequences belong to the caller. Not safe from several threads.
class Scheduler {
 public:
  /// Throws Error(invalid_argument), naming what does not fit together.
  explicit Scheduler(const SchedulerConfig& config);

  const SchedulerConfig& config() const { return config_; }
  BlockPool& pool() { return pool_; }
  const BlockPool& pool() const { return pool_; }

  /// Throws Error(invalid_argument) for a sequence, or samples or beams of one, that could never run.
  void check_fits(int32_t prompt_length, int32_t longest, const SamplingParams& params) const;
  void add(Sequence& sequence);
  /// Decides the next step: `scheduled` and `drafts` of each running sequence. False when nothing can run.
  bool plan();
  /// Those that run, by what is served first.
  std::span<Sequence* const> served() const { return order_; }
  /// By slot.
  std::span<Sequence* const> running() const { return slots_; }
  size_t waiting() const { return waiting_.size(); }
  /// Who would run next, and waits for the rows of its pictures; null where there is none.
  const Sequence* wants_images() const;
  /// To be done before the step, in this order.
  std::span<const BlockCopy> copies() const { return copies_; }
  /// Takes blocks for the token behind those of this step; false where there are too few.
  bool reserve_next(Sequence& sequence) { return take_blocks(sequence, sequence.computed + sequence.scheduled + 1, 0); }
  /// Whether those who run go on by themselves as long as none of them ends.
  bool lets_none_in() const;
  /// Says that `computed` tokens of the sequence are right and in the cache: its full blocks can be found from now on.
  void commit(Sequence& sequence, int32_t computed);
  /// `child` is the first `tokens` tokens of `parent`, which are computed: it runs beside it, in the same blocks until
  /// one of them writes. One of the forks that the parent has room for.
  void fork(Sequence& parent, Sequence& child, int32_t tokens);
  /// `sequence`, which runs, gives its blocks up, and is what `by` is as of now.
  void replace(Sequence& sequence, const Sequence& by);
  /// It runs no more; `heir` has room for one fork more, and for those that it had room for.
  void unfork(Sequence& sequence, Sequence& heir);
  /// It runs no more, or waits no more; its blocks are free.
  void remove(Sequence& sequence);

  int64_t preemptions() const { return preemptions_; }
  /// Tokens that sequences began with, and those of them that were in the cache.
  int64_t prefix_queried() const { return prefix_queried_; }
  int64_t prefix_hit() const { return prefix_hit_; }

 private:
  int32_t blocks_for(int32_t tokens) const { return (tokens + config_.block_size - 1) / config_.block_size; }
  bool take_blocks(Sequence& sequence, int32_t end, int32_t spare);
  bool schedule(Sequence& sequence, int32_t tokens);
  void guess(Sequence& sequence, int32_t most) const;
  void decode(Sequence& sequence, int32_t behind);
  void prefill(Sequence& sequence);
  void admit();
  bool admit(Sequence& sequence);
  int32_t chunk(const Sequence& sequence) const;
  void count(const Sequence& sequence, int32_t sign);
  void start(Sequence& sequence);
  void stop(Sequence& sequence);
  void preempt(Sequence& sequence);
  void stand_back(Sequence& sequence);
  void share(const Sequence& from, Sequence& to, int32_t tokens);
  void free_blocks(Sequence& sequence);

  SchedulerConfig config_;
  BlockPool pool_;
  std::set<Sequence*, ServedBefore> waiting_;
  std::vector<Sequence*> order_;  ///< those that run, by what is served first
  std::vector<Sequence*> slots_;  ///< the same by slot, without gaps
  int32_t reserved_ = 0;          ///< slots of samples that begin later
  std::vector<BlockCopy> copies_;
  int32_t tokens_left_ = 0, prompt_rows_left_ = 0;
  bool was_short_ = false;  ///< somebody was preempted for want of blocks in this step
  int64_t preemptions_ = 0;
  int64_t prefix_queried_ = 0, prefix_hit_ = 0;
};

}  // namespace camshaft::llm
