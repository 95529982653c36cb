#include "llm/step_batch.h"

#include <algorithm>

namespace camshaft::llm {

StepBatch::StepBatch(const StepShape& largest, int32_t table_width, const StepModel& model)
    : table_width_(table_width),
      cross_width_(model.cross_sizes().table_width),
      image_width_(model.image_width()),
      has_mrope_(model.has_mrope()),
      input_ids_(static_cast<size_t>(largest.tokens)),
      positions_(static_cast<size_t>(largest.tokens) * (has_mrope_ ? 3 : 1)),
      cumulative_(static_cast<size_t>(largest.sequences) + 1),
      past_(static_cast<size_t>(largest.sequences)),
      block_table_(static_cast<size_t>(largest.sequences) * static_cast<size_t>(table_width)),
      logits_indices_(static_cast<size_t>(largest.rows)),
      lora_ids_(static_cast<size_t>(largest.tokens)) {
  if (cross_width_ > 0) {
    cross_seqlens_.resize(static_cast<size_t>(largest.sequences));
    cross_block_table_.resize(static_cast<size_t>(largest.sequences) * static_cast<size_t>(cross_width_));
  }
  if (image_width_ > 0) {
    image_embeddings_.resize(static_cast<size_t>(largest.tokens) * static_cast<size_t>(image_width_));
    image_indices_.resize(static_cast<size_t>(largest.tokens));
  }
}

void StepBatch::clear() {
  tokens_ = sequences_ = rows_ = image_rows_ = 0;
}

void StepBatch::begin_sequence(int32_t past, std::span<const BlockId> blocks, const CrossKeys* cross,
                               const Pictures* pictures, int32_t lora) {
  pictures_ = pictures;
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
  const auto count = static_cast<int32_t>(tokens.size());
  std::ranges::copy(tokens, input_ids_.begin() + tokens_);
  std::fill_n(lora_ids_.begin() + tokens_, tokens.size(), lora_);
  if (pictures_ != nullptr) add_image_rows(position_, position_ + count);
  add_positions(tokens.size());
  tokens_ += count;
  position_ += count;
}

void StepBatch::add_positions(size_t count) {
  if (!has_mrope_) {
    for (size_t i = 0; i < count; ++i)
      positions_[static_cast<size_t>(tokens_) + i] = position_ + static_cast<int32_t>(i);
    return;
  }
  auto out = positions_.begin() + std::ptrdiff_t{3} * tokens_;
  for (size_t i = 0; i < count; ++i) {
    const int32_t token = position_ + static_cast<int32_t>(i);
    out = std::ranges::copy(pictures_ == nullptr ? Position{token, token, token} : pictures_->position(token), out).out;
  }
}

// Of the tokens of its sequence from `begin` to `end`, which are to be added.
void StepBatch::add_image_rows(int32_t begin, int32_t end) {
  const auto width = static_cast<size_t>(image_width_);
  for (const Picture& picture : pictures_->all()) {
    const int32_t from = std::max(begin, picture.begin), to = std::min(end, picture.begin + picture.rows);
    if (from >= to) continue;
    const std::span<const float> rows =
        std::span(*picture.embeddings->values)
            .subspan(static_cast<size_t>(from - picture.begin) * width, static_cast<size_t>(to - from) * width);
    std::ranges::copy(
        rows, image_embeddings_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(image_rows_) * width));
    for (int32_t token = from; token < to; ++token)
      image_indices_[static_cast<size_t>(image_rows_++)] = tokens_ + token - begin;
  }
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
  const std::ptrdiff_t axes = has_mrope_ ? 3 : 1;
  std::fill(positions_.begin() + axes * tokens_, positions_.begin() + axes * shape.tokens, 0);
  std::fill(logits_indices_.begin() + rows_, logits_indices_.begin() + shape.rows, 0);
  const auto first = [](const auto& values, size_t count) { return std::span(values).first(count); };
  StepInputs inputs;
  inputs.input_ids = first(input_ids_, static_cast<size_t>(shape.tokens));
  inputs.positions = first(positions_, static_cast<size_t>(axes * shape.tokens));
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
  if (image_width_ > 0) {
    const auto width = static_cast<size_t>(image_width_);
    const auto rows = image_rows_ > 0 ? static_cast<size_t>(shape.tokens) : 0;
    // The last one again: it writes what is there.
    for (auto row = static_cast<size_t>(image_rows_); row < rows; ++row) {
      image_indices_[row] = image_indices_[row - 1];
      std::copy_n(image_embeddings_.begin() + static_cast<std::ptrdiff_t>((row - 1) * width), width,
                  image_embeddings_.begin() + static_cast<std::ptrdiff_t>(row * width));
    }
    inputs.image_embeddings = first(image_embeddings_, rows * width);
    inputs.image_indices = first(image_indices_, rows);
  }
  return inputs;
}

}  // namespace camshaft::llm
