#include "llm/sampling_params.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "camshaft/error.hpp"

namespace camshaft::llm::sampling_params_test {
namespace {

std::string message_of(const std::string& json) {
  try {
    check(parse_sampling_params(json), 100);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
}

TEST(SamplingParams, WhatSpeechHasBeside) {
  const SamplingParams p =
      parse_sampling_params(R"({"suppress_tokens": [1, 2], "begin_suppress_tokens": [3], "timestamps": [90, 89, -1]})");
  EXPECT_EQ(p.suppress_tokens, std::vector<int32_t>({1, 2}));
  EXPECT_EQ(p.begin_suppress_tokens, std::vector<int32_t>({3}));
  EXPECT_EQ(p.timestamps, (TimestampRules{.begin = 90, .no_timestamps = 89, .max_initial = -1}));
  EXPECT_TRUE(p.excludes_tokens());
  EXPECT_FALSE(parse_sampling_params(R"({"timestamps": null})").excludes_tokens());
  EXPECT_NE(message_of(R"({"timestamps": [90]})").find("begin, no_timestamps and max_initial"), std::string::npos);
  EXPECT_NE(message_of(R"({"timestamps": [100, 1, 0]})").find("token 100"), std::string::npos);
  EXPECT_NE(message_of(R"({"timestamps": [90, 100, 0]})").find("token 100"), std::string::npos);
  EXPECT_NE(message_of(R"({"timestamps": [90, 89, -2]})").find("max_initial is -2"), std::string::npos);
  EXPECT_NE(message_of(R"({"suppress_tokens": [100]})").find("suppress_tokens names token 100"), std::string::npos);
}

TEST(SamplingParams, AreReadByVllmsNames) {
  const SamplingParams p = parse_sampling_params(R"({"n": 2, "temperature": 0.5, "top_k": 7, "top_p": 0.9, "min_p": 0.1,
    "repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.3, "logit_bias": {"5": -1.5},
    "allowed_token_ids": [1, 2], "seed": 18446744073709551615, "logprobs": 3, "prompt_logprobs": 0,
    "stop_token_ids": [4], "max_tokens": null, "min_tokens": 2, "ignore_eos": true})");
  EXPECT_EQ(p.n, 2);
  EXPECT_EQ(p.temperature, 0.5f);
  EXPECT_EQ(p.top_k, 7);
  EXPECT_EQ(p.top_p, 0.9f);
  EXPECT_EQ(p.min_p, 0.1f);
  EXPECT_EQ(p.repetition_penalty, 1.1f);
  EXPECT_EQ(p.presence_penalty, 0.2f);
  EXPECT_EQ(p.frequency_penalty, 0.3f);
  EXPECT_EQ(p.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, -1.5f}}));
  EXPECT_EQ(p.allowed_token_ids, std::vector<int32_t>({1, 2}));
  EXPECT_EQ(p.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(p.logprobs, 3);
  EXPECT_EQ(p.prompt_logprobs, 0);
  EXPECT_EQ(p.stop_token_ids, std::vector<int32_t>{4});
  EXPECT_FALSE(p.max_tokens);
  EXPECT_EQ(p.min_tokens, 2);
  EXPECT_TRUE(p.ignore_eos);
  EXPECT_EQ(parse_sampling_params("{}").max_tokens, 16);
  EXPECT_EQ(parse_sampling_params(R"({"max_tokens": 3, "seed": null})").max_tokens, 3);
}

