#include "builder/verification_sample.h"

#include <fmt/format.h>

#include <optional>

#include "builder/sample_inputs.h"
#include "builder/sample_points.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

// Sizes to try along axes that nobody named: models have minimum sizes and divisibility of their own, and those of
// sound want some thousand samples.
constexpr int64_t fallback_sizes[] = {64, 32, 16, 128, 224, 8, 1, 1024, 16384};

// A guess may be too large for the machine, too.
bool is_refusal(const Error& error) {
  return error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::invalid_model ||
         error.code() == ErrorCode::out_of_memory;
}

// The given inputs, whose shapes join `shapes`, by their place among the inputs of the model.
std::map<size_t, Tensor> place_inputs(const Graph& model, const std::map<std::string, Tensor>& inputs,
                                      std::map<std::string, Dims>& shapes) {
  std::map<size_t, Tensor> placed;
  for (const auto& [name, tensor] : inputs) {
    size_t i = 0;
    while (i < model.inputs.size() && model.value(model.inputs[i]).name != name) ++i;
    if (i == model.inputs.size())
      throw Error(ErrorCode::invalid_argument, fmt::format("the model has no input '{}' to verify with", name));
    const TensorType& type = model.type(model.inputs[i]);
    if (type.dtype != tensor.dtype())
      throw Error(ErrorCode::invalid_argument, fmt::format("the data to verify with has {} for input '{}', which is {}",
                                                           to_string(tensor.dtype()), name, to_string(type)));
    shapes[name] = tensor.dims();
    placed[i] = tensor;
  }
  return placed;
}

}  // namespace

std::variant<VerificationSample, std::string> find_sample(const Graph& model, const SampleOptions& options,
                                                          ThreadPool& pool) {
  EvaluateOptions cancellable;
  cancellable.cancellation = &options.cancellation;
  std::string first_failure;
  std::map<std::string, Dims> shapes = options.shapes;
  const std::map<size_t, Tensor> given = place_inputs(model, options.inputs, shapes);
  const std::map<size_t, Tensor> settled = place_inputs(model, options.settled, shapes);
  // Sizes at which outputs are empty come last. Integers may be indices that no rule recognises: 0 is nearly always one
  // that exists.
  const auto first_accepted = [&](SampleIntegers integers, bool with_empty) -> std::optional<VerificationSample> {
    std::optional<std::vector<Dims>> previous;
    for (const int64_t fallback : fallback_sizes) {
      VerificationSample sample;
      try {
        sample.shapes = choose_input_shapes(model, shapes, options.symbols, fallback);
        if (sample.shapes == previous) break;  // nothing is free to choose
        previous = sample.shapes;
        if (has_empty_output(model, sample.shapes) != with_empty) continue;
        sample.inputs = sample_inputs(model, sample.shapes, options.seed, integers);
        for (const auto& [i, tensor] : given) sample.inputs[i] = tensor;
        for (const auto& [i, tensor] : settled) sample.inputs[i] = tensor;
        sample.expected = evaluate(model, sample.inputs, pool, cancellable);
        return sample;
      } catch (const Error& e) {
        if (!is_refusal(e)) throw;
        if (first_failure.empty()) first_failure = e.what();
      }
    }
    return std::nullopt;
  };
  for (const bool with_empty : {false, true})
    for (const SampleIntegers integers : {SampleIntegers::any, SampleIntegers::zeros_and_ones, SampleIntegers::zeros})
      if (auto sample = first_accepted(integers, with_empty)) return *std::move(sample);
  if (!given.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("cannot verify on the given inputs: {}", first_failure));
  return first_failure;
}

}  // namespace camshaft
