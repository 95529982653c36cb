// Pointwise sub-graphs → scalar programs.
#pragma once

#include <optional>

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

}  // namespace camshaft
