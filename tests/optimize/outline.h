// What a pass made of a graph, in a line.
#pragma once

#include <string>

#include "ir/graph.h"
#include "ir/ops/region.h"

namespace camshaft {

/// "chain(conv, contract(conv, pointwise), conv), reduce": each node of the graph.
inline std::string outline(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes) {
    const auto* region = node.op.as<ops::Region>();
    out += out.empty() ? "" : ", ";
    out += region ? std::string(EnumNames<ops::RegionKind>::values[static_cast<size_t>(region->kind)]) + "(" +
                        outline(node.bodies[0]) + ")"
                  : std::string(node.op.name());
  }
  return out;
}

}  // namespace camshaft
