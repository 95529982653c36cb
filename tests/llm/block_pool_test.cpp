#include "llm/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <vector>

#include "camshaft/error.hpp"
#include "test_random.h"

namespace camshaft::llm::block_pool_test {
namespace {

using Tokens = std::vector<int32_t>;

Tokens tokens_from(int32_t first, int32_t count) {
  Tokens tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

// The blocks of a sequence, all full and published.
std::vector<BlockId> publish(BlockPool& pool, const Tokens& tokens, uint64_t salt = 0) {
  std::vector<BlockId> blocks;
  const auto size = static_cast<size_t>(pool.block_size());
  for (size_t at = 0; at + size <= tokens.size(); at += size) {
    const BlockId parent = blocks.empty() ? -1 : blocks.back();
    blocks.push_back(pool.publish(pool.allocate(), parent, salt, std::span(tokens).subspan(at, size)));
  }
  return blocks;
}

void release(BlockPool& pool, const std::vector<BlockId>& blocks) {
  for (size_t i = blocks.size(); i-- > 0;) pool.release(blocks[i]);
}

std::vector<BlockId> find(BlockPool& pool, const Tokens& tokens, uint64_t salt = 0) {
  std::vector<BlockId> found;
  pool.find_prefix(tokens, salt, found);
  return found;
}

TEST(BlockPool, GivesAllItHasThenNone) {
  BlockPool pool(3, 4);
  for (BlockId expected = 0; expected < 3; ++expected) EXPECT_EQ(pool.allocate(), expected);
  EXPECT_EQ(pool.allocate(), -1);
  EXPECT_EQ(pool.available(), 0);
  pool.release(1);
  EXPECT_EQ(pool.allocate(), 1);
}

TEST(BlockPool, FindsTheLongestPrefixOfFullBlocks) {
  BlockPool pool(8, 4);
  const std::vector<BlockId> blocks = publish(pool, tokens_from(0, 12));
  EXPECT_EQ(find(pool, tokens_from(0, 12)), blocks);
  EXPECT_EQ(find(pool, tokens_from(0, 11)).size(), 2U);
  EXPECT_EQ(find(pool, tokens_from(0, 3)).size(), 0U);
  Tokens other = tokens_from(0, 12);
  other[5] = 99;
  EXPECT_EQ(find(pool, other).size(), 1U);
  EXPECT_EQ(find(pool, tokens_from(4, 4)).size(), 0U) << "the same tokens behind others are others";
  EXPECT_EQ(pool.references(blocks[0]), 4);
}

TEST(BlockPool, SaltsShareNothing) {
  BlockPool pool(8, 4);
  publish(pool, tokens_from(0, 8), 1);
  EXPECT_EQ(find(pool, tokens_from(0, 8), 1).size(), 2U);
  EXPECT_TRUE(find(pool, tokens_from(0, 8), 2).empty());
}

TEST(BlockPool, TheSameBlockOfTwoSequencesIsKeptOnce) {
  BlockPool pool(8, 4);
  const std::vector<BlockId> first = publish(pool, tokens_from(0, 8)), second = publish(pool, tokens_from(0, 8));
  EXPECT_EQ(first, second);
  EXPECT_EQ(pool.available(), 6);
  EXPECT_EQ(pool.references(first[0]), 2);
}

TEST(BlockPool, EvictsWhatWasNotUsedForLongestAndItsEndFirst) {
  BlockPool pool(4, 4);
  const std::vector<BlockId> first = publish(pool, tokens_from(0, 8)), second = publish(pool, tokens_from(100, 8));
  release(pool, first);
  release(pool, second);
  EXPECT_EQ(pool.available(), 4);
  release(pool, find(pool, tokens_from(0, 8)));  // used again: the second is older now
  EXPECT_EQ(pool.allocate(), second[1]);
  EXPECT_EQ(find(pool, tokens_from(100, 8)).size(), 1U);
  pool.release(second[0]);
  EXPECT_EQ(pool.allocate(), first[1]);
  EXPECT_EQ(pool.evictions(), 2);
}

TEST(BlockPool, WhatIsBehindAnEvictedBlockIsNotFoundBehindAnotherInItsPlace) {
  BlockPool pool(2, 4);
  const std::vector<BlockId> blocks = publish(pool, tokens_from(0, 8));
  pool.release(blocks[0]);  // against the rule: the beginning first
  const BlockId again = pool.allocate();
  ASSERT_EQ(again, blocks[0]);
  EXPECT_EQ(pool.publish(again, -1, 0, tokens_from(50, 4)), again);
  Tokens mixed = tokens_from(50, 4);
  for (const int32_t token : tokens_from(4, 4)) mixed.push_back(token);
  EXPECT_EQ(find(pool, mixed).size(), 1U);
}

TEST(BlockPool, CollisionsOfHashesAreNotTakenForEqual) {
  BlockPool pool(16, 4, true, [](uint64_t, uint64_t, std::span<const int32_t>) -> uint64_t { return 7; });
  publish(pool, tokens_from(0, 8));
  publish(pool, tokens_from(100, 8));
  EXPECT_EQ(find(pool, tokens_from(0, 8)).size(), 2U);
  EXPECT_EQ(find(pool, tokens_from(100, 8)).size(), 2U);
  EXPECT_TRUE(find(pool, tokens_from(200, 8)).empty());
  EXPECT_TRUE(find(pool, tokens_from(4, 4)).empty());
}

TEST(BlockPool, WithoutCachingNothingIsFound) {
  BlockPool pool(4, 4, false);
  release(pool, publish(pool, tokens_from(0, 8)));
  EXPECT_TRUE(find(pool, tokens_from(0, 8)).empty());
  EXPECT_EQ(pool.available(), 4);
}

TEST(BlockPool, SizesBelowOneAreRefused) {
  EXPECT_THROW(BlockPool(0, 16), Error);
  EXPECT_THROW(BlockPool(16, 0), Error);
}

// Beside a model of maps and lists: which blocks have how many references, what is found, and what is evicted.
TEST(BlockPool, AgreesWithAPlainModelInRandomUse) {
  Random random = test_random();
  for (int round = 0; round < 20; ++round) {
    const auto blocks = static_cast<int32_t>(random.integer(1, 24)), size = static_cast<int32_t>(random.integer(1, 4));
    const bool collide = random.uniform() < 0.3;
    BlockPool pool(blocks, size, true,
                   collide ? +[](uint64_t, uint64_t, std::span<const int32_t> t) -> uint64_t { return t[0] % 2; }
                           : nullptr);
    struct Used {
      Tokens tokens;  // of full and published blocks
      std::vector<BlockId> blocks;
    };
    std::vector<Used> sequences;
    std::map<BlockId, int> references;
    std::map<Tokens, BlockId> published;  // by everything from the start
    std::list<BlockId> idle;              // the oldest first
    const auto drop = [&](BlockId block) {
      if (--references[block] > 0) return;
      references.erase(block);
      if (std::ranges::any_of(published, [&](const auto& p) { return p.second == block; })) idle.push_back(block);
    };
    for (int step = 0; step < 300; ++step) {
      if (!sequences.empty() && random.uniform() < 0.3) {  // one ends
        const auto which = static_cast<size_t>(random.integer(0, std::ssize(sequences) - 1));
        for (size_t i = sequences[which].blocks.size(); i-- > 0;) {
          pool.release(sequences[which].blocks[i]);
          drop(sequences[which].blocks[i]);
        }
        sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (sequences.empty() || random.uniform() < 0.4) {  // one begins, with what is known
        Tokens tokens;
        for (int64_t n = random.integer(0, 5 * size); n > 0; --n)
          tokens.push_back(static_cast<int32_t>(random.integer(0, 1)));
        Used used;
        pool.find_prefix(tokens, 0, used.blocks);
        std::vector<BlockId> expected;
        for (size_t end = static_cast<size_t>(size); end <= tokens.size(); end += static_cast<size_t>(size)) {
          const auto known = published.find(Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end)));
          if (known == published.end()) break;
          expected.push_back(known->second);
          idle.remove(known->second);
          ++references[known->second];
          used.tokens = known->first;
        }
        ASSERT_EQ(used.blocks, expected);
        sequences.push_back(std::move(used));
      } else {  // one gets a block more
        Used& used = sequences[static_cast<size_t>(random.integer(0, std::ssize(sequences) - 1))];
        const BlockId block = pool.allocate();
        if (block < 0) {
          ASSERT_EQ(references.size(), static_cast<size_t>(blocks));
          continue;
        }
        ASSERT_FALSE(references.contains(block));
        const bool is_free = std::ranges::none_of(published, [&](const auto& p) { return p.second == block; });
        if (!is_free) {
          ASSERT_EQ(block, idle.front());
          ASSERT_EQ(references.size() + idle.size(), static_cast<size_t>(blocks)) << "a free one was there";
          idle.pop_front();
          std::erase_if(published, [&](const auto& p) { return p.second == block; });
        }
        references[block] = 1;
        Tokens added;
        for (int32_t i = 0; i < size; ++i) added.push_back(static_cast<int32_t>(random.integer(0, 1)));
        Tokens all = used.tokens;
        all.insert(all.end(), added.begin(), added.end());
        const BlockId now = pool.publish(block, used.blocks.empty() ? -1 : used.blocks.back(), 0, added);
        if (const auto known = published.find(all); known != published.end()) {
          ASSERT_EQ(now, known->second);
          idle.remove(now);
          ++references[now];
          drop(block);
        } else {
          ASSERT_EQ(now, block);
          published[all] = block;
        }
        used.blocks.push_back(now);
        used.tokens = all;
      }
      ASSERT_EQ(pool.available(), blocks - static_cast<int32_t>(references.size()));
      for (const auto& [block, count] : references) ASSERT_EQ(pool.references(block), count);
    }
  }
}

}  // namespace
}  // namespace camshaft::llm::block_pool_test
