#include "llm/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "hwy/targets.h"
#include "llm/philox.h"
#include "llm/row_kernels.h"
#include "test_random.h"

namespace camshaft::llm::sampler_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
using Problem = Sampler::Problem;

SamplingState state_of(const SamplingParams& params) {
  SamplingState state;
  state.params = &params;
  return state;
}

SamplingParams with_temperature(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  return params;
}

std::vector<float> random_row(Random& random, size_t size, double spread = 3) {
  std::vector<float> row(size);
  for (float& logit : row) logit = static_cast<float>(random.normal() * spread);
  return row;
}

// What the parameters mean, written down as plainly as can be, in f64: vLLM's order, the lowest id first among equals.
std::vector<double> plain_distribution(const std::vector<float>& row, const SamplingParams& params) {
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return row[a] > row[b]; });
  std::vector<double> weights(row.size());
  const double largest = row[order[0]];
  for (size_t i = 0; i < row.size(); ++i)
    weights[i] = std::exp((static_cast<double>(row[i]) - largest) / static_cast<double>(params.temperature));
  for (double& weight : weights)
    if (weight < static_cast<double>(params.min_p)) weight = 0;
  if (params.top_k > 0)
    for (size_t i = static_cast<size_t>(params.top_k); i < order.size(); ++i) weights[order[i]] = 0;
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (const size_t i : order) {
    if (sum >= static_cast<double>(params.top_p) * total && params.top_p < 1) weights[i] = 0;
    sum += weights[i];
  }
  const double kept = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= kept;
  return weights;
}

TEST(Sampler, GreedyTakesTheLikeliestAndOfEqualOnesTheFirst) {
  Random random = test_random();
  const SamplingParams params = with_temperature(0);
  for (const int32_t size : {1, 2, 7, 63, 64, 65, 128, 1000, 5000}) {
    Sampler sampler(size);
    std::vector<float> row = random_row(random, static_cast<size_t>(size));
    for (int i = 0; i < 20; ++i) {
      const auto a = static_cast<size_t>(random.integer(0, size - 1)),
                 b = static_cast<size_t>(random.integer(0, size - 1));
      row[a] = row[b] = 100 + static_cast<float>(i);
      ASSERT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::none);
      ASSERT_EQ(sampler.draw(0.5), static_cast<int32_t>(std::min(a, b)));
    }
  }
}

TEST(Sampler, InfinitiesAndNaNsAreProblems) {
  for (const float temperature : {0.f, 1.f}) {
    const SamplingParams params = with_temperature(temperature);
    for (const size_t at : {size_t{0}, size_t{70}, size_t{199}}) {
      Sampler sampler(200);
      std::vector<float> row(200, 1.f);
      row[at] = nan;
      EXPECT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::not_finite) << at;
      row[at] = inf;
      EXPECT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::not_finite) << at;
      EXPECT_EQ(sampler.read_logprobs(row.data(), 1), Problem::not_finite) << at;
      row[at] = -inf;
      EXPECT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::none) << at;
    }
    Sampler sampler(200);
    std::vector<float> row(200, -inf);
    EXPECT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::nothing_allowed);
    row[100] = -1000;
    EXPECT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::none);
    EXPECT_EQ(sampler.draw(0.99), 100);
  }
}

TEST(Sampler, MasksBiasesAndPenaltiesChangeWhatIsLikely) {
  Sampler sampler(70);
  const std::vector<float> logits = [] {
    std::vector<float> row(70);
    for (size_t i = 0; i < 70; ++i) row[i] = static_cast<float>(i) / 10;
    return row;
  }();
  SamplingParams params = with_temperature(0);
  const auto choice = [&](const SamplingState& state) {
    std::vector<float> row = logits;
    return sampler.prepare(row.data(), state) == Problem::none ? sampler.draw(0) : -1;
  };
  SamplingState state = state_of(params);
  EXPECT_EQ(choice(state), 69);
  const std::vector<uint32_t> mask{0x80000001u, 0xFFFFFFFFu, 0};  // 0, 31 and 32 to 63
  state.allowed = mask;
  EXPECT_EQ(choice(state), 63);
  const std::vector<uint32_t> none(3, 0);
  state.allowed = none;
  EXPECT_EQ(choice(state), -1);
  state.allowed = {};
  params.logit_bias = {{3, 50.f}, {69, -50.f}};
  EXPECT_EQ(choice(state), 3);
  params.logit_bias.clear();
  const std::vector<int32_t> eos{69};
  state.eos_token_ids = eos;
  params.stop_token_ids = {68};
  params.min_tokens = 5;
  state.generated = 4;
  EXPECT_EQ(choice(state), 67);
  state.generated = 5;
  EXPECT_EQ(choice(state), 69);
  TokenCounts counts(10);
  counts.add_prompt(69);
  counts.add(68);
  counts.add(68);
  state.counts = &counts;
  EXPECT_EQ(choice(state), 69) << "without a penalty nothing is looked at";
  params.repetition_penalty = 1.1f;
  EXPECT_EQ(choice(state), 67);
  params.repetition_penalty = 1;
  params.presence_penalty = 0.5f;
  EXPECT_EQ(choice(state), 69) << "the prompt is not text";
  counts.add(69);
  EXPECT_EQ(choice(state), 67);
  counts.remove(69);
  EXPECT_EQ(choice(state), 69);
}

