#include "llm/step_shapes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "camshaft/error.hpp"
#include "test_random.h"

namespace camshaft::llm::step_shapes_test {
namespace {

TEST(StepShapes, FewShapesHaveRoomForEveryStep) {
  Random random = test_random();
  for (int round = 0; round < 200; ++round) {
    SchedulerConfig config;
    config.max_num_seqs = static_cast<int32_t>(random.integer(1, 300));
    config.max_num_batched_tokens = config.max_num_seqs + static_cast<int32_t>(random.integer(0, 4000));
    config.num_speculative_tokens = static_cast<int32_t>(random.integer(0, 5));
    config.generates = round % 3 != 0;
    const auto most = static_cast<int32_t>(random.integer(8, 24));
    const StepShapes shapes(config, most, random.uniform() < 0.5);
    ASSERT_LE(shapes.all().size(), static_cast<size_t>(most))
        << config.max_num_seqs << " " << config.max_num_batched_tokens << " " << config.num_speculative_tokens;
    const StepShape largest = shapes.largest();
    for (int i = 0; i < 100; ++i) {
      const auto tokens = static_cast<int32_t>(random.integer(1, largest.tokens)),
                 sequences = static_cast<int32_t>(random.integer(1, std::min(largest.sequences, tokens))),
                 rows = static_cast<int32_t>(random.integer(0, std::min(tokens, largest.rows)));
      const StepShape shape = shapes.fit(tokens, sequences, rows);
      ASSERT_NE(std::ranges::find(shapes.all(), shape), shapes.all().end());
      ASSERT_GE(shape.tokens, tokens);
      ASSERT_GE(shape.sequences, sequences);
      ASSERT_GE(shape.rows, rows);
      ASSERT_LE(shape.rows, shape.tokens);
    }
  }
}

TEST(StepShapes, DecodingIsPaddedToThePowerOfTwoAbove) {
  const StepShapes shapes(SchedulerConfig(), 16);  // 32 sequences, 512 tokens
  EXPECT_EQ(shapes.fit(1, 1, 1), (StepShape{1, 1, 1}));
  EXPECT_EQ(shapes.fit(3, 3, 3), (StepShape{4, 4, 4}));
  EXPECT_EQ(shapes.fit(32, 32, 32), (StepShape{32, 32, 32}));
  EXPECT_EQ(shapes.fit(500, 1, 1), (StepShape{512, 32, 1}));
}

TEST(StepShapes, PromptsAloneArePaddedByTheirTokens) {
  SchedulerConfig config;  // 32 sequences, 512 tokens
  config.generates = false;
  EXPECT_EQ(StepShapes(config, 16).fit(17, 2, 1), (StepShape{32, 32, 32}));
  const StepShapes all(config, 16, true);
  EXPECT_EQ(all.fit(17, 2, 17), (StepShape{32, 32, 32}));
  EXPECT_EQ(all.fit(500, 2, 500), (StepShape{512, 32, 512}));
  EXPECT_EQ(all.largest(), (StepShape{512, 32, 512}));
}

TEST(StepShapes, WithoutPaddingTheyAreAsTheyAre) {
  const StepShapes shapes(SchedulerConfig(), 0);
  EXPECT_EQ(shapes.fit(37, 5, 3), (StepShape{37, 5, 3}));
  EXPECT_EQ(shapes.fit(37, 5, 0), (StepShape{37, 5, 1})) << "an engine has no use for none";
  EXPECT_THROW(StepShapes(SchedulerConfig(), 7), Error);
}

}  // namespace
}  // namespace camshaft::llm::step_shapes_test
