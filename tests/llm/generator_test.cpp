#include "llm/generator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "camshaft/error.hpp"
#include "llm/decode_requests.h"
#include "test_random.h"

namespace camshaft::llm::generator_test {
namespace {

constexpr int32_t vocabulary = 40;

// Counts up: the next token is the last one and 1.
void counting(std::span<const int32_t> visible, std::span<float> row) {
  std::ranges::fill(row, 0.f);
  row[static_cast<size_t>(visible.back() + 1) % row.size()] = 5;
}

struct Served {
  explicit Served(const GeneratorConfig& config = small_config(), FakeModel::Logits logits = counting,
                  bool has_draft = false)
      : model(config.scheduler.num_blocks, config.scheduler.block_size, vocabulary),
        draft(std::max(config.draft.num_blocks, 1), config.draft.block_size, vocabulary),
        generator(model, config, has_draft ? &draft : nullptr) {
    model.logits = std::move(logits);
  }
  FakeModel model, draft;
  Generator generator;
};

std::string message_of_adding(Generator& generator, Request request) {
  try {
    generator.add(std::move(request));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

TEST(Generator, StreamsATokenAStep) {
  Served setup;
  const RequestId id = setup.generator.add(request_of({5, 6}, greedy_params(3)));
  for (int32_t expected = 7; expected < 10; ++expected) {
    const std::span<const Event> events = setup.generator.step();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].request, id);
    EXPECT_EQ(std::vector<int32_t>(events[0].tokens.begin(), events[0].tokens.end()), std::vector<int32_t>{expected});
    EXPECT_TRUE(events[0].logprobs.empty());
    EXPECT_EQ(events[0].finish, expected == 9 ? FinishReason::length : FinishReason::none);
  }
  EXPECT_FALSE(setup.generator.has_work());
  EXPECT_TRUE(setup.generator.step().empty());
}

TEST(Generator, EndsAtTheEndOfTextAndAtStopTokens) {
  Served setup;
  const RequestId eos = setup.generator.add(request_of({37}, greedy_params(20)));
  Request stop = request_of({10}, greedy_params(20));
  stop.params.stop_token_ids = {13, 12};
  const RequestId stopped = setup.generator.add(stop);
  stop.params.min_tokens = 3;  // 12 and 13 cannot come: something else does
  const RequestId later = setup.generator.add(stop);
  Request on = request_of({37}, greedy_params(5));
  on.params.ignore_eos = true;
  const RequestId ignoring = setup.generator.add(on);
  const Texts texts = finish_all(setup.generator);
  EXPECT_EQ(texts.at({eos, 0}).tokens, std::vector<int32_t>({38, 39, 0}));
  EXPECT_EQ(texts.at({eos, 0}).finish, FinishReason::stop);
  EXPECT_EQ(texts.at({eos, 0}).stop_token, -1);
  EXPECT_EQ(texts.at({stopped, 0}).tokens, std::vector<int32_t>({11, 12}));
  EXPECT_EQ(texts.at({stopped, 0}).stop_token, 12);
  EXPECT_GE(texts.at({later, 0}).tokens.size(), 3U);
  EXPECT_EQ(texts.at({ignoring, 0}).tokens, std::vector<int32_t>({38, 39, 0, 1, 2}));
  EXPECT_EQ(texts.at({ignoring, 0}).finish, FinishReason::length);
}

TEST(Generator, WithoutMaxTokensItEndsWithTheLongestSequence) {
  Served setup;
  Request request = request_of({1}, greedy_params(1));
  request.params.max_tokens.reset();
  request.params.ignore_eos = true;
  const RequestId id = setup.generator.add(request);
  const Texts texts = finish_all(setup.generator);
  EXPECT_EQ(texts.at({id, 0}).tokens.size(), 159U);
  EXPECT_EQ(texts.at({id, 0}).finish, FinishReason::length);
}

TEST(Generator, RequestsThatCannotRunAreRefusedAndOthersGoOn) {
  Served setup;
  Generator& generator = setup.generator;
  const RequestId good = generator.add(request_of({1}, greedy_params(4)));
  EXPECT_NE(message_of_adding(generator, request_of({})).find("empty"), std::string::npos);
  EXPECT_NE(message_of_adding(generator, request_of(std::vector<int32_t>(200, 1))).find("max_model_len is 160"),
            std::string::npos);
  EXPECT_NE(message_of_adding(generator, request_of({1, 40})).find("token 1 of the prompt is 40"), std::string::npos);
  EXPECT_NE(message_of_adding(generator, request_of({-1})).find("tokens 0 to 39"), std::string::npos);
  SamplingParams params;
  params.top_p = 0;
  EXPECT_NE(message_of_adding(generator, request_of({1}, params)).find("top_p is 0"), std::string::npos);
  params = {};
  params.n = 9;
  EXPECT_NE(message_of_adding(generator, request_of({1}, params)).find("max_num_seqs, 8"), std::string::npos);
  EXPECT_EQ(finish_all(generator).at({good, 0}).tokens.size(), 4U);

  GeneratorConfig few = small_config(3);
  Served small(few);
  EXPECT_NE(message_of_adding(small.generator, request_of({1, 2, 3}, greedy_params(20))).find("raise num_blocks"),
            std::string::npos);
}

TEST(Generator, InvalidLogitsEndTheirRequestAlone) {
  for (const auto& [wrong, gives_likeliest] :
       std::vector<std::pair<float, bool>>{{std::nanf(""), false},
                                           {std::nanf(""), true},
                                           {std::numeric_limits<float>::infinity(), false},
                                           {std::numeric_limits<float>::infinity(), true}}) {
    Served setup(small_config(), [wrong = wrong](std::span<const int32_t> visible, std::span<float> row) {
      counting(visible, row);
      if (visible.front() == 20 && visible.size() == 4) row[7] = wrong;
    });
    setup.model.gives_likeliest = gives_likeliest;
    const RequestId bad = setup.generator.add(request_of({20}, greedy_params(10)));
    const RequestId good = setup.generator.add(request_of({5}, greedy_params(10)));
    const Texts texts = finish_all(setup.generator);
    EXPECT_EQ(texts.at({bad, 0}).finish, FinishReason::error);
    EXPECT_NE(texts.at({bad, 0}).error.find("NaN or an infinity"), std::string::npos);
    EXPECT_EQ(texts.at({bad, 0}).tokens, std::vector<int32_t>({21, 22, 23})) << "what came before stays";
    EXPECT_EQ(texts.at({good, 0}).finish, FinishReason::length);
    EXPECT_EQ(texts.at({good, 0}).tokens.size(), 10U);
    EXPECT_EQ(setup.generator.statistics().free_blocks, setup.generator.statistics().blocks);
  }
}

TEST(Generator, InvalidLogitsEndAllSamplesThatHaveNotBegun) {
  Served setup(small_config(), [](std::span<const int32_t>, std::span<float> row) { row[3] = std::nanf(""); });
  Request request = request_of({1, 2});
  request.params.n = 3;
  const RequestId id = setup.generator.add(request);
  const Texts texts = finish_all(setup.generator);
  ASSERT_EQ(texts.size(), 3U);
  for (int32_t sample = 0; sample < 3; ++sample) EXPECT_EQ(texts.at({id, sample}).finish, FinishReason::error);
}

TEST(Generator, AModelThatFailsEndsTheRequestsOfTheStep) {
  Served setup;
  const RequestId first = setup.generator.add(request_of({1}, greedy_params(10)));
  setup.model.throw_at = 2;
  Texts texts = finish_all(setup.generator);
  EXPECT_EQ(texts.at({first, 0}).finish, FinishReason::error);
  EXPECT_EQ(texts.at({first, 0}).error, "the model is out of order");
  const RequestId second = setup.generator.add(request_of({1}, greedy_params(10)));
  EXPECT_EQ(finish_all(setup.generator).at({second, 0}).tokens.size(), 10U);
}

TEST(Generator, AbortedRequestsEndWithAnEvent) {
  Served setup;
  const RequestId first = setup.generator.add(request_of({1}, greedy_params(50)));
  const RequestId second = setup.generator.add(request_of({2}, greedy_params(5)));
  setup.generator.step();
  EXPECT_TRUE(setup.generator.abort(first));
  EXPECT_FALSE(setup.generator.abort(first));
  EXPECT_FALSE(setup.generator.abort(99));
  const Texts texts = finish_all(setup.generator);
  EXPECT_EQ(texts.at({first, 0}).finish, FinishReason::abort);
  EXPECT_EQ(texts.at({second, 0}).finish, FinishReason::length);
  const RequestId waiting = setup.generator.add(request_of({1}, greedy_params(50)));
  EXPECT_TRUE(setup.generator.abort(waiting));
  EXPECT_EQ(finish_all(setup.generator).at({waiting, 0}).finish, FinishReason::abort);
  EXPECT_EQ(setup.generator.statistics().free_blocks, setup.generator.statistics().blocks);
}

TEST(Generator, OneSampleCanBeAborted) {
  Served setup(small_config(), nullptr);
  Request request = request_of({1, 2, 3});
  request.params.n = 3;
  request.params.max_tokens = 6;
  request.params.ignore_eos = true;
  const RequestId id = setup.generator.add(request);
  Texts texts;
  collect(setup.generator.step(), texts);
  EXPECT_TRUE(setup.generator.abort(id, 1));
  EXPECT_FALSE(setup.generator.abort(id, 1));
  EXPECT_FALSE(setup.generator.abort(id, 3));
  while (setup.generator.has_work()) collect(setup.generator.step(), texts);
  EXPECT_EQ(texts.at({id, 0}).tokens.size(), 6U);
  EXPECT_EQ(texts.at({id, 1}).tokens.size(), 1U);
  EXPECT_EQ(texts.at({id, 1}).finish, FinishReason::abort);
  EXPECT_EQ(texts.at({id, 2}).tokens.size(), 6U);
}

TEST(Generator, SamplesShareThePromptAndDiffer) {
  Served setup(small_config(), nullptr);
  Request request = request_of(std::vector<int32_t>(30, 3));
  request.params.n = 4;
  request.params.max_tokens = 12;
  request.params.ignore_eos = true;
  request.params.seed = 7;
  const RequestId id = setup.generator.add(request);
  const Texts texts = finish_all(setup.generator);
  EXPECT_EQ(texts.size(), 4U);
  EXPECT_EQ(setup.model.copied, 3) << "of the prompt's last block, for all but one";
  EXPECT_NE(texts.at({id, 0}).tokens, texts.at({id, 1}).tokens);
  EXPECT_EQ(setup.generator.statistics().tokens, 30 + 4 * 11);
  EXPECT_EQ(setup.generator.statistics().free_blocks, setup.generator.statistics().blocks);
}

TEST(Generator, MasksAllowTokensOneByOne) {
  Served setup;
  const RequestId id = setup.generator.add(request_of({1}, greedy_params(6)));
  const RequestId other = setup.generator.add(request_of({1}, greedy_params(6)));
  std::vector<uint32_t> mask(2);
  std::vector<int32_t> tokens;
  for (int32_t only = 30; setup.generator.has_work(); --only) {
    mask.assign(2, 0);
    mask[static_cast<size_t>(only) / 32] = 1u << (only % 32);
    setup.generator.set_allowed_tokens(id, 0, mask);
    for (const Event& event : setup.generator.step())
      if (event.request == id) tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
  }
  EXPECT_EQ(tokens, std::vector<int32_t>({30, 29, 28, 27, 26, 25}));
  EXPECT_THROW(setup.generator.set_allowed_tokens(id, 0, mask), Error);
  static_cast<void>(other);

  const RequestId none = setup.generator.add(request_of({1}, greedy_params(6)));
  EXPECT_THROW(setup.generator.set_allowed_tokens(none, 0, std::vector<uint32_t>(1)), Error);
  EXPECT_THROW(setup.generator.set_allowed_tokens(none, 1, mask), Error);
  setup.generator.set_allowed_tokens(none, 0, std::vector<uint32_t>(2, 0));
  const Texts texts = finish_all(setup.generator);
  EXPECT_EQ(texts.at({none, 0}).finish, FinishReason::error);
  EXPECT_NE(texts.at({none, 0}).error.find("no token may come next"), std::string::npos);
}

TEST(Generator, AllowedTokensOfTheParametersHoldWithAMaskToo) {
  Served setup;
  Request request = request_of({1}, greedy_params(1));
  request.params.allowed_token_ids = {8, 33};
  const RequestId first = setup.generator.add(request), second = setup.generator.add(request);
  setup.generator.set_allowed_tokens(second, 0, std::vector<uint32_t>{0, 0xFFFFFFFFu});
  const Texts texts = finish_all(setup.generator);
  EXPECT_EQ(texts.at({first, 0}).tokens, std::vector<int32_t>{8});
  EXPECT_EQ(texts.at({second, 0}).tokens, std::vector<int32_t>{33});
}

// The guide's masks allow the tokens of a text of its own, which is not what the model would say, with guesses and
// without.
// A caller that fails between the parts of a step: what the model gave before is of other tokens.
TEST(Generator, AStepThatWasNotRunFailsItsRequests) {
  Served setup(small_config());
  const RequestId request = setup.generator.add(request_of({1, 2}, greedy_params(8)));
  for (int step = 0; step < 2; ++step) {
    setup.generator.plan_step();
    if (step == 0) setup.generator.run_step();
    const std::span<const Event> events = setup.generator.finish_step();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].request, request);
    EXPECT_EQ(events[0].finish, step == 0 ? FinishReason::none : FinishReason::error);
  }
  EXPECT_FALSE(setup.generator.has_work());
}

