// Beam search beside vLLM's definition, written down plainly over logits that are computed anew for each text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "camshaft/error.hpp"
#include "llm/random_requests.h"
#include "test_random.h"

namespace camshaft::llm::beam_search_test {
namespace {

struct Beam {
  std::vector<int32_t> tokens;
  double cum_logprob = 0, score = 0;
  bool has_ended = false;
};

std::vector<int32_t> ends_of(const SamplingParams& params) {
  std::vector<int32_t> ends = params.stop_token_ids;
  if (!params.ignore_eos) ends.push_back(0);
  return ends;
}

// The likeliest tokens of a text; what they are is tested below.
std::vector<TokenLogprob> candidates_of(const Request& request, const std::vector<int32_t>& tokens,
                                        const FakeModel::Logits& logits, int32_t vocabulary) {
  static const std::vector<int32_t> eos = {0};
  std::vector<float> row(static_cast<size_t>(vocabulary));
  logits(tokens, row);
  FakeModel::turn_by_adapter(row, tokens.size(), request.lora);
  std::vector<uint32_t> allowed;
  for (const int32_t token : request.params.allowed_token_ids) {
    allowed.resize(static_cast<size_t>(vocabulary + 31) / 32);
    allowed[static_cast<size_t>(token) / 32] |= uint32_t{1} << (token % 32);
  }
  SamplingState state;
  state.params = &request.params;
  state.allowed = allowed;
  state.eos_token_ids = eos;
  state.generated = static_cast<int32_t>(tokens.size() - request.prompt.size());
  Sampler sampler(vocabulary);
  std::vector<TokenLogprob> made;
  static_cast<void>(sampler.likeliest_tokens(row.data(), state,
                                             static_cast<size_t>(2 * request.params.beam_search->beam_width), made));
  return made;
}

// LLM.beam_search of vLLM; with early_stopping BeamSearchDecoder of openai/whisper.
std::vector<Beam> plain_beam_search(const Request& request, const FakeModel::Logits& logits, int32_t max_model_len,
                                    int32_t vocabulary = random_vocabulary) {
  const SamplingParams& params = request.params;
  const BeamSearchParams& beam_search = *params.beam_search;
  const auto width = static_cast<size_t>(beam_search.beam_width), prompt = request.prompt.size();
  const std::vector<int32_t> ends = ends_of(params);
  const auto score = [&](const Beam& beam) {
    auto length = static_cast<double>(beam.tokens.size() - (beam.has_ended ? 1 : 0));
    if (!beam_search.counts_prompt) length -= static_cast<double>(prompt);
    return beam.cum_logprob / std::pow(std::max(length, 1.0), static_cast<double>(beam_search.length_penalty));
  };
  std::vector<Beam> beams = {{request.prompt}}, completed;
  const int32_t most =
      std::min(params.max_tokens.value_or(max_model_len), max_model_len - static_cast<int32_t>(request.prompt.size()));
  for (int32_t step = 0; step < most && !beams.empty(); ++step) {
    std::vector<Beam> all;
    for (const Beam& beam : beams)
      for (const TokenLogprob& each : candidates_of(request, beam.tokens, logits, vocabulary)) {
        Beam& made = all.emplace_back(beam);
        made.tokens.push_back(each.token);
        made.cum_logprob += static_cast<double>(each.logprob);
        made.has_ended = std::ranges::find(ends, each.token) != ends.end();
      }
    std::ranges::stable_sort(all, std::greater<>(), &Beam::cum_logprob);
    beams.clear();
    for (const Beam& each : all) {
      if (each.has_ended && (!beam_search.early_stopping || beams.size() < width)) completed.push_back(each);
      if (!each.has_ended && beams.size() < width) beams.push_back(each);
    }
    if (beam_search.early_stopping && completed.size() >= width) beams.clear();
  }
  if (beam_search.early_stopping) beams.resize(std::min(beams.size(), width - std::min(width, completed.size())));
  completed.insert(completed.end(), beams.begin(), beams.end());
  for (Beam& each : completed) each.score = score(each);
  std::ranges::stable_sort(completed, std::greater<>(), &Beam::score);
  completed.resize(std::min(completed.size(), width));
  return completed;
}

Request beam_request(std::vector<int32_t> prompt, int32_t width, int32_t max_tokens) {
  Request request = request_of(std::move(prompt), greedy_params(max_tokens));
  request.params.beam_search = BeamSearchParams();
  request.params.beam_search->beam_width = width;
  return request;
}

// Events of a beam search come once for each text.
using Results = std::map<std::pair<RequestId, int32_t>, std::pair<Text, double>>;

void collect_results(std::span<const Event> events, Results& results, Texts& texts) {
  collect(events, texts);
  for (const Event& event : events)
    if (event.finish != FinishReason::none)
      results[{event.request, event.sample}] = {texts[{event.request, event.sample}], event.cumulative_logprob};
}

void expect_found(const std::vector<Beam>& expected, const Request& request, RequestId id, const Results& results) {
  for (size_t rank = 0; rank < expected.size(); ++rank) {
    const auto found = results.find({id, static_cast<int32_t>(rank)});
    ASSERT_NE(found, results.end()) << "request " << id << " has no text " << rank;
    const auto& [text, cum_logprob] = found->second;
    std::vector<int32_t> tokens = request.prompt;
    tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
    ASSERT_EQ(tokens, expected[rank].tokens) << "request " << id << ", text " << rank;
    EXPECT_EQ(cum_logprob, expected[rank].cum_logprob);
    EXPECT_EQ(text.finish, expected[rank].has_ended ? FinishReason::stop : FinishReason::length);
    EXPECT_EQ(text.stop_token,
              expected[rank].has_ended && (tokens.back() != 0 || request.params.ignore_eos) ? tokens.back() : -1);
    EXPECT_EQ(text.error, "");
  }
  EXPECT_FALSE(results.contains({id, static_cast<int32_t>(expected.size())}));
}

// Alone.
void expect_as_defined(const Request& request, const FakeModel::Logits& logits = repeating_logits,
                       int32_t vocabulary = random_vocabulary) {
  const GeneratorConfig config = small_config();
  FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, vocabulary);
  model.logits = logits;
  Generator generator(model, config);
  generator.add(request);
  Results results;
  Texts texts;
  while (generator.has_work()) collect_results(generator.step(), results, texts);
  expect_found(plain_beam_search(request, logits, config.scheduler.max_model_len, vocabulary), request, 1, results);
  EXPECT_EQ(generator.statistics().free_blocks, generator.statistics().blocks);
}

TEST(BeamSearch, TextsAreThoseOfTheDefinition) {
  for (int32_t width = 1; width <= 8; ++width)
    for (const float penalty : {-1.f, 0.f, 0.7f, 1.f, 2.f}) {
      Request request = beam_request({7, 3, 9, width}, width, 40);
      request.params.beam_search->length_penalty = penalty;
      expect_as_defined(request);
      request.params.beam_search->counts_prompt = false;
      expect_as_defined(request);
      request.params.beam_search->early_stopping = true;
      expect_as_defined(request);
    }
}

TEST(BeamSearch, OfOneBeamWithoutAnEndIsGreedy) {
  const GeneratorConfig config = small_config();
  std::vector<Text> texts;
  for (const bool searches : {false, true}) {
    FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, random_vocabulary);
    Generator generator(model, config);
    Request request = searches ? beam_request({5, 6}, 1, 60) : request_of({5, 6}, greedy_params(60));
    request.params.ignore_eos = true;
    generator.add(request);
    texts.push_back(finish_all(generator).at({1, 0}));
  }
  EXPECT_EQ(texts[0].tokens, texts[1].tokens);
  EXPECT_EQ(texts[1].tokens.size(), 60U);
}

