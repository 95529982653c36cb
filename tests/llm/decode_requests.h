// Texts of random requests, however the generator is set up.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "llm/fake_model.h"
#include "llm/generator.h"

namespace camshaft::llm {

struct Text {
  std::vector<int32_t> tokens;
  std::vector<TokenLogprob> logprobs, prompt_logprobs;
  FinishReason finish = FinishReason::none;
  int32_t stop_token = -1;
  std::string error;
  bool operator==(const Text&) const = default;
};

/// By request and sample.
using Texts = std::map<std::pair<RequestId, int32_t>, Text>;

inline void collect(std::span<const Event> events, Texts& texts) {
  for (const Event& event : events) {
    Text& text = texts[{event.request, event.sample}];
    EXPECT_EQ(text.finish, FinishReason::none) << "an event behind the last one";
    text.tokens.insert(text.tokens.end(), event.tokens.begin(), event.tokens.end());
    text.logprobs.insert(text.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
    text.prompt_logprobs.insert(text.prompt_logprobs.end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
    text.finish = event.finish;
    if (event.stop_token >= 0) text.stop_token = event.stop_token;
    text.error = event.error;
  }
}

/// Everything that was added, to its end.
inline Texts finish_all(Generator& generator, int64_t most_steps = 1'000'000) {
  Texts texts;
  while (generator.has_work() && most_steps-- > 0) collect(generator.step(), texts);
  EXPECT_FALSE(generator.has_work()) << "it does not come to an end";
  return texts;
}

inline GeneratorConfig small_config(int32_t num_blocks = 512, int32_t block_size = 4) {
  GeneratorConfig config;
  config.scheduler.max_num_seqs = 8;
  config.scheduler.max_num_batched_tokens = 64;
  config.scheduler.max_model_len = 160;
  config.scheduler.block_size = block_size;
  config.scheduler.num_blocks = num_blocks;
  config.eos_token_ids = {0};
  return config;
}

inline Request request_of(std::vector<int32_t> prompt, SamplingParams params = {}) {
  Request request;
  request.prompt = std::move(prompt);
  request.params = std::move(params);
  return request;
}

inline SamplingParams greedy_params(int32_t max_tokens) {
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = max_tokens;
  return params;
}

}  // namespace camshaft::llm
