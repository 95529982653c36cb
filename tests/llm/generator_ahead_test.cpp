// Steps that are started before what is in front of them is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "llm/random_requests.h"
#include "test_random.h"

namespace camshaft::llm::generator_ahead_test {
namespace {

struct Decoded {
  Texts texts;
  GeneratorStatistics statistics;
  int64_t followed = 0;
};

// What requests look like where nothing but what is likeliest is asked for.
std::vector<Request> greedy_requests(Random& random, size_t count) {
  std::vector<Request> requests = random_requests(random, count, false);
  for (Request& request : requests) {
    SamplingParams plain = greedy_params(*request.params.max_tokens);
    plain.ignore_eos = request.params.ignore_eos;
    plain.stop_token_ids = request.params.stop_token_ids;
    request.params = plain;
  }
  return requests;
}

// Requests come, and some are aborted, between steps: when is said by the tokens that their texts have, so that it is
// the same whatever steps there are.
Decoded decode(const std::vector<Request>& requests, const GeneratorConfig& config, bool ahead, uint64_t seed,
               bool aborts = true) {
  FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, random_vocabulary);
  model.logits = repeating_logits;
  model.gives_likeliest = true;
  model.is_started_ahead = ahead;
  Generator generator(model, config);
  Random random(seed);
  Decoded run;
  const auto step = [&] {
    collect(generator.step(), run.texts);
    for (const auto& [id, text] : run.texts)
      if (aborts && id.first % 5 == 0 && text.finish == FinishReason::none && text.tokens.size() >= id.first % 23)
        generator.abort(id.first);
  };
  for (const Request& request : requests) {
    generator.add(request);
    while (random.uniform() < 0.6 && generator.has_work()) step();
  }
  for (int i = 0; i < 100'000 && generator.has_work(); ++i) step();
  EXPECT_FALSE(generator.has_work());
  run.statistics = generator.statistics();
  run.followed = model.followed;
  EXPECT_EQ(run.statistics.free_blocks, run.statistics.blocks);
  if (config.max_step_shapes > 0) {
    EXPECT_LE(model.shapes.size(), 16U);
  }
  return run;
}

void expect_same(const Decoded& expected, const Decoded& actual, const char* what) {
  ASSERT_EQ(expected.texts.size(), actual.texts.size()) << what;
  for (const auto& [id, text] : expected.texts)
    EXPECT_EQ(text, actual.texts.at(id)) << what << ", request " << id.first;
}

TEST(GeneratorAhead, TextsAreThoseOfStepsThatWait) {
  Random random(test_seed());
  const std::vector<Request> requests = greedy_requests(random, 120);
  const GeneratorConfig config = small_config();
  const Decoded expected = decode(requests, config, false, 1);
  EXPECT_EQ(expected.followed, 0);
  const Decoded plain = decode(requests, config, true, random.next());
  expect_same(expected, plain, "as it is");
  EXPECT_GT(3 * plain.followed, plain.statistics.steps) << "few steps were started ahead";

  GeneratorConfig other = small_config(41);
  const Decoded preempted = decode(requests, other, true, random.next());
  expect_same(expected, preempted, "preemption");
  EXPECT_GT(preempted.statistics.preemptions, 0);
  other.scheduler.num_host_blocks = 200;
  const Decoded offloaded = decode(requests, other, true, random.next());
  expect_same(expected, offloaded, "blocks of the host");
  EXPECT_GT(offloaded.statistics.offloaded, 0);
  other = small_config(300, 3);
  other.scheduler.enable_prefix_caching = false;
  other.scheduler.max_num_batched_tokens = 11;
  other.max_step_shapes = 0;
  expect_same(expected, decode(requests, other, true, random.next()), "chunks, other blocks, no padding");
  other = small_config();
  other.scheduler.max_num_seqs = 1;
  other.scheduler.max_num_batched_tokens = 200;
  const Decoded alone = decode(requests, other, true, random.next());
  expect_same(expected, alone, "one at a time");
  EXPECT_GT(2 * alone.followed, alone.statistics.steps);
}

TEST(GeneratorAhead, RequestsOfOtherKindsRunBetween) {
  Random random(test_seed());
  std::vector<Request> requests = greedy_requests(random, 60);
  for (const Request& sampled : random_requests(random, 20, true))
    requests.insert(requests.begin() + random.integer(0, 40), sampled);
  const Decoded expected = decode(requests, small_config(), false, 1, false);
  expect_same(expected, decode(requests, small_config(), true, random.next(), false), "sampled ones among them");
}

struct Served {
  Served() : model(512, 4, random_vocabulary), generator(model, small_config()) {
    model.logits = [](std::span<const int32_t> visible, std::span<float> row) {  // counts up
      std::ranges::fill(row, 0.f);
      row[static_cast<size_t>(visible.back() + 1) % row.size()] = 5;
    };
    model.gives_likeliest = model.is_started_ahead = true;
  }
  FakeModel model;
  Generator generator;
};

std::vector<int32_t> counted(int32_t from, int32_t to) {
  std::vector<int32_t> tokens(static_cast<size_t>(to - from));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

TEST(GeneratorAhead, EventsComeAsEarly) {
  Served setup;
  const RequestId id = setup.generator.add(request_of({5}, greedy_params(8)));
  for (int32_t expected = 6; expected < 14; ++expected) {
    const std::span<const Event> events = setup.generator.step();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].request, id);
    EXPECT_EQ(std::vector<int32_t>(events[0].tokens.begin(), events[0].tokens.end()), std::vector<int32_t>{expected});
  }
  EXPECT_FALSE(setup.generator.has_work());
  EXPECT_EQ(setup.model.runs, 8) << "nothing is computed behind the last token that max_tokens allows";
  EXPECT_EQ(setup.model.followed, 7) << "all but the first one";
}

TEST(GeneratorAhead, TextsThatAreGuessedAreNotStartedAhead) {
  Random random(test_seed());
  const std::vector<Request> requests = greedy_requests(random, 60);
  GeneratorConfig config = small_config();
  config.scheduler.num_speculative_tokens = 4;
  const Decoded expected = decode(requests, config, false, 1), actual = decode(requests, config, true, 1);
  expect_same(expected, actual, "guesses");
  EXPECT_EQ(actual.followed, 0);
  EXPECT_EQ(actual.statistics.accepted, expected.statistics.accepted);
}

TEST(GeneratorAhead, AnotherGeneratorBeginsWithItsOwnStep) {
  FakeModel model(512, 4, random_vocabulary);
  model.gives_likeliest = model.is_started_ahead = true;
  for (int i = 0; i < 2; ++i) {
    Generator generator(model, small_config());
    generator.add(request_of({5}, greedy_params(20)));
    for (int step = 0; step < 4; ++step) generator.step();
  }
  EXPECT_EQ(model.finished, model.runs);
}

TEST(GeneratorAhead, AMaskThatComesMeanwhileHolds) {
  Served setup;
  const RequestId masked = setup.generator.add(request_of({5}, greedy_params(9)));
  const RequestId other = setup.generator.add(request_of({30}, greedy_params(9)));
  Texts texts;
  for (int i = 0; i < 4; ++i) collect(setup.generator.step(), texts);
  EXPECT_GT(setup.model.followed, 0);
  std::vector<uint32_t> mask(setup.generator.mask_words(), 0);
  mask[0] = uint32_t{1} << 20;
  setup.generator.set_allowed_tokens(masked, 0, mask);
  collect(setup.generator.step(), texts);
  setup.generator.set_allowed_tokens(masked, 0, {});
  while (setup.generator.has_work()) collect(setup.generator.step(), texts);
  EXPECT_EQ(texts.at({masked, 0}).tokens, std::vector<int32_t>({6, 7, 8, 9, 20, 21, 22, 23, 24}));
  EXPECT_EQ(texts.at({other, 0}).tokens, counted(31, 40));
}

TEST(GeneratorAhead, AFailureEndsTheRequestsOfTheStepAndOthersGoOn) {
  for (const bool at_its_end : {false, true}) {
    Served setup;
    (at_its_end ? setup.model.throw_at_finish : setup.model.throw_at) = 4;
    const RequestId failing = setup.generator.add(request_of({5}, greedy_params(20)));
    Texts texts;
    for (int i = 0; i < 8; ++i) collect(setup.generator.step(), texts);
    EXPECT_EQ(texts.at({failing, 0}).finish, at_its_end ? FinishReason::error : FinishReason::none)
        << "a step that could not be started ahead is planned again";
    const RequestId later = setup.generator.add(request_of({30}, greedy_params(5)));
    const Texts rest = finish_all(setup.generator);
    EXPECT_EQ(rest.at({later, 0}).tokens, counted(31, 36));
    EXPECT_EQ(setup.generator.statistics().free_blocks, setup.generator.statistics().blocks);
  }
}

TEST(GeneratorAhead, AStepThatWasNotRunFailsItsRequests) {
  Served setup;
  const RequestId failing = setup.generator.add(request_of({5}, greedy_params(20)));
  Texts texts;
  for (int i = 0; i < 4; ++i) collect(setup.generator.step(), texts);
  setup.generator.plan_step();
  collect(setup.generator.finish_step(), texts);
  EXPECT_NE(texts.at({failing, 0}).error.find("was not run"), std::string::npos);
  const RequestId later = setup.generator.add(request_of({30}, greedy_params(5)));
  EXPECT_EQ(finish_all(setup.generator).at({later, 0}).tokens, counted(31, 36));
}

}  // namespace
}  // namespace camshaft::llm::generator_ahead_test