TEST(BeamSearch, EqualTextsComeByRankAndToken) {
  const auto flat = [](std::span<const int32_t>, std::span<float> row) { std::ranges::fill(row, 1.f); };
  for (const bool ignore_eos : {false, true}) {
    Request request = beam_request({5}, 3, 4);
    request.params.ignore_eos = ignore_eos;
    expect_as_defined(request, flat);
  }
  const auto two_levels = [](std::span<const int32_t> visible, std::span<float> row) {
    for (size_t i = 0; i < row.size(); ++i) row[i] = (i + visible.size()) % 3 == 0 ? 2.f : 1.f;
  };
  expect_as_defined(beam_request({5, 1}, 4, 9), two_levels);
}

// The end of the text is the likeliest first token: it is the best one, and others go on.
TEST(BeamSearch, AnEndMayComeFirst) {
  const auto ends = [](std::span<const int32_t> visible, std::span<float> row) {
    FakeModel::random_logits(visible, row);
    row[0] = 12;
  };
  for (const float penalty : {0.f, 1.f})
    for (const bool counts_prompt : {false, true}) {
      Request request = beam_request({4, 2}, 3, 10);
      request.params.beam_search->length_penalty = penalty;
      request.params.beam_search->counts_prompt = counts_prompt;
      expect_as_defined(request, ends);
    }
}

