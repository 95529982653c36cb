// Regions made and changed: operands, results and types stay what the body says.
#include "ir/region_editor.h"

#include <gtest/gtest.h>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/operators.h"
#include "ir/ops/pointwise.h"
#include "ir/region.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace camshaft::region_editor_test {
namespace {

using F = ScalarFunction;

// A region of two operands: relu(x · w + b), whose sum others read too.
constexpr const char* inputs = "%x: f32[2, 3], %b: f32[4], %y: f32[n, 3], %other: f32[1, 4]";
constexpr const char* body = R"(
  const %w: f32[3, 4] = 0.5
  %sum, %relu = region {kind=contract} (%x, %w, %b) from "Gemm"
    graph (%x: f32[2, 3], %w: f32[3, 4], %b: f32[4]) {
    const %zero: f32[] = 0
    %p = matmul (%x, %w)
    %s = pointwise {function=add} (%p, %b)
    %r = pointwise {function=max} (%s, %zero)
    return "sum" = %s, "relu" = %r
  }
  return %sum, %relu)";

class RegionEditorTest : public testing::Test {
 protected:
  ValueId value(const std::string& name) const {
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].name == name) return static_cast<ValueId>(v);
    throw std::out_of_range(name);
  }
  Node& node() { return graph_.nodes.at(0); }
  RegionEditor editor() { return RegionEditor(graph_, node()); }

  void expect(const std::string& text) {
    verify(graph_, "the edit");
    const Graph expected = parse_graph(text, operators());
    EXPECT_TRUE(equal(graph_, expected)) << "got\n" << print(graph_) << "expected\n" << print(expected);
  }
  template <class Call>
  static void expect_error(Call call, const std::string& what) {
    try {
      call();
      FAIL() << "nothing was thrown";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::internal);
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  }

  Graph graph_ = parse_graph("graph (" + std::string(inputs) + ") {" + body + "}", operators());
};

TEST_F(RegionEditorTest, LooksFromBothSides) {
  const RegionEditor e = editor();
  for (const char* name : {"x", "w", "b"}) {
    const ValueId inner = e.inner(value(name));
    ASSERT_NE(inner, no_value) << name;
    EXPECT_EQ(e.outer(inner), value(name));
    EXPECT_EQ(outer_operand(node(), inner), value(name));
  }
  EXPECT_EQ(e.inner(value("y")), no_value);
  EXPECT_EQ(e.inner_result(value("relu")), e.body().outputs[1]);
  EXPECT_EQ(e.inner_result(value("x")), no_value);
  const ValueId product = e.body().nodes[0].outputs[0];
  EXPECT_EQ(e.outer(product), no_value);
  EXPECT_EQ(outer_operand(node(), product), no_value);
  EXPECT_EQ(input_index(e.body(), product), -1);
  EXPECT_EQ(input_index(e.body(), e.inner(value("b"))), 2);
}

TEST_F(RegionEditorTest, FirstOperatorsAndTheirOperands) {
  EXPECT_EQ(first_operator(node()).op.name(), "matmul");
  EXPECT_EQ(sole_operand(node(), 1), value("w"));
  EXPECT_TRUE(reads(node(), value("b")));
  EXPECT_FALSE(reads(node(), value("y")));
  // A second reader of the product's operand.
  RegionEditor e = editor();
  e.add(ops::Pointwise{F::neg}, {e.inner(value("x"))}, "again");
  EXPECT_EQ(sole_operand(e.finish(), 0), no_value);
  // Of a node that is no region, the values are the graph's.
  const Node& inner = node().bodies[0].nodes[0];
  EXPECT_EQ(&first_operator(inner), &inner);
  EXPECT_EQ(outer_operand(inner, inner.inputs[1]), inner.inputs[1]);
  EXPECT_EQ(sole_operand(inner, 1), inner.inputs[1]);
}

TEST_F(RegionEditorTest, OfNothingChangedIsWhatItWas) {
  const Graph before = graph_;
  node() = RegionEditor(graph_, node()).finish();
  verify(graph_, "an edit of nothing");
  EXPECT_TRUE(equal(graph_, before)) << print(graph_);
}

