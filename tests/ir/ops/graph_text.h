// Graphs of their text form, checked.
#pragma once

#include <gtest/gtest.h>

#include "ir/ops/operators.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace camshaft {

/// The graph of the text, verified; it must print and parse as itself.
inline Graph parse(std::string_view text) {
  Graph graph = parse_graph(text, operators());
  verify(graph, "the test");
  EXPECT_TRUE(equal(parse_graph(print(graph, {.max_constant_elements = -1}), operators()), graph)) << print(graph);
  return graph;
}

inline std::string type_of(const Graph& graph, size_t output = 0) {
  return to_string(graph.type(graph.outputs[output]));
}

}  // namespace camshaft
