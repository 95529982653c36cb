#include "llm/sampling_params.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "camshaft/error.hpp"
#include "llm/json_fields.h"

namespace camshaft::llm {

namespace {

// Each has candidates for all, of which the best are looked for.
constexpr int32_t most_beams = 256;

[[noreturn]] void refuse_parameter(const char* name, const std::string& value, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, std::string(name) + " is " + value + ", it must be " + allowed);
}

void check_range(const char* name, double value, bool is_inside, const char* allowed) {
  if (is_inside) return;
  std::string text = std::to_string(value);
  if (value == std::floor(value) && std::abs(value) < 1e15) text = std::to_string(static_cast<int64_t>(value));
  refuse_parameter(name, text, allowed);
}

void check_token(const char* name, int32_t token, int32_t vocabulary) {
  if (token >= 0 && token < vocabulary) return;
  throw Error(ErrorCode::invalid_argument, std::string(name) + " names token " + std::to_string(token) +
                                               ", the vocabulary has tokens 0 to " + std::to_string(vocabulary - 1));
}

// The token that a field's name stands for.
int32_t token_of(const std::string& text) {
  int32_t token = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), token);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::runtime_error("'" + text + "' is no number of a token");
  return token;
}

// What nobody would notice that beams do without.
void check_beams(const SamplingParams& p) {
  const BeamSearchParams& beams = *p.beam_search;
  check_range("beam_width", beams.beam_width, beams.beam_width >= 1 && beams.beam_width <= most_beams, "from 1 to 256");
  check_range("length_penalty", beams.length_penalty, std::isfinite(beams.length_penalty), "finite");
  const SamplingParams usual;
  const auto refuse = [](const char* name) {
    throw Error(ErrorCode::invalid_argument,
                std::string(name) + " does not go with beam search, which takes the likeliest texts: leave it out");
  };
  if (p.n != 1) refuse("n");
  if (p.top_k > 0) refuse("top_k");
  if (p.top_p != usual.top_p) refuse("top_p");
  if (p.min_p != usual.min_p) refuse("min_p");
  if (p.repetition_penalty != usual.repetition_penalty) refuse("repetition_penalty");
  if (p.presence_penalty != usual.presence_penalty) refuse("presence_penalty");
  if (p.frequency_penalty != usual.frequency_penalty) refuse("frequency_penalty");
  if (p.logprobs) refuse("logprobs");
  if (p.prompt_logprobs) refuse("prompt_logprobs");
  if (p.is_guided) refuse("structured_outputs");
}

}  // namespace

void check(const SamplingParams& p, int32_t vocabulary) {
  if (p.beam_search) check_beams(p);
  const auto finite = [](float value, float least, float most) { return value >= least && value <= most; };
  check_range("n", p.n, p.n >= 1, "1 or more");
  check_range("temperature", p.temperature, p.temperature >= 0 && std::isfinite(p.temperature),
              "0 or more, and finite");
  check_range("top_k", p.top_k, p.top_k >= -1, "1 or more, or 0 or -1 for all tokens");
  check_range("top_p", p.top_p, p.top_p > 0 && p.top_p <= 1, "above 0 and at most 1");
  check_range("min_p", p.min_p, finite(p.min_p, 0, 1), "from 0 to 1");
  check_range("repetition_penalty", p.repetition_penalty,
              p.repetition_penalty > 0 && std::isfinite(p.repetition_penalty), "above 0, and finite");
  check_range("presence_penalty", p.presence_penalty, finite(p.presence_penalty, -2, 2), "from -2 to 2");
  check_range("frequency_penalty", p.frequency_penalty, finite(p.frequency_penalty, -2, 2), "from -2 to 2");
  if (p.max_tokens) check_range("max_tokens", *p.max_tokens, *p.max_tokens >= 1, "1 or more");
  check_range("min_tokens", p.min_tokens, p.min_tokens >= 0, "0 or more");
  if (p.max_tokens && p.min_tokens > *p.max_tokens)
    refuse_parameter("min_tokens", std::to_string(p.min_tokens),
                     "at most max_tokens, " + std::to_string(*p.max_tokens));
  for (const auto& [name, count] : {std::pair("logprobs", p.logprobs), std::pair("prompt_logprobs", p.prompt_logprobs)})
    if (count) check_range(name, *count, *count >= 0 && *count <= vocabulary, "from 0 to the size of the vocabulary");
  if (p.is_greedy() && p.n > 1)
    refuse_parameter("n", std::to_string(p.n), "1 where temperature is 0: all samples are the same");
  for (const auto& [token, bias] : p.logit_bias) {
    check_token("logit_bias", token, vocabulary);
    check_range("a value of logit_bias", bias, finite(bias, -100, 100), "from -100 to 100");
  }
  for (const int32_t token : p.allowed_token_ids) check_token("allowed_token_ids", token, vocabulary);
  for (const int32_t token : p.stop_token_ids) check_token("stop_token_ids", token, vocabulary);
  for (const int32_t token : p.suppress_tokens) check_token("suppress_tokens", token, vocabulary);
  for (const int32_t token : p.begin_suppress_tokens) check_token("begin_suppress_tokens", token, vocabulary);
  if (!p.timestamps) return;
  check_token("timestamps: begin", p.timestamps->begin, vocabulary);
  if (p.timestamps->no_timestamps != -1)
    check_token("timestamps: no_timestamps", p.timestamps->no_timestamps, vocabulary);
  check_range("timestamps: max_initial", p.timestamps->max_initial, p.timestamps->max_initial >= -1,
              "0 or more, or -1 for any");
}