TEST(Generator, GuidesSayWhatMayComeBehindGuesses) {
  for (const auto& [guesses, has_draft] : {std::pair(0, false), std::pair(3, false), std::pair(3, true)}) {
    GeneratorConfig config = small_config();
    config.scheduler.num_speculative_tokens = guesses;
    config.prompt_lookup_min = 1;
    config.draft = {512, 4, 0};
    Served setup(config, counting, has_draft);
    setup.draft.logits = [](std::span<const int32_t> visible, std::span<float> row) {  // 7, 3, and 9 or 11
      std::ranges::fill(row, 0.f);
      row[visible.back() == 7 ? 3 : visible.back() != 3 ? 7 : visible.size() % 2 == 0 ? 9 : 11] = 1;
    };
    std::vector<int32_t> prompt, text;
    for (int32_t i = 0; i < 6; ++i)
      for (const int32_t token : {7, 3, 9}) (i < 2 ? prompt : text).push_back(token);
    Request request = request_of(prompt, greedy_params(static_cast<int32_t>(text.size())));
    request.params.is_guided = true;
    const RequestId guided = setup.generator.add(request);
    request.params.allowed_token_ids = {3};
    const RequestId refused = setup.generator.add(request);
    const RequestId free = setup.generator.add(request_of({1}, greedy_params(3)));
    std::map<RequestId, std::vector<int32_t>> tokens;
    std::map<RequestId, FinishReason> ends;
    while (setup.generator.has_work()) {
      for (const GuidedRows& rows : setup.generator.plan_step()) {
        std::vector<int32_t> known = tokens[rows.request];
        for (size_t row = rows.row; row <= rows.row + rows.drafts.size() && known.size() < text.size(); ++row) {
          const auto next = static_cast<size_t>(text[known.size()]);
          setup.generator.guide_masks()[row * setup.generator.mask_words() + next / 32] |= 1u << (next % 32);
          if (row - rows.row == rows.drafts.size() || rows.drafts[row - rows.row] != text[known.size()]) break;
          known.push_back(text[known.size()]);
        }
      }
      EXPECT_THROW(setup.generator.add(request), Error);
      EXPECT_THROW(setup.generator.abort(free), Error);
      EXPECT_THROW(setup.generator.plan_step(), Error);
      setup.generator.run_step();
      for (const Event& event : setup.generator.finish_step()) {
        tokens[event.request].insert(tokens[event.request].end(), event.tokens.begin(), event.tokens.end());
        ends[event.request] = event.finish;
      }
    }
    EXPECT_EQ(tokens[guided], text);
    EXPECT_EQ(ends[guided], FinishReason::length);
    EXPECT_EQ(ends[refused], FinishReason::error) << "the mask and allowed_token_ids have no token together";
    EXPECT_EQ(tokens[free], std::vector<int32_t>({2, 3, 4}));
    EXPECT_EQ(setup.generator.statistics().accepted > 0, guesses > 0);
    EXPECT_EQ(setup.generator.statistics().draft_steps > 0, has_draft);
  }
}

