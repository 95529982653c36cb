// The host's own time of a step of a language model: bench_llm_host [sequences [threads]].
//
// Scheduling, inputs and sampling, with a model that costs nothing: its logits are there, in memory that was just
// written as a model's would be. Prints a line for each way of sampling: microseconds of a step, the best of the
// rounds, without the model and with the part that sampling is.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "llm/generator.h"

namespace {

using namespace camshaft::llm;

// Of all threads: what others of the machine take does not count.
double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

class Model : public StepModel {
 public:
  Model(int32_t vocabulary, int32_t rows, float spread) : vocabulary_(vocabulary) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, spread);
    kept_.resize(static_cast<size_t>(rows) * static_cast<size_t>(vocabulary));
    for (float& logit : kept_) logit = normal(random);
    logits_ = kept_;
    for (int32_t row = 0; row < rows; ++row) {
      const auto begin = kept_.begin() + static_cast<std::ptrdiff_t>(row) * vocabulary;
      likeliest_.push_back(static_cast<int32_t>(std::max_element(begin, begin + vocabulary) - begin));
      largest_.push_back(begin[likeliest_.back()]);
    }
  }
  int32_t vocabulary() const override { return vocabulary_; }
  void copy_blocks(std::span<const BlockCopy>) override {}
  StepOutputs run(const StepInputs& inputs) override {
    const double start = processor_seconds();
    // As a model leaves them: sampling may have changed those of the step before.
    std::memcpy(logits_.data(), kept_.data(),
                inputs.logits_indices.size() * static_cast<size_t>(vocabulary_) * sizeof(float));
    seconds += processor_seconds() - start;
    if (!gives_likeliest) return {logits_.data()};
    return {logits_.data(), likeliest_.data(), largest_.data()};
  }
  double seconds = 0;
  bool gives_likeliest = false;

 private:
  int32_t vocabulary_;
  std::vector<float> kept_, logits_;
  std::vector<int32_t> likeliest_;
  std::vector<float> largest_;
};

double step_microseconds(Model& model, int32_t sequences, int32_t threads, const SamplingParams& params) {
  GeneratorConfig config;
  config.sampling_threads = threads;
  config.scheduler.max_num_seqs = sequences;
  config.scheduler.max_num_batched_tokens = 2048;
  config.scheduler.max_model_len = 4096;
  config.scheduler.num_blocks = sequences * 256;
  Generator generator(model, config);
  for (int32_t i = 0; i < sequences; i += params.sequences()) {
    Request request;
    for (int32_t token = 0; token < 500; ++token) request.prompt.push_back((token * 31 + i) % model.vocabulary());
    request.params = params;
    request.params.max_tokens = 3000;
    request.params.ignore_eos = true;
    generator.add(std::move(request));
  }
  while (generator.statistics().generated < sequences) generator.step();
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    constexpr int steps = 10;
    model.seconds = 0;
    const double start = processor_seconds();
    for (int i = 0; i < steps; ++i) generator.step();
    const double seconds = processor_seconds() - start - model.seconds;
    best = std::min(best, seconds / steps * 1e6);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int32_t sequences = argc > 1 ? std::atoi(argv[1]) : 32, threads = argc > 2 ? std::atoi(argv[2]) : 0;
  std::printf("%d sequences, microseconds of processor time of a step beside the model\n%-34s %12s %12s\n", sequences,
              "", "128,256 ids", "64 ids");
  for (const char* way : {"greedy, ArgMax by the engine", "greedy", "temperature", "top_k 50", "top_k 50, top_p 0.9",
                          "top_p 0.9", "top_p 0.9, flat", "min_p 0.05", "greedy, repetition_penalty",
                          "greedy, logprobs 5", "beams of 4", "beams of 4, flat"}) {
    const std::string name = way;
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    SamplingParams params;
    if (has("greedy")) params.temperature = 0;
    if (has("top_k")) params.top_k = 50;
    if (has("top_p")) params.top_p = 0.9f;
    if (has("min_p")) params.min_p = 0.05f;
    if (has("penalty")) params.repetition_penalty = 1.1f;
    if (has("logprobs")) params.logprobs = 5;
    if (has("beams")) params.beam_search = BeamSearchParams{.beam_width = 4};
    const float spread = has("flat") ? 0.5f : 4;
    Model large(128256, sequences, spread), small(64, sequences, spread);
    large.gives_likeliest = small.gives_likeliest = has("ArgMax");
    std::printf("%-34s %12.1f %12.1f\n", way, step_microseconds(large, sequences, threads, params),
                step_microseconds(small, sequences, threads, params));
  }
}
