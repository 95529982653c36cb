#include "build/find_beyond_f16.h"

#include <algorithm>
#include <cmath>

#include "ops/evaluate.h"

namespace camshaft {

namespace {

constexpr float limit = 65504 / 2;  // other inputs may be larger

bool exceeds(const Tensor& tensor) {
  if (!tensor.defined() || tensor.dtype() != DType::f32) return false;
  const auto* x = tensor.as<float>();
  return std::any_of(x, x + tensor.size(), [](float v) { return std::isfinite(v) && std::fabs(v) > limit; });
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
      if (exceeds(outputs[o])) found.insert(optimized.value(node.outputs[o]).name);
  };
  evaluate(optimized, sample->inputs, pool, evaluation);
  return found;
}

}  // namespace camshaft
