#include "reference/operations.h"

#include <algorithm>

#include "base/error.h"
#include "ir/ops/cost.h"
#include "ir/ops/reduce.h"

namespace camshaft {

namespace {

constexpr double least = 1e7, of_a_byte = 4;

// Windows are no larger than the image: what lies beyond it costs nothing.
double window_operations(const Graph& graph, const Node& node, const SymbolBindings& symbols) {
  const auto* pool = node.op.as<ops::Pool>();
  if (!pool) return 0;
  const Shape &in = graph.shape(node.inputs[0]), &out = graph.shape(node.outputs[0]);
  double elements = 1;
  for (const Dim& d : out) elements *= static_cast<double>(d.evaluate(symbols));
  const size_t first = pool->channels_last ? 1 : 2;
  for (size_t i = 0; i < pool->kernel.size(); ++i)
    elements *= static_cast<double>(std::min(pool->kernel[i], in[first + i].evaluate(symbols)));
  return elements;
}

}  // namespace

double operations_of(const Graph& graph, const Node& node, const SymbolBindings& symbols) {
  double count = 0;
  if (const auto cost = ops::cost(graph, node, symbols)) count = cost->flops + of_a_byte * cost->bytes();
  try {
    count += window_operations(graph, node, symbols);
  } catch (const Error&) {  // only running can tell
  }
  return std::max(count, least);
}

}  // namespace camshaft
