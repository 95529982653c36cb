// Blocks that leave the cache for the host's memory, and come back.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "camshaft/error.hpp"
#include "llm/random_requests.h"
#include "test_random.h"

namespace camshaft::llm::offload_test {
namespace {

constexpr int32_t block_size = 4;

std::vector<int32_t> numbered(int32_t first, size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// What a chain of `tokens` has, published; the blocks are released.
void fill(BlockPool& pool, std::span<const int32_t> tokens) {
  std::vector<BlockId> blocks;
  for (size_t at = 0; at < tokens.size(); at += block_size) {
    blocks.push_back(pool.allocate());
    blocks.back() =
        pool.publish(blocks.back(), at == 0 ? -1 : blocks[blocks.size() - 2], 0, tokens.subspan(at, block_size));
  }
  while (!blocks.empty()) {
    pool.release(blocks.back());
    blocks.pop_back();
  }
}

std::vector<BlockId> found_in(BlockPool& pool, std::span<const int32_t> tokens) {
  std::vector<BlockId> found;
  pool.find_prefix(tokens, 0, found);
  return found;
}

TEST(Offload, WhatLeavesThePoolIsFoundInTheHostsMemory) {
  BlockPool pool(3, block_size, true, nullptr, 8);
  const std::vector<int32_t> first = numbered(0, 12), second = numbered(100, 8);
  fill(pool, first);
  EXPECT_TRUE(pool.leaving().empty());
  fill(pool, second);
  ASSERT_EQ(pool.leaving().size(), 2U);
  EXPECT_EQ(pool.offloaded(), 2);
  pool.finish_copies();

  std::vector<BlockId> found = found_in(pool, first);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_GE(found[0], 0) << "the beginning is the last to go";
  EXPECT_EQ(BlockPool::absent(found), 2);
  pool.restore(found);
  EXPECT_EQ(BlockPool::absent(found), 0);
  ASSERT_EQ(pool.coming().size(), 2U);
  EXPECT_EQ(pool.coming()[0].to, found[1]);
  EXPECT_EQ(pool.coming()[1].to, found[2]);
  EXPECT_EQ(pool.leaving().size(), 2U) << "the second one's go";
  pool.finish_copies();
  for (size_t i = found.size(); i-- > 0;) pool.release(found[i]);

  // What came back is in the host's memory still: it leaves without a copy.
  found = found_in(pool, second);
  pool.restore(found);
  EXPECT_EQ(pool.coming().size(), 2U);
  EXPECT_TRUE(pool.leaving().empty());
  EXPECT_EQ(pool.offloaded(), 4);
  EXPECT_EQ(pool.restored(), 4);
}

TEST(Offload, TheOldestLeavesTheHostsMemoryAndWhatStandsBehindItIsNotFound) {
  BlockPool pool(2, block_size, true, nullptr, 2);
  const std::vector<int32_t> first = numbered(0, 8), second = numbered(100, 8), third = numbered(200, 8);
  fill(pool, first);
  fill(pool, second);  // the first is in the host's memory
  fill(pool, third);   // the second is, the first is gone
  pool.finish_copies();
  EXPECT_TRUE(found_in(pool, first).empty());
  std::vector<BlockId> found = found_in(pool, second);
  EXPECT_EQ(found.size(), 2U);
  EXPECT_EQ(BlockPool::absent(found), 2);
  BlockPool::forget_absent(found);
  EXPECT_TRUE(found.empty());
}

TEST(Offload, WhatIsComputedAgainLeadsToWhatStandsBehindIt) {
  BlockPool pool(2, block_size, true, nullptr, 8);
  const std::vector<int32_t> first = numbered(0, 8), second = numbered(100, 8);
  fill(pool, first);
  fill(pool, second);
  fill(pool, std::span(first).first(block_size));  // somebody who may not look for it
  pool.finish_copies();
  const std::vector<BlockId> found = found_in(pool, first);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_GE(found[0], 0);
  EXPECT_LT(found[1], 0);
}

TEST(Offload, CopiesThatWereNotDoneAreForgotten) {
  BlockPool pool(2, block_size, true, nullptr, 8);
  const std::vector<int32_t> first = numbered(0, 8), second = numbered(100, 8);
  fill(pool, first);
  fill(pool, second);
  pool.finish_copies();
  std::vector<BlockId> found = found_in(pool, first);
  pool.restore(found);
  EXPECT_EQ(pool.leaving().size(), 2U);
  pool.abandon_copies();
  for (size_t i = found.size(); i-- > 0;) pool.release(found[i]);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_TRUE(found_in(pool, second).empty()) << "they were to leave";
  found = found_in(pool, first);
  EXPECT_EQ(BlockPool::absent(found), 2) << "they are where they were";
}

// What the copies would move, done one after the other, is what the pool says that blocks hold.
TEST(Offload, RandomUseHoldsWhatThePoolSays) {
  Random random = test_random();
  constexpr int32_t blocks = 12, slots = 9;
  BlockPool pool(blocks, block_size, true, nullptr, slots);
  std::vector<std::vector<int32_t>> held(blocks), on_host(slots);
  struct Chain {
    std::vector<int32_t> tokens;
    std::vector<BlockId> blocks;
  };
  std::vector<Chain> chains;
  int64_t restored = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (!chains.empty() && (chains.size() > 3 || random.uniform() < 0.5)) {
      const auto which = static_cast<size_t>(random.integer(0, std::ssize(chains) - 1));
      for (size_t i = chains[which].blocks.size(); i-- > 0;) pool.release(chains[which].blocks[i]);
      chains.erase(chains.begin() + static_cast<std::ptrdiff_t>(which));
    }
    Chain chain;
    for (int64_t n = random.integer(1, 4); n > 0; --n) {
      const auto value = static_cast<int32_t>(random.integer(0, 2));
      chain.tokens.insert(chain.tokens.end(), block_size, value);
    }
    pool.find_prefix(chain.tokens, 0, chain.blocks);
    const auto wanted =
        static_cast<int32_t>(chain.tokens.size() / block_size - chain.blocks.size()) + BlockPool::absent(chain.blocks);
    const bool is_wanted = random.uniform() < 0.8 && wanted <= pool.available();
    if (!is_wanted) {
      BlockPool::forget_absent(chain.blocks);
      for (size_t i = chain.blocks.size(); i-- > 0;) pool.release(chain.blocks[i]);
      continue;
    }
    pool.restore(chain.blocks);
    const size_t known = chain.blocks.size();
    for (size_t i = known; i < chain.tokens.size() / block_size; ++i) chain.blocks.push_back(pool.allocate());
    for (const BlockCopy& copy : pool.leaving())
      on_host[static_cast<size_t>(copy.to)] = held[static_cast<size_t>(copy.from)];
    for (const BlockCopy& copy : pool.coming())
      held[static_cast<size_t>(copy.to)] = on_host[static_cast<size_t>(copy.from)];
    restored += std::ssize(pool.coming());
    pool.finish_copies();
    for (size_t i = 0; i < chain.blocks.size(); ++i) {
      const std::vector<int32_t> text(chain.tokens.begin(),
                                      chain.tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * block_size));
      if (i < known) {
        ASSERT_EQ(held[static_cast<size_t>(chain.blocks[i])], text) << round;
        continue;
      }
      held[static_cast<size_t>(chain.blocks[i])] = text;
      chain.blocks[i] =
          pool.publish(chain.blocks[i], i == 0 ? -1 : chain.blocks[i - 1], 0, std::span(text).last(block_size));
    }
    chains.push_back(std::move(chain));
  }
  EXPECT_GT(restored, 1000);
  for (const Chain& chain : chains)
    for (const BlockId block : chain.blocks) pool.release(block);
  EXPECT_EQ(pool.available(), blocks);
}

struct Served {
  explicit Served(int32_t host_blocks)
      : model(24, block_size, random_vocabulary), generator(model, config(host_blocks)) {}
  static GeneratorConfig config(int32_t host_blocks) {
    GeneratorConfig made = small_config(24, block_size);
    made.scheduler.max_model_len = 80;
    made.scheduler.num_host_blocks = host_blocks;
    return made;
  }
  FakeModel model;
  Generator generator;
};

// Two texts of which one has room at a time: each is preempted for the other.
TEST(Offload, PreemptedTextsComeBackInsteadOfBeingComputedAgain) {
  std::map<int32_t, Texts> texts;
  std::map<int32_t, GeneratorStatistics> statistics;
  for (const int32_t host_blocks : {0, 64}) {
    Served served(host_blocks);
    SamplingParams params = greedy_params(40);
    params.ignore_eos = true;
    Request slow = request_of(numbered(1, 40), params);
    slow.priority = 1;
    served.generator.add(slow);
    Texts& known = texts[host_blocks];
    for (int step = 0; step < 8; ++step) collect(served.generator.step(), known);
    served.generator.add(request_of(numbered(11, 40), params));
    for (const auto& [id, text] : finish_all(served.generator)) {
      Text& all = known[id];
      all.tokens.insert(all.tokens.end(), text.tokens.begin(), text.tokens.end());
      all.finish = text.finish;
    }
    statistics[host_blocks] = served.generator.statistics();
    EXPECT_EQ(served.model.offloaded, statistics[host_blocks].offloaded);
    EXPECT_EQ(served.model.restored, statistics[host_blocks].restored);
  }
  EXPECT_EQ(texts[0], texts[64]);
  EXPECT_GT(statistics[0].preemptions, 0);
  EXPECT_EQ(statistics[64].preemptions, statistics[0].preemptions);
  EXPECT_GT(statistics[64].restored, 8);
  // What came back was not computed; the block that was not full is.
  EXPECT_EQ(statistics[0].tokens - statistics[64].tokens, block_size * statistics[64].restored);
}

TEST(Offload, PromptsThatLeftTheCacheAreFoundAgain) {
  Served served(64);
  const SamplingParams params = greedy_params(2);
  const auto cached = [&](std::vector<int32_t> prompt) {
    served.generator.add(request_of(std::move(prompt), params));
    int32_t found = -1;
    while (served.generator.has_work())
      for (const Event& event : served.generator.step()) found = event.cached_tokens;
    return found;
  };
  EXPECT_EQ(cached(numbered(1, 42)), 0);
  for (int32_t other = 0; other < 4; ++other) cached(std::vector<int32_t>(60, other + 2));
  EXPECT_EQ(cached(numbered(1, 42)), 40);
  EXPECT_GT(served.generator.statistics().restored, 0);
}

// Blocks that were not filled are nobody's, and what comes later is right.
TEST(Offload, CopiesThatFailEndTheRequestsOfTheStep) {
  Served served(64), plain(0);
  const SamplingParams params = greedy_params(2);
  const auto text_of = [&](Served& one, const std::vector<int32_t>& prompt) {
    one.generator.add(request_of(prompt, params));
    return finish_all(one.generator).begin()->second;
  };
  const std::vector<int32_t> prompt = numbered(1, 42);
  const Text expected = text_of(plain, prompt);
  EXPECT_EQ(text_of(served, prompt), expected);
  for (int32_t other = 0; other < 4; ++other) text_of(served, std::vector<int32_t>(60, other + 2));
  served.model.throw_at_restore = served.model.restores;
  const Text failed = text_of(served, prompt);
  EXPECT_EQ(failed.finish, FinishReason::error);
  EXPECT_EQ(failed.error, "the copies are out of order");
  EXPECT_EQ(text_of(served, prompt), expected);
  EXPECT_EQ(served.generator.statistics().free_blocks, 24);
}

TEST(Offload, NeedsTheCacheOfPrefixes) {
  GeneratorConfig config = Served::config(4);
  config.scheduler.enable_prefix_caching = false;
  FakeModel model(24, block_size, random_vocabulary);
  EXPECT_THROW(Generator(model, config), Error);
  EXPECT_EQ(parse_generator_config(R"({"num_host_blocks": 5})").scheduler.num_host_blocks, 5);
}

}  // namespace
}  // namespace camshaft::llm::offload_test
