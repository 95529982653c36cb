// Graphs of their text form, checked and run.
#pragma once

#include "ir/ops/graph_text.h"
#include "reference/single_op.h"

namespace camshaft {

inline std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
  return evaluate(graph, inputs, test_pool());
}

}  // namespace camshaft
