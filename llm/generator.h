// Text, or embeddings, for many requests at once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/beam_group.h"
#include "llm/draft_proposer.h"
#include "llm/pictures.h"
#include "llm/pooling.h"
#include "llm/sampler.h"
#include "llm/scheduler.h"
#include "llm/step_batch.h"
#include "llm/step_model.h"
#include "llm/step_shapes.h"
#include "llm/workers.h"

namespace camshaft::llm {

struct GeneratorConfig {
  SchedulerConfig scheduler;
  std::vector<int32_t> eos_token_ids;
  uint64_t seed = 0;                ///< of requests that have none of their own
  int32_t prompt_lookup_min = 2;    ///< the shortest n-gram that speculation looks for
  int32_t prompt_lookup_max = 4;    ///< the longest
  int32_t max_step_shapes = 16;     ///< sizes of steps that are padded to; 0: steps are not padded
  int32_t sampling_threads = 0;     ///< 0: one for each core, 8 at most
  DraftConfig draft;                ///< of a draft model, which then guesses instead of n-grams
  int32_t num_cross_blocks = 0;     ///< of an encoder's keys and values, which the model's maker gives it room for
  int32_t max_loras = 0;            ///< adapters, which the model's maker gives it room for
  Pooling pooling = Pooling::none;  ///< of a model whose rows are hidden states: requests are prompts alone
  int32_t vocab_size = 0;           ///< of such a model, which says itself only how wide its rows are
};

/// Of JSON: an object of the names of GeneratorConfig and SchedulerConfig. Throws Error(invalid_argument).
GeneratorConfig parse_generator_config(std::string_view json);

struct Request {
  std::vector<int32_t> prompt;
  SamplingParams params;
  int32_t priority = 0;  ///< lower runs first
  uint64_t salt = 0;     ///< requests of different salts share no keys and values
  /// An adapter of the model, which stays as it is until the request has ended; -1: none. Requests with other adapters
  /// need another salt where prefixes are cached.
  int32_t lora = -1;
  /// Of models with cross attention: the encoder's keys, which stay as they are until the request has ended. Requests
  /// with other keys need another salt where prefixes are cached.
  CrossKeys cross;
  /// Of models that read pictures, by their places in the prompt, whose tokens there are placeholders.
  std::vector<Picture> pictures;
};

enum class FinishReason {
  none,    ///< it goes on
  stop,    ///< the model's end of text, or a token of stop_token_ids
  length,  ///< max_tokens, or the longest sequence
  abort,   ///< the caller's wish
  error,
};

/// What a step gave a sample. Spans are valid until the generator is used again.
struct Event {
  RequestId request = 0;
  int32_t sample = 0;
  std::span<const int32_t> tokens;
  /// 1 + params.logprobs for each token: itself, then the likeliest. Empty without params.logprobs.
  std::span<const TokenLogprob> logprobs;
  int32_t first_prompt_token = 0;                 ///< whose logprobs these are, and those behind it
  std::span<const TokenLogprob> prompt_logprobs;  ///< 1 + params.prompt_logprobs for each
  std::span<const float> embedding;               ///< of a request that is pooled, with FinishReason::stop
  /// Of a search by beams, which gives each text at once, by rank, and maybe fewer than beam_width.
  double cumulative_logprob = 0;
  FinishReason finish = FinishReason::none;
  int32_t stop_token = -1;     ///< of stop_token_ids, that ended it
  int32_t cached_tokens = -1;  ///< of the prompt, that the cache had when it first ran; -1: it has not
  std::string error;           ///< with FinishReason::error: what went wrong, and what to do about it
};

/// The masks that a guided sample needs in a step: one for its next token, and one for what comes behind each guess.
struct GuidedRows {
  RequestId request = 0;
  int32_t sample = 0;
  std::span<const int32_t> drafts;  ///< tokens that are guessed to come next
  size_t row = 0;                   ///< of Generator::guide_masks(): the first of 1 + drafts.size()
};

struct GeneratorStatistics {
  int64_t steps = 0, tokens = 0,
          padding = 0;                               ///< tokens that were computed; those of padding
  int64_t generated = 0, drafted = 0, accepted = 0;  ///< tokens; those that were guessed, and that came true
  int64_t drafts = 0;                                ///< how often a sequence was guessed
  int64_t draft_steps = 0, draft_blocks = 0, draft_free_blocks = 0;  ///< of a draft model
  int64_t preemptions = 0, running = 0, waiting = 0;
  int64_t blocks = 0, free_blocks = 0, prefix_queried = 0, prefix_hit = 0, evictions = 0;
  int64_t host_blocks = 0, offloaded = 0, restored = 0;  ///< slots of the host's memory; blocks that went, and came
};

/// Requests come and go between steps. The text of a request depends on its prompt, parameters and seed alone: not on
/// what runs beside it, how its prompt was cut, or whether keys and values were there, taken away, or guessed ahead. In
/// the steady state, without logprobs that grow, a step allocates nothing. Not safe from several threads.
class Generator {
 public:
  /// `model`, and `draft` where there is one, must outlive it. Throws Error(invalid_argument).
  Generator(StepModel& model, const GeneratorConfig& config, StepModel* draft = nullptr);
  ~Generator();

