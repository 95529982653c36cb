#include "llm/ngram_index.h"

#include <gtest/gtest.h>

#include "test_random.h"

namespace camshaft::llm::ngram_index_test {
namespace {

using Tokens = std::vector<int32_t>;

Tokens propose(const Tokens& tokens, int32_t count, int32_t least = 1, int32_t most = 4) {
  NgramIndex index(least, most, tokens.size());
  index.extend(tokens);
  Tokens proposed;
  index.propose(tokens, count, proposed);
  return proposed;
}

TEST(NgramIndex, ProposesWhatFollowedTheLastTokens) {
  EXPECT_EQ(propose({1, 2, 3, 4, 5, 1, 2}, 3), Tokens({3, 4, 5}));
  EXPECT_EQ(propose({1, 2, 3, 4, 5, 1, 2}, 10), Tokens({3, 4, 5, 1, 2})) << "not behind the end";
  EXPECT_EQ(propose({1, 2, 3}, 3), Tokens());
}

TEST(NgramIndex, ALongerMatchGoesBeforeALaterOne) {
  EXPECT_EQ(propose({1, 2, 3, 9, 2, 7, 1, 2}, 1), Tokens({3}));
  EXPECT_EQ(propose({5, 2, 3, 9, 2, 7, 1, 2}, 1), Tokens({7})) << "of equally long ones the last";
}

TEST(NgramIndex, ShorterMatchesThanTheLeastAreNone) {
  EXPECT_EQ(propose({1, 2, 3, 9, 2}, 1, 2, 4), Tokens());
  EXPECT_EQ(propose({1, 2, 3, 1, 2}, 1, 2, 4), Tokens({3}));
}

TEST(NgramIndex, ATextOfOneTokenGoesOn) {
  EXPECT_EQ(propose(Tokens(1000, 7), 3), Tokens({7, 7, 7}));
  EXPECT_EQ(propose({7, 7, 7}, 3), Tokens({7})) << "a longer match goes first";
}

TEST(NgramIndex, NothingIsProposedForFewTokensOrNone) {
  EXPECT_EQ(propose({}, 3), Tokens());
  EXPECT_EQ(propose({1}, 3), Tokens());
  EXPECT_EQ(propose({1, 1}, 0), Tokens());
}

// A search of the whole text finds the same, grown token by token.
TEST(NgramIndex, FindsWhatASearchFinds) {
  Random random = test_random();
  for (int round = 0; round < 50; ++round) {
    const auto least = static_cast<int32_t>(random.integer(1, 3)),
               most = least + static_cast<int32_t>(random.integer(0, 3));
    NgramIndex index(least, most, 200);
    Tokens tokens;
    for (int step = 0; step < 200; ++step) {
      tokens.push_back(static_cast<int32_t>(random.integer(0, 19)));
      if (random.uniform() < 0.2) continue;
      index.extend(tokens);
      const auto count = static_cast<int32_t>(random.integer(0, 5));
      Tokens proposed;
      index.propose(tokens, count, proposed);
      size_t best = 0, longest = 0, behind = 0;
      for (size_t end = tokens.size() - 1; end >= 1; --end) {
        size_t length = 0;
        while (length < static_cast<size_t>(most) && length < end &&
               tokens[end - 1 - length] == tokens[tokens.size() - 1 - length])
          ++length;
        const size_t follow = std::min(static_cast<size_t>(count), tokens.size() - end);
        if (length < static_cast<size_t>(least) || length < longest || (length == longest && follow <= behind))
          continue;
        best = end, longest = length, behind = follow;
      }
      if (count == 0 || best == 0) {
        ASSERT_TRUE(proposed.empty());
        continue;
      }
      ASSERT_EQ(proposed.size(), behind);
      ASSERT_TRUE(std::equal(proposed.begin(), proposed.end(), tokens.begin() + static_cast<std::ptrdiff_t>(best)))
          << "round " << round << " step " << step;
    }
  }
}

}  // namespace
}  // namespace camshaft::llm::ngram_index_test
