// Requests of all kinds, and a model whose texts repeat themselves.
#pragma once

#include <span>
#include <vector>

#include "base/random.h"
#include "llm/decode_requests.h"

namespace camshaft::llm {

constexpr int32_t random_vocabulary = 61;

// Prompts with common beginnings and repeated parts, and of all lengths; texts that end early, or are cut; with
// adapters and with none.
inline std::vector<Request> random_requests(Random& random, size_t count, bool sampled) {
  std::vector<std::vector<int32_t>> beginnings;
  for (int i = 0; i < 6; ++i) {
    std::vector<int32_t>& beginning = beginnings.emplace_back();
    for (int64_t n = random.integer(0, 40); n > 0; --n)
      beginning.push_back(static_cast<int32_t>(random.integer(1, random_vocabulary - 1)));
  }
  std::vector<Request> requests;
  for (size_t i = 0; i < count; ++i) {
    Request& request = requests.emplace_back();
    request.prompt = beginnings[static_cast<size_t>(random.integer(0, 5))];
    for (int64_t n = random.integer(1, 30); n > 0; --n)
      request.prompt.push_back(static_cast<int32_t>(random.integer(1, random.integer(2, random_vocabulary - 1))));
    request.priority = static_cast<int32_t>(random.integer(0, 2));
    request.lora = static_cast<int32_t>(random.integer(-1, 2));
    request.salt = static_cast<uint64_t>(request.lora + 1);
    SamplingParams& params = request.params;
    params.max_tokens = static_cast<int32_t>(random.integer(1, 50));
    params.temperature = 0;
    if (random.uniform() < 0.2) params.min_tokens = static_cast<int32_t>(random.integer(0, *params.max_tokens));
    if (random.uniform() < 0.2) params.ignore_eos = true;
    if (random.uniform() < 0.2)
      params.stop_token_ids = {static_cast<int32_t>(random.integer(1, random_vocabulary - 1))};
    if (random.uniform() < 0.2)
      params.logit_bias = {{static_cast<int32_t>(random.integer(0, random_vocabulary - 1)), 3.f}};
    if (random.uniform() < 0.2) params.repetition_penalty = 1.3f;
    if (random.uniform() < 0.2) params.presence_penalty = 0.7f;
    if (random.uniform() < 0.2) params.frequency_penalty = 0.4f;
    if (random.uniform() < 0.2) params.logprobs = static_cast<int32_t>(random.integer(0, 5));
    if (random.uniform() < 0.1) params.prompt_logprobs = static_cast<int32_t>(random.integer(0, 3));
    if (!sampled || random.uniform() < 0.3) continue;
    params.temperature = static_cast<float>(random.uniform(0.2, 2));
    params.seed = random.next();
    params.n = static_cast<int32_t>(random.integer(1, 4));
    if (random.uniform() < 0.5) params.top_k = static_cast<int32_t>(random.integer(1, random_vocabulary));
    if (random.uniform() < 0.5) params.top_p = static_cast<float>(random.uniform(0.3, 1));
    if (random.uniform() < 0.3) params.min_p = static_cast<float>(random.uniform(0, 0.5));
  }
  return requests;
}

// Half of the logits repeat what the text had, so that guesses come true.
inline void repeating_logits(std::span<const int32_t> visible, std::span<float> row) {
  FakeModel::random_logits(visible, row);
  const int32_t last = visible.back();
  for (size_t i = visible.size() - 1; i-- > 0;) {
    if (visible[i] != last) continue;
    if ((visible.size() * 7 + static_cast<size_t>(last)) % 4 != 0) row[static_cast<size_t>(visible[i + 1])] += 8;
    break;
  }
}

}  // namespace camshaft::llm
