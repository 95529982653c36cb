// What computes the logits or hidden states of a step: an engine, or a test's own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/block_pool.h"

namespace camshaft::llm {

/// The inputs of a step; sizes are those of the shape that was chosen, which may be more than there is to compute.
struct StepInputs {
  std::span<const int32_t> input_ids;    ///< [tokens] of all sequences, one behind the other
  std::span<const int32_t> positions;    ///< [tokens] of each in its sequence, or [tokens, 3] with M-RoPE
  std::span<const int32_t> cumulative;   ///< [sequences + 1] where each one's tokens begin; behind the last: padding
  std::span<const int32_t> past;         ///< [sequences] tokens of each that are in the cache
  std::span<const int32_t> block_table;  ///< [sequences, table_width]; what is behind a sequence's blocks is anything
  int32_t table_width = 0;
  std::span<const int32_t> logits_indices;  ///< [rows] tokens whose logits or hidden states are wanted
  /// Of models with cross attention: [sequences] keys of an encoder that each sees, and [sequences, cross_table_width]
  /// their blocks.
  std::span<const int32_t> cross_seqlens, cross_block_table;
  /// Of models that read pictures: [image rows, image_width()] that stand in for the embeddings of tokens, and which
  /// of the step's tokens these are. Where there are more than 0, the last one comes again and again up to [tokens].
  std::span<const float> image_embeddings;
  std::span<const int32_t> image_indices;
  std::span<const int32_t> lora_ids;  ///< [tokens] the adapter of each; -1: none. Models without adapters do not look
  bool reads_logits = true;           ///< else what is likeliest suffices, where the model looks for that
};

struct StepOutputs {
  float* logits = nullptr;  ///< [rows, vocabulary]; may be changed. Null where they are not read, maybe
  /// [rows] the first of the largest logits of each, or of NaNs, and that logit; both null where the model does not
  /// look for them. With them greedy decoding does not read the logits.
  const int32_t* likeliest = nullptr;
  const float* largest = nullptr;
  const float* hidden_states = nullptr;  ///< [rows, hidden_size()], of models that have no logits
};

/// The blocks of an encoder's keys and values, of which decoders with cross attention read those of each sequence. All
/// 0 of a model without.
struct CrossSizes {
  int32_t blocks = 0;       ///< that there are
  int32_t block_size = 0;   ///< keys of one
  int32_t table_width = 0;  ///< blocks of a sequence, at most
};

/// The keys of an encoder that a sequence sees, and the blocks that they lie in.
struct CrossKeys {
  std::vector<int32_t> blocks;
  int32_t length = 0;
};

class StepModel {
 public:
  virtual ~StepModel() = default;

  virtual CrossSizes cross_sizes() const { return {}; }
  /// Elements of a row that stands in for a token's embedding; 0 of a model that reads no pictures.
  virtual int32_t image_width() const { return 0; }
  /// Whether positions are three for each token: M-RoPE.
  virtual bool has_mrope() const { return false; }

  /// How many adapters requests may choose from: 0 of a model without.
  virtual int32_t max_loras() const { return 0; }
  /// 0 of a model whose rows are hidden states.
  virtual int32_t vocabulary() const = 0;
  /// 0 of a model whose rows are logits.
  virtual int32_t hidden_size() const { return 0; }
  /// Copies the keys and values of blocks, one after the other. Throws Error.
  virtual void copy_blocks(std::span<const BlockCopy> copies) = 0;
  /// Makes room for so many blocks in the host's memory, beside those of the cache. Throws Error.
  virtual void make_host_blocks(int32_t count);
  /// Copies the keys and values of blocks into such memory, and from there into blocks, one after the other. The next
  /// run() comes behind them. Throw Error.
  virtual void offload_blocks(std::span<const BlockCopy> copies);
  virtual void restore_blocks(std::span<const BlockCopy> copies);
  /// Writes the keys and values of the step's tokens into their blocks. What it returns is valid until the next step.
  /// Throws Error; the blocks of the step's tokens are undefined then.
  virtual StepOutputs run(const StepInputs& inputs) = 0;
  /// Whether there is run() in two parts, for steps that read no logits: one may be started while the one before it is
  /// not finished yet.
  virtual bool starts_ahead() const { return false; }
  /// With `follows`, the step has a token of each sequence, and rows as many: what the step that was started before
  /// finds likeliest, whatever input_ids say. Inputs may be changed when it returns. Throws Error, and has started
  /// nothing then.
  virtual void start(const StepInputs& inputs, bool follows);
  /// Of the step that was started first among those that are not finished; valid until the one behind the next is
  /// started. Throws Error as run() does, and that step is finished then, too.
  virtual StepOutputs finish();
};

}  // namespace camshaft::llm
