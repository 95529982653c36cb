// Guesses of a draft model: what it proposes, what it costs, and where it has none.
#include "llm/draft_proposer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "camshaft/error.hpp"
#include "llm/random_requests.h"
#include "test_random.h"

namespace camshaft::llm::draft_proposer_test {
namespace {

constexpr int32_t guesses = 4;

GeneratorConfig drafted_config() {
  GeneratorConfig config = small_config();
  config.scheduler.num_speculative_tokens = guesses;
  config.draft = {512, 4, 0};
  return config;
}

// The model's in most places, so that guesses come true and do not.
void close_logits(std::span<const int32_t> visible, std::span<float> row) {
  repeating_logits(visible, row);
  if (visible.size() * 5 % 8 < 2) row[visible.size() % row.size()] += 20;
}

struct Served {
  explicit Served(const GeneratorConfig& config = drafted_config(), FakeModel::Logits of_draft = close_logits)
      : model(config.scheduler.num_blocks, config.scheduler.block_size, random_vocabulary),
        draft(config.draft.num_blocks, config.draft.block_size, random_vocabulary),
        generator(model, config, &draft) {
    model.logits = repeating_logits;
    draft.logits = std::move(of_draft);
    draft.looked = [this](const StepInputs& inputs) { draft_tokens += inputs.cumulative.back(); };
  }
  FakeModel model, draft;
  Generator generator;
  int64_t draft_tokens = 0;
};

std::vector<int32_t> long_prompt(size_t length) {
  std::vector<int32_t> prompt(length);
  for (size_t i = 0; i < length; ++i) prompt[i] = static_cast<int32_t>(i * i % 59 + 1);
  return prompt;
}

int32_t likeliest_by(const FakeModel::Logits& logits, std::span<const int32_t> visible) {
  std::vector<float> row(random_vocabulary);
  logits(visible, row);
  return static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
}

struct Counts {
  int64_t drafted = 0, accepted = 0;
};

// What guesses of a draft that sees the whole text give, when the text is known.
Counts counts_of(const Request& request, const Text& text, int32_t longest) {
  Counts counts;
  std::vector<int32_t> all = request.prompt;
  all.insert(all.end(), text.tokens.begin(), text.tokens.end());
  const auto prompt = static_cast<int32_t>(request.prompt.size()), end = static_cast<int32_t>(all.size());
  longest = std::min(longest, prompt + *request.params.max_tokens);
  for (int32_t length = prompt + 1; length < end;) {
    std::vector<int32_t> seen(all.begin(), all.begin() + length);
    const int32_t most = std::min(guesses, longest - length - 1);
    int32_t accepted = 0;
    bool is_true = true;
    for (int32_t i = 0; i < most; ++i) {
      seen.push_back(likeliest_by(close_logits, seen));
      is_true = is_true && length + i < end && seen.back() == all[static_cast<size_t>(length + i)];
      accepted += is_true;
    }
    counts.drafted += std::max(most, 0);
    counts.accepted += accepted;
    length += accepted + 1;
  }
  return counts;
}

// Of requests that all have room: the guesses are those of a draft that computes each text anew, whatever it keeps.
TEST(DraftProposer, GuessesAreWhatTheDraftSaysOfTheWholeText) {
  Random random = test_random();
  for (const int32_t block_size : {1, 3, 4, 16}) {
    for (const bool caches : {false, true}) {
      GeneratorConfig config = drafted_config();
      config.scheduler.enable_prefix_caching = caches;
      config.scheduler.max_num_batched_tokens = 2048;
      config.draft = {4096 / block_size, block_size, 0};
      std::vector<Request> requests = random_requests(random, 150, random.uniform() < 0.5);
      for (Request& request : requests) {
        request.params.n = 1;
        request.priority = 0;
      }
      Served served(config);
      for (const Request& request : requests) served.generator.add(request);
      const Texts texts = finish_all(served.generator);
      Counts expected;
      for (size_t i = 0; i < requests.size(); ++i) {
        const Counts of_one = counts_of(requests[i], texts.at({i + 1, 0}), config.scheduler.max_model_len);
        expected.drafted += of_one.drafted;
        expected.accepted += of_one.accepted;
      }
      EXPECT_GT(expected.accepted, 500);
      EXPECT_LT(expected.accepted, expected.drafted);
      EXPECT_EQ(served.generator.statistics().drafted, expected.drafted) << block_size << caches;
      EXPECT_EQ(served.generator.statistics().accepted, expected.accepted) << block_size << caches;
      EXPECT_EQ(served.generator.statistics().draft_free_blocks, config.draft.num_blocks);
    }
  }
}

TEST(DraftProposer, TheModelItselfGuessesRight) {
  for (const bool gives_likeliest : {false, true}) {
    Served served(drafted_config(), repeating_logits);
    served.draft.gives_likeliest = gives_likeliest;
    Request request = request_of({5, 9, 2, 7, 7}, greedy_params(1 + 8 * (guesses + 1)));
    request.params.ignore_eos = true;
    const RequestId id = served.generator.add(request);
    EXPECT_EQ(finish_all(served.generator).at({id, 0}).tokens.size(), 1U + 8 * (guesses + 1));
    const GeneratorStatistics found = served.generator.statistics();
    EXPECT_EQ(found.steps, 1 + 8) << "the prompt's, then all guesses and one more";
    EXPECT_EQ(found.accepted, 8 * guesses);
    EXPECT_EQ(found.drafted, found.accepted);
    EXPECT_EQ(found.draft_steps, 8 * guesses);
    EXPECT_EQ(served.draft_tokens, 5 + 8 * (guesses + 1) - 1) << "each token is read once, but the last guess";
  }
}

TEST(DraftProposer, WhatWasRejectedAloneIsReadAgain) {
  Served served;
  Request request = request_of(long_prompt(100), greedy_params(50));
  request.params.ignore_eos = true;
  for (int i = 0; i < 4; ++i) served.generator.add(request);
  finish_all(served.generator);
  const GeneratorStatistics found = served.generator.statistics();
  EXPECT_GT(found.drafted, found.accepted);
  EXPECT_LT(served.draft_tokens, 4 * 100 + found.generated + found.drafted);
}

TEST(DraftProposer, SamplesOfARequestReadItsPromptOnce) {
  Request request = request_of(long_prompt(101), greedy_params(12));
  request.params.temperature = 1.5f;
  request.params.n = 6;
  request.params.seed = 3;
  request.params.ignore_eos = true;
  Served served;
  served.generator.add(request);
  finish_all(served.generator);
  const GeneratorStatistics found = served.generator.statistics();
  EXPECT_GT(found.drafted, 6 * guesses);
  EXPECT_LT(served.draft_tokens, 2 * 101 + found.generated + found.drafted) << "6 times 101 otherwise";
}

TEST(DraftProposer, LongPromptsAreReadInPartsBesideThoseThatDecode) {
  for (const int32_t priority : {0, -1}) {
    GeneratorConfig config = drafted_config();
    config.scheduler.max_num_batched_tokens = 24;
    config.scheduler.max_num_seqs = 4;
    Served served(config, repeating_logits);
    served.draft.looked = [&](const StepInputs& inputs) { EXPECT_LE(inputs.cumulative.back(), 24); };
    Request first = request_of({5, 9, 2}, greedy_params(60));
    first.params.ignore_eos = true;
    const RequestId one = served.generator.add(first);
    for (int i = 0; i < 3; ++i) served.generator.step();
    Request second = request_of(long_prompt(130), greedy_params(12));
    second.params.ignore_eos = true;
    second.priority = priority;
    const RequestId two = served.generator.add(second);
    Texts texts;
    int64_t steps = 0;
    for (; texts[{two, 0}].tokens.empty(); ++steps) {
      const int64_t before = served.generator.statistics().accepted;
      collect(served.generator.step(), texts);
      EXPECT_EQ(served.generator.statistics().accepted - before, guesses) << "the first goes on";
    }
    EXPECT_GE(steps, 130 / (24 - 1 - guesses));
    while (served.generator.has_work()) collect(served.generator.step(), texts);
    EXPECT_EQ(texts.at({two, 0}).tokens.size(), 12U);
    EXPECT_EQ(texts.at({one, 0}).finish, FinishReason::length);
  }
}

// Of 8 that decode the first has all its guesses, where there are 12 tokens in a step.
TEST(DraftProposer, NothingIsGuessedThatAStepHasNoRoomFor) {
  for (const int32_t tokens : {8, 8 + guesses}) {
    GeneratorConfig config = drafted_config();
    config.scheduler.max_num_batched_tokens = tokens;
    Served served(config, repeating_logits);
    Request request = request_of({5}, greedy_params(120));
    request.params.ignore_eos = true;
    for (int i = 0; i < 8; ++i) served.generator.add(request);
    for (int i = 0; i < 4; ++i) served.generator.step();
    const int64_t before = served.draft_tokens, drafted_before = served.generator.statistics().drafted;
    for (int i = 0; i < 15; ++i) served.generator.step();
    EXPECT_EQ(served.generator.statistics().running, 8);
    const int64_t drafted = served.generator.statistics().drafted - drafted_before;
    EXPECT_EQ(drafted, tokens == 8 ? 0 : 15 * guesses);
    EXPECT_LE(served.draft_tokens - before, drafted + 16) << "a token more each step, of one sequence";
    for (RequestId id = 2; id <= 7; ++id) served.generator.abort(id);
    for (int i = 0; i < 4; ++i) served.generator.step();
    EXPECT_GT(served.generator.statistics().drafted, drafted_before + drafted);
  }
}

TEST(DraftProposer, WhoeverIsPreemptedGivesItsBlocksBack) {
  GeneratorConfig config = drafted_config();
  config.scheduler.num_blocks = 41;
  config.scheduler.enable_prefix_caching = false;
  Served served(config);
  Request request = request_of({5, 9, 2}, greedy_params(150));
  request.params.ignore_eos = true;
  for (int i = 0; i < 2; ++i) served.generator.add(request);
  Texts texts;
  int64_t alone = 0;
  while (served.generator.has_work()) {
    collect(served.generator.step(), texts);
    const GeneratorStatistics found = served.generator.statistics();
    if (found.running != 1 || found.waiting != 1) continue;
    ++alone;
    const auto length = static_cast<int64_t>(3 + texts[{1, 0}].tokens.size());
    EXPECT_LE(found.draft_blocks - found.draft_free_blocks, (length + guesses + 3) / 4);
  }
  EXPECT_GT(alone, 5);
}

TEST(DraftProposer, RequestsOfDifferentSaltsShareNothing) {
  for (const uint64_t salt : {0, 1}) {
    Served served;
    Request request = request_of(long_prompt(101), greedy_params(8));
    request.params.ignore_eos = true;
    served.generator.add(request);
    finish_all(served.generator);
    const int64_t before = served.draft_tokens;
    EXPECT_GE(before, 101);
    request.salt = salt;
    served.generator.add(request);
    finish_all(served.generator);
    EXPECT_EQ(served.draft_tokens - before >= 101, salt == 1) << served.draft_tokens - before;
  }
}

TEST(DraftProposer, WithoutBlocksThereAreNoGuessesAndTheTextIsTheSame) {
  Random random = test_random();
  const std::vector<Request> requests = random_requests(random, 100, true);
  Texts expected;
  int64_t last = 0;
  for (const int32_t blocks : {512, 40, 12, 1}) {
    GeneratorConfig config = drafted_config();
    config.draft.num_blocks = blocks;
    Served served(config);
    for (const Request& request : requests) served.generator.add(request);
    Texts texts = finish_all(served.generator);
    if (expected.empty()) expected = texts;
    EXPECT_TRUE(texts == expected) << blocks;
    const GeneratorStatistics found = served.generator.statistics();
    EXPECT_TRUE(last == 0 || found.drafted < last) << blocks;
    EXPECT_EQ(found.drafted > 0, blocks > 1) << blocks;
    EXPECT_LE(served.draft_tokens, 3 * found.drafted) << "nobody begins again and again";
    EXPECT_EQ(found.draft_free_blocks, blocks);
    last = found.drafted;
  }
}

TEST(DraftProposer, TextsThatEndEarlyAreTheSameAndGiveTheirBlocksBack) {
  Random random = test_random();
  std::vector<Request> requests = random_requests(random, 200, true);
  Texts expected;
  for (const bool aborts : {false, true}) {
    Served served;
    std::map<RequestId, int64_t> ends;  // the step at which it is aborted
    for (const Request& request : requests) {
      const RequestId id = served.generator.add(request);
      if (aborts && random.uniform() < 0.4) ends[id] = random.integer(0, 150);
    }
    Texts texts;
    for (int64_t step = 0; served.generator.has_work(); ++step) {
      for (const auto& [id, at] : ends)
        if (at == step) served.generator.abort(id, random.uniform() < 0.5 ? -1 : 0);
      collect(served.generator.step(), texts);
    }
    const GeneratorStatistics found = served.generator.statistics();
    EXPECT_EQ(found.draft_free_blocks, found.draft_blocks);
    EXPECT_EQ(found.free_blocks, found.blocks);
    if (!aborts) {
      expected = texts;
      continue;
    }
    size_t cut = 0;
    for (const auto& [id, text] : texts) {
      const Text& whole = expected.at(id);
      if (text.finish != FinishReason::abort) {
        EXPECT_TRUE(text == whole) << id.first;
        continue;
      }
      ++cut;
      ASSERT_LE(text.tokens.size(), whole.tokens.size());
      EXPECT_TRUE(std::equal(text.tokens.begin(), text.tokens.end(), whole.tokens.begin())) << id.first;
    }
    EXPECT_GT(cut, 10U);
  }
}

TEST(DraftProposer, AMaskForTheNextTokenAloneEndsTheGuesses) {
  Served served(drafted_config(), repeating_logits);
  Request request = request_of({5, 9, 2}, greedy_params(40));
  request.params.ignore_eos = true;
  const RequestId id = served.generator.add(request);
  for (int i = 0; i < 3; ++i) served.generator.step();
  EXPECT_LT(served.generator.statistics().draft_free_blocks, 512);
  const int64_t drafted = served.generator.statistics().drafted;
  EXPECT_GT(drafted, 0);
  // An empty one too: the one behind it may exclude something again.
  const std::vector<uint32_t> all(2, ~uint32_t{0}), none;
  for (int i = 0; i < 6; ++i) {
    served.generator.set_allowed_tokens(id, 0, i % 2 == 0 ? all : none);
    served.generator.step();
  }
  finish_all(served.generator);
  EXPECT_EQ(served.generator.statistics().drafted, drafted);
  EXPECT_EQ(served.generator.statistics().draft_free_blocks, 512);
}

TEST(DraftProposer, LogitsThatAreNotFiniteAreNoGuesses) {
  for (const bool gives_likeliest : {false, true}) {
    Served served(drafted_config(), [](std::span<const int32_t> visible, std::span<float> row) {
      repeating_logits(visible, row);
      if (visible.size() % 4 == 0) row[visible.size() % row.size()] = std::nanf("");
      if (visible.size() % 16 == 1) row[3] = std::numeric_limits<float>::infinity();
    });
    served.draft.gives_likeliest = gives_likeliest;
    GeneratorConfig plain = small_config();
    FakeModel model(512, 4, random_vocabulary);
    model.logits = repeating_logits;
    Generator without(model, plain);
    for (int32_t token = 1; token < 20; ++token)
      for (Generator* generator : {&without, &served.generator})
        generator->add(request_of({token, 3, token}, greedy_params(40)));
    EXPECT_TRUE(finish_all(without) == finish_all(served.generator));
    EXPECT_GT(served.generator.statistics().accepted, 0);
  }
}

TEST(DraftProposer, WhatItThrowsEndsTheRequestsOfTheStepAndOthersComeAfterThem) {
  Served served(drafted_config(), repeating_logits);
  Request request = request_of({5, 9, 2}, greedy_params(40));
  request.params.ignore_eos = true;
  const RequestId failing = served.generator.add(request);
  for (int i = 0; i < 2; ++i) served.generator.step();
  served.draft.throw_at = served.draft.runs + 2;  // between two guesses
  const std::span<const Event> events = served.generator.step();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].request, failing);
  EXPECT_EQ(events[0].finish, FinishReason::error);
  EXPECT_EQ(events[0].error, "the draft model has failed: the model is out of order");
  EXPECT_FALSE(served.generator.has_work());
  EXPECT_EQ(served.generator.statistics().draft_free_blocks, 512);
  const RequestId next = served.generator.add(request);
  EXPECT_EQ(finish_all(served.generator).at({next, 0}).tokens.size(), 40U);
}

std::string message_of_making(const GeneratorConfig& config, int32_t vocabulary_of_draft = random_vocabulary) {
  FakeModel model(512, 4, random_vocabulary), draft(512, 4, vocabulary_of_draft);
  try {
    const Generator generator(model, config, &draft);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

TEST(DraftProposer, WhatDoesNotFitTogetherIsRefused) {
  EXPECT_EQ(message_of_making(drafted_config()), "");
  EXPECT_NE(message_of_making(drafted_config(), 60)
                .find("the draft model has a vocabulary of 60 tokens, the model one "
                      "of 61"),
            std::string::npos);
  GeneratorConfig config = drafted_config();
  config.scheduler.num_speculative_tokens = 0;
  EXPECT_NE(message_of_making(config).find("num_speculative_tokens is 0"), std::string::npos);
  config = drafted_config();
  config.draft.num_blocks = 0;
  EXPECT_NE(message_of_making(config).find("a cache of 0 blocks"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::llm::draft_proposer_test