TEST(SamplingParams, WhatIsOutOfRangeIsNamedWithWhatMayBeThere) {
  EXPECT_EQ(message_of("{}"), "");
  EXPECT_EQ(message_of(R"({"n": 0})"), "n is 0, it must be 1 or more");
  EXPECT_EQ(message_of(R"({"n": 2, "temperature": 0})"),
            "n is 2, it must be 1 where temperature is 0: all samples are the same");
  EXPECT_EQ(message_of(R"({"temperature": -1})"), "temperature is -1, it must be 0 or more, and finite");
  EXPECT_EQ(message_of(R"({"top_k": -2})"), "top_k is -2, it must be 1 or more, or 0 or -1 for all tokens");
  EXPECT_EQ(message_of(R"({"top_p": 1.5})"), "top_p is 1.500000, it must be above 0 and at most 1");
  EXPECT_EQ(message_of(R"({"min_p": 2})"), "min_p is 2, it must be from 0 to 1");
  EXPECT_EQ(message_of(R"({"repetition_penalty": 0})"), "repetition_penalty is 0, it must be above 0, and finite");
  EXPECT_EQ(message_of(R"({"presence_penalty": 3})"), "presence_penalty is 3, it must be from -2 to 2");
  EXPECT_EQ(message_of(R"({"frequency_penalty": -3})"), "frequency_penalty is -3, it must be from -2 to 2");
  EXPECT_EQ(message_of(R"({"max_tokens": 0})"), "max_tokens is 0, it must be 1 or more");
  EXPECT_EQ(message_of(R"({"max_tokens": 2, "min_tokens": 3})"), "min_tokens is 3, it must be at most max_tokens, 2");
  EXPECT_EQ(message_of(R"({"logprobs": 101})"), "logprobs is 101, it must be from 0 to the size of the vocabulary");
  EXPECT_EQ(message_of(R"({"logit_bias": {"100": 1}})"),
            "logit_bias names token 100, the vocabulary has tokens 0 to 99");
  EXPECT_EQ(message_of(R"({"logit_bias": [[1, 101]]})"), "a value of logit_bias is 101, it must be from -100 to 100");
  EXPECT_EQ(message_of(R"({"stop_token_ids": [-1]})"),
            "stop_token_ids names token -1, the vocabulary has tokens 0 to 99");
  EXPECT_EQ(message_of(R"({"allowed_token_ids": [100]})"),
            "allowed_token_ids names token 100, the vocabulary has tokens 0 to 99");
  EXPECT_EQ(message_of(R"({"temprature": 1})"), "sampling parameters: there is no temprature");
  EXPECT_NE(message_of(R"({"n": "two"})").find("n is \"two\""), std::string::npos);
  EXPECT_NE(message_of(R"({"logit_bias": {"x": 1}})").find("logit_bias is"), std::string::npos);
  for (const auto& [text, message] :
       {std::pair(R"({"temperature": "hot"})", "temperature is \"hot\": a number is needed"),
        std::pair(R"({"ignore_eos": 1})", "ignore_eos is 1: true or false is needed"),
        std::pair(R"({"stop_token_ids": ["a"]})", "stop_token_ids is [\"a\"]: an integer is needed"),
        std::pair(R"({"logit_bias": [[1, "x"]]})", "logit_bias is [[1,\"x\"]]: a number is needed"),
        std::pair(R"({"logit_bias": 5})", "logit_bias is 5: ")}) {
    EXPECT_TRUE(message_of(text).starts_with(std::string("sampling parameters: ") + message)) << message_of(text);
    EXPECT_EQ(message_of(text).find("exception"), std::string::npos) << message_of(text);
  }
  // Numbers that would wrap, or be rounded, in lists too.
  for (const char* text :
       {R"({"stop_token_ids": [4294967296]})", R"({"allowed_token_ids": [1.7]})", R"({"stop_token_ids": 3})",
        R"({"logit_bias": [[4294967297, 1]]})", R"({"logit_bias": [[1]]})", R"({"logit_bias": {"12abc": 1}})",
        R"({"logit_bias": {" 1": 1}})", R"({"logit_bias": {"1.9": 1}})", R"({"logit_bias": {"4294967297": 1}})"})
    EXPECT_NE(message_of(text).find("sampling parameters: "), std::string::npos) << text;
  SamplingParams params;
  params.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(check(params, 100), Error);
}

}  // namespace
}  // namespace camshaft::llm::sampling_params_test
