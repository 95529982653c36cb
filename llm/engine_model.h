// An engine of a language model, with the memory of its keys and values.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/context.hpp"
#include "camshaft/engine.hpp"
#include "llm/step_memory.h"
#include "llm/step_model.h"

namespace camshaft::llm {

/// Binds a step's inputs by their names: input_ids, positions, cumulative_sequence_length, past_seqlens, block_table,
/// logits_indices, and key_cache.I and value_cache.I of each layer, which key_cache_out.I and value_cache_out.I update
/// in place, as key_scales_out.I and value_scales_out.I do the scales of caches of 8 bits; the outputs are logits and,
/// where the engine has them, likeliest, i32, the ArgMax of each row, and largest, its logit. Engines with cross
/// attention also have cross_seqlens, cross_block_table, and cross_key_cache.I and the like of each layer, which an
/// encoder fills; those that read pictures have image_embeddings, f32 [image rows, width], and image_indices, and with
/// M-RoPE positions of i32 [tokens, 3]. Engines with adapters have lora_ids, the adapter of each token, and the
/// matrices lora_a.MODULE [loras, in, rank] and lora_b.MODULE [loras, rank, out] of each product that adapters may
/// update; set_lora() writes these. An engine that is to give embeddings has the output hidden_states instead, f32
/// [rows, size]; it may have no caches, and then neither past_seqlens nor block_table. Sizes that come again are bound
/// as they were. On a GPU caches stay there, and logits that nobody reads; blocks are copied in the order of its work.
class EngineModel : public StepModel {
 public:
  /// `threads`: of the context; 0 for one for each core. Throws Error(invalid_argument) for an engine that has not
  /// these inputs and outputs, naming what is amiss, and Error(out_of_memory) where the blocks do not fit.
  /// `num_cross_blocks`: of an encoder's keys and values, where the engine has cross attention.
  /// `max_loras`: adapters that there is room for, where the engine has such; all are zeros.
  EngineModel(const Engine& engine, int32_t num_blocks, int threads = 0, int32_t num_cross_blocks = 0,
              int32_t max_loras = 0);
  ~EngineModel() override;
  EngineModel(const EngineModel&) = delete;
  EngineModel& operator=(const EngineModel&) = delete;

  /// The matrices of an adapter, by the names of inputs; those that it lacks become zeros. Between steps. Throws
  /// Error(invalid_argument), before anything is written, for a name that is no such input's, and for other sizes.
  void set_lora(int32_t lora, const std::map<std::string, std::span<const std::byte>>& matrices);

  /// For an engine of one of several ranks: see Context::set_communicator().
  void set_communicator(const Communicator& communicator) {
    context_.set_communicator(communicator);
    has_ranks_ = true;
  }

  /// Memory of cross_key_cache.I, …, by these names, which an encoder's engine writes into.
  std::vector<std::pair<std::string, const Tensor*>> cross_memory() const;

  /// What an engine's inputs say of its cache: the tokens of a block, and the bytes of one in all layers. All 0 where
  /// there is none.
  struct Cache {
    int32_t layers = 0, block_size = 0;
    size_t block_bytes = 0;
    CrossSizes cross;  ///< without the number of blocks
    size_t cross_block_bytes = 0;
  };
  /// Throws as the constructor does.
  static Cache cache_of(const Engine& engine);

  int32_t vocabulary() const override { return vocabulary_; }
  CrossSizes cross_sizes() const override { return cross_; }
  int32_t max_loras() const override { return max_loras_; }
  int32_t hidden_size() const override { return hidden_size_; }
  int32_t image_width() const override { return image_width_; }
  bool has_mrope() const override { return has_mrope_; }
  void copy_blocks(std::span<const BlockCopy> copies) override;
  void make_host_blocks(int32_t count) override;
  void offload_blocks(std::span<const BlockCopy> copies) override;
  void restore_blocks(std::span<const BlockCopy> copies) override;
  StepOutputs run(const StepInputs& inputs) override;
  bool starts_ahead() const override { return memory_.has_value() && !has_ranks_; }
  void start(const StepInputs& inputs, bool follows) override;
  StepOutputs finish() override;

 private:
  struct Layer {  // keys or values of one, or their scales
    std::string input, output;
    Tensor memory;
    size_t block_bytes = 0;
    Tensor host = {};  // what leaves the cache
  };
  struct Input {
    const char* name = nullptr;
    const void* data = nullptr;
    Dims dims;
  };
  template <class Use>
  void for_each_input(const StepInputs& inputs, const Use& use);
  void bind(Input& input, const void* data, size_t bytes, size_t rows, size_t columns, Device device = {});
  void bind_images(const StepInputs& inputs);
  void find_image_inputs(const Engine& engine);

  Device device_;
  Context context_;
  int32_t vocabulary_ = 0, hidden_size_ = 0, image_width_ = 0;
  bool has_mrope_ = false;
  std::vector<Layer> layers_;
  std::vector<Layer> cross_layers_;  // which runs read
  CrossSizes cross_;
  struct LoraMatrices {  // of one input
    std::string input;
    Tensor host, device;  // the second where the first is not what is bound
  };
  std::vector<LoraMatrices> loras_;
  int32_t max_loras_ = 0;
  std::vector<Input> inputs_;
  Input image_embeddings_, image_indices_;
  void add_loras(const Engine& engine, int32_t max_loras);
  void bind_lora(LoraMatrices& matrices);
  Tensor bound_memory(const TensorInfo& info, int32_t blocks);
  void copy_blocks(std::span<const BlockCopy> copies, Tensor Layer::*to, Tensor Layer::*from);
  void find_outputs(const Engine& engine);
  void bind_outputs(size_t rows);
  void bind_logits(size_t rows, bool reads_logits);
  std::vector<float> logits_;
  Tensor logits_there_;  // on a GPU, of steps whose logits nobody reads
  const void* bound_logits_ = nullptr;
  bool has_likeliest_ = false;
  std::vector<int32_t> likeliest_;  // on the host
  std::vector<float> largest_;
  std::vector<float> hidden_states_;

  bool has_ranks_ = false;
  std::optional<StepMemory> memory_;  // on a GPU, of engines that find what is likeliest
  std::byte* bound_likeliest_ = nullptr;
  size_t bound_rows_ = 0;
  struct Started {
    size_t turn = 0;
    const float* logits = nullptr;
  };
  std::vector<Started> started_;  // and not finished, the first one first
};

}  // namespace camshaft::llm
