#include "llm/scheduler.h"

#include <gtest/gtest.h>

#include <memory>

#include "camshaft/error.hpp"
#include "test_random.h"

namespace camshaft::llm::scheduler_test {
namespace {

SchedulerConfig small() {
  SchedulerConfig config;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 16;
  config.max_model_len = 64;
  config.block_size = 4;
  config.num_blocks = 64;
  return config;
}

class Schedule {
 public:
  explicit Schedule(const SchedulerConfig& config) : scheduler(config) {}

  Sequence& add(int32_t length, int32_t priority = 0, int32_t first = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->params = std::make_shared<SamplingParams>();
    sequence->arrival = sequences.size();
    sequence->priority = priority;
    sequence->prompt_length = length;
    sequence->longest = 64;
    for (int32_t i = 0; i < length; ++i) sequence->tokens.push_back(first + i);
    scheduler.add(*sequence);
    sequences.push_back(std::move(sequence));
    return *sequences.back();
  }
  /// Tokens of each sequence in the next step, by arrival; sequences that come to their end get a token.
  std::vector<int32_t> step() {
    std::vector<int32_t> scheduled(sequences.size(), 0);
    if (!scheduler.plan()) return scheduled;
    for (const auto& sequence : sequences) {
      if (sequence->slot < 0) continue;
      scheduled[sequence->arrival] = sequence->scheduled;
      if (sequence->scheduled == 0) continue;
      scheduler.commit(*sequence, sequence->computed + sequence->scheduled);
      if (sequence->missing() == 0) sequence->tokens.push_back(1000);
    }
    return scheduled;
  }

