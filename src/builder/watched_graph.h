// Graphs whose engines show tensors of the model as they compute them, for calibration.
#pragma once

#include <string>
#include <vector>

#include "compile/backend.h"
#include "ir/graph.h"
#include "optimize/pass.h"
#include "quantize/watched_tensors.h"

namespace camshaft {

struct WatchedGraph {
  Graph graph;
  std::vector<WatchedValue> watched;
};

/// Optimises a graph that prepare_quantization() has been at. Throws Error(invalid_argument) for a tensor that no value
/// of it has the name of.
WatchedGraph watched_graph(Graph graph, std::vector<std::string> tensors, const BackendPasses& passes,
                           const PassContext& context);

}  // namespace camshaft