// Where every continuation is an end there is nothing left to go on.
TEST(BeamSearch, EndsWhenNoBeamIsLeft) {
  Request request = beam_request({4, 2}, 3, 10);
  request.params.stop_token_ids = {1, 2, 3};
  request.params.allowed_token_ids = {0, 1, 3};
  expect_as_defined(request);
  request.params.max_tokens = 1;
  expect_as_defined(request);
  // Fewer continuations than beams, which become more and fewer again.
  Request narrow = beam_request({4, 2}, 6, 12);
  narrow.params.ignore_eos = true;
  narrow.params.allowed_token_ids = {3, 4};
  expect_as_defined(narrow);
  const auto comes_and_goes = [](std::span<const int32_t> visible, std::span<float> row) {
    FakeModel::random_logits(visible, row);
    const size_t first = visible.size() % 3 == 0 || visible.back() % 2 == 0 ? 1 : 5;
    for (size_t i = first; i < row.size(); ++i) row[i] = -std::numeric_limits<float>::infinity();
  };
  for (int32_t width = 2; width < 7; ++width) {
    narrow = beam_request({4, 3}, width, 14);
    narrow.params.ignore_eos = true;
    expect_as_defined(narrow, comes_and_goes);
  }
}

TEST(BeamSearch, TextsAreNotLongerThanTheModelAllows) {
  std::vector<int32_t> prompt(150, 3);
  expect_as_defined(beam_request(prompt, 4, 100));
  Request request = beam_request(prompt, 4, 100);
  request.params.max_tokens.reset();
  request.params.ignore_eos = true;
  expect_as_defined(request);
}

// What could still be better is waited for, and nothing else: the model says so by the steps that it runs.
TEST(BeamSearch, EndsWhenNothingBetterCanCome) {
  const auto ends = [](std::span<const int32_t> visible, std::span<float> row) {
    std::ranges::fill(row, 0.f);
    row[visible.size() >= 6 ? 0 : 1] = 20;
  };
  const GeneratorConfig config = small_config();
  FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, random_vocabulary);
  model.logits = ends;
  Generator generator(model, config);
  Request request = beam_request({4, 2, 3}, 1, 100);
  request.params.beam_search->length_penalty = 0;
  generator.add(request);
  const Text text = finish_all(generator).at({1, 0});
  EXPECT_EQ(text.tokens, (std::vector<int32_t>{1, 1, 1, 0}));
  EXPECT_LT(model.runs, 8);
}

std::vector<Request> random_beam_requests(Random& random, size_t count) {
  std::vector<Request> requests = random_requests(random, count, false);
  for (Request& request : requests) {
    SamplingParams& params = request.params;
    params.repetition_penalty = 1;
    params.presence_penalty = params.frequency_penalty = 0;
    params.logprobs.reset();
    params.prompt_logprobs.reset();
    params.beam_search = BeamSearchParams();
    params.beam_search->beam_width = static_cast<int32_t>(random.integer(1, 5));
    params.beam_search->length_penalty = static_cast<float>(random.integer(-1, 4)) / 2;
    params.beam_search->counts_prompt = random.uniform() < 0.7;
    params.beam_search->early_stopping = random.uniform() < 0.3;
    if (random.uniform() < 0.3) params.temperature = static_cast<float>(random.uniform(0.3, 2));
  }
  return requests;
}

struct Way {
  std::string name;
  GeneratorConfig config;
  bool is_short = false;
};

