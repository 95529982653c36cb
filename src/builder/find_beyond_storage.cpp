#include "builder/find_beyond_storage.h"

#include <algorithm>
#include <cmath>

#include "reference/evaluate.h"

namespace camshaft {

namespace {

// Numbers that are kept well. Other inputs may give larger ones than the sample does.
struct HeldRange {
  float least, largest;
};

HeldRange range_of(DType storage) {
  // Below 2^-14 f16 has fixed steps: of a tensor that is all below 2^-11, as squares of small numbers are, much is
  // lost.
  if (storage == DType::f16) return {0x1p-11F, 65504 / 2};
  return {0, 0x1.FEp127F / 2};
}

bool is_beyond(const Tensor& tensor, const HeldRange& range) {
  if (!tensor.defined() || tensor.dtype() != DType::f32) return false;
  const auto* x = tensor.as<float>();
  float most = 0;
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (std::isfinite(x[i])) most = std::max(most, std::fabs(x[i]));
  return most > range.largest || (most > 0 && most < range.least);
}

}  // namespace

std::set<std::string> find_beyond_storage(const Graph& model, const Graph& optimized, DType storage,
                                          const SampleOptions& options, ThreadPool& pool) {
  std::set<std::string> found;
  const auto made = find_sample(model, options, pool);
  const auto* sample = std::get_if<VerificationSample>(&made);
  if (!sample) return found;
  EvaluateOptions evaluation;
  evaluation.cancellation = &options.cancellation;
  const HeldRange range = range_of(storage);
  evaluation.observer = [&](const Node& node, const std::vector<Tensor>& outputs) {
    for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o)
      if (is_beyond(outputs[o], range)) found.insert(optimized.value(node.outputs[o]).name);
  };
  evaluate(optimized, sample->inputs, pool, evaluation);
  return found;
}

}  // namespace camshaft
