// The inputs of a step, while they are written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/pictures.h"
#include "llm/step_model.h"
#include "llm/step_shapes.h"

namespace camshaft::llm {

/// Sequences come one behind the other, each with its tokens and with the rows of logits that are wanted of these. Has
/// memory for the largest step, which stays where it is.
class StepBatch {
 public:
  /// `table_width`: blocks of the longest sequence. What a step has beside is as `model` has it.
  StepBatch(const StepShape& largest, int32_t table_width, const StepModel& model);

  void clear();
  /// Of a sequence with `past` tokens in `blocks` of the cache; add_tokens() and add_row() are of the last one that
  /// began. One without tokens keeps its place in the table. `cross`: the keys of an encoder that it sees; `pictures`:
  /// of its prompt, null where there are none; `lora`: its adapter, or -1.
  void begin_sequence(int32_t past, std::span<const BlockId> blocks, const CrossKeys* cross = nullptr,
                      const Pictures* pictures = nullptr, int32_t lora = -1);
  void add_tokens(std::span<const int32_t> tokens);
  /// Wants the logits of a token, counted from the first of this step. Returns their row.
  int32_t add_row(int32_t token);
  int32_t tokens() const { return tokens_; }
  int32_t sequences() const { return sequences_; }
  int32_t rows() const { return rows_; }
  int32_t image_rows() const { return image_rows_; }
  int32_t table_width() const { return table_width_; }
  /// Pads to a shape that has room. What it gives is valid until clear().
  StepInputs padded_to(const StepShape& shape);

 private:
  void add_positions(size_t count);
  void add_image_rows(int32_t begin, int32_t end);

  int32_t table_width_, cross_width_, image_width_;
  bool has_mrope_;
  int32_t tokens_ = 0, sequences_ = 0, rows_ = 0, image_rows_ = 0;
  int32_t first_ = 0, position_ = 0;  ///< of the sequence that began last: its first token, the next one's position
  const Pictures* pictures_ = nullptr;
  int32_t lora_ = -1;  ///< its adapter
  std::vector<int32_t> input_ids_, positions_, cumulative_, past_, block_table_, logits_indices_, lora_ids_;
  std::vector<int32_t> cross_seqlens_, cross_block_table_;
  std::vector<float> image_embeddings_;
  std::vector<int32_t> image_indices_;
};

}  // namespace camshaft::llm
