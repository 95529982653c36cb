#include "ir/rewriter.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "test_ops.h"

namespace camshaft::rewriter_test {
namespace {

using namespace test_ops;

Graph parse(const std::string& text) {
  return parse_graph(text, registry());
}

void expect_equal(const Graph& graph, const std::string& expected) {
  verify(graph, "the rewrite");
  EXPECT_TRUE(equal(graph, parse(expected))) << print(graph);
}

// Drops `add` of one input.
void drop_identities(Graph& graph) {
  Rewriter rewriter(graph);
  for (Node& node : rewriter.nodes()) {
    rewriter.resolve(node);
    if (node.op.as<Add>() && node.inputs.size() == 1) {
      rewriter.replace(node.outputs[0], node.inputs[0]);
    } else {
      rewriter.keep(std::move(node));
    }
  }
  rewriter.finish();
}

TEST(Rewriter, ChainsOfReplacements) {
  Graph g = parse(R"(graph (%x: f32[4]) {
    %a = add (%x)  %b = add (%a)  %c = add (%b)
    %d = add (%c, %a)
    %e = add (%d)
    return %d, "e" = %e, "x" = %c })");
  drop_identities(g);
  expect_equal(g, "graph (%x: f32[4]) { %d = add (%x, %x) return %d, e = %d, x = %x }");
}

TEST(Rewriter, ReplacementsThatAreReplacedLater) {
  Graph g = parse("graph (%x: f32[4]) { %a = add (%x, -) %b = add (%a, -) %c = add (%b, %a) return %c }");
  const ValueId x = g.nodes[0].inputs[0], a = g.nodes[0].outputs[0], b = g.nodes[1].outputs[0];
  Rewriter rewriter(g);
  rewriter.replace(b, a);
  rewriter.replace(a, x);
  rewriter.replace(a, a);
  rewriter.replace(x, b);  // b is x by now: nothing to do, and no cycle
  EXPECT_EQ(rewriter.resolve(b), x);
  EXPECT_EQ(rewriter.resolve(no_value), no_value);
  for (Node& node : rewriter.nodes()) rewriter.keep(std::move(node));
  rewriter.finish();
  expect_equal(g, "graph (%x: f32[4]) { %c = add (%x, %x) return %c }");
}

TEST(Rewriter, NewNodesTakeTheirPlace) {
  Graph g = parse("graph (%x: f32[4, 4]) { %a = add (%x, %x) %b = matmul (%a, %x) return %b }");
  Rewriter rewriter(g);
  for (Node& node : rewriter.nodes()) {
    rewriter.resolve(node);
    if (node.op.as<Add>()) {
      const ValueId first = g.add(MatMul{}, node.inputs, "first", node.sources);
      rewriter.replace(node.outputs[0], g.add(MatMul{true}, {first, first}, "second"));
    } else {
      rewriter.keep(std::move(node));
    }
  }
  EXPECT_TRUE(rewriter.changed());
  rewriter.finish();
  expect_equal(g, R"(graph (%x: f32[4, 4]) {
    %first = matmul (%x, %x)
    %second = matmul {transpose_b=true} (%first, %first)
    %b = matmul (%second, %x)
    return %b })");
}

// A replacement of another shape is carried through all that follows, including known elements.
TEST(Rewriter, RetypesWhatFollows) {
  Graph g = parse(R"(graph (%x: f32[n, 1], %y: f32[n, 7]) {
    %a = add (%x)
    %b = add (%a, -)
    %c = add (%b, %b)
    %s = shape_of (%c)
    return %c, %s })");
  const ValueId y = g.inputs[1], a = g.nodes[0].outputs[0];
  Rewriter rewriter(g);
  for (Node& node : rewriter.nodes()) {
    if (node.outputs[0] == a) {
      rewriter.replace(a, y);
    } else {
      rewriter.keep(std::move(node));
    }
  }
  rewriter.finish();
  expect_equal(g, R"(graph (%x: f32[n, 1], %y: f32[n, 7]) {
    %b = add (%y, -)
    %c = add (%b, %b)
    %s = shape_of (%c)
    return %c, %s })");
  EXPECT_EQ(to_string(g.type(g.outputs[0])), "f32[n, 7]");
  EXPECT_EQ(g.value(g.outputs[1]).content, (std::vector<Dim>{Dim::symbol("n"), 7}));
}

TEST(Rewriter, NodesDroppedWithoutReplacement) {
  Graph g = parse(R"(graph (%x: f32[4]) {
    const %c: f32[4] = 1
    %a = add (%x, %c) %b = add (%x, -) return %b })");
  Rewriter rewriter(g);
  for (Node& node : rewriter.nodes())
    if (node.inputs[1] == no_value) rewriter.keep(std::move(node));
  rewriter.finish();
  expect_equal(g, "graph (%x: f32[4]) { %b = add (%x, -) return %b }");
  EXPECT_EQ(g.values.size(), 2u) << "the constant goes with its reader";
}

TEST(Rewriter, NothingToDo) {
  const std::string text = "graph (%x: f32[4]) { %a = add (%x, %x) return %a }";
  Graph g = parse(text);
  Rewriter rewriter(g);
  for (Node& node : rewriter.nodes()) rewriter.keep(std::move(node));
  EXPECT_FALSE(rewriter.changed());
  rewriter.finish();
  expect_equal(g, text);
}

}  // namespace
}  // namespace camshaft::rewriter_test