TEST(Generator, LogprobsComeWithTokensAndPrompts) {
  GeneratorConfig config = small_config();
  config.scheduler.prompt_logprob_rows = 3;
  Served setup(config, nullptr);
  Request request = request_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, greedy_params(4));
  request.params.logprobs = 2;
  request.params.prompt_logprobs = 1;
  request.params.ignore_eos = true;
  const RequestId id = setup.generator.add(request);
  const Texts texts = finish_all(setup.generator);
  const Text& text = texts.at({id, 0});
  ASSERT_EQ(text.prompt_logprobs.size(), 9U * 2);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(text.prompt_logprobs[2 * i].token, static_cast<int32_t>(i) + 2);
  ASSERT_EQ(text.logprobs.size(), 4U * 3);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(text.logprobs[3 * i].token, text.tokens[i]);
    EXPECT_EQ(text.logprobs[3 * i], text.logprobs[3 * i + 1]) << "greedy: the likeliest";
  }
  EXPECT_EQ(setup.generator.statistics().steps, 3 + 3) << "3 rows of the prompt a step, the last ones with a token";
}

TEST(Generator, SpeculationTakesFewerSteps) {
  GeneratorConfig config = small_config();
  Served plain(config);
  config.scheduler.num_speculative_tokens = 4;
  Served guessing(config);
  std::vector<int32_t> prompt;
  for (int round = 0; round < 2; ++round)
    for (int32_t token = 1; token < 39; ++token) prompt.push_back(token);
  for (Served* setup : {&plain, &guessing})
    setup->generator.add(request_of({prompt.begin(), prompt.end() - 30}, greedy_params(25)));
  EXPECT_EQ(finish_all(plain.generator), finish_all(guessing.generator));
  EXPECT_EQ(plain.generator.statistics().steps, 25);
  EXPECT_EQ(guessing.generator.statistics().steps, 6) << "the prompt's, then 5 tokens a step";
}

