// The text of a request is the same whatever runs beside it, and however it is computed.
#include <gtest/gtest.h>

#include "llm/random_requests.h"
#include "test_random.h"

namespace camshaft::llm::generator_equality_test {
namespace {

struct Run {
  Texts texts;
  GeneratorStatistics statistics;
};

// The model's, but in two of seven places.
void drafted_logits(std::span<const int32_t> visible, std::span<float> row) {
  repeating_logits(visible, row);
  if (visible.size() % 7 < 2) row[visible.size() % row.size()] += 20;
}

// With a draft where the configuration has blocks for one.
Run decode(const std::vector<Request>& requests, const GeneratorConfig& config, uint64_t arrival_seed = 0) {
  FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, random_vocabulary);
  model.logits = repeating_logits;
  model.gives_likeliest = arrival_seed % 2 == 0;
  const bool has_draft = config.draft.num_blocks > 0;
  FakeModel draft(std::max(config.draft.num_blocks, 1), config.draft.block_size, random_vocabulary);
  draft.logits = drafted_logits;
  draft.gives_likeliest = arrival_seed % 4 < 2;
  Generator generator(model, config, has_draft ? &draft : nullptr);
  Random random(arrival_seed);
  Run run;
  // They come while others are decoded; numbers of requests are those of their order.
  for (const Request& request : requests) {
    generator.add(request);
    while (random.uniform() < 0.4 && generator.has_work()) collect(generator.step(), run.texts);
  }
  for (const auto& [id, text] : finish_all(generator)) {
    Text& known = run.texts[id];
    known.tokens.insert(known.tokens.end(), text.tokens.begin(), text.tokens.end());
    known.logprobs.insert(known.logprobs.end(), text.logprobs.begin(), text.logprobs.end());
    known.prompt_logprobs.insert(known.prompt_logprobs.end(), text.prompt_logprobs.begin(), text.prompt_logprobs.end());
    known.finish = text.finish;
    known.stop_token = text.stop_token;
    known.error = text.error;
  }
  run.statistics = generator.statistics();
  EXPECT_EQ(run.statistics.free_blocks, run.statistics.blocks);
  EXPECT_EQ(run.statistics.draft_free_blocks, run.statistics.draft_blocks);
  EXPECT_LE(model.shapes.size(), 16U);
  EXPECT_LE(draft.shapes.size(), 16U);
  EXPECT_EQ(draft.runs, run.statistics.draft_steps);
  return run;
}

void expect_same(const Run& expected, const Run& actual, const std::string& what) {
  ASSERT_EQ(expected.texts.size(), actual.texts.size()) << what;
  size_t different = 0;
  for (const auto& [id, text] : expected.texts) {
    const auto found = actual.texts.find(id);
    ASSERT_NE(found, actual.texts.end()) << what;
    if (!(found->second == text) && different++ == 0)
      ADD_FAILURE() << what << ": request " << id.first << " sample " << id.second << " has "
                    << found->second.tokens.size() << " tokens for " << text.tokens.size() << ", "
                    << found->second.logprobs.size() << " logprobs for " << text.logprobs.size() << ", "
                    << found->second.prompt_logprobs.size() << " of the prompt for " << text.prompt_logprobs.size();
  }
  EXPECT_EQ(different, 0U) << what;
}

void expect_equal_with_draft(const std::vector<Request>& requests, const Run& expected, Random& random) {
  GeneratorConfig config = small_config();
  config.scheduler.num_speculative_tokens = 3;
  config.draft = {512, 4, 0};
  const Run guessed = decode(requests, config, random.next());
  expect_same(expected, guessed, "a draft model");
  // A draft knows no adapters: what these change it guesses wrong.
  EXPECT_GT(11 * guessed.statistics.accepted, guessed.statistics.drafted);
  EXPECT_LT(guessed.statistics.accepted, guessed.statistics.drafted);
  config.draft = {300, 3, 0};
  config.scheduler.enable_prefix_caching = false;
  config.scheduler.max_num_batched_tokens = 11;
  expect_same(expected, decode(requests, config, random.next()), "a draft model, chunks, other blocks, nothing cached");
  config = small_config(41);
  config.scheduler.num_speculative_tokens = 5;
  config.draft = {41, 4, 0};
  const Run preempted = decode(requests, config, random.next());
  expect_same(expected, preempted, "a draft model, preemption");
  EXPECT_GT(preempted.statistics.preemptions, 0);
  EXPECT_GT(preempted.statistics.accepted, 0);
  config.draft = {15, 8, 50};
  config.scheduler.max_num_batched_tokens = 23;
  const Run everything = decode(requests, config, random.next());
  expect_same(expected, everything, "a short draft model with few blocks, preemption");
  EXPECT_GT(everything.statistics.accepted, 0);
}

void expect_equal_texts(bool sampled, size_t count) {
  Random random = test_random();
  const std::vector<Request> requests = random_requests(random, count, sampled);

  GeneratorConfig alone = small_config();  // one by one, each prompt at once, nothing kept
  alone.scheduler.max_num_seqs = sampled ? 4 : 1;
  alone.scheduler.max_num_batched_tokens = 512;
  alone.scheduler.prompt_logprob_rows = 512;
  alone.scheduler.enable_prefix_caching = false;
  alone.max_step_shapes = 0;
  FakeModel model(512, 4, random_vocabulary);
  model.logits = repeating_logits;
  Generator one(model, alone);
  Run expected;
  for (const Request& request : requests) {
    one.add(request);
    expected.texts.merge(finish_all(one));
  }
  size_t tokens = 0;
  for (const auto& [id, text] : expected.texts) tokens += text.tokens.size();
  EXPECT_GT(tokens, 10 * count);

  GeneratorConfig config = small_config();
  config.scheduler.enable_prefix_caching = false;
  config.scheduler.max_num_batched_tokens = 512;
  expect_same(expected, decode(requests, config, random.next()), "a batch");
  config.scheduler.max_num_batched_tokens = 11;
  expect_same(expected, decode(requests, config, random.next()), "chunks");
  config.scheduler.enable_prefix_caching = true;
  const Run cached = decode(requests, config, random.next());
  expect_same(expected, cached, "a prefix cache");
  EXPECT_GT(cached.statistics.prefix_hit, 0);
  config.scheduler.num_blocks = 41;  // a longest sequence takes 40
  config.scheduler.max_num_batched_tokens = 64;
  const Run short_of_blocks = decode(requests, config, random.next());
  expect_same(expected, short_of_blocks, "preemption");
  EXPECT_GT(short_of_blocks.statistics.preemptions, 0);
  EXPECT_GT(short_of_blocks.statistics.evictions, 0);
  for (const int32_t host_blocks : {300, 7}) {
    config.scheduler.num_host_blocks = host_blocks;
    const Run offloaded = decode(requests, config, random.next());
    expect_same(expected, offloaded, "preemption with blocks in the host's memory");
    EXPECT_GT(offloaded.statistics.preemptions, 0);
    EXPECT_GT(offloaded.statistics.restored, 0);
  }
  config = small_config();
  config.scheduler.num_speculative_tokens = 5;
  config.prompt_lookup_min = 1;
  const Run guessed = decode(requests, config, random.next());
  expect_same(expected, guessed, "speculation");
  EXPECT_GT(guessed.statistics.accepted, 0);
  EXPECT_LT(guessed.statistics.accepted, guessed.statistics.drafted);
  config.scheduler.num_blocks = 41;
  config.scheduler.num_host_blocks = 60;
  config.scheduler.max_num_batched_tokens = 23;
  const Run everything = decode(requests, config, random.next());
  expect_same(expected, everything, "all at once");
  EXPECT_GT(everything.statistics.restored, 0);
  EXPECT_GT(everything.statistics.preemptions, 0);
  expect_equal_with_draft(requests, expected, random);
}

TEST(GeneratorEquality, GreedyTextsAreTheSameBatchedChunkedCachedPreemptedAndSpeculated) {
  expect_equal_texts(false, 1000);
}

// A vocabulary that is worth it.
TEST(GeneratorEquality, TextsAreTheSameOnAnyNumberOfThreads) {
  Random random = test_random();
  std::vector<Request> requests = random_requests(random, 12, true);
  Texts expected;
  for (const int32_t threads : {1, 4}) {
    GeneratorConfig config = small_config();
    config.sampling_threads = threads;
    FakeModel model(512, 4, 80'000);
    Generator generator(model, config);
    for (Request& request : requests) {
      request.params.max_tokens = 6;
      request.params.min_tokens = 0;
      generator.add(request);
    }
    const Texts texts = finish_all(generator);
    if (threads == 1) expected = texts;
    EXPECT_TRUE(texts == expected);
  }
}

TEST(GeneratorEquality, SampledTextsAreTheSameForTheSameSeeds) {
  expect_equal_texts(true, 300);
}

}  // namespace
}  // namespace camshaft::llm::generator_equality_test
