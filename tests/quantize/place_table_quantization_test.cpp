#include "quantize/place_table_quantization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ir/ops/move.h"
#include "ir/verify.h"

namespace camshaft::place_table_quantization_test {
namespace {

// A table of `rows` rows of 64 numbers, and one gather for each of `axes`.
Graph gathers(int64_t rows, const std::vector<int64_t>& axes) {
  Graph graph;
  const ValueId indices = graph.add_input("indices", {DType::i64, {2, 3}});
  const ValueId table = graph.add_constant("table", Tensor(DType::f32, {rows, 64}));
  for (size_t i = 0; i < axes.size(); ++i)
    graph.add_output("y" + std::to_string(i), graph.add(ops::Gather{axes[i]}, {table, indices}, "y"));
  return graph;
}

int64_t quantize_nodes(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& node) { return node.op.name() == "quantize"; });
}

TEST(PlaceTableQuantization, ATableThatIsGatheredTwiceIsQuantizedOnce) {
  Graph graph = gathers(256, {0, 0});
  place_table_quantization(graph);
  verify(graph, "place_table_quantization");
  EXPECT_EQ(quantize_nodes(graph), 1);
  for (const Node& node : graph.nodes)
    if (node.op.as<ops::Gather>()) {
      EXPECT_FALSE(graph.is_constant(node.inputs[0]));
    }
}

TEST(PlaceTableQuantization, SmallTablesAndOtherAxesStay) {
  for (const Graph& graph : {gathers(255, {0}), gathers(256, {1})}) {
    Graph placed = graph;
    place_table_quantization(placed);
    EXPECT_TRUE(equal(placed, graph));
  }
}

}  // namespace
}  // namespace camshaft::place_table_quantization_test
