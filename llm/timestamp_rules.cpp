#include "llm/timestamp_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace camshaft::llm {

namespace {

constexpr float excluded = -std::numeric_limits<float>::infinity();

// Whether the weights of the times add up to more than the largest of the others.
bool are_times_likelier(std::span<const float> others, std::span<const float> times) {
  const float top = std::ranges::max(times);
  if (top == excluded) return false;
  const float other = others.empty() ? excluded : std::ranges::max(others);
  double sum = 0;
  for (const float logit : times) sum += std::exp(static_cast<double>(logit - top));
  return static_cast<double>(top) + std::log(sum) > static_cast<double>(other);
}

}  // namespace

void apply_timestamp_rules(const TimestampRules& rules, std::span<const int32_t> text, int32_t end_of_text,
                           std::span<float> logits) {
  const auto begin = static_cast<size_t>(rules.begin);
  const std::span<float> others = logits.first(begin), times = logits.subspan(begin);
  if (times.empty()) return;
  const auto exclude = [](std::span<float> tokens) { std::ranges::fill(tokens, excluded); };
  const auto is_time = [&](int32_t token) { return token >= rules.begin; };
  if (rules.no_timestamps >= 0) logits[static_cast<size_t>(rules.no_timestamps)] = excluded;

  if (text.empty()) {
    exclude(others);
    if (rules.max_initial >= 0) {
      const auto allowed = static_cast<size_t>(rules.max_initial) + 1;
      if (allowed < times.size()) exclude(times.subspan(allowed));
    }
  } else {
    const bool last = is_time(text.back()), before = text.size() < 2 || is_time(text[text.size() - 2]);
    if (last && before) exclude(times);
    if (last && !before) exclude(logits.first(static_cast<size_t>(end_of_text)));
    const auto latest = std::find_if(text.rbegin(), text.rend(), is_time);
    if (latest != text.rend()) {
      // The end of what was said may be where the next part begins; a beginning is not written twice.
      const auto next = static_cast<size_t>(*latest - rules.begin) + (last && !before ? 0 : 1);
      exclude(times.first(std::min(next, times.size())));
    }
  }
  if (are_times_likelier(others, times)) exclude(others);
}

}  // namespace camshaft::llm
