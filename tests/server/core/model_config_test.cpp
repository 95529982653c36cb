#include "server/core/model_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "server/core/status.h"
#include "server/core/temporary_folder.h"

namespace camshaft::server::model_config_test {
namespace {

std::string refusal(const std::string& text) {
  const TemporaryFolder folder;
  folder.write("config.pbtxt", text);
  try {
    read_model_config(folder.path() / "config.pbtxt");
    return "";
  } catch (const ServerError& error) {
    return error.what();
  }
}

TEST(ModelConfig, IsReadFromItsTextForm) {
  const TemporaryFolder folder;
  folder.write("config.pbtxt",
               "name: \"m\" # a comment\nmax_batch_size: 8\ninput [ { name: \"x\" dims: [ -1, 3 ] } ]\n"
               "dynamic_batching { }\nparameters: { key: \"a\" value: { string_value: \"b\" } }\n");
  const ModelConfig config = read_model_config(folder.path() / "config.pbtxt");
  EXPECT_EQ(config.name(), "m");
  EXPECT_EQ(config.input(0).dims(1), 3);
  EXPECT_TRUE(config.has_dynamic_batching());
  EXPECT_EQ(config.parameters().at("a").string_value(), "b");
}

TEST(ModelConfig, ErrorsHaveTheirPlace) {
  EXPECT_NE(refusal("name: \"m\"\nmax_batch: 1\n").find("config.pbtxt:2:10"), std::string::npos);
  EXPECT_NE(refusal("max_batch_size: \"x\"").find("config.pbtxt:1:17"), std::string::npos);
  EXPECT_NE(refusal("name: \"m"), "");
  EXPECT_NE(refusal(std::string(10000, '{')), "");
  EXPECT_NE(refusal(std::string("\0\xff\x01", 3)), "");
  EXPECT_EQ(refusal(""), "");
}

TEST(ModelConfig, JsonHasNumbersAndAllFields) {
  ModelConfig config = parse_model_config_json(
      R"({"name": "m", "max_batch_size": 4, "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["16", -1]}],
          "dynamic_batching": {"max_queue_delay_microseconds": 9007199254740993,
                               "priority_queue_policy": {"1": {"default_timeout_microseconds": 5}}}})");
  const nlohmann::json json = nlohmann::json::parse(model_config_json(config));
  EXPECT_EQ(json["input"][0]["dims"], nlohmann::json::parse("[16, -1]"));
  EXPECT_EQ(json["dynamic_batching"]["max_queue_delay_microseconds"], 9007199254740993);
  EXPECT_EQ(json["dynamic_batching"]["priority_queue_policy"]["1"]["default_timeout_microseconds"], 5);
  EXPECT_EQ(json["platform"], "");
  EXPECT_EQ(json["dynamic_batching"]["preserve_ordering"], false);
  EXPECT_FALSE(json.contains("model_transaction_policy"));
  EXPECT_EQ(parse_model_config_json(model_config_json(config)).SerializeAsString(), config.SerializeAsString());
}

TEST(ModelConfig, JsonThatIsNoneIsRefused) {
  for (const char* json : {"", "x", "[]", R"({"no_such_field": 1})", R"({"max_batch_size": "x"})"})
    EXPECT_THROW(parse_model_config_json(json), ServerError) << json;
}

TEST(ModelConfig, ChecksWhatContradictsItself) {
  for (
      const char* json : {
          R"({"name": "m", "max_batch_size": -1})",
          R"({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32"}, {"name": "x", "data_type": "TYPE_FP32"}]})",
          R"({"name": "m", "input": [{"name": "x"}]})",
          R"({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-2]}]})",
          R"({"name": "m", "instance_group": [{"kind": "KIND_CPU", "gpus": [0]}]})",
          R"({"name": "m", "instance_group": [{"count": -1}]})",
          R"({"name": "m", "version_policy": {"latest": {}}})",
          R"({"name": "m", "batch_input": [{}]})",
          R"({"name": "m", "model_warmup": [{"batch_size": 2}]})",
          R"({"name": "m", "sequence_batching": {"control_input": [{"name": "c", "control": [{}]}]}})",
          R"({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32"}],
              "batch_input": [{"kind": 9, "target_name": "t", "data_type": "TYPE_FP32", "source_input": "x"}]})",
          R"({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32"}],
              "batch_input": [{"target_name": "t", "data_type": "TYPE_FP16", "source_input": "x"}]})",
          R"({"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32"}],
              "batch_input": [{"target_name": "x", "data_type": "TYPE_FP32", "source_input": "x"}]})",
          R"({"name": "m", "sequence_batching": {"state": [{"input_name": "s"}]}})",
      })
    EXPECT_THROW(check_model_config(parse_model_config_json(json)), ServerError) << json;
}

}  // namespace
}  // namespace camshaft::server::model_config_test
