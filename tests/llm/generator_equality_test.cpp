// The text of a request is the same whatever runs beside it, and however it is computed.
#include <gtest/gtest.h>

#include "llm/decode_requests.h"
#include "test_random.h"

namespace camshaft::llm::generator_equality_test {
namespace {

constexpr int32_t vocabulary = 61;

// Prompts with common beginnings and repeated parts, and of all lengths; texts that end early, or are cut.
std::vector<Request> random_requests(Random& random, size_t count, bool sampled) {
  std::vector<std::vector<int32_t>> beginnings;
  for (int i = 0; i < 6; ++i) {
    std::vector<int32_t>& beginning = beginnings.emplace_back();
    for (int64_t n = random.integer(0, 40); n > 0; --n)
      beginning.push_back(static_cast<int32_t>(random.integer(1, vocabulary - 1)));
  }
  std::vector<Request> requests;
  for (size_t i = 0; i < count; ++i) {
    Request& request = requests.emplace_back();
    request.prompt = beginnings[static_cast<size_t>(random.integer(0, 5))];
    for (int64_t n = random.integer(1, 30); n > 0; --n)
      request.prompt.push_back(static_cast<int32_t>(random.integer(1, random.integer(2, vocabulary - 1))));
    request.priority = static_cast<int32_t>(random.integer(0, 2));
    SamplingParams& params = request.params;
    params.max_tokens = static_cast<int32_t>(random.integer(1, 50));
    params.temperature = 0;
    if (random.uniform() < 0.2) params.min_tokens = static_cast<int32_t>(random.integer(0, *params.max_tokens));
    if (random.uniform() < 0.2) params.ignore_eos = true;
    if (random.uniform() < 0.2) params.stop_token_ids = {static_cast<int32_t>(random.integer(1, vocabulary - 1))};
    if (random.uniform() < 0.2) params.logit_bias = {{static_cast<int32_t>(random.integer(0, vocabulary - 1)), 3.f}};
    if (random.uniform() < 0.2) params.repetition_penalty = 1.3f;
    if (random.uniform() < 0.2) params.presence_penalty = 0.7f;
    if (random.uniform() < 0.2) params.frequency_penalty = 0.4f;
    if (random.uniform() < 0.2) params.logprobs = static_cast<int32_t>(random.integer(0, 5));
    if (random.uniform() < 0.1) params.prompt_logprobs = static_cast<int32_t>(random.integer(0, 3));
    if (!sampled || random.uniform() < 0.3) continue;
    params.temperature = static_cast<float>(random.uniform(0.2, 2));
    params.seed = random.next();
    params.n = static_cast<int32_t>(random.integer(1, 4));
    if (random.uniform() < 0.5) params.top_k = static_cast<int32_t>(random.integer(1, vocabulary));
    if (random.uniform() < 0.5) params.top_p = static_cast<float>(random.uniform(0.3, 1));
    if (random.uniform() < 0.3) params.min_p = static_cast<float>(random.uniform(0, 0.5));
  }
  return requests;
}

// Half of the logits repeat what the text had, so that guesses come true.
void repeating_logits(std::span<const int32_t> visible, std::span<float> row) {
  FakeModel::random_logits(visible, row);
  const int32_t last = visible.back();
  for (size_t i = visible.size() - 1; i-- > 0;) {
    if (visible[i] != last) continue;
    if ((visible.size() * 7 + static_cast<size_t>(last)) % 4 != 0) row[static_cast<size_t>(visible[i + 1])] += 8;
    break;
  }
}

struct Run {
  Texts texts;
  GeneratorStatistics statistics;
};

Run decode(const std::vector<Request>& requests, const GeneratorConfig& config, uint64_t arrival_seed = 0,
           bool copies_blocks = true) {
  FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, vocabulary);
  model.logits = repeating_logits;
  model.copies_blocks = copies_blocks;
  model.gives_likeliest = arrival_seed % 2 == 0;
  Generator generator(model, config);
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
  EXPECT_LE(model.shapes.size(), 16U);
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

void expect_equal_texts(bool sampled, size_t count) {
  Random random = test_random();
  const std::vector<Request> requests = random_requests(random, count, sampled);

  GeneratorConfig alone = small_config();  // one by one, each prompt at once, nothing kept
  alone.scheduler.max_num_seqs = sampled ? 4 : 1;
  alone.scheduler.max_num_batched_tokens = 512;
  alone.scheduler.prompt_logprob_rows = 512;
  alone.scheduler.enable_prefix_caching = false;
  alone.max_step_shapes = 0;
  FakeModel model(512, 4, vocabulary);
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
  config = small_config();
  config.scheduler.num_speculative_tokens = 5;
  config.prompt_lookup_min = 1;
  const Run guessed = decode(requests, config, random.next());
  expect_same(expected, guessed, "speculation");
  EXPECT_GT(guessed.statistics.accepted, 0);
  EXPECT_LT(guessed.statistics.accepted, guessed.statistics.drafted);
  config.scheduler.num_blocks = 41;
  config.scheduler.max_num_batched_tokens = 23;
  const Run everything = decode(requests, config, random.next());
  expect_same(expected, everything, "all at once");
  EXPECT_GT(everything.statistics.preemptions, 0);
  expect_same(expected, decode(requests, config, random.next(), false), "without copies of blocks");
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
