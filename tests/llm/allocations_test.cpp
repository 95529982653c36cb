// In the steady state a step allocates nothing.
#include <gtest/gtest.h>

#include "llm/count_allocations.h"
#include "llm/decode_requests.h"

#ifndef CAMSHAFT_SANITIZED
namespace camshaft::llm::allocations_test {
namespace {

// Memory of its own, and the same logits for all.
class QuietModel : public StepModel {
 public:
  explicit QuietModel(size_t rows) : logits_(rows * 500) {
    for (size_t i = 0; i < logits_.size(); ++i) logits_[i] = static_cast<float>(i * 7919 % 500) / 50;
  }
  int32_t vocabulary() const override { return 500; }
  void copy_blocks(std::span<const BlockCopy>) override {}
  StepOutputs run(const StepInputs&) override { return {logits_.data()}; }
  bool starts_ahead() const override { return is_started_ahead; }
  void start(const StepInputs&, bool) override {}
  StepOutputs finish() override {
    ++finished;
    return {nullptr, likeliest_.data(), logits_.data()};
  }
  bool is_started_ahead = false;
  int64_t finished = 0;

 private:
  std::vector<float> logits_;
  std::vector<int32_t> likeliest_ = std::vector<int32_t>(64, 7);
};

TEST(Allocations, AStepOfDecodingMakesNone) {
  for (const auto& [drafts, has_draft] : {std::pair(0, false), std::pair(3, false), std::pair(3, true)}) {
    GeneratorConfig config = small_config(2000);
    config.scheduler.num_speculative_tokens = drafts;
    config.scheduler.max_model_len = 600;
    config.draft = {2000, 4, 0};
    QuietModel model(64 * 2), draft(64);
    Generator generator(model, config, has_draft ? &draft : nullptr);
    for (int i = 0; i < 8; ++i) {
      Request request = request_of({1 + i, 2, 3, 1 + i, 2});
      request.params.max_tokens = 500;
      request.params.ignore_eos = true;
      if (i % 4 == 0) request.params.temperature = 0;
      if (i % 4 == 1) request.params.top_k = 20;
      if (i % 4 == 2) request.params.top_p = 0.9f;
      if (i >= 4) request.params.repetition_penalty = 1.2f;
      generator.add(request);
    }
    for (int i = 0; i < 20; ++i) generator.step();
    const int64_t before = allocation_count();
    for (int i = 0; i < 80; ++i) generator.step();
    EXPECT_EQ(allocation_count(), before) << "with " << drafts << " guesses" << (has_draft ? " of a draft" : "");
    EXPECT_EQ(generator.statistics().draft_steps > 0, has_draft);
  }
}

TEST(Allocations, AStepThatIsStartedAheadMakesNone) {
  QuietModel model(64);
  model.is_started_ahead = true;
  Generator generator(model, small_config(2000));
  for (int i = 0; i < 8; ++i) {
    Request request = request_of({1 + i, 2, 3, 1 + i, 2}, greedy_params(150));
    request.params.ignore_eos = true;
    generator.add(request);
  }
  for (int i = 0; i < 20; ++i) generator.step();
  const int64_t before = allocation_count();
  for (int i = 0; i < 80; ++i) generator.step();
  EXPECT_EQ(allocation_count(), before);
  EXPECT_GT(model.finished, 80);
}

}  // namespace
}  // namespace camshaft::llm::allocations_test
#endif