TEST(Sampler, PenaltiesAreTheirFormulas) {
  Random random = test_random();
  const std::vector<float> logits = random_row(random, 50);
  SamplingParams params = with_temperature(1);
  params.repetition_penalty = 1.7f;
  params.presence_penalty = 0.3f;
  params.frequency_penalty = -0.2f;
  TokenCounts counts(50);
  std::vector<int> generated(50, 0);
  std::vector<bool> in_prompt(50, false);
  for (int i = 0; i < 30; ++i) {
    const auto token = static_cast<int32_t>(random.integer(0, 49));
    if (random.uniform() < 0.5) {
      counts.add_prompt(token);
      in_prompt[static_cast<size_t>(token)] = true;
    } else {
      counts.add(token);
      ++generated[static_cast<size_t>(token)];
    }
  }
  std::vector<float> expected = logits;
  for (size_t i = 0; i < 50; ++i) {
    if (in_prompt[i] || generated[i] > 0) expected[i] = expected[i] > 0 ? expected[i] / 1.7f : expected[i] * 1.7f;
    expected[i] -= -0.2f * static_cast<float>(generated[i]);
    if (generated[i] > 0) expected[i] -= 0.3f;
  }
  SamplingState state = state_of(params);
  state.counts = &counts;
  Sampler sampler(50);
  std::vector<float> row = logits;
  ASSERT_EQ(sampler.prepare(row.data(), state), Problem::none);
  EXPECT_EQ(row, expected);
}

