// Graph in, pass, graph out: both written as text.
#pragma once

#include <gtest/gtest.h>

#include "ir/ops/operators.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "optimize/pass.h"
#include "reference/named_constants.h"

namespace camshaft {

inline ThreadPool& test_pool() {
  static ThreadPool pool(2);
  return pool;
}

inline PassContext test_context() {
  return PassContext{.pool = test_pool(), .verify = true};
}

/// The text of a graph: its inputs, parted by commas, and its body.
inline std::string graph_text(const std::string& inputs, const std::string& body) {
  return "graph \"g\" (" + inputs + ") {\n" + body + "\n}";
}

inline Graph graph_of(const std::string& inputs, const std::string& body) {
  return parse_graph(graph_text(inputs, body), operators());
}

using PassUnderTest = void (*)(Graph&, const PassContext&);

/// Runs the pass on the graph with its constants as a model's initializers: what it makes of them says how. A copy
/// with other numbers goes through the pass, too, and shows whether that is true.
inline void run_pass_on_named(PassUnderTest pass, Graph& graph, const PassContext& context, const std::string& what) {
  NamedConstants named, other_named;
  Graph other = graph;
  change_constants(other);
  name_constants(graph, named);
  name_constants(other, other_named);
  pass(graph, context);
  pass(other, context);
  expect_constants_redone({graph, named}, {other, other_named}, context.pool, what);
}

inline Graph run_pass(PassUnderTest pass, const std::string& before) {
  Graph graph = parse_graph(before, operators());
  verify(graph, "parsing");
  run_pass_on_named(pass, graph, test_context(), "the pass under test");
  verify(graph, "the pass under test");
  return graph;
}

/// The bodies of graphs over (%x: f32[2, 3]) unless `inputs` says otherwise.
inline void expect_pass(PassUnderTest pass, const std::string& before, const std::string& after,
                        const std::string& inputs = "%x: f32[2, 3]") {
  const Graph result = run_pass(pass, graph_text(inputs, before));
  const Graph expected = graph_of(inputs, after);
  EXPECT_TRUE(equal(result, expected)) << "from\n"
                                       << before << "\ngot\n"
                                       << print(result) << "expected\n"
                                       << print(expected);
}

inline void expect_unchanged(PassUnderTest pass, const std::string& body, const std::string& inputs = "%x: f32[2, 3]") {
  expect_pass(pass, body, body, inputs);
}

}  // namespace camshaft
