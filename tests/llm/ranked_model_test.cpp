// A model in ranks beside the same in one: threads of one process, over engines that hold a part each.
#include "llm/ranked_model.h"

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "camshaft/builder.hpp"
#include "camshaft/error.hpp"

namespace camshaft::llm::ranked_model_test {
namespace {

constexpr int64_t vocabulary = 9, width = 6;

float element(int64_t token, int64_t column) {
  return static_cast<float>(100 * token + column);
}

// Embeddings of the tokens that are asked for, of which each rank has its columns; `lacks_row`: of a table without the
// last token.
Engine engine_of(int64_t rank, int64_t ranks, bool lacks_row = false) {
  const int64_t own = width / ranks, rows = vocabulary - (lacks_row ? 1 : 0);
  std::vector<float> table;
  for (int64_t token = 0; token < rows; ++token)
    for (int64_t column = 0; column < own; ++column) table.push_back(element(token, rank * own + column));
  Network net("embeddings");
  const NetworkValue ids = net.input("input_ids", DType::i32, {"tokens"});
  net.input("positions", DType::i32, {"tokens"});
  net.input("cumulative_sequence_length", DType::i32, {"boundaries"});
  const NetworkValue indices = net.input("logits_indices", DType::i32, {"rows"});
  NetworkValue x = net("Gather", {net.constant(Tensor::of<float>(DType::f32, {rows, own}, table)), ids});
  if (ranks > 1) x = net("AllGather", {x}, {{"group_size", static_cast<int>(ranks)}, {"axis", 1}}, "camshaft");
  net.output(net("Gather", {x, indices}), "hidden_states");
  return Builder(BuildOptions().set("tuning", "heuristic")).build(net);
}

struct Step {
  std::vector<int32_t> ids, positions, cumulative, indices;

  StepInputs inputs() const {
    StepInputs step;
    step.input_ids = ids, step.positions = positions, step.cumulative = cumulative, step.logits_indices = indices;
    return step;
  }
};

void check_step(StepModel& model, const Step& step) {
  const StepOutputs outputs = model.run(step.inputs());
  ASSERT_NE(outputs.hidden_states, nullptr);
  for (size_t row = 0; row < step.indices.size(); ++row)
    for (int64_t column = 0; column < width; ++column)
      ASSERT_EQ(outputs.hidden_states[static_cast<int64_t>(row) * width + column],
                element(step.ids[static_cast<size_t>(step.indices[row])], column))
          << row << ", " << column;
}

const std::vector<Step> steps{{{3, 1, 4}, {0, 1, 2}, {0, 3}, {0, 2}},
                              {{1}, {0}, {0, 1}, {0}},
                              {{5, 2, 6, 5, 3}, {0, 1, 0, 1, 2}, {0, 2, 5}, {1, 4}}};

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(RankedModel, ThreadsComputeWhatOneRankDoes) {
  EngineModel alone(engine_of(0, 1), 0, 1);
  for (const Step& step : steps) check_step(alone, step);
  for (const int64_t ranks : {2, 3}) {
    std::vector<Engine> others;
    for (int64_t r = 1; r < ranks; ++r) others.push_back(engine_of(r, ranks));
    RankedModel model(engine_of(0, ranks), others, 0, 1);
    EXPECT_EQ(model.hidden_size(), width);
    for (int round = 0; round < 3; ++round)
      for (const Step& step : steps) check_step(model, step);
  }
}

// As processes do, each with an end of its own.
TEST(RankedModel, RanksThatFollowElsewhere) {
  const std::vector<Communicator> ends = Communicator::local(2, 60);
  std::string ended = "nothing";
  std::thread follower([&] { ended = error_of([&] { follow_ranks(engine_of(1, 2), ends[1], 1); }); });
  {
    RankedModel model(engine_of(0, 2), ends[0], 0, 1);
    for (const Step& step : steps) check_step(model, step);
  }
  follower.join();
  EXPECT_EQ(ended, "") << "it is let go with the model";
}

TEST(RankedModel, WhatFailsOnARankFailsTheStepAndLaterOnes) {
  RankedModel model(engine_of(0, 2), {engine_of(1, 2, true)}, 0, 1);
  check_step(model, steps[0]);
  const Step outside{{vocabulary - 1}, {0}, {0, 1}, {0}};
  for (int round = 0; round < 2; ++round) {
    const std::string thrown = error_of([&] { model.run(outside.inputs()); });
    EXPECT_NE(thrown.find("rank 1"), std::string::npos) << thrown;
  }
}

TEST(RankedModel, EnginesThatDoNotFitAreRefused) {
  EXPECT_NE(error_of([] {
              RankedModel(engine_of(0, 1), std::vector<Engine>{engine_of(1, 2)}, 0, 1);
            }).find("without --tensor-parallel-size"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              RankedModel(engine_of(0, 2), {engine_of(1, 2), engine_of(1, 2)}, 0, 1);
            }).find("one of 2 ranks, of which 3"),
            std::string::npos);
  const std::vector<Communicator> ends = Communicator::local(2, 60);
  EXPECT_NE(error_of([&] { RankedModel(engine_of(0, 2), ends[1], 0, 1); }).find("a generator is of rank 0"),
            std::string::npos);
}

TEST(RankedModel, ARankThatGoesIsNoticed) {
  std::vector<Communicator> ends = Communicator::local(2, 60);
  ends.pop_back();
  const std::string thrown = error_of([&] { RankedModel(engine_of(0, 2), ends[0], 0, 1); });
  EXPECT_NE(thrown.find("rank 1 has left"), std::string::npos) << thrown;
}

}  // namespace
}  // namespace camshaft::llm::ranked_model_test