// Of sizes around vectors, chunks and blocks, with equal logits and excluded ones, by every way of choosing.
TEST(Sampler, ProbabilitiesAreThoseOfThePlainDefinition) {
  Random random = test_random();
  for (const int64_t target : {int64_t{0}, static_cast<int64_t>(HWY_STATIC_TARGET)}) {
    hwy::SetSupportedTargetsForTest(target);
    for (int round = 0; round < 60; ++round) {
      const auto size = static_cast<int32_t>(random.integer(1, round % 3 == 0 ? 5000 : 300));
      Sampler sampler(size);
      std::vector<float> row = random_row(random, static_cast<size_t>(size), random.uniform(0.01, 5));
      if (random.uniform() < 0.4)
        for (float& logit : row) logit = std::round(logit * 2) / 2;
      if (random.uniform() < 0.3)
        for (size_t i = 1; i < row.size(); ++i)
          if (random.uniform() < 0.5) row[i] = -inf;
      SamplingParams params = with_temperature(static_cast<float>(random.uniform(0.1, 3)));
      if (random.uniform() < 0.5) params.top_k = static_cast<int32_t>(random.integer(1, size));
      if (random.uniform() < 0.5) params.top_p = static_cast<float>(random.uniform(0.01, 1));
      if (random.uniform() < 0.3) params.min_p = static_cast<float>(random.uniform(0, 1));
      const std::vector<double> expected = plain_distribution(row, params);
      ASSERT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::none);
      std::vector<float> written(static_cast<size_t>(size));
      sampler.write_probabilities(written);
      for (int32_t token = 0; token < size; ++token)
        ASSERT_NEAR(written[static_cast<size_t>(token)], sampler.probability(token), 1e-6) << token;
      double difference = 0, total = 0;
      for (int32_t token = 0; token < size; ++token) {
        const double probability = sampler.probability(token);
        difference += std::abs(probability - expected[static_cast<size_t>(token)]);
        total += probability;
      }
      // A token at the very end of the nucleus may be in or out by rounding: its probability then.
      const double rounding = params.top_p < 1 || params.min_p > 0 ? 2.0 * std::ranges::max(expected) * 1e-2 : 0;
      ASSERT_NEAR(total, 1, 1e-4);
      ASSERT_LE(difference, 1e-4 + rounding)
          << "size " << size << " top_k " << params.top_k << " top_p " << params.top_p << " min_p " << params.min_p;
      for (const double u : {0.0, 0.3, 0.999999, 1 - 0x1p-53}) {
        const int32_t token = sampler.draw(u);
        ASSERT_TRUE(token >= 0 && token < size);
        ASSERT_GT(sampler.probability(token), 0) << u;
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

double chi_square(const std::vector<int64_t>& counts, const std::vector<double>& expected, int64_t draws,
                  int& freedom) {
  double sum = 0, rest = 0;
  int64_t rest_count = 0;
  freedom = -1;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double mean = expected[i] * static_cast<double>(draws);
    if (mean < 5) {  // together, as the approximation needs
      rest += mean;
      rest_count += counts[i];
      continue;
    }
    sum += (static_cast<double>(counts[i]) - mean) * (static_cast<double>(counts[i]) - mean) / mean;
    ++freedom;
  }
  if (rest > 5) {
    sum += (static_cast<double>(rest_count) - rest) * (static_cast<double>(rest_count) - rest) / rest;
    ++freedom;
  }
  return sum;
}

// 5 standard deviations: one run in 3 million is beyond.
TEST(Sampler, DrawsHaveTheDistribution) {
  const uint64_t seed = test_seed();
  Random random(seed);
  constexpr int64_t draws = 100'000;
  for (int kind = 0; kind < 5; ++kind) {
    const size_t size = kind == 4 ? 3000 : 100;
    std::vector<float> row = random_row(random, size, kind == 4 ? 0.3 : 1.5);
    SamplingParams params = with_temperature(kind == 1 ? 0.7f : 1.f);
    if (kind == 2) params.top_k = 20;
    if (kind == 3 || kind == 4) params.top_p = 0.9f;
    if (kind == 1) params.min_p = 0.01f;
    const std::vector<double> expected = plain_distribution(row, params);
    Sampler sampler(static_cast<int32_t>(size));
    ASSERT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::none);
    std::vector<int64_t> counts(size);
    for (int64_t i = 0; i < draws; ++i)
      ++counts[static_cast<size_t>(sampler.draw(uniform(seed, static_cast<uint64_t>(i), 0)))];
    int freedom = 0;
    const double sum = chi_square(counts, expected, draws, freedom);
    EXPECT_LE(sum, freedom + 5 * std::sqrt(2.0 * freedom)) << "kind " << kind << ", " << freedom << " degrees";
  }
}

// Guesses of another distribution, which are accepted as often as the rule says.
TEST(Sampler, VerifiedGuessesHaveTheDistribution) {
  const uint64_t seed = test_seed();
  Random random(seed);
  constexpr int64_t draws = 100'000;
  for (int kind = 0; kind < 6; ++kind) {
    constexpr size_t size = 90;
    std::vector<float> row = random_row(random, size, 1.5), guessed_row = row;
    for (float& logit : guessed_row) logit += static_cast<float>(random.normal());
    SamplingParams params = with_temperature(kind == 1 ? 0.7f : 1.f), of_guesses = params;
    if (kind == 2) params.top_k = 20;
    if (kind == 3) params.top_p = 0.8f, of_guesses.top_p = 0.9f;
    if (kind == 4) params.min_p = 0.05f, of_guesses.top_k = 5;  // much of p has no q
    if (kind == 5) guessed_row = row;
    const std::vector<double> expected = plain_distribution(row, params),
                              of_guess = plain_distribution(guessed_row, of_guesses);
    Sampler sampler(size), guesser(size);
    ASSERT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::none);
    ASSERT_EQ(guesser.prepare(guessed_row.data(), state_of(of_guesses)), Problem::none);
    std::vector<float> probabilities(size);
    guesser.write_probabilities(probabilities);
    std::vector<int64_t> counts(size);
    int64_t accepted = 0;
    for (int64_t i = 0; i < draws; ++i) {
      const auto place = static_cast<uint64_t>(i);
      const int32_t guess = guesser.draw(uniform(seed, place, 0, Purpose::guess));
      const int32_t token =
          sampler.verify(guess, probabilities, uniform(seed, place, 0, Purpose::acceptance), uniform(seed, place, 0));
      ++counts[static_cast<size_t>(token)];
      accepted += token == guess;
    }
    int freedom = 0;
    const double sum = chi_square(counts, expected, draws, freedom);
    EXPECT_LE(sum, freedom + 5 * std::sqrt(2.0 * freedom)) << "kind " << kind << ", " << freedom << " degrees";
    double common = 0;
    for (size_t i = 0; i < size; ++i) common += std::min(expected[i], of_guess[i]);
    EXPECT_NEAR(static_cast<double>(accepted) / static_cast<double>(draws), common, 0.01) << "kind " << kind;
  }
}

