#include "llm/timestamp_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "llm/sampler.h"
#include "test_random.h"

namespace camshaft::llm::timestamp_rules_test {
namespace {

// Tokens 0 to 9 are words, 10 ends the text, 11 promises no times, 12 to 19 are times.
constexpr int32_t end_of_text = 10, no_timestamps = 11, first_time = 12;
constexpr size_t vocabulary = 20;
constexpr TimestampRules rules{.begin = first_time, .no_timestamps = no_timestamps, .max_initial = 3};

// Words are likely enough that the sum of all times does not exclude them.
std::set<int32_t> allowed(const std::vector<int32_t>& text, float of_words = 9) {
  std::vector<float> logits(vocabulary, 0.0F);
  for (int32_t token = 0; token < first_time; ++token) logits[static_cast<size_t>(token)] = of_words;
  apply_timestamp_rules(rules, text, end_of_text, logits);
  std::set<int32_t> made;
  for (size_t token = 0; token < vocabulary; ++token)
    if (std::isfinite(logits[token])) made.insert(static_cast<int32_t>(token));
  return made;
}

std::set<int32_t> range(int32_t begin, int32_t end) {
  std::set<int32_t> made;
  for (int32_t token = begin; token < end; ++token) made.insert(token);
  return made;
}

std::set<int32_t> both(std::set<int32_t> a, const std::set<int32_t>& b) {
  a.insert(b.begin(), b.end());
  return a;
}

TEST(TimestampRules, ATextBeginsWithATimeThatIsNotLate) {
  EXPECT_EQ(allowed({}), range(12, 16));
}

TEST(TimestampRules, BehindABeginningThereAreWords) {
  EXPECT_EQ(allowed({12}), range(0, 11));
}

TEST(TimestampRules, BehindWordsATimeIsLaterThanTheLast) {
  EXPECT_EQ(allowed({12, 5}), both(range(0, 11), range(13, 20)));
  EXPECT_EQ(allowed({12, 5, 6}), both(range(0, 11), range(13, 20)));
  EXPECT_EQ(allowed({19, 5}), range(0, 11));
}

TEST(TimestampRules, BehindAnEndTheNextPartBeginsOrTheTextEnds) {
  EXPECT_EQ(allowed({12, 5, 15}), both({10}, range(15, 20)));
  EXPECT_EQ(allowed({12, 5, 15, 15}), range(0, 11));
  EXPECT_EQ(allowed({12, 5, 15, 17, 3}), both(range(0, 11), range(18, 20)));
}

TEST(TimestampRules, TimesThatAreLikelierTogetherExcludeAllElse) {
  // Seven times of weight 1 against words of exp(of_words).
  EXPECT_EQ(allowed({12, 5}, std::log(7.0F) - 0.01F), range(13, 20));
  EXPECT_EQ(allowed({12, 5}, std::log(7.0F) + 0.01F), both(range(0, 11), range(13, 20)));
}

TEST(TimestampRules, WithoutTimesNothingChanges) {
  std::vector<float> logits(5, 1.0F);
  apply_timestamp_rules({.begin = 5, .no_timestamps = 2}, {}, 1, logits);
  EXPECT_EQ(logits, std::vector<float>(5, 1.0F));
}

// What the sampler writes by the rules keeps them, whatever the logits are.
TEST(TimestampRules, SampledTextsKeepThem) {
  Random random(test_seed());
  SamplingParams params;
  params.timestamps = rules;
  params.suppress_tokens = {4};
  params.begin_suppress_tokens = {13};
  Sampler sampler(static_cast<int32_t>(vocabulary));
  const std::vector<int32_t> ends{end_of_text};
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> text;
    while (text.size() < 30) {
      std::vector<float> logits(vocabulary);
      for (float& logit : logits) logit = static_cast<float>(random.normal() * 2);
      const SamplingState state{.params = &params,
                                .counts = nullptr,
                                .allowed = {},
                                .eos_token_ids = ends,
                                .generated = static_cast<int32_t>(text.size()),
                                .text = text};
      ASSERT_EQ(sampler.prepare(logits.data(), state), Sampler::Problem::none);
      text.push_back(sampler.draw(random.uniform()));
      if (text.back() == end_of_text) break;
    }
    EXPECT_TRUE(text[0] >= first_time && text[0] <= first_time + 3 && text[0] != 13);
    int32_t last = 0, in_a_row = 0;
    bool has_begun = false;
    for (const int32_t token : text) {
      EXPECT_TRUE(token != no_timestamps && token != 4);
      if (token < first_time) {
        EXPECT_TRUE(has_begun || token == end_of_text) << "words outside of times";
        in_a_row = 0;
        continue;
      }
      EXPECT_GE(token, last);
      EXPECT_LE(++in_a_row, 2);
      has_begun = in_a_row == 2 || !has_begun;
      last = token;
    }
  }
}

}  // namespace
}  // namespace camshaft::llm::timestamp_rules_test