// The distribution of pairs of tokens, each drawn by the model's logits of the text before it, with guesses.
void expect_distribution(bool has_draft, bool samples = false, GeneratorStatistics* statistics = nullptr) {
  const uint64_t seed = test_seed();
  GeneratorConfig config = small_config(4096);
  config.scheduler.max_num_seqs = 64;
  config.scheduler.max_num_batched_tokens = 1024;
  config.scheduler.num_speculative_tokens = 3;
  config.prompt_lookup_min = 1;
  config.seed = seed;
  const auto few = [](std::span<const int32_t> visible, std::span<float> row) {
    std::ranges::fill(row, -std::numeric_limits<float>::infinity());
    if (visible.size() < 2) return;              // of padding
    for (int32_t token = 1; token < 5; ++token)  // what follows depends on the last two
      row[static_cast<size_t>(token)] =
          0.4f * static_cast<float>((visible.back() * 3 + visible[visible.size() - 2] * 5 + token * 2) % 7);
  };
  config.draft = {4096, 4, 0, samples};
  Served setup(config, few, has_draft);
  setup.draft.logits = [&](std::span<const int32_t> visible, std::span<float> row) {
    few(visible, row);
    if (visible.size() % 3 == 0) row[static_cast<size_t>(1 + visible.back() % 4)] = 3;  // wrong in some places
  };
  constexpr int requests = 10'000, length = 10;  // 100,000 draws
  SamplingParams params;
  params.max_tokens = length;
  params.temperature = 1.2f;
  params.top_p = 0.95f;
  const std::vector<int32_t> prompt{1, 2, 3, 4, 1, 2};
  for (int i = 0; i < requests; ++i) setup.generator.add(request_of(prompt, params));
  const Texts texts = finish_all(setup.generator);
  EXPECT_GT(setup.generator.statistics().accepted, requests);
  EXPECT_GT(setup.generator.statistics().drafted, setup.generator.statistics().accepted);

  std::map<std::pair<int32_t, int32_t>, std::vector<int64_t>> counts;  // by what is in front
  for (const auto& [id, text] : texts) {
    std::vector<int32_t> all = prompt;
    all.insert(all.end(), text.tokens.begin(), text.tokens.end());
    ASSERT_EQ(text.tokens.size(), static_cast<size_t>(length));
    for (size_t i = prompt.size(); i < all.size(); ++i) {
      std::vector<int64_t>& count = counts[{all[i - 2], all[i - 1]}];
      count.resize(5);
      ++count[static_cast<size_t>(all[i])];
    }
  }
  double sum = 0, freedom = 0;
  std::vector<float> row(vocabulary);
  Sampler sampler(vocabulary);
  SamplingState state;
  state.params = &params;
  for (const auto& [front, count] : counts) {
    const std::vector<int32_t> visible{front.first, front.second};
    few(visible, row);
    ASSERT_EQ(sampler.prepare(row.data(), state), Sampler::Problem::none);
    double total = 0;
    for (const int64_t c : count) total += static_cast<double>(c);
    if (total < 100) continue;
    for (int32_t token = 1; token < 5; ++token) {
      const double mean = total * sampler.probability(token),
                   seen = static_cast<double>(count[static_cast<size_t>(token)]);
      if (mean == 0) {
        EXPECT_EQ(seen, 0);
        continue;
      }
      sum += (seen - mean) * (seen - mean) / mean;
      freedom += 1;
    }
    freedom -= 1;
  }
  EXPECT_GT(freedom, 20);
  EXPECT_LT(sum, freedom + 5 * std::sqrt(2 * freedom));
  if (statistics != nullptr) *statistics = setup.generator.statistics();
}