TEST(Sampler, LogprobsAreThoseOfTheModel) {
  Random random = test_random();
  for (const size_t size : {size_t{1}, size_t{65}, size_t{3000}}) {
    const std::vector<float> logits = random_row(random, size);
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    std::vector<size_t> order(size);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    SamplingParams params = with_temperature(0);
    params.logprobs = static_cast<int32_t>(std::min<size_t>(size, 5));
    if (size > 1) params.logit_bias = {{static_cast<int32_t>(order.back()), 100.f}};  // the choice is another one then
    Sampler sampler(static_cast<int32_t>(size));
    std::vector<float> row = logits;
    ASSERT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::none);
    const int32_t token = sampler.draw(0);
    EXPECT_EQ(static_cast<size_t>(token), order.back());
    std::vector<TokenLogprob> logprobs;
    sampler.logprobs(token, *params.logprobs, logprobs);
    ASSERT_EQ(logprobs.size(), static_cast<size_t>(*params.logprobs) + 1);
    const auto expect = [&](const TokenLogprob& logprob, size_t rank) {
      EXPECT_EQ(static_cast<size_t>(logprob.token), order[rank - 1]);
      EXPECT_EQ(static_cast<size_t>(logprob.rank), rank);
      EXPECT_NEAR(logprob.logprob, static_cast<double>(logits[order[rank - 1]]) - std::log(total), 1e-5);
    };
    expect(logprobs[0], size);
    for (size_t i = 1; i < logprobs.size(); ++i) expect(logprobs[i], i);
  }
}

TEST(Sampler, WhatTheModelExcludesHasNoLogprob) {
  std::vector<float> row{-inf, 1, -inf};
  SamplingParams params = with_temperature(0);
  params.logprobs = 3;
  Sampler sampler(3);
  ASSERT_EQ(sampler.prepare(row.data(), state_of(params)), Problem::none);
  std::vector<TokenLogprob> logprobs;
  sampler.logprobs(1, 3, logprobs);
  EXPECT_EQ(logprobs, (std::vector<TokenLogprob>{{1, 0, 1}, {1, 0, 1}, {-1, -inf, 0}, {-1, -inf, 0}}));
}

TEST(RowKernels, PassesAgreeWithPlainLoopsOnEveryTarget) {
  Random random = test_random();
  for (const int64_t target : {int64_t{0}, static_cast<int64_t>(HWY_STATIC_TARGET)}) {
    hwy::SetSupportedTargetsForTest(target);
    for (size_t size = 1; size < 300; size += 1 + size / 16) {
      const std::vector<float> row = random_row(random, size);
      std::vector<float> maxima(chunk_count(size));
      const RowMaximum maximum = find_maxima(row.data(), size, maxima.data());
      EXPECT_EQ(maximum.value, std::ranges::max(row));
      EXPECT_FALSE(maximum.has_invalid);
      for (size_t chunk = 0; chunk < maxima.size(); ++chunk)
        EXPECT_EQ(
            maxima[chunk],
            *std::max_element(row.begin() + static_cast<std::ptrdiff_t>(chunk * chunk_size),
                              row.begin() + static_cast<std::ptrdiff_t>(std::min(size, (chunk + 1) * chunk_size))));
      double sum = 0;
      std::vector<float> weights(size);
      write_exponentials(row.data(), size, maximum.value, 0.7f, 0.f, weights.data());
      for (size_t i = 0; i < size; ++i) {
        const double weight =
            row[i] < 0 ? 0 : std::exp((static_cast<double>(row[i]) - static_cast<double>(maximum.value)) * 0.7);
        EXPECT_NEAR(weights[i], weight, 1e-6);
        sum += weight;
      }
      EXPECT_NEAR(sum_exponentials(row.data(), size, maximum.value, 0.7f, 0.f), sum, 1e-6 * static_cast<double>(size));
      EXPECT_EQ(count_above(row.data(), size, 0.5f),
                static_cast<size_t>(std::ranges::count_if(row, [](float x) { return x > 0.5f; })));
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Philox, IsTheOneOfTheEngine) {
  Random random = test_random();
  for (int i = 0; i < 100; ++i) {
    const uint64_t seed = random.next(), position = random.next();
    const auto sample = static_cast<uint32_t>(random.next());
    const CounterRandom::Block block =
        CounterRandom::block({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), sample, 0},
                             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    EXPECT_EQ(uniform(seed, position, sample),
              static_cast<double>(((uint64_t{block[0]} << 32) | block[1]) >> 11) * 0x1p-53);
  }
}

}  // namespace
}  // namespace camshaft::llm::sampler_test
