#include "builder/tensor_errors.h"

#include <algorithm>

#include "builder/engine_tensors.h"
#include "reference/evaluate.h"

namespace camshaft {

std::vector<TensorError> tensor_errors(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs,
                                       double tolerance, ThreadPool& pool, const Cancellation& cancellation) {
  EngineTensors computed(model, engine, inputs, pool, cancellation);
  std::vector<TensorError> errors;
  const auto compare = [&](const std::string& name, const std::string& layer, const Tensor& expected,
                           const Tensor& actual) {
    errors.push_back({layer, compare_outputs({name}, {expected}, {actual}, tolerance).at(0)});
  };
  EvaluateOptions options;
  options.cancellation = &cancellation;
  std::vector<ValueId> taken;
  options.observer = [&](const Node& node, std::vector<Tensor>& outputs) {
    for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o) {
      if (node.outputs[o] == no_value) continue;
      const std::string& name = model.value(node.outputs[o]).name;
      const Tensor actual = computed.take(name, outputs[o]).tensor;
      if (!actual.defined()) continue;
      compare(name, computed.layer_of(name), outputs[o], actual);
      taken.push_back(node.outputs[o]);
      outputs[o] = actual;
    }
  };
  const std::vector<Tensor> expected = evaluate(model, inputs, pool, options);
  for (size_t o = 0; o < expected.size(); ++o)
    if (std::find(taken.begin(), taken.end(), model.outputs[o]) == taken.end())
      compare(model.output_names[o], "", expected[o], computed.outputs()[o]);
  return errors;
}

}  // namespace camshaft
