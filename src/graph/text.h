// Text form of graphs: printed for people, parsed by tests.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace camshaft {

struct PrintOptions {
  /// Constants above this many elements print as `<bytes and hash>`, which does not parse back; -1 prints all.
  int64_t max_constant_elements = 16;
  bool sources = false;
};

/// graph "name" (%x: f32[batch, 3]) {
///   const %w: f32[3, 4] = [0.5, …]
///   %y: f32[batch, 4] = matmul {…} (%x, %w)
///   return %y
/// }
std::string print(const Graph& graph, const PrintOptions& options = {});

/// The inverse of print(): types of node outputs may be left out, and are checked against the shape rules when present.
/// Throws Error(invalid_argument) with line and column.
Graph parse_graph(std::string_view text, const OpRegistry& registry);

}  // namespace camshaft