TEST_F(RegionEditorTest, AddsOperandsNodesAndResults) {
  RegionEditor e = editor();
  const ValueId relu = e.inner_result(value("relu"));
  const ValueId more = e.add_operand(value("other"));
  EXPECT_EQ(e.add_operand(value("other")), more);
  const ValueId scaled = e.add(ops::Pointwise{F::mul}, {relu, more}, "scaled", {"Mul"});
  const ValueId half = e.add_constant("half", Tensor::scalar(DType::f32, 0.5));
  e.replace_result(value("relu"), e.add(ops::Pointwise{F::mul}, {scaled, half}, "halved"));
  e.add_new_result("extra", scaled);
  node() = e.finish();
  graph_.add_output("extra", node().outputs[2]);
  EXPECT_EQ(graph_.value(node().outputs[2]).name, "extra");
  expect("graph (" + std::string(inputs) + R"() {
    const %w: f32[3, 4] = 0.5
    %sum, %relu, %extra = region {kind=contract} (%x, %w, %b, %other)
        graph (%x: f32[2, 3], %w: f32[3, 4], %b: f32[4], %other: f32[1, 4]) {
      const %zero: f32[] = 0
      const %half: f32[] = 0.5
      %p = matmul (%x, %w)
      %s = pointwise {function=add} (%p, %b)
      %r = pointwise {function=max} (%s, %zero)
      %scaled = pointwise {function=mul} (%r, %other)
      %h = pointwise {function=mul} (%scaled, %half)
      return "sum" = %s, "relu" = %h, "extra" = %scaled
    }
    return %sum, %relu, %extra })");
}

TEST_F(RegionEditorTest, TypesFollowAnotherOperand) {
  RegionEditor e = editor();
  e.replace_operand(value("x"), value("y"));
  EXPECT_EQ(e.outer(e.inner(value("y"))), value("y"));
  EXPECT_EQ(e.inner(value("x")), no_value);
  node() = e.finish();
  verify(graph_, "the edit");
  const Shape wanted{Dim::symbol("n"), 4};
  EXPECT_EQ(graph_.shape(value("sum")), wanted);
  EXPECT_EQ(graph_.shape(value("relu")), wanted);
  EXPECT_EQ(node().bodies[0].value(node().bodies[0].inputs[0]).name, "y");
}

TEST_F(RegionEditorTest, TypesFollowAnOperandThatHasChanged) {
  graph_.value(value("x")).type.shape[0] = 5;
  node() = RegionEditor(graph_, node()).finish();
  verify(graph_, "the edit");
  EXPECT_EQ(graph_.shape(value("relu")), (Shape{5, 4}));
}

TEST_F(RegionEditorTest, TypesFollowAnotherOperator) {
  const ValueId turned = graph_.add_constant("turned", Tensor(DType::f32, {4, 3}));
  RegionEditor e = editor();
  e.replace_operand(value("w"), turned);
  e.set_operator(0, ops::MatMul{.transpose_b = true});
  node() = e.finish();
  verify(graph_, "the edit");
  EXPECT_EQ(graph_.shape(value("relu")), (Shape{2, 4}));
}

TEST_F(RegionEditorTest, ShapeRulesThatFailSaySo) {
  RegionEditor e = editor();
  e.replace_operand(value("w"), graph_.add_constant("wrong", Tensor(DType::f32, {7, 4})));
  EXPECT_THROW(e.finish(), Error);
}

TEST_F(RegionEditorTest, RegionsWithinFollowToo) {
  Graph g = parse_graph(R"(graph (%x: f32[2, 3], %y: f32[5, 3]) {
    %r = region {kind=chain} (%x) graph (%x: f32[2, 3]) {
      %n = pointwise {function=neg} (%x)
      %a = region {kind=pointwise} (%n) graph (%n: f32[2, 3]) {
        %e = pointwise {function=exp} (%n)
        %t = pointwise {function=tanh} (%e)
        return %t
      }
      return %a
    }
    return %r })",
                        operators());
  RegionEditor e(g, g.nodes[0]);
  e.replace_operand(g.inputs[0], g.inputs[1]);
  g.nodes[0] = e.finish();
  verify(g, "the edit");
  EXPECT_EQ(g.shape(g.outputs[0]), (Shape{5, 3}));
}