TEST(Generator, SpeculationKeepsTheDistribution) {
  expect_distribution(false);
}

TEST(Generator, ADraftModelKeepsTheDistribution) {
  expect_distribution(true);
}

TEST(Generator, ADraftThatDrawsKeepsTheDistributionAndGuessesBetter) {
  GeneratorStatistics likeliest, drawn;
  expect_distribution(true, false, &likeliest);
  expect_distribution(true, true, &drawn);
  const auto share = [](const GeneratorStatistics& s) {
    return static_cast<double>(s.accepted) / static_cast<double>(s.drafted);
  };
  EXPECT_GT(share(drawn), 1.2 * share(likeliest));
}

// Greedy texts are those without guesses, and what is drawn is the same again for the same seeds.
TEST(Generator, ADraftThatDrawsLeavesGreedyTextsAsTheyAre) {
  GeneratorConfig config = small_config();
  Served plain(config);
  config.scheduler.num_speculative_tokens = 3;
  config.draft = {512, 4, 0, true};
  Texts drawn;
  for (int round = 0; round < 2; ++round) {
    Served drafted(config, counting, true);
    drafted.draft.logits = counting;
    for (Served* setup : {&plain, &drafted}) setup->generator.add(request_of({1, 2, 3}, greedy_params(30)));
    SamplingParams params;
    params.seed = 7;
    params.max_tokens = 30;
    params.n = 3;
    params.presence_penalty = 0.5f;
    drafted.generator.add(request_of({1, 2, 3}, params));
    const Texts texts = finish_all(drafted.generator);
    EXPECT_EQ(texts.at({1, 0}), finish_all(plain.generator).begin()->second);
    EXPECT_GT(drafted.generator.statistics().accepted, 0);
    if (round > 0) {
      EXPECT_EQ(texts, drawn);
    }
    drawn = texts;
  }
}

