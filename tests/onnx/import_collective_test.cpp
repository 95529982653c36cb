// Collectives of the domain camshaft, and TensorRT's DistCollective. A rank alone takes the others to hold what it
// does.
#include <algorithm>

#include "ir/ops/collective.h"
#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_collective_test {
namespace {

using ops::Collective;
using ops::CollectiveKind;

Graph imported(const std::string& op_type, std::vector<AttributeWriter> attributes, const std::string& domain) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 4}).output("y", DType::f32);
  graph.node(op_type, {"x"}, {"y"}, std::move(attributes), domain);
  return import_graph(graph, 17);
}

const Collective& op_of(const Graph& graph, size_t node = 0) {
  return *graph.nodes.at(node).op.as<Collective>();
}

std::string refusal(const std::string& op_type, const std::vector<AttributeWriter>& attributes,
                    const std::string& domain = "camshaft") {
  try {
    imported(op_type, attributes, domain);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(ImportCollective, EachOfOurOwn) {
  const Graph gather = imported("AllGather", {attr("group_size", 2), attr("axis", -1)}, "camshaft");
  EXPECT_EQ(op_of(gather), (Collective{.kind = CollectiveKind::all_gather, .ranks = 2, .axis = 1}));
  EXPECT_EQ(type_of_output(gather), "f32[n, 8]");
  expect_near(run(gather, {floats({1, 4}, {1, 2, 3, 4})})[0], {1, 8}, {1, 2, 3, 4, 1, 2, 3, 4});

  const Graph reduce = imported("AllReduce", {attr("group_size", 3), attr("reduce_op", "max")}, "camshaft");
  EXPECT_EQ(op_of(reduce),
            (Collective{.kind = CollectiveKind::all_reduce, .ranks = 3, .reduction = ops::CollectiveReduction::max}));
  const Graph sum = imported("AllReduce", {attr("group_size", 3)}, "camshaft");
  expect_near(run(sum, {floats({1, 4}, {1, 2, 3, 4})})[0], {1, 4}, {3, 6, 9, 12});

  const Graph scatter = imported("ReduceScatter", {attr("group_size", 2), attr("axis", 1)}, "camshaft");
  EXPECT_EQ(type_of_output(scatter), "f32[n, 2]");
  expect_near(run(scatter, {floats({1, 4}, {1, 2, 3, 4})})[0], {1, 2}, {2, 4});

  const Graph all_to_all = imported("AllToAll", {attr("group_size", 2), attr("axis", 1)}, "camshaft");
  expect_near(run(all_to_all, {floats({1, 4}, {1, 2, 3, 4})})[0], {1, 4}, {1, 2, 1, 2});

  const Graph broadcast = imported("Broadcast", {attr("group_size", 2), attr("root", 1)}, "camshaft");
  EXPECT_EQ(op_of(broadcast), (Collective{.kind = CollectiveKind::broadcast, .ranks = 2, .root = 1}));
}

TEST(ImportCollective, EqualOnesAreNumbered) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 4}).output("y", DType::f32).output("z", DType::f32);
  for (const char* name : {"y", "z"})
    graph.node("AllGather", {"x"}, {name}, std::vector<AttributeWriter>{attr("group_size", 2)}, "camshaft");
  const Graph both = import_graph(graph, 17);
  EXPECT_EQ(op_of(both, 0).sequence, 0);
  EXPECT_EQ(op_of(both, 1).sequence, 1);
}

// Ranks that take different branches are not at the same collective.
TEST(ImportCollective, ThoseOfBranchesAreNumberedToo) {
  const auto gathered = [] {
    GraphWriter branch;
    branch.output("r", DType::f32);
    branch.node("AllGather", {"x"}, {"r"}, std::vector<AttributeWriter>{attr("group_size", 2)}, "camshaft");
    return branch;
  };
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 4}).input("c", DType::boolean, {}).output("y", DType::f32).output("z", DType::f32);
  graph.node("If", {"c"}, {"y"}, {attr("then_branch", gathered()), attr("else_branch", gathered())});
  graph.node("AllGather", {"x"}, {"z"}, std::vector<AttributeWriter>{attr("group_size", 2)}, "camshaft");
  const Graph imported = import_graph(graph, 17);
  std::vector<int64_t> found;
  for (const Node& node : imported.nodes) {
    for (const Graph& body : node.bodies)
      for (const Node& inner : body.nodes)
        if (const auto* op = inner.op.as<Collective>()) found.push_back(op->sequence);
    if (const auto* op = node.op.as<Collective>()) found.push_back(op->sequence);
  }
  std::sort(found.begin(), found.end());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(std::unique(found.begin(), found.end()), found.end());
}

// As `polygraphy multi-device shard` writes it, in the default domain.
TEST(ImportCollective, DistCollective) {
  const std::vector<AttributeWriter> shared{attr("group_size", 2), attr("root", 0), attr("reduce_op", "sum"),
                                            attr("groups", std::vector<int64_t>())};
  const auto with = [&](const char* operation) {
    std::vector<AttributeWriter> all = shared;
    all.push_back(attr("collective_operation", operation));
    return all;
  };
  const Graph gather = imported("DistCollective", with("all_gather"), "");
  EXPECT_EQ(op_of(gather), (Collective{.kind = CollectiveKind::all_gather, .ranks = 2}));
  EXPECT_EQ(type_of_output(gather), "f32[2*n, 4]");
  EXPECT_EQ(op_of(imported("DistCollective", with("reduce_scatter"), "")).kind, CollectiveKind::reduce_scatter);
  EXPECT_NE(refusal("DistCollective", with("gather"), "").find("differ in shape"), std::string::npos);
  EXPECT_NE(refusal("DistCollective", with("dance"), "").find("'dance'"), std::string::npos);
  std::vector<AttributeWriter> some{attr("group_size", 2), attr("collective_operation", "all_gather"),
                                    attr("groups", std::vector<int64_t>{1})};
  EXPECT_NE(refusal("DistCollective", some, "").find("groups of some"), std::string::npos);
}

TEST(ImportCollective, WhatCannotBeIsRefused) {
  EXPECT_NE(refusal("AllGather", {}).find("group_size"), std::string::npos);
  EXPECT_NE(refusal("AllGather", {attr("group_size", 0)}).find("group_size is 0"), std::string::npos);
  EXPECT_NE(refusal("AllGather", {attr("group_size", 2), attr("axis", 2)}), "");
  EXPECT_NE(refusal("ReduceScatter", {attr("group_size", 3), attr("axis", 1)}), "");
  EXPECT_NE(refusal("AllReduce", {attr("group_size", 2), attr("reduce_op", "mean")}).find("sum, prod, min, max, avg"),
            std::string::npos);
  EXPECT_NE(refusal("Broadcast", {attr("group_size", 2), attr("root", 2)}), "");
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_collective_test
