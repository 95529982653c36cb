#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "test_ops.h"

namespace camshaft::graph_test {
namespace {

using namespace test_ops;

Graph parse(const std::string& text) {
  return parse_graph(text, registry());
}

TEST(Graph, AddRunsTheShapeRule) {
  Graph g;
  const Dim n = Dim::symbol("n");
  const ValueId x = g.add_input("x", {DType::f32, {n, 1}});
  const ValueId c = g.add_constant("c", Tensor(DType::f32, {1, 4}));
  const ValueId y = g.add(Add{}, {x, c}, "y");
  EXPECT_EQ(g.shape(y), (Shape{n, 4}));
  const ValueId s = g.add(ShapeOf{}, {y}, "s");
  EXPECT_EQ(g.value(s).content, (std::vector<Dim>{n, 4}));
  const auto parts = g.add_node(Split{}, {y}, {"a", "b", "count"});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(g.shape(parts[2]), Shape{Dim::symbol("@count.0")});
  EXPECT_TRUE(g.is_constant(c));
  EXPECT_FALSE(g.is_constant(x));
  EXPECT_FALSE(g.is_constant(no_value));
  g.add_output("y", y);
  verify(g, "building");
}

TEST(Graph, NamesAreUnique) {
  Graph g;
  const TensorType type{DType::f32, {2}};
  const auto name = [&](const char* wanted) { return g.value(g.add_input(wanted, type)).name; };
  EXPECT_EQ(name("x"), "x");
  EXPECT_EQ(name("x"), "x_1");
  EXPECT_EQ(name("x"), "x_2");
  EXPECT_EQ(name("x_3"), "x_3");
  EXPECT_EQ(name("x"), "x_4");
  EXPECT_EQ(name("x_1"), "x_1_1");
  EXPECT_EQ(name(""), "v");
  EXPECT_EQ(name(""), "v_1");
  EXPECT_EQ(g.value(g.add(Add{}, {0}, "x")).name, "x_5");
  EXPECT_EQ(g.value(g.add_constant("x", Tensor(DType::f32, {2}))).name, "x_6");
}

TEST(Graph, FailingRuleNamesTheNodeAndLeavesNoTrace) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::f32, {2, 3}});
  try {
    g.add(MatMul{}, {x, x}, "y", {"/encoder/MatMul_7", "other"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_model);
    EXPECT_STREQ(e.what(),
                 "node '/encoder/MatMul_7' (operator 'matmul') on inputs (f32[2, 3], f32[2, 3]): the inner sizes "
                 "differ");
  }
  EXPECT_EQ(g.values.size(), 1u);
  EXPECT_TRUE(g.nodes.empty());
  EXPECT_EQ(g.value(g.add(Add{}, {x}, "y")).name, "y") << "the name is free again";
  EXPECT_THROW(g.add(MatMul{}, {x, no_value}, "z"), Error) << "a missing input";
  EXPECT_THROW(g.add(MatMul{}, {x}, "z"), Error);
  EXPECT_THROW(g.add_node(Add{}, {x}, {"a", "b"}), Error) << "more outputs than it has";
}

TEST(Graph, ConstantContent) {
  EXPECT_EQ(constant_content(Tensor::from_ints({3, -1})), (std::vector<Dim>{3, -1}));
  EXPECT_EQ(constant_content(Tensor::scalar(DType::i32, 5)), std::vector<Dim>{5});
  EXPECT_EQ(constant_content(Tensor::scalar(DType::boolean, 1)), std::vector<Dim>{1});
  EXPECT_EQ(constant_content(Tensor::scalar(DType::f32, 5)), std::nullopt);
  EXPECT_EQ(constant_content(Tensor(DType::i64, {1, 2})), std::nullopt);
  EXPECT_EQ(constant_content(Tensor(DType::i64, {5000})), std::nullopt);
}

TEST(Graph, RemoveDead) {
  Graph g = parse(R"(graph (%x: f32[4, 4], %unused: f32[1]) {
    const %c: f32[4, 4] = 1
    const %dead_constant: f32[4, 4] = 2
    %y = add (%x, %c)
    %dead = add (%y, %dead_constant)
    %deader = add (%dead, -)
    %a, %b = split (%y)
    return %b })");
  remove_dead(g);
  verify(g, "remove_dead");
  EXPECT_TRUE(equal(g, parse(R"(graph (%x: f32[4, 4], %unused: f32[1]) {
    const %c: f32[4, 4] = 1
    %y = add (%x, %c)
    %a, %b = split (%y)
    return %b })")));
  EXPECT_EQ(g.values.size(), 6u) << "inputs and all outputs of live nodes stay";
}

TEST(Graph, Equal) {
  const std::string text = R"(graph (%x: f32[n, 4]) {
    const %c: f32[1, 4] = 1
    %y = add (%x, %c)
    %z = everything {integer=1} (%y, -)
    return "out" = %z })";
  const Graph g = parse(text);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    for (size_t at = other.find(from); at != std::string::npos; at = other.find(from, at + to.size()))
      other.replace(at, from.size(), to);
    EXPECT_NE(other, text);
    return parse(other);
  };
  EXPECT_TRUE(equal(g, parse(text)));
  EXPECT_TRUE(equal(g, changed("%y", "%other"))) << "inner names do not count";
  EXPECT_TRUE(equal(g, changed("%c", "%other")));
  EXPECT_FALSE(equal(g, changed("%x", "%other"))) << "names of inputs do";
  EXPECT_FALSE(equal(g, changed("out", "other")));
  EXPECT_FALSE(equal(g, changed("= 1\n", "= 2\n")));
  EXPECT_FALSE(equal(g, changed("[n, 4]", "[m, 4]")));
  EXPECT_FALSE(equal(g, changed("integer=1", "integer=2")));
  EXPECT_FALSE(equal(g, changed("(%y, -)", "(%y)")));
  EXPECT_FALSE(equal(g, changed("(%y, -)", "(%x, -)")));
  EXPECT_FALSE(equal(g, changed("\"out\" = %z", "\"out\" = %y")));
  EXPECT_FALSE(equal(g, changed("\"out\" = %z", "\"out\" = %z, %y")));
  EXPECT_FALSE(equal(g, changed("(%x, %c)", "(%c, %x)")));
}

TEST(Graph, Uses) {
  const Graph g = parse(R"(graph (%x: f32[4]) {
    const %c: f32[4] = 1
    %y = add (%x, %c)
    %z = add (%y, %y)
    %w = add (%z)
    return %z, %w })");
  const Uses uses(g);
  const auto id = [&](const char* name) {
    for (size_t v = 0; v < g.values.size(); ++v)
      if (g.values[v].name == name) return v;
    throw std::out_of_range(name);
  };
  EXPECT_EQ(uses.readers[id("y")], (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(uses.readers[id("w")], std::vector<int32_t>());
  EXPECT_EQ(uses.producer[id("z")], 1);
  EXPECT_EQ(uses.producer[id("x")], -1);
  EXPECT_EQ(uses.producer[id("c")], -1);
  EXPECT_TRUE(uses.is_output[id("z")]);
  EXPECT_FALSE(uses.is_output[id("y")]);
  EXPECT_TRUE(uses.single(static_cast<ValueId>(id("x"))));
  EXPECT_FALSE(uses.single(static_cast<ValueId>(id("y")))) << "read twice";
  EXPECT_FALSE(uses.single(static_cast<ValueId>(id("z")))) << "an output as well";
}

}  // namespace
}  // namespace camshaft::graph_test
