#include "builder/find_beyond_f16.h"

#include <algorithm>
#include <cmath>

#include "reference/evaluate.h"

namespace camshaft {

namespace {

// Other inputs may give larger numbers.
constexpr float largest = 65504 / 2;
// Below 2^-14 f16 has fixed steps: of a tensor that is all below 2^-11, as squares of small numbers are, much is lost.
constexpr float least = 0x1p-11F;

bool is_beyond(const Tensor& tensor) {
  if (!tensor.defined() || tensor.dtype() != DType::f32) return false;
  const auto* x = tensor.as<float>();
  float most = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (std::isfinite(x[i])) most = std::max(most, std::fabs(x[i]));
  return most > largest || (most > 0 && most < least);
}

}  // namespace

std::set<std::string> find_beyond_f16(const Graph& model, const Graph& optimized, const SampleOptions& options,
                                      ThreadPool& pool) {
  std::set<std::string> found;
  const auto made = find_sample(model, options, pool);
  const auto* sample = std::get_if<VerificationSample>(&made);
  if (!sample) return found;
  EvaluateOptions evaluation;
  evaluation.cancellation = &options.cancellation;
  evaluation.observer = [&](const Node& node, const std::vector<Tensor>& outputs) {
    for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o)
      if (is_beyond(outputs[o])) found.insert(optimized.value(node.outputs[o]).name);
  };
  evaluate(optimized, sample->inputs, pool, evaluation);
  return found;
}

}  // namespace camshaft