  /// Throws Error(invalid_argument), saying what must be changed, for a request that could never run.
  RequestId add(Request request);
  /// Ends a request, or one sample of it once its text has begun (never of beams alone); an event says so in the next
  /// step. False when there is none.
  bool abort(RequestId request, int32_t sample = -1);
  /// Which tokens may come next in a sample: a bit for each, lowest first, as many words as the vocabulary needs; stays
  /// until it is replaced, and empty allows all. Its text is not guessed ahead from then on, as nobody knows which
  /// tokens may come behind a guess. Throws Error(invalid_argument) for a request that has ended, and a mask of another
  /// size.
  void set_allowed_tokens(RequestId request, int32_t sample, std::span<const uint32_t> mask);
  /// A request that would run in the next step, were the rows of its pictures known; 0 where there is none. To be asked
  /// between steps.
  RequestId wants_images() const;
  bool has_work() const { return !requests_.empty() || !ended_.empty(); }
  /// Runs one step for those whose turn it is. What the model throws ends their requests, each with an event.
  std::span<const Event> step();

  /// The same in three parts, for requests whose params.is_guided: masks are made while the model runs. What
  /// plan_step() gives, and the rows of guide_masks(), which are 0, are there until finish_step(). No request is added,
  /// ended or given a mask between them: Error(invalid_argument).
  std::span<const GuidedRows> plan_step();
  void run_step();
  std::span<const Event> finish_step();
  /// A row of words for each mask, as set_allowed_tokens() takes it; read by finish_step().
  std::span<uint32_t> guide_masks() { return guide_masks_; }
  size_t mask_words() const { return (vocabulary_ + 31) / 32; }

  GeneratorStatistics statistics() const;
  const GeneratorConfig& config() const { return config_; }
  const StepShapes& shapes() const { return shapes_; }

 private:
  struct Entry {                                     // a request
    std::vector<std::unique_ptr<Sequence>> samples;  ///< or beams
    int32_t alive = 0;
    std::unique_ptr<BeamGroup> beams;
  };
  struct Ended {
    RequestId request = 0;
    int32_t sample = 0;
  };
  struct Extent {  // of an event's spans, while what they are in still grows
    size_t tokens = 0, logprobs = 0, prompt_logprobs = 0, embedding = 0;
  };

  std::unique_ptr<Sequence> make_sequence(const Request& request, std::shared_ptr<const SamplingParams> params,
                                          int32_t sample, int32_t longest);
  void check_between_steps() const;
  void check_cross(const CrossKeys& cross) const;
  void check_pictures(const Request& request) const;
  void check_lora(int32_t lora) const;
  void propose();
  void copy_blocks();
  void build_inputs();
  bool can_start_next() const;
  void start_next();
  bool take_started();
  void forget_started();
  void count_step();
  void list_guided();
  void combine_masks();
  Event& begin_event(const Sequence& sequence);
  void sample_all(const StepOutputs& outputs);
  void sample(Sequence& sequence, Sampler& sampler, const StepOutputs& outputs) const;
  void draw(Sequence& sequence, int32_t sample, Sampler& sampler, size_t row) const;
  bool has_text(const Sequence& sequence) const;
  FinishReason reason_to_finish(const Sequence& sequence) const;
  void tell(Sequence& sequence);
  void pool(Sequence& sequence, const float* hidden_states);
  void begin_samples(Sequence& parent);
  bool is_eos(const Sequence& sequence, int32_t token) const;
  static const char* message_of(Sampler::Problem problem);
  void begin_beams(Entry& entry, int32_t prompt_length, int32_t longest);
  void advance_beams();
  void advance_beams(BeamGroup& group);
  void take_next_beams(BeamGroup& group);
  void finish_beams(BeamGroup& group);
  void fail_beams(BeamGroup& group, const std::string& message);
  void end_beams(RequestId request);
  void finish_or_commit(Sequence& sequence, Event& event);
  void fail(Sequence& sequence, const std::string& message);
  void end(Sequence& sequence);
  std::span<const uint32_t> mask_of(const Sequence& sequence, size_t row) const;
  SamplingState state_of(const Sequence& sequence, size_t row) const;
  void finish_events();

  StepModel& model_;
  GeneratorConfig config_;
  Scheduler scheduler_;
  StepShapes shapes_;
  CrossSizes cross_;
  StepBatch batch_;
  std::vector<Sampler> samplers_;  ///< one for each worker
  Workers workers_;
  size_t vocabulary_;
  std::unique_ptr<DraftProposer> draft_;  // outlives what its sequences have
  std::map<RequestId, Entry> requests_;
  RequestId last_request_ = 0;
  std::vector<Ended> ended_;  // by abort()

  StepInputs inputs_;
  std::vector<Sequence*> stepped_;
  std::vector<RequestId> stepped_beams_;

  struct Ahead {  // a sequence of a step that was started before what is in front of it was known
    RequestId request = 0;
    int32_t sample = 0;
    int32_t row = 0;
  };
  std::vector<Ahead> ahead_;  ///< of the next step; empty: none was started

  // Of the step that is under way.
  bool is_planned_ = false, is_started_ = false, has_run_ = false;
  StepOutputs outputs_;
  std::string failure_;  ///< what the model, or the draft, has thrown
  std::vector<GuidedRows> guided_;
  std::vector<uint32_t> guide_masks_;

  std::vector<int32_t> first_tokens_;  ///< of samples that begin
  std::vector<TokenLogprob> first_logprobs_;
  std::vector<Event> events_;
  std::vector<Extent> extents_;
  std::vector<int32_t> event_tokens_;
  std::vector<TokenLogprob> event_logprobs_, event_prompt_logprobs_;
  std::vector<float> event_embeddings_;
  GeneratorStatistics statistics_;
};

}  // namespace camshaft::llm
