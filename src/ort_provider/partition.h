// Which parts of a graph become engines.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ort_provider/graph_reader.h"

namespace camshaft::ort_provider {

/// Nodes, by their places in the graph and in its order, that can be computed at once: no path between two of them
/// leads through another node.
using Group = std::vector<size_t>;

/// The nodes of `can` in few groups: what no node outside stands between is together. Then as much as needs be is taken
/// out of them, and of `can`: ONNX Runtime hands nothing but tensors of known rank over to a group, and no value that
/// only the sub-graphs of its nodes read.
std::vector<Group> groups_of(const GraphFacts& facts, std::vector<bool>& can);

/// A group as a model. Inputs and outputs are tensors that others compute or need; the bytes of initializers are those
/// of `facts`. Without outputs there is nothing to compute.
onnx::ModelProto model_of(const GraphFacts& facts, const Group& group);

}  // namespace camshaft::ort_provider