TEST(Generator, SaysHowMuchOfAPromptWasCached) {
  Served setup;
  const std::vector<int32_t> prompt{5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  const auto cached = [&](std::vector<int32_t> tokens, int32_t n = 1) {
    Request request = request_of(std::move(tokens), greedy_params(3));
    request.params.n = n;
    request.params.temperature = n > 1 ? 1 : 0;
    request.params.ignore_eos = true;
    setup.generator.add(request);
    std::map<int32_t, int32_t> found;
    while (setup.generator.has_work()) {
      for (const Event& event : setup.generator.step()) {
        const auto [known, is_new] = found.emplace(event.sample, event.cached_tokens);
        EXPECT_EQ(known->second, event.cached_tokens) << "it does not change while the text grows";
      }
    }
    EXPECT_EQ(std::ssize(found), n);
    for (const auto& [sample, count] : found) EXPECT_EQ(count, found.at(0)) << "of sample " << sample;
    return found.at(0);
  };
  EXPECT_EQ(cached(prompt), 0);
  EXPECT_EQ(cached(prompt), 8);  // full blocks of 4
  EXPECT_EQ(cached(prompt, 3), 8);
  EXPECT_EQ(cached({5, 6, 7, 8, 9, 10, 11, 12}), 4);  // the last token is computed
  EXPECT_EQ(cached({5, 6, 7, 8, 1}), 4);
  EXPECT_EQ(cached({1, 5, 6, 7, 8}), 0);
  // One that ends before it runs was found nowhere.
  const RequestId gone = setup.generator.add(request_of(prompt, greedy_params(3)));
  setup.generator.abort(gone);
  const std::span<const Event> events = setup.generator.step();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].cached_tokens, -1);
}

