// Operators of plugins: what engines that have them are verified against.
#include "base/thread_pool.h"
#include "ir/symbols.h"
#include "reference/plugin_run.h"

namespace camshaft::ops {

std::vector<Tensor> Plugin::evaluate(const EvalContext& context) const {
  const std::shared_ptr<const PluginInstance> of = instance();
  std::vector<TensorType> types;
  std::vector<bool> present;
  std::vector<std::shared_ptr<const Tensor>> elements;
  for (const Tensor& input : context.inputs) {
    present.push_back(input.defined());
    types.push_back(input.defined() ? TensorType{input.dtype(), Shape(input.dims().begin(), input.dims().end())}
                                    : TensorType{});
    // A rule may look at numbers, which are known by now.
    elements.push_back(input.defined() && input.rank() <= 1 ? std::make_shared<const Tensor>(input) : nullptr);
  }
  std::vector<Dims> sizes(context.output_types.size());
  std::vector<const Dims*> known;
  std::vector<TensorType> results;
  for (size_t o = 0; o < sizes.size(); ++o) {
    const TensorType& type = context.output_types[o];
    results.push_back(type);
    const bool is_bound = camshaft::is_bound(type.shape, context.bindings);
    for (Dim& d : results.back().shape)
      if (camshaft::is_bound({d}, context.bindings)) d = d.evaluate(context.bindings);
    if (is_bound) sizes[o] = context.evaluate(type.shape);
    known.push_back(is_bound ? &sizes[o] : nullptr);
  }
  check_rule(*this, types, present, elements, results);
  ThreadPool alone(1);
  const bool reference = of->has_reference();
  return run_plugin(*this, *of, context.inputs, results, known, {reference, 0}, reference ? context.pool : alone,
                    context.cancellation);
}

}  // namespace camshaft::ops