  Scheduler scheduler;
  std::vector<std::unique_ptr<Sequence>> sequences;
};

using Tokens = std::vector<int32_t>;

TEST(Scheduler, PromptsAreCutAndMixedWithDecoding) {
  Schedule schedule(small());
  schedule.add(10, 0, 0);
  schedule.add(20, 0, 100);
  schedule.add(3, 0, 200);
  EXPECT_EQ(schedule.step(), Tokens({10, 6, 0}));
  EXPECT_EQ(schedule.step(), Tokens({1, 14, 1}));
  EXPECT_EQ(schedule.step(), Tokens({1, 1, 2}));
  EXPECT_EQ(schedule.step(), Tokens({1, 1, 1}));
}

TEST(Scheduler, NoMoreRunThanMayAtOnce) {
  Schedule schedule(small());
  for (int i = 0; i < 6; ++i) schedule.add(2, 0, i * 100);
  EXPECT_EQ(schedule.step(), Tokens({2, 2, 2, 2, 0, 0}));
  schedule.scheduler.remove(*schedule.sequences[1]);
  EXPECT_EQ(schedule.step(), Tokens({1, 0, 1, 1, 2, 0}));
  std::vector<bool> slots(4, false);
  for (const Sequence* running : schedule.scheduler.running()) slots[static_cast<size_t>(running->slot)] = true;
  EXPECT_EQ(slots, std::vector<bool>(4, true));
}

TEST(Scheduler, TheMoreUrgentGoesFirstAndTakesAPlace) {
  Schedule schedule(small());
  for (int i = 0; i < 4; ++i) schedule.add(2, 5, i * 100);
  EXPECT_EQ(schedule.step(), Tokens({2, 2, 2, 2}));
  schedule.add(2, 5, 400);
  schedule.add(2, 1, 500);
  EXPECT_EQ(schedule.step(), Tokens({1, 1, 1, 0, 0, 2}));
  EXPECT_EQ(schedule.scheduler.preemptions(), 1);
  EXPECT_EQ(schedule.sequences[3]->slot, -1);
  EXPECT_EQ(schedule.scheduler.waiting(), 2U);
}

TEST(Scheduler, WhoCameLastGivesItsBlocksUp) {
  SchedulerConfig config = small();
  config.num_blocks = 16;
  config.enable_prefix_caching = false;
  Schedule schedule(config);
  schedule.add(15, 0, 0);
  schedule.add(15, 0, 100);
  for (int i = 0; i < 60 && schedule.scheduler.preemptions() == 0; ++i) schedule.step();
  EXPECT_EQ(schedule.scheduler.preemptions(), 1);
  EXPECT_GE(schedule.sequences[0]->slot, 0);
  EXPECT_EQ(schedule.sequences[1]->slot, -1);
  EXPECT_EQ(schedule.sequences[1]->computed, 0);
  const int32_t length = schedule.sequences[1]->length();
  EXPECT_GT(length, 16) << "its text stays";
  schedule.scheduler.remove(*schedule.sequences[0]);
  EXPECT_EQ(schedule.step()[1], 16);
}

TEST(Scheduler, TheBeginningOfAPromptIsComputedOnce) {
  Schedule schedule(small());
  schedule.add(12);
  EXPECT_EQ(schedule.step(), Tokens({12}));
  schedule.add(12);  // its last token is computed again, for its logits: with its block
  EXPECT_EQ(schedule.step(), Tokens({1, 4}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(schedule.sequences[0]->blocks[i], schedule.sequences[1]->blocks[i]);
}

TEST(Scheduler, ForksShareBlocksUntilTheyWrite) {
  Schedule schedule(small());
  Sequence& parent = schedule.add(6);
  parent.forks = 1;
  EXPECT_EQ(schedule.step(), Tokens({6}));
  auto child = std::make_unique<Sequence>();
  child->params = parent.params;
  child->sample = 1;
  child->tokens = parent.tokens;
  child->prompt_length = 6;
  child->longest = 64;
  schedule.scheduler.fork(parent, *child, parent.computed);
  EXPECT_EQ(child->blocks, parent.blocks);
  ASSERT_TRUE(schedule.scheduler.plan());
  ASSERT_EQ(schedule.scheduler.copies().size(), 1U);
  EXPECT_EQ(child->blocks[0], parent.blocks[0]);
  EXPECT_NE(child->blocks[1], parent.blocks[1]);
  schedule.scheduler.remove(*child);
  schedule.scheduler.remove(parent);
  EXPECT_EQ(schedule.scheduler.pool().available(), 64);
}

TEST(Scheduler, WhatCouldNeverRunIsRefusedWithAWayOut) {
  Schedule schedule(small());
  const auto message = [&](int32_t prompt, int32_t longest, int32_t samples) -> std::string {
    try {
      SamplingParams params;
      params.n = samples;
      schedule.scheduler.check_fits(prompt, longest, params);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
  };
  EXPECT_EQ(message(10, 64, 4), "");
  EXPECT_NE(message(0, 64, 1).find("empty"), std::string::npos);
  EXPECT_NE(message(64, 64, 1).find("raise max_model_len"), std::string::npos);
  EXPECT_NE(message(10, 300, 1).find("raise num_blocks"), std::string::npos);
  EXPECT_NE(message(10, 64, 5).find("max_num_seqs"), std::string::npos);
}

TEST(Scheduler, WhatDoesNotFitTogetherIsRefused) {
  const auto refused = [](auto change) {
    SchedulerConfig config = small();
    change(config);
    try {
      Scheduler scheduler(config);
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::invalid_argument;
    }
  };
  EXPECT_FALSE(refused([](SchedulerConfig&) {}));
  EXPECT_TRUE(refused([](SchedulerConfig& c) { c.max_num_seqs = 0; }));
  EXPECT_TRUE(refused([](SchedulerConfig& c) { c.max_num_seqs = c.max_num_batched_tokens = 100'000'000; }));
  EXPECT_TRUE(refused([](SchedulerConfig& c) { c.max_num_batched_tokens = 3; }));
  EXPECT_TRUE(refused([](SchedulerConfig& c) { c.max_model_len = 1; }));
  EXPECT_TRUE(refused([](SchedulerConfig& c) { c.block_size = 0; }));
  EXPECT_TRUE(refused([](SchedulerConfig& c) { c.num_blocks = 0; }));
  EXPECT_TRUE(refused([](SchedulerConfig& c) { c.num_speculative_tokens = -1; }));
  EXPECT_TRUE(refused([](SchedulerConfig& c) { c.num_speculative_tokens = 1025; }));
}

}  // namespace
}  // namespace camshaft::llm::scheduler_test