SamplingParams parse_sampling_params(std::string_view json) {
  SamplingParams p;
  JsonFields fields(json, "sampling parameters");
  fields.read("n", p.n);
  fields.read("temperature", p.temperature);
  fields.read("top_k", p.top_k);
  fields.read("top_p", p.top_p);
  fields.read("min_p", p.min_p);
  fields.read("repetition_penalty", p.repetition_penalty);
  fields.read("presence_penalty", p.presence_penalty);
  fields.read("frequency_penalty", p.frequency_penalty);
  fields.read("allowed_token_ids", p.allowed_token_ids);
  fields.read("seed", p.seed);
  fields.read("logprobs", p.logprobs);
  fields.read("prompt_logprobs", p.prompt_logprobs);
  fields.read("stop_token_ids", p.stop_token_ids);
  fields.read_or_null("max_tokens", p.max_tokens);
  fields.read("min_tokens", p.min_tokens);
  fields.read("ignore_eos", p.ignore_eos);
  fields.read("is_guided", p.is_guided);
  fields.read("suppress_tokens", p.suppress_tokens);
  fields.read("begin_suppress_tokens", p.begin_suppress_tokens);
  fields.take("timestamps", [&](const nlohmann::json& rules) {
    if (!rules.is_array() || rules.size() != 3)
      throw std::runtime_error("the numbers of begin, no_timestamps and max_initial are needed");
    p.timestamps = TimestampRules{JsonFields::get<int32_t>(rules[0]), JsonFields::get<int32_t>(rules[1]),
                                  JsonFields::get<int32_t>(rules[2])};
  });
  fields.take("beam_search", [&](const nlohmann::json& beams) {
    JsonFields each(beams.dump(), "beam search");
    BeamSearchParams made;
    each.read("beam_width", made.beam_width);
    each.read("length_penalty", made.length_penalty);
    each.read("early_stopping", made.early_stopping);
    each.read("counts_prompt", made.counts_prompt);
    each.finish();
    p.beam_search = made;
  });
  fields.take("logit_bias", [&](const nlohmann::json& bias) {
    if (bias.is_object()) {
      for (const auto& [token, value] : bias.items())
        p.logit_bias.emplace_back(token_of(token), JsonFields::get<float>(value));
      return;
    }
    for (const nlohmann::json& pair : JsonFields::get<std::vector<nlohmann::json>>(bias)) {
      if (!pair.is_array() || pair.size() != 2) throw std::runtime_error("pairs of a token and a number are needed");
      p.logit_bias.emplace_back(JsonFields::get<int32_t>(pair[0]), JsonFields::get<float>(pair[1]));
    }
  });
  fields.finish();
  return p;
}

}  // namespace camshaft::llm