// Of the largest request, which has all of them at times.
int32_t least_blocks(const std::vector<Request>& requests, int32_t block_size) {
  int32_t least = 0;
  for (const Request& request : requests) {
    const auto prompt = static_cast<int32_t>(request.prompt.size()), shared = prompt / block_size;
    const int32_t all = (prompt + *request.params.max_tokens + block_size - 1) / block_size;
    least = std::max(least, shared + request.params.sequences() * (all - shared));
  }
  return least;
}

std::vector<Way> ways(int32_t least) {
  std::vector<Way> made = {{"as usual", small_config()}};
  made.push_back({"few blocks", small_config(least), true});
  made.push_back({"few blocks, nothing cached", small_config(least), true});
  made.back().config.scheduler.enable_prefix_caching = false;
  made.push_back({"few blocks, others in the host's memory", small_config(least), true});
  made.back().config.scheduler.num_host_blocks = 40;
  made.push_back({"large blocks", small_config(64, 16)});
  made.push_back({"small steps", small_config(least), true});
  made.back().config.scheduler.max_num_batched_tokens = 9;
  made.push_back({"n-grams", small_config(least), true});
  made.back().config.scheduler.num_speculative_tokens = 3;
  made.push_back({"a draft", small_config()});
  made.back().config.scheduler.num_speculative_tokens = 2;
  made.back().config.draft = {300, 4, 0};
  return made;
}

// 200 searches beside 200 other requests: each text is what it is alone.
TEST(BeamSearch, RandomRequestsBesideOthers) {
  Random random = test_random();
  const std::vector<Request> searches = random_beam_requests(random, 200);
  const std::vector<Request> others = random_requests(random, 200, true);
  std::vector<std::vector<Beam>> expected;
  for (const Request& each : searches) expected.push_back(plain_beam_search(each, repeating_logits, 160));
  Texts alone;
  {
    FakeModel model(512, 4, random_vocabulary);
    model.logits = repeating_logits;
    Generator generator(model, small_config());
    for (Request request : others) {
      // The seed of one that has none is of its number, which is another one below.
      if (!request.params.seed) request.params.seed = 5;
      generator.add(request);
    }
    alone = finish_all(generator);
  }
  int64_t preemptions = 0;
  for (const Way& way : ways(least_blocks(searches, 4))) {
    SCOPED_TRACE(way.name);
    const SchedulerConfig& scheduler = way.config.scheduler;
    FakeModel model(scheduler.num_blocks, scheduler.block_size, random_vocabulary);
    model.logits = repeating_logits;
    model.gives_likeliest = random.uniform() < 0.5;
    const bool has_draft = way.config.draft.num_blocks > 0;
    FakeModel draft(std::max(way.config.draft.num_blocks, 1), 4, random_vocabulary);
    draft.logits = repeating_logits;
    Generator generator(model, way.config, has_draft ? &draft : nullptr);
    Results results;
    Texts texts;
    std::map<RequestId, size_t> search_of, other_of;
    for (size_t i = 0; i < searches.size(); ++i) {
      search_of[generator.add(searches[i])] = i;
      Request other = others[i];
      if (!other.params.seed) other.params.seed = 5;
      other_of[generator.add(other)] = i;
      while (random.uniform() < 0.4 && generator.has_work()) collect_results(generator.step(), results, texts);
    }
    int64_t steps = 200'000;
    while (generator.has_work() && steps-- > 0) collect_results(generator.step(), results, texts);
    ASSERT_FALSE(generator.has_work()) << "it does not come to an end";
    for (const auto& [id, place] : search_of) {
      expect_found(expected[place], searches[place], id, results);
      if (HasFatalFailure()) return;
    }
    for (const auto& [id, place] : other_of)
      for (int32_t sample = 0; sample < others[place].params.n; ++sample) {
        Text text = texts.at({id, sample});
        ASSERT_EQ(text, alone.at({place + 1, sample})) << "another request, " << place;
      }
    const GeneratorStatistics statistics = generator.statistics();
    EXPECT_EQ(statistics.free_blocks, statistics.blocks);
    EXPECT_EQ(statistics.draft_free_blocks, statistics.draft_blocks);
    EXPECT_EQ(statistics.running + statistics.waiting, 0);
    if (way.is_short) preemptions += statistics.preemptions;
    EXPECT_GT(model.copied, 100);
    if (scheduler.num_host_blocks > 0) {
      EXPECT_GT(model.restored, 0);
    }
  }
  EXPECT_GT(preemptions, 5);
}

