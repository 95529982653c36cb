// Pointwise sub-graphs → scalar programs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compile/region/scalar_program.h"
#include "ir/graph.h"

namespace camshaft {

/// A scalar program and what its loads refer to.
struct LoweredProgram {
  ScalarProgram program;
  std::vector<ValueId> loads;    ///< of the graph, one for each program input
  std::vector<ValueId> results;  ///< of the graph, one for each program output
};

/// Turns the pointwise and cast nodes [first, graph.nodes.size()) of a region's body into a program whose outputs are
/// the body's outputs. Values computed by earlier nodes, body inputs and tensor constants become loads; one-element
/// constants become constants of the program. nullopt when some node is neither pointwise nor cast.
std::optional<LoweredProgram> lower_scalar_program(const Graph& body, size_t first);

/// The same of these nodes of the body alone, in their order, whose program gives these values.
std::optional<LoweredProgram> lower_scalar_program(const Graph& body, std::span<const Node* const> nodes,
                                                   std::span<const ValueId> results);
/// The nodes [first, end) of a body.
std::vector<const Node*> nodes_between(const Graph& body, size_t first, size_t end);

}  // namespace camshaft
