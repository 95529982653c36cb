#include "runtime/streaming_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "test_random.h"

namespace camshaft::streaming_plan_test {
namespace {

// Steps that read `each` blocks of their own, one after the other.
StepBlocks in_a_row(size_t steps, uint32_t each) {
  StepBlocks blocks(steps);
  uint32_t next = 0;
  for (std::vector<uint32_t>& step : blocks)
    for (uint32_t i = 0; i < each; ++i) step.push_back(next++);
  return blocks;
}

size_t read_blocks(const StepBlocks& steps) {
  std::set<uint32_t> all;
  for (const auto& step : steps) all.insert(step.begin(), step.end());
  return all.size();
}

// That what is in memory never exceeds the budget, also while the step after the one that runs comes in.
void expect_fits(const StepBlocks& steps, const StreamingPlan& plan, size_t budget) {
  EXPECT_EQ(plan.staying, static_cast<size_t>(std::count(plan.stays.begin(), plan.stays.end(), true)));
  EXPECT_LE(plan.staying + plan.window, budget);
  std::set<uint32_t> before;
  for (const auto& step : steps) {
    std::set<uint32_t> now;
    for (const uint32_t block : step)
      if (!plan.stays[block]) now.insert(block);
    if (now.empty()) continue;
    std::set<uint32_t> both = before;
    both.insert(now.begin(), now.end());
    EXPECT_LE(both.size(), plan.window);
    before = std::move(now);
  }
}

TEST(StreamingPlan, EvenLayersKeepEvenParts) {
  const StepBlocks steps = in_a_row(32, 16);  // 512 blocks
  const StreamingPlan half = plan_streaming(steps, 512, 256);
  expect_fits(steps, half, 256);
  EXPECT_EQ(half.loads, 512 - half.staying);
  EXPECT_GE(half.staying, 236u);  // all but two layers' halves
  for (const auto& step : steps) {
    const auto stays = std::count_if(step.begin(), step.end(), [&](uint32_t b) { return half.stays[b]; });
    EXPECT_GE(stays, 7);
    EXPECT_LE(stays, 9);
  }
}

TEST(StreamingPlan, EverythingStaysWhereItFits) {
  const StepBlocks steps = in_a_row(4, 3);
  const StreamingPlan plan = plan_streaming(steps, 20, 12);
  EXPECT_EQ(plan.staying, 12u);
  EXPECT_EQ(plan.loads, 0u);
  EXPECT_EQ(plan.window, 0u);
  EXPECT_FALSE(plan.stays[15]);  // which nobody reads
}

TEST(StreamingPlan, TheLeastBudgetIsTwoLayers) {
  const StepBlocks steps = in_a_row(10, 8);
  EXPECT_EQ(least_blocks(steps, 80), 16u);
  expect_fits(steps, plan_streaming(steps, 80, 16), 16);
  const StreamingPlan plan = plan_streaming(steps, 80, 15);
  EXPECT_GT(plan.staying + plan.window, 15u);
}

TEST(StreamingPlan, OneLargeLayerKeepsWhatTheOthersDoNotNeed) {
  StepBlocks steps = in_a_row(10, 4);
  steps[5].clear();
  for (uint32_t b = 100; b < 160; ++b) steps[5].push_back(b);
  EXPECT_EQ(least_blocks(steps, 160), 64u);
  const StreamingPlan plan = plan_streaming(steps, 160, 72);
  expect_fits(steps, plan, 72);
  EXPECT_LE(plan.loads, 36u);  // not the whole of it for each run
}

TEST(StreamingPlan, WhatManyStepsReadStays) {
  StepBlocks steps = in_a_row(20, 30);
  for (size_t s = 0; s < steps.size(); s += 3) steps[s].push_back(600);  // biases, say
  const StreamingPlan plan = plan_streaming(steps, 601, 200);
  expect_fits(steps, plan, 200);
  EXPECT_TRUE(plan.stays[600]);
}

TEST(StreamingPlan, WhatAllStepsReadMayComeInAgainAndAgain) {
  StepBlocks steps(6);
  for (size_t s = 0; s < steps.size(); ++s)
    for (uint32_t b = 0; b < 40; ++b) steps[s].push_back(s % 2 == 0 ? b : 40 + b);
  EXPECT_EQ(least_blocks(steps, 80), 80u);  // two layers that follow each other have all of it
  const StepBlocks one = {steps[0]};
  EXPECT_EQ(least_blocks(one, 80), 40u);
}

TEST(StreamingPlan, NothingReadsNothing) {
  EXPECT_EQ(least_blocks({}, 0), 0u);
  EXPECT_EQ(least_blocks({{}, {}}, 7), 0u);
  EXPECT_EQ(plan_streaming({{}, {}}, 7, 3).loads, 0u);
}

TEST(StreamingPlan, RandomPlansFit) {
  Random random = test_random();
  const auto below = [&](size_t n) { return static_cast<size_t>(random.integer(0, static_cast<int64_t>(n) - 1)); };
  for (int trial = 0; trial < 60; ++trial) {
    const auto blocks = static_cast<uint32_t>(1 + below(200));
    StepBlocks steps(1 + below(30));
    for (auto& step : steps) {
      if (below(4) == 0) continue;  // a layer without weights
      const auto first = static_cast<uint32_t>(below(blocks));
      const auto count = static_cast<uint32_t>(below(40));
      for (uint32_t b = first; b < std::min(blocks, first + count); ++b) step.push_back(b);
      if (below(3) == 0) step.push_back(static_cast<uint32_t>(below(blocks)));
      std::sort(step.begin(), step.end());
      step.erase(std::unique(step.begin(), step.end()), step.end());
    }
    const size_t least = least_blocks(steps, blocks), all = read_blocks(steps);
    EXPECT_LE(least, all);
    const size_t most_loads = plan_streaming(steps, blocks, least).loads;
    for (size_t budget = least; budget <= all; budget += 1 + below(10)) {
      const StreamingPlan plan = plan_streaming(steps, blocks, budget);
      expect_fits(steps, plan, budget);
      EXPECT_LE(plan.loads, most_loads) << "a larger budget needs no more";
    }
    expect_fits(steps, plan_streaming(steps, blocks, all), all);
    EXPECT_EQ(plan_streaming(steps, blocks, all).loads, 0u);
  }
}

}  // namespace
}  // namespace camshaft::streaming_plan_test