// Beams share the blocks of what they have in common.
TEST(BeamSearch, OnlyTheLastBlocksAreCopied) {
  GeneratorConfig config = small_config(64);
  FakeModel model(64, 4, random_vocabulary);
  model.logits = repeating_logits;
  Generator generator(model, config);
  Request request = beam_request(std::vector<int32_t>(102, 3), 4, 8);
  request.params.ignore_eos = true;
  generator.add(request);
  int64_t least = 64;
  while (generator.has_work()) {
    generator.step();
    least = std::min(least, generator.statistics().free_blocks);
  }
  // 25 full blocks of the prompt, and at most 3 of each beam.
  EXPECT_GE(least, 64 - 25 - 4 * 3);
  EXPECT_LE(model.copied, 8 * 3);
  EXPECT_GT(model.copied, 0);
}

TEST(BeamSearch, WhatCannotRunIsRefused) {
  FakeModel model(64, 4, random_vocabulary);
  Generator generator(model, small_config(64));
  const auto message = [&](const auto& change) {
    Request request = beam_request({1, 2}, 4, 20);
    change(request.params);
    try {
      generator.add(request);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("it was not refused");
  };
  EXPECT_EQ(message([](SamplingParams& p) { p.beam_search->beam_width = 9; }),
            "beam_width is 9, at most max_num_seqs, 8, run at once");
  EXPECT_EQ(message([](SamplingParams& p) { p.beam_search->beam_width = 0; }),
            "beam_width is 0, it must be from 1 to 256");
  EXPECT_EQ(message([](SamplingParams& p) { p.max_tokens = 100; }),
            "4 beams of up to 102 tokens need 104 blocks of the cache, which has 64: lower max_tokens or beam_width, "
            "or raise num_blocks");
  EXPECT_EQ(message([](SamplingParams& p) { p.beam_search->length_penalty = std::nanf(""); }).substr(0, 17),
            "length_penalty is");
  for (const auto& [name, change] : std::initializer_list<std::pair<const char*, void (*)(SamplingParams&)>>{
           {"n", [](SamplingParams& p) { p.n = 2, p.temperature = 1; }},
           {"top_k", [](SamplingParams& p) { p.top_k = 3; }},
           {"top_p", [](SamplingParams& p) { p.top_p = 0.5f; }},
           {"min_p", [](SamplingParams& p) { p.min_p = 0.1f; }},
           {"repetition_penalty", [](SamplingParams& p) { p.repetition_penalty = 1.1f; }},
           {"presence_penalty", [](SamplingParams& p) { p.presence_penalty = 1; }},
           {"frequency_penalty", [](SamplingParams& p) { p.frequency_penalty = 1; }},
           {"logprobs", [](SamplingParams& p) { p.logprobs = 1; }},
           {"prompt_logprobs", [](SamplingParams& p) { p.prompt_logprobs = 1; }},
           {"structured_outputs", [](SamplingParams& p) { p.is_guided = true; }}})
    EXPECT_EQ(message(change),
              std::string(name) + " does not go with beam search, which takes the likeliest texts: leave it out");
  const RequestId id = generator.add(beam_request({1, 2}, 4, 20));
  EXPECT_THROW(generator.set_allowed_tokens(id, 0, std::vector<uint32_t>(2, 1)), Error);
}

TEST(BeamSearch, ARequestEndsAsAWhole) {
  for (const int32_t sample : {-1, 0, 2})
    for (const int steps : {0, 1, 5}) {
      FakeModel model(64, 4, random_vocabulary);
      Generator generator(model, small_config(64));
      Request request = beam_request({1, 2}, 4, 20);
      request.params.ignore_eos = true;
      const RequestId id = generator.add(request);
      for (int i = 0; i < steps; ++i) generator.step();
      EXPECT_TRUE(generator.abort(id, sample));
      EXPECT_FALSE(generator.abort(id, sample));
      EXPECT_EQ(finish_all(generator).at({id, 0}).finish, FinishReason::abort);
      EXPECT_EQ(generator.statistics().free_blocks, 64);
    }
}

TEST(BeamSearch, WhatGoesWrongEndsTheRequestAlone) {
  for (const bool is_thrown : {false, true}) {
    FakeModel model(128, 4, random_vocabulary);
    model.logits = [&](std::span<const int32_t> visible, std::span<float> row) {
      FakeModel::random_logits(visible, row);
      if (!is_thrown && visible[0] == 1 && visible.size() == 9) row[7] = std::numeric_limits<float>::quiet_NaN();
    };
    if (is_thrown) model.throw_at = 6;
    Generator generator(model, small_config(128));
    for (const int32_t first : {1, 2}) {
      Request request = beam_request({first, 2}, 3, 20);
      request.params.ignore_eos = true;
      generator.add(request);
    }
    const Texts texts = finish_all(generator);
    EXPECT_EQ(texts.at({1, 0}).finish, FinishReason::error);
    EXPECT_NE(texts.at({1, 0}).error.find(is_thrown ? "out of order" : "NaN"), std::string::npos);
    EXPECT_EQ(texts.at({2, 0}).finish, is_thrown ? FinishReason::error : FinishReason::length);
    EXPECT_EQ(generator.statistics().free_blocks, 128);
  }
  FakeModel model(64, 4, random_vocabulary);
  model.logits = [](std::span<const int32_t>, std::span<float> row) {
    std::ranges::fill(row, -std::numeric_limits<float>::infinity());
  };
  Generator generator(model, small_config(64));
  generator.add(beam_request({1, 2}, 3, 20));
  EXPECT_EQ(finish_all(generator).at({1, 0}).error.substr(0, 21), "no token may come nex");
}

TEST(BeamSearch, LikeliestTokensAreThoseOfThePlainDefinition) {
  Random random = test_random();
  for (const int32_t vocabulary : {1, 2, 63, 64, 65, 1000, 32'003})
    for (const float temperature : {0.f, 0.3f, 1.f, 2.5f})
      for (const int32_t excluded : {0, 1, 7}) {
        std::vector<float> row(static_cast<size_t>(vocabulary));
        for (float& logit : row) logit = static_cast<float>(random.integer(-1000, 1000)) / 100;
        for (int32_t i = 0; i < std::min(excluded, vocabulary - 1); ++i)
          row[static_cast<size_t>(i)] = -std::numeric_limits<float>::infinity();
        SamplingParams params;
        params.temperature = temperature;
        params.logit_bias = {{vocabulary - 1, 2.f}};
        SamplingState state;
        state.params = &params;
        std::vector<float> wanted = row;
        wanted.back() += 2;
        std::vector<int32_t> order(wanted.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
        std::ranges::stable_sort(order, std::greater<>(), [&](int32_t i) { return wanted[static_cast<size_t>(i)]; });
        const double scale = temperature == 0.f ? 1 : static_cast<double>(temperature);
        double total = 0;
        for (const float logit : wanted) total += std::exp(static_cast<double>(logit) / scale);
        Sampler sampler(vocabulary);
        for (const size_t count : {size_t{1}, size_t{8}, size_t{512}}) {
          std::vector<float> changed = row;
          std::vector<TokenLogprob> found;
          ASSERT_EQ(sampler.likeliest_tokens(changed.data(), state, count, found), Sampler::Problem::none);
          const auto open = static_cast<size_t>(vocabulary - std::min(excluded, vocabulary - 1));
          ASSERT_EQ(found.size(), std::min(count, open));
          for (size_t i = 0; i < found.size(); ++i) {
            ASSERT_EQ(found[i].token, order[i]);
            EXPECT_EQ(found[i].rank, static_cast<int32_t>(i) + 1);
            const double logit = static_cast<double>(wanted[static_cast<size_t>(order[i])]);
            EXPECT_NEAR(static_cast<double>(found[i].logprob), logit / scale - std::log(total), 1e-5);
          }
        }
      }
}

}  // namespace
}  // namespace camshaft::llm::beam_search_test
