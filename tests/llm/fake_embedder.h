// A model whose hidden states are a function of every token that a row's sequence has so far.
#pragma once

#include "llm/fake_model.h"

namespace camshaft::llm {

/// The rows of FakeModel, of `size` elements.
class FakeEmbedder : public FakeModel {
 public:
  FakeEmbedder(int32_t blocks, int32_t block_size, int32_t size) : FakeModel(blocks, block_size, size), size_(size) {}

  int32_t vocabulary() const override { return 0; }
  int32_t hidden_size() const override { return size_; }
  StepOutputs run(const StepInputs& inputs) override {
    StepOutputs outputs;
    outputs.hidden_states = FakeModel::run(inputs).logits;
    return outputs;
  }

 private:
  int32_t size_;
};

}  // namespace camshaft::llm