TEST(Generator, UrgentRequestsAreServedFirst) {
  GeneratorConfig config = small_config();
  config.scheduler.max_num_seqs = 2;
  Served setup(config);
  std::vector<RequestId> ids;
  for (const int32_t priority : {3, 2, 1, 0}) {
    Request request = request_of({1}, greedy_params(3));
    request.priority = priority;
    ids.push_back(setup.generator.add(request));
  }
  std::vector<RequestId> ends;
  while (setup.generator.has_work())
    for (const Event& event : setup.generator.step())
      if (event.finish != FinishReason::none) ends.push_back(event.request);
  ASSERT_EQ(ends.size(), 4U);
  EXPECT_EQ(std::set<RequestId>(ends.begin(), ends.begin() + 2), std::set<RequestId>({ids[2], ids[3]}));
}

TEST(Generator, ConfigurationsAreReadAndChecked) {
  const GeneratorConfig config = parse_generator_config(
      R"({"max_num_seqs": 3, "num_blocks": 70, "eos_token_ids": [1, 2], "seed": 5, "enable_prefix_caching": false})");
  EXPECT_EQ(config.scheduler.max_num_seqs, 3);
  EXPECT_EQ(config.scheduler.num_blocks, 70);
  EXPECT_FALSE(config.scheduler.enable_prefix_caching);
  EXPECT_EQ(config.eos_token_ids, std::vector<int32_t>({1, 2}));
  EXPECT_EQ(config.seed, 5U);
  EXPECT_THROW(parse_generator_config(R"({"max_num_sequences": 3})"), Error);
  EXPECT_THROW(parse_generator_config(R"({"max_num_seqs": 3.5})"), Error);
  EXPECT_THROW(parse_generator_config(R"({"max_num_seqs": 5000000000})"), Error);
  EXPECT_THROW(parse_generator_config("[]"), Error);
  EXPECT_THROW(parse_generator_config("{"), Error);
  FakeModel model(8, 4, vocabulary);
  GeneratorConfig wrong = small_config(8);
  wrong.eos_token_ids = {40};
  EXPECT_THROW(Generator(model, wrong), Error);
  wrong = small_config(8);
  wrong.prompt_lookup_min = 0;
  EXPECT_THROW(Generator(model, wrong), Error);
}