TEST_F(RegionEditorTest, PutsANodeBeforeTheOthers) {
  Graph g = parse_graph(R"(graph (%x: f32[3, 2]) {
    %r = pointwise {function=exp} (%x) from "Exp"
    return %r })",
                        operators());
  RegionEditor e = RegionEditor::around(g, g.nodes[0], ops::RegionKind::pointwise);
  e.prepend(ops::Transpose{{1, 0}}, e.inner(g.inputs[0]), "turned");
  g.nodes[0] = e.finish();
  verify(g, "the edit");
  const Graph expected = parse_graph(R"(graph (%x: f32[3, 2]) {
    %r = region {kind=pointwise} (%x) graph (%x: f32[3, 2]) {
      %t = transpose {permutation=[1, 0]} (%x)
      %e = pointwise {function=exp} (%t)
      return "r" = %e
    }
    return %r })",
                                     operators());
  EXPECT_TRUE(equal(g, expected)) << print(g);
  EXPECT_EQ(g.nodes[0].sources, std::vector<std::string>{"Exp"});
}

TEST_F(RegionEditorTest, DropsOperandsAndResults) {
  RegionEditor e = editor();
  expect_error([&] { e.drop_operand(value("b")); }, "still reads the operand 'b'");
  expect_error([&] { e.drop_operand(value("y")); }, "'y' is no operand");
  e.replace_result(value("sum"), e.body().nodes[0].outputs[0]);
  graph_.outputs.pop_back();
  graph_.output_names.pop_back();
  e.drop_result(value("relu"));
  expect_error([&] { e.drop_result(value("sum")); }, "the only result");
  expect_error([&] { e.replace_result(value("relu"), 0); }, "'relu' is no result");
  e.remove_dead();  // what has read the bias
  e.drop_operand(value("b"));
  node() = e.finish();
  expect("graph (" + std::string(inputs) + R"() {
    const %w: f32[3, 4] = 0.5
    %sum = region {kind=contract} (%x, %w) graph (%x: f32[2, 3], %w: f32[3, 4]) {
      %p = matmul (%x, %w)
      return "sum" = %p
    }
    return %sum })");
}

TEST_F(RegionEditorTest, ResultsAsOtherValues) {
  RegionEditor e = editor();
  e.renew_results();
  const std::vector<ValueId> made = e.append();
  verify(graph_, "a copy");
  EXPECT_EQ(graph_.value(made[0]).name, "sum_1");
  EXPECT_EQ(graph_.type(made[1]), graph_.type(value("relu")));
  EXPECT_EQ(graph_.nodes.size(), 2U);
}

TEST_F(RegionEditorTest, GivenUpItLeavesNoTrace) {
  const Graph before = graph_;
  {
    RegionEditor e = editor();
    e.replace_operand(value("x"), value("y"));
    e.add_new_result("extra", e.body().outputs[0]);
  }
  EXPECT_EQ(graph_.values.size(), before.values.size());
  EXPECT_TRUE(equal(graph_, before));
}

TEST_F(RegionEditorTest, WhatIsNoRegionOrHasNoOperandIsRefused) {
  expect_error([&] { RegionEditor(graph_, node().bodies[0].nodes[0]); }, "is none");
  RegionEditor e(graph_, ops::RegionKind::pointwise);
  expect_error([&] { e.add_operand(no_value); }, "is missing");
  expect_error([&] { e.finish(); }, "no result");
  expect_error([&] { e.prepend(ops::Pointwise{F::neg}, 0, "n"); }, "reads what they compute");
  std::map<ValueId, ValueId> none;
  const Node reader{ops::Pointwise{F::neg}, {value("x")}, {value("sum")}, {}, {}};
  expect_error([&] { e.copy_node(graph_, reader, none); }, "is to read 'x'");
}

TEST_F(RegionEditorTest, OpensIntoTheGraphAround) {
  std::vector<std::string> made;
  std::vector<Node> nodes = open_region(node(), [&](const Value& inner) {
    made.push_back(inner.name);
    graph_.values.push_back({inner.name + "_of_body", inner.type, inner.constant, inner.content});
    return static_cast<ValueId>(graph_.values.size()) - 1;
  });
  graph_.nodes = std::move(nodes);
  EXPECT_EQ(made, (std::vector<std::string>{"p", "zero"}));
  expect("graph (" + std::string(inputs) + R"() {
    const %w: f32[3, 4] = 0.5
    const %zero: f32[] = 0
    %p = matmul (%x, %w)
    %sum = pointwise {function=add} (%p, %b)
    %relu = pointwise {function=max} (%sum, %zero)
    return %sum, %relu })");
}

}  // namespace
}  // namespace camshaft::region_editor_test
