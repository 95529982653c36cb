#include "runtime/streaming_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/shrinking_window.h"
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

class RandomSteps {
 public:
  size_t below(size_t n) { return static_cast<size_t>(random_.integer(0, static_cast<int64_t>(n) - 1)); }
  StepBlocks steps(uint32_t blocks) {
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
    return steps;
  }

 private:
  Random random_ = test_random();
};

TEST(StreamingPlan, RandomPlansFit) {
  RandomSteps random;
  for (int trial = 0; trial < 60; ++trial) {
    const auto blocks = static_cast<uint32_t>(1 + random.below(200));
    const StepBlocks steps = random.steps(blocks);
    const size_t least = least_blocks(steps, blocks), all = read_blocks(steps);
    EXPECT_LE(least, all);
    size_t most_loads = plan_streaming(steps, blocks, least).loads;
    for (size_t budget = least; budget <= all; budget += 1 + random.below(10)) {
      const StreamingPlan plan = plan_streaming(steps, blocks, budget);
      expect_fits(steps, plan, budget);
      EXPECT_LE(plan.loads, most_loads) << "a larger budget needs no more";
      most_loads = plan.loads;
    }
    expect_fits(steps, plan_streaming(steps, blocks, all), all);
    EXPECT_EQ(plan_streaming(steps, blocks, all).loads, 0u);
  }
}

// As expect_fits() counts it.
size_t window_of(const StepBlocks& steps, const std::vector<bool>& stays) {
  size_t window = 0;
  std::set<uint32_t> before;
  for (const auto& step : steps) {
    std::set<uint32_t> now;
    for (const uint32_t block : step)
      if (!stays[block]) now.insert(block);
    if (now.empty()) continue;
    before.insert(now.begin(), now.end());
    window = std::max(window, before.size());
    before = std::move(now);
  }
  return window;
}

TEST(ShrinkingWindow, IsCountedAfterEachBlock) {
  RandomSteps random;
  for (int trial = 0; trial < 60; ++trial) {
    const auto blocks = static_cast<uint32_t>(1 + random.below(100));
    const StepBlocks steps = random.steps(blocks);
    StepBlocks readers(blocks);
    for (uint32_t s = 0; s < steps.size(); ++s)
      for (const uint32_t block : steps[s]) readers[block].push_back(s);
    std::vector<bool> stays(blocks);
    for (uint32_t b = 0; b < blocks; ++b) stays[b] = random.below(4) == 0;
    ShrinkingWindow window(steps, readers, stays);
    EXPECT_EQ(window.size(), window_of(steps, stays));
    for (uint32_t b = 0; b < blocks; ++b) {
      if (stays[b]) continue;
      window.keep(b);
      stays[b] = true;
      ASSERT_EQ(window.size(), window_of(steps, stays));
    }
  }
}

TEST(ShrinkingWindow, GrowsWhereLayersMeet) {
  const StepBlocks steps = {{0, 1, 2}, {3}, {4, 5, 6, 7}}, readers = {{0}, {0}, {0}, {1}, {2}, {2}, {2}, {2}};
  ShrinkingWindow window(steps, readers, std::vector<bool>(8, false));
  EXPECT_EQ(window.size(), 5u);
  window.keep(3);
  EXPECT_EQ(window.size(), 7u);
  window.keep(5);
  EXPECT_EQ(window.size(), 6u);
}

TEST(FarUses, ABlockBetweenLayersIsNotFar) {
  // Layers of 4 blocks that share one with the next, and a bias (30) that is read behind each.
  StepBlocks steps;
  for (uint32_t layer = 0; layer < 6; ++layer) {
    steps.push_back({4 * layer, 4 * layer + 1, 4 * layer + 2, 4 * layer + 3, 4 * layer + 4});
    steps.push_back({30});
  }
  const std::vector<bool> far = far_uses(steps, 31);
  EXPECT_EQ(std::count(far.begin(), far.end(), true), 1);
  EXPECT_TRUE(far[30]);
  EXPECT_EQ(least_blocks(steps, 31, FarUses::stay), 10u);  // the bias, and two layers
  // A table at both ends.
  steps.insert(steps.begin(), {25, 26});
  steps.push_back({25, 26});
  const std::vector<bool> with_table = far_uses(steps, 31);
  EXPECT_EQ(std::count(with_table.begin(), with_table.end(), true), 3);
}

TEST(FarUses, PlacesDoNotMeet) {
  RandomSteps random;
  for (int trial = 0; trial < 60; ++trial) {
    const auto blocks = static_cast<uint32_t>(1 + random.below(200));
    const StepBlocks steps = random.steps(blocks);
    const size_t all = read_blocks(steps), least = least_blocks(steps, blocks, FarUses::stay);
    for (size_t budget = least; budget <= all; budget += 1 + random.below(10)) {
      const StreamingPlan plan = plan_streaming(steps, blocks, budget, FarUses::stay);
      expect_fits(steps, plan, budget);
      const std::vector<int32_t> places = places_in_window(steps, plan);
      std::vector<int32_t> there(plan.window, -1);  // of each place the block
      std::set<uint32_t> before, left;
      size_t loads = 0;
      for (const auto& step : steps) {
        std::set<uint32_t> now;
        for (const uint32_t block : step)
          if (!plan.stays[block]) now.insert(block);
        if (now.empty()) continue;
        for (const uint32_t block : now) {
          EXPECT_FALSE(left.contains(block)) << "it would come in twice";
          int32_t& other = there.at(static_cast<size_t>(places[block]));
          if (other == static_cast<int32_t>(block)) continue;
          EXPECT_FALSE(other >= 0 &&
                       (before.contains(static_cast<uint32_t>(other)) || now.contains(static_cast<uint32_t>(other))));
          other = static_cast<int32_t>(block);
          ++loads;
        }
        for (const uint32_t block : before)
          if (!now.contains(block)) left.insert(block);
        before = std::move(now);
      }
      EXPECT_EQ(loads, plan.loads);
    }
  }
}

}  // namespace
}  // namespace camshaft::streaming_plan_test