TEST(Generator, EachSequenceSeesTheKeysOfAnEncoderThatItsRequestBrought) {
  GeneratorConfig config = small_config(40);  // too few for all: some are preempted, and computed again
  FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, vocabulary);
  model.cross = {.blocks = 30, .block_size = 4, .table_width = 3};
  model.logits = counting;
  std::map<int32_t, CrossKeys> keys;  // by the first token of the sequence
  int64_t seen = 0;
  model.looked = [&](const StepInputs& inputs) {
    ASSERT_EQ(inputs.cross_seqlens.size(), inputs.past.size());
    ASSERT_EQ(inputs.cross_block_table.size(), 3 * inputs.past.size());
    for (size_t s = 0; s < inputs.past.size(); ++s) {
      const auto begin = static_cast<size_t>(inputs.cumulative[s]), end = static_cast<size_t>(inputs.cumulative[s + 1]);
      if (begin == end) continue;
      const int32_t first = (inputs.input_ids[begin] - inputs.positions[begin] + 400) % vocabulary;
      const CrossKeys& wanted = keys.at(first);
      EXPECT_EQ(inputs.cross_seqlens[s], wanted.length);
      EXPECT_TRUE(std::equal(wanted.blocks.begin(), wanted.blocks.end(),
                             inputs.cross_block_table.begin() + static_cast<std::ptrdiff_t>(3 * s)));
      ++seen;
    }
  };
  Generator generator(model, config);
  std::map<RequestId, int32_t> firsts;
  for (int32_t i = 0; i < 10; ++i) {
    // Prompts that count up, so that a token and its position tell whose it is.
    std::vector<int32_t> prompt;
    for (int32_t t = 0; t < 5 + i; ++t) prompt.push_back((4 * i + t) % vocabulary);
    Request request = request_of(prompt, greedy_params(20));
    request.params.ignore_eos = true;
    request.salt = static_cast<uint64_t>(i);
    for (int32_t b = 0; b <= i % 3; ++b) request.cross.blocks.push_back((7 * i + b) % 30);
    request.cross.length = 4 * (i % 3) + 1 + i % 4;
    keys[4 * i] = request.cross;
    firsts[generator.add(std::move(request))] = 4 * i;
  }
  for (const auto& [of, text] : finish_all(generator)) {
    EXPECT_EQ(text.finish, FinishReason::length);
    EXPECT_EQ(text.tokens.size(), 20U);
  }
  EXPECT_GT(generator.statistics().preemptions, 0);
  EXPECT_GT(seen, 10 * 20);
}

// Text with an adapter is another one, and what one has computed no other finds. The model looks whether it does.
TEST(Generator, EachSequenceHasTheAdapterThatItsRequestNames) {
  Served served;
  const std::vector<int32_t> prompt{5, 6, 7, 8, 9, 10, 11, 12, 13};
  std::map<RequestId, int32_t> loras;
  for (int round = 0; round < 2; ++round)
    for (int32_t lora = -1; lora < 3; ++lora) {
      Request request = request_of(prompt, greedy_params(12));
      request.lora = lora;
      request.salt = static_cast<uint64_t>(lora + 1);
      loras[served.generator.add(request)] = lora;
    }
  std::map<int32_t, std::vector<int32_t>> texts;
  for (const auto& [id, text] : finish_all(served.generator)) {
    const auto [known, is_new] = texts.emplace(loras.at(id.first), text.tokens);
    EXPECT_TRUE(is_new || known->second == text.tokens);
  }
  EXPECT_EQ(texts.size(), 4U);
  std::set<std::vector<int32_t>> different;
  for (const auto& [lora, tokens] : texts) different.insert(tokens);
  EXPECT_EQ(different.size(), 4U);
}

TEST(Generator, AdaptersThatAreNotThereAreRefused) {
  Served served;
  for (const int32_t lora : {-2, 3}) {
    Request request = request_of({1, 2});
    request.lora = lora;
    EXPECT_NE(message_of_adding(served.generator, request).find("adapter " + std::to_string(lora)), std::string::npos);
  }
}

TEST(Generator, KeysOfAnEncoderThatDoNotFitAreRefused) {
  Served without;
  Request request = request_of({1}, greedy_params(3));
  request.cross = {{0}, 1};
  EXPECT_NE(message_of_adding(without.generator, request).find("no cross attention"), std::string::npos);

  const GeneratorConfig config = small_config();
  FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, vocabulary);
  model.cross = {.blocks = 6, .block_size = 4, .table_width = 2};
  Generator generator(model, config);
  for (const auto& [cross, words] : std::vector<std::pair<CrossKeys, std::string>>{
           {{}, "0 keys of an encoder in 0 blocks"},
           {{{0, 1}, 9}, "9 keys of an encoder in 2 blocks of 4"},
           {{{0, 1, 2}, 9}, "in 3 blocks"},
           {{{0, 6}, 8}, "block 6 of an encoder's keys, of which there are 6"},
           {{{-1}, 1}, "block -1"}}) {
    request.cross = cross;
    EXPECT_NE(message_of_adding(generator, request).find(words), std::string::npos) << words;
  }
  request.cross = {{5, 0}, 8};
  EXPECT_EQ(message_of_adding(generator, request), "");
}

}  // namespace
}  // namespace camshaft::llm::generator_test
