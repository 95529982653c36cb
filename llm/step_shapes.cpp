#include "llm/step_shapes.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "camshaft/error.hpp"

namespace camshaft::llm {

StepShapes::StepShapes(const SchedulerConfig& config, int32_t most, bool reads_all, bool reads_images) {
  const int32_t sequences = config.max_num_seqs, drafts = 1 + config.num_speculative_tokens;
  const int32_t tokens = config.max_num_batched_tokens;
  // Every sequence has a row for its last token, and for each guess that the step has room for.
  const int32_t rows = std::min(sequences * drafts, tokens);
  largest_ = {tokens, sequences, std::min(rows + config.prompt_logprob_rows, tokens)};
  if (!config.generates) largest_.rows = reads_all ? tokens : std::min(sequences, tokens);
  if (most == 0) return;
  if (most < 8)
    throw Error(ErrorCode::invalid_argument, "max_step_shapes is " + std::to_string(most) +
                                                 ", it must be 8 or more, or 0 for steps without padding");
  if (!config.generates) {
    add_prompts(most);
    return;
  }
  if (reads_images) most -= most / 4;
  const int32_t kinds = drafts > 1 ? 2 : 1;
  int32_t factor = 2;
  const auto decoding_shapes = [&] {
    int32_t count = 1;
    for (int64_t size = 1; size < sequences; size *= factor) ++count;
    return count * kinds;
  };
  while (decoding_shapes() > most - most / 4 - 1 && factor < sequences) factor *= 2;
  for (int64_t size = 1;; size *= factor) {
    const auto some = static_cast<int32_t>(std::min<int64_t>(size, sequences));
    shapes_.push_back({some, some, some});
    if (drafts > 1) shapes_.push_back({std::min(some * drafts, tokens), some, std::min(some * drafts, rows)});
    if (some == sequences) break;
  }
  const int32_t sizes = std::max(1, (most - static_cast<int32_t>(shapes_.size()) - 1) / 2);
  const double ratio = std::pow(tokens / 16.0, 1.0 / std::max(1, sizes - 1));
  double size = tokens;
  for (int32_t i = 0; i < sizes && size >= 1; ++i, size /= std::max(ratio, 1.5)) {
    const int32_t rounded = std::min(tokens, (static_cast<int32_t>(size) + 15) / 16 * 16);
    shapes_.push_back({rounded, sequences, 1});
    if (std::min(rows, rounded) > 1) shapes_.push_back({rounded, sequences, std::min(rows, rounded)});
    if (reads_images) image_shapes_.push_back(shapes_.back());
  }
  shapes_.push_back(largest_);
  if (reads_images) image_shapes_.push_back(largest_);
  std::ranges::stable_sort(image_shapes_, {}, &StepShape::tokens);
  // The products of tokens are most of a step; those with the vocabulary are of rows.
  std::ranges::stable_sort(shapes_, {}, [](const StepShape& shape) {
    return 4 * int64_t{shape.tokens} + int64_t{shape.rows} + int64_t{shape.sequences};
  });
  shapes_.erase(std::unique(shapes_.begin(), shapes_.end()), shapes_.end());
}

// All sequences, as empty ones cost nothing.
void StepShapes::add_prompts(int32_t most) {
  const double ratio = std::max(std::pow(largest_.tokens / 16.0, 1.0 / (most - 1)), 1.2);
  double size = largest_.tokens;
  for (int32_t i = 0; i < most && size >= 1; ++i, size /= ratio) {
    const int32_t rounded = std::min(largest_.tokens, (static_cast<int32_t>(size) + 15) / 16 * 16);
    shapes_.push_back({rounded, largest_.sequences, std::min(rounded, largest_.rows)});
  }
  std::ranges::reverse(shapes_);
  shapes_.erase(std::unique(shapes_.begin(), shapes_.end()), shapes_.end());
}

StepShape StepShapes::fit(int32_t tokens, int32_t sequences, int32_t rows, bool has_images) const {
  for (const StepShape& shape : has_images ? image_shapes_ : shapes_)
    if (shape.tokens >= tokens && shape.sequences >= sequences && shape.rows >= rows) return shape;
  return {tokens, sequences, std::max(rows, 1)};
}

}  // namespace camshaft::llm
