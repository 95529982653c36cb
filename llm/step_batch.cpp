#include "llm/step_batch.h"

#include <algorithm>

namespace camshaft::llm {

StepBatch::StepBatch(const StepShape& largest, int32_t table_width, int32_t cross_width)
    : table_width_(table_width),
      cross_width_(cross_width),
      input_ids_(static_cast<size_t>(largest.tokens)),
      positions_(static_cast<size_t>(largest.tokens)),
      cumulative_(static_cast<size_t>(largest.sequences) + 1),
      past_(static_cast<size_t>(largest.sequences)),
      block_table_(static_cast<size_t>(largest.sequences) * static_cast<size_t>(table_width)),
      logits_indices_(static_cast<size_t>(largest.rows)),
      lora_ids_(static_cast<size_t>(largest.tokens)) {
  if (cross_width == 0) return;
  cross_seqlens_.resize(static_cast<size_t>(largest.sequences));
  cross_block_table_.resize(static_cast<size_t>(largest.sequences) * static_cast<size_t>(cross_width));
}

void StepBatch::clear() {
  tokens_ = sequences_ = rows_ = 0;
}

void StepBatch::begin_sequence(int32_t past, std::span<const BlockId> blocks, const CrossKeys* cross, int32_t lora) {
  lora_ = lora;
  const auto slot = static_cast<size_t>(sequences_++);
  cumulative_[slot] = first_ = tokens_;
  past_[slot] = position_ = past;
  std::ranges::copy(blocks,
                    block_table_.begin() + static_cast<std::ptrdiff_t>(slot * static_cast<size_t>(table_width_)));
  if (cross_width_ == 0) return;
  cross_seqlens_[slot] = cross->length;
  std::ranges::copy(cross->blocks,
                    cross_block_table_.begin() + static_cast<std::ptrdiff_t>(slot * static_cast<size_t>(cross_width_)));
}

void StepBatch::add_tokens(std::span<const int32_t> tokens) {
  std::ranges::copy(tokens, input_ids_.begin() + tokens_);
  std::fill_n(lora_ids_.begin() + tokens_, tokens.size(), lora_);
  for (size_t i = 0; i < tokens.size(); ++i) positions_[static_cast<size_t>(tokens_++)] = position_++;
}

int32_t StepBatch::add_row(int32_t token) {
  logits_indices_[static_cast<size_t>(rows_)] = first_ + token;
  return rows_++;
}

StepInputs StepBatch::padded_to(const StepShape& shape) {
  const auto sequences = static_cast<size_t>(shape.sequences);
  for (auto slot = static_cast<size_t>(sequences_); slot < sequences; ++slot) {
    cumulative_[slot] = tokens_, past_[slot] = 0;
    if (cross_width_ > 0) cross_seqlens_[slot] = 0;
  }
  cumulative_[sequences] = tokens_;
  std::fill(input_ids_.begin() + tokens_, input_ids_.begin() + shape.tokens, 0);
  std::fill(lora_ids_.begin() + tokens_, lora_ids_.begin() + shape.tokens, -1);
  std::fill(positions_.begin() + tokens_, positions_.begin() + shape.tokens, 0);
  std::fill(logits_indices_.begin() + rows_, logits_indices_.begin() + shape.rows, 0);
  const auto first = [](const std::vector<int32_t>& values, size_t count) { return std::span(values).first(count); };
  StepInputs inputs;
  inputs.input_ids = first(input_ids_, static_cast<size_t>(shape.tokens));
  inputs.positions = first(positions_, static_cast<size_t>(shape.tokens));
  inputs.lora_ids = first(lora_ids_, static_cast<size_t>(shape.tokens));
  inputs.cumulative = first(cumulative_, sequences + 1);
  inputs.past = first(past_, sequences);
  inputs.block_table = first(block_table_, sequences * static_cast<size_t>(table_width_));
  inputs.table_width = table_width_;
  if (cross_width_ > 0) {
    inputs.cross_seqlens = first(cross_seqlens_, sequences);
    inputs.cross_block_table = first(cross_block_table_, sequences * static_cast<size_t>(cross_width_));
  }
  inputs.logits_indices = first(logits_indices_, static_cast<size_t>(shape.rows));
  return inputs;
}

}  // namespace camshaft::llm
