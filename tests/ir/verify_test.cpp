// Each invariant broken once.
#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "test_ops.h"

namespace camshaft::verify_test {
namespace {

using namespace test_ops;

class Verify : public testing::Test {
 protected:
  // x, c, y, s, n; nodes add, shape_of, call.
  Graph graph_ = parse_graph(R"(graph (%x: f32[n, 4]) {
    const %c: i64[2] = [3, 4]
    %y = add (%x, %x) from "Add_1"
    %s = shape_of (%y)
    %b = call (%y) graph (%p: f32[n, 4]) { %q = add (%p, %p) return %q }
    return %y, %b, %c })",
                             registry());

  Value& value(const std::string& name) {
    for (Value& v : graph_.values)
      if (v.name == name) return v;
    throw std::out_of_range(name);
  }

  void expect(const std::string& what) const {
    try {
      verify(graph_, "pass test");
      FAIL() << "the graph was accepted";
    } catch (const Error& e) {
      const std::string message = e.what();
      EXPECT_EQ(e.code(), ErrorCode::internal);
      EXPECT_EQ(message.find("invalid graph after pass test"), 0u) << message;
      EXPECT_NE(message.find(what), std::string::npos) << message;
    }
  }
};

TEST_F(Verify, AcceptsTheSample) {
  EXPECT_NO_THROW(verify(graph_, "pass test"));
}
TEST_F(Verify, NamesAreUnique) {
  value("y").name = "x";
  expect("two values are named 'x'");
}
TEST_F(Verify, InputIdsInRange) {
  graph_.nodes[0].inputs[1] = 99;
  expect("node 'add' from 'Add_1' refers to value 99 of 5");
}
TEST_F(Verify, OutputIdsInRange) {
  graph_.nodes[0].outputs[0] = no_value;
  expect("node 'add' from 'Add_1' refers to value -1 of 5");
}
TEST_F(Verify, GraphIdsInRange) {
  graph_.outputs[0] = 99;
  expect("an output refers to value 99");
  graph_.outputs[0] = graph_.inputs[0];
  graph_.inputs[0] = -3;
  expect("an input refers to value -3");
}
TEST_F(Verify, NodesInOrder) {
  std::swap(graph_.nodes[0], graph_.nodes[1]);
  expect("node 'shape_of' reads 'y' before it is computed");
}
TEST_F(Verify, DefinedOnce) {
  graph_.nodes[1].outputs = graph_.nodes[0].outputs;
  expect("node 'shape_of' defines 'y' a second time");
}
TEST_F(Verify, ConstantsAreNotComputed) {
  graph_.nodes[1].outputs = {graph_.outputs[2]};
  expect("node 'shape_of' defines 'c' a second time");
}
TEST_F(Verify, InputsAreListedOnce) {
  graph_.inputs.push_back(graph_.inputs[0]);
  expect("an input defines 'x' a second time");
}
TEST_F(Verify, NodesHaveOutputs) {
  graph_.nodes[1].outputs.clear();
  expect("node 'shape_of' has no outputs");
}
TEST_F(Verify, OutputsAreComputed) {
  graph_.nodes.pop_back();
  expect("output 'b' is never computed");
}
TEST_F(Verify, OutputsHaveNames) {
  graph_.output_names.pop_back();
  expect("outputs and their names differ in number");
}
TEST_F(Verify, OutputNamesAreUnique) {
  graph_.output_names[1] = graph_.output_names[0];
  expect("two outputs are named 'y'");
}
TEST_F(Verify, TypesFollowTheShapeRule) {
  value("y").type.shape[1] = 5;
  expect("node 'add' from 'Add_1' gives 'y' as f32[n, 4], recorded as f32[n, 5]");
}
TEST_F(Verify, DtypesFollowTheShapeRule) {
  value("s").type.dtype = DType::i32;
  expect("gives 's' as i64[2], recorded as i32[2]");
}
TEST_F(Verify, ElementsFollowTheShapeRule) {
  (*value("s").content)[0] = 7;
  expect("node 'shape_of' gives other elements of 's' than those recorded");
}
TEST_F(Verify, ShapeRulesHold) {
  graph_.nodes[0].op = MatMul{};
  expect("node 'Add_1' (operator 'matmul') on inputs (f32[n, 4], f32[n, 4]): the inner sizes differ");
}
TEST_F(Verify, ConstantsHaveTheirType) {
  value("c").type.shape[0] = 3;
  expect("constant 'c' is i64[2], recorded as i64[3]");
}
TEST_F(Verify, ConstantsHaveTheirElements) {
  (*value("c").content)[0] = 9;
  expect("the recorded elements of constant 'c' are not its elements");
}
TEST_F(Verify, ConstantsHoldATensor) {
  value("c").constant = std::make_shared<const Tensor>();
  expect("constant 'c' holds no tensor");
}
TEST_F(Verify, SizesAreNotNegative) {
  value("x").type.shape[1] = -4;
  expect("'x' has a negative size: f32[n, -4]");
}
TEST_F(Verify, BodiesToo) {
  Graph& body = graph_.nodes[2].bodies[0];
  body.value(body.outputs[0]).type.shape[1] = 5;
  expect(", in body 0 of node 'call': node 'add' gives 'q' as f32[n, 4], recorded as f32[n, 5]");
}

}  // namespace
}  // namespace camshaft::verify_test
