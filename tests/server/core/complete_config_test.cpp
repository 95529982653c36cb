#include "server/core/complete_config.h"

#include <gtest/gtest.h>

#include "server/core/status.h"

namespace camshaft::server::complete_config_test {
namespace {

TensorInfo info_of(const std::string& name, Dims dims, DType dtype = DType::f32) {
  TensorInfo info;
  info.name = name;
  info.dtype = dtype;
  info.dims = std::move(dims);
  return info;
}

ModelFacts facts_of(Dims in, Dims out) {
  ModelFacts facts;
  facts.inputs = {info_of("x", std::move(in))};
  facts.outputs = {info_of("y", std::move(out), DType::i64)};
  return facts;
}

ModelConfig completed(const std::string& json, const ModelFacts& facts, bool strict = false) {
  ModelConfig config = parse_model_config_json(json);
  complete_tensors(config, facts, strict);
  complete_defaults(config, inference::ModelInstanceGroup::KIND_CPU, strict);
  return config;
}

Dims dims_of(const ModelConfig& config) {
  return {config.input(0).dims().begin(), config.input(0).dims().end()};
}

TEST(CompleteConfig, ADynamicFirstAxisIsTheBatch) {
  const ModelConfig config = completed(R"({"name": "m"})", facts_of({-1, 3}, {-1}));
  EXPECT_EQ(config.max_batch_size(), 4);
  EXPECT_EQ(dims_of(config), Dims({3}));
  EXPECT_EQ(config.output(0).dims_size(), 0);
  EXPECT_EQ(config.output(0).data_type(), inference::TYPE_INT64);
  EXPECT_TRUE(config.has_dynamic_batching());
  EXPECT_EQ(config.version_policy().latest().num_versions(), 1);
  ASSERT_EQ(config.instance_group_size(), 1);
  EXPECT_EQ(config.instance_group(0).count(), 1);
  EXPECT_EQ(config.instance_group(0).kind(), inference::ModelInstanceGroup::KIND_CPU);
}

TEST(CompleteConfig, AFixedOneIsNot) {
  const ModelConfig config = completed(R"({"name": "m"})", facts_of({1, 3}, {-1}));
  EXPECT_EQ(config.max_batch_size(), 0);
  EXPECT_EQ(dims_of(config), Dims({1, 3}));
  EXPECT_FALSE(config.has_dynamic_batching());
}

TEST(CompleteConfig, ProfilesSayTheLargestBatch) {
  ModelFacts facts = facts_of({-1, 3}, {-1});
  facts.most_batch = 16;
  EXPECT_EQ(completed(R"({"name": "m"})", facts).max_batch_size(), 16);
  EXPECT_EQ(completed(R"({"name": "m", "max_batch_size": 9})", facts).max_batch_size(), 9);
  EXPECT_THROW(completed(R"({"name": "m", "max_batch_size": 17})", facts), ServerError);
}

TEST(CompleteConfig, DimsThatNameAllAxesMeanNoBatch) {
  const ModelConfig config = completed(
      R"({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1, 3]}]})", facts_of({-1, 3}, {-1}));
  EXPECT_EQ(config.max_batch_size(), 0);
  EXPECT_EQ(config.output(0).dims_size(), 1);
}

TEST(CompleteConfig, GivenDimsMayFixWhatIsDynamic) {
  const ModelConfig config = completed(
      R"({"name": "m", "max_batch_size": 2, "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [5]}]})",
      facts_of({-1, -1}, {-1}));
  EXPECT_EQ(dims_of(config), Dims({5}));
}

TEST(CompleteConfig, ASchedulerThatIsGivenStays) {
  const ModelConfig config =
      completed(R"({"name": "m", "sequence_batching": {"direct": {}, "control_input": [{"name": "x"}]}})",
                facts_of({-1, 1}, {-1}));
  EXPECT_FALSE(config.has_dynamic_batching());
  EXPECT_EQ(config.input_size(), 0);  // its only input is a control
}

TEST(CompleteConfig, RefusesWhatTheModelDoesNotHave) {
  const ModelFacts facts = facts_of({-1, 3}, {-1});
  for (const char* json : {
           R"({"name": "m", "input": [{"name": "z", "data_type": "TYPE_FP32", "dims": [3]}]})",
           R"({"name": "m", "output": [{"name": "z", "data_type": "TYPE_INT64"}]})",
           R"({"name": "m", "max_batch_size": 2, "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}]})",
           R"({"name": "m", "max_batch_size": 2, "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [3, 1]}]})",
           R"({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP64"}]})",
           R"({"name": "m", "input": [{"name": "x"}, {"name": "x"}]})",
       })
    EXPECT_THROW(completed(json, facts), ServerError) << json;
  EXPECT_THROW(completed(R"({"name": "m", "max_batch_size": 2})", facts_of({1, 3}, {-1})), ServerError);
}

TEST(CompleteConfig, StrictMeansThatNothingIsFilledIn) {
  EXPECT_THROW(completed(R"({"name": "m"})", facts_of({-1, 3}, {-1}), true), ServerError);
}

}  // namespace
}  // namespace camshaft::server::complete_config_test
