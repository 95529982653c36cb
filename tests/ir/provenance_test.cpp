#include "ir/provenance.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/region_editor.h"

namespace camshaft::provenance_test {
namespace {

Constant named(const std::string& name, Tensor tensor) {
  auto provenance = Provenance::initializer(name, tensor);
  return {std::make_shared<const Tensor>(std::move(tensor)), std::move(provenance)};
}

Constant number(const std::string& name, double value) {
  return named(name, Tensor::scalar(DType::f32, value));
}

const ops::Pointwise negate{ScalarFunction::neg}, multiply{ScalarFunction::mul};

Constant made(const Op& op, const std::vector<Constant>& operands) {
  return {operands[0].tensor, Provenance::transform(op, operands)};
}

TEST(Provenance, WhatIsMadeOfLiteralsIsALiteral) {
  const Constant two = literal(Tensor::scalar(DType::f32, 2));
  EXPECT_EQ(two.provenance, nullptr);
  EXPECT_EQ(Provenance::transform(multiply, {two, two}), nullptr);
  EXPECT_EQ(Provenance::equal({two, two}), nullptr);
}

TEST(Provenance, ATransformKeepsItsOperands) {
  const Constant w = number("w", 3), two = literal(Tensor::scalar(DType::f32, 2));
  const auto product = Provenance::transform(multiply, {w, two, Constant{}}, 1, 2);
  ASSERT_NE(product->as<Provenance::Transform>(), nullptr);
  EXPECT_EQ(product->as<Provenance::Transform>()->result, 1U);
  EXPECT_EQ(product->as<Provenance::Transform>()->results, 2U);
  ASSERT_EQ(product->operands().size(), 3U);
  EXPECT_EQ(product->operands()[0], w.provenance);
  ASSERT_NE(product->operands()[1]->as<Provenance::Literal>(), nullptr);
  EXPECT_EQ(product->operands()[2], nullptr);
  EXPECT_EQ(product->depth(), 2);
  EXPECT_TRUE(product->can_be_redone());
  EXPECT_EQ(initializer_names(*product), std::set<std::string>{"w"});
}

TEST(Provenance, KeepsNoBytesOfInitializersAlive) {
  Constant w = number("w", 3);
  const std::weak_ptr<const Tensor> bytes = w.tensor;
  const auto negative = Provenance::transform(negate, {w});
  w.tensor.reset();
  EXPECT_TRUE(bytes.expired());
}

TEST(Provenance, LargeLiteralsAreNotKept) {
  const Constant w = number("w", 3), table = literal(Tensor(DType::f32, {Provenance::most_literal_bytes}));
  const auto product = Provenance::transform(multiply, {w, table});
  EXPECT_FALSE(product->can_be_redone());
  EXPECT_EQ(initializer_names(*product), std::set<std::string>{"w"});
}

TEST(Provenance, WhatIsMadeOfTheUnknownIsUnknown) {
  const Constant w = number("w", 3);
  const Constant unknown{w.tensor, Provenance::unknown("by hand", {w})};
  const auto negative = Provenance::transform(negate, {unknown});
  EXPECT_FALSE(negative->can_be_redone());
  EXPECT_EQ(initializer_names(*negative), std::set<std::string>{"w"});
}

TEST(Provenance, EqualConstantsAreListedOnce) {
  const Constant a = number("a", 3), b = number("b", 3), again = number("a", 3);
  EXPECT_EQ(Provenance::equal({a, again}), a.provenance);
  const Constant both{a.tensor, Provenance::equal({a, b})};
  EXPECT_EQ(both.provenance->operands().size(), 2U);
  const auto more = Provenance::equal({both, again, number("c", 3), literal(Tensor::scalar(DType::f32, 3))});
  EXPECT_EQ(more->operands().size(), 4U);
  EXPECT_EQ(initializer_names(*more), (std::set<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(more->can_be_redone());
}

TEST(Provenance, SameIsPartByPart) {
  const Constant w = number("w", 3), other = number("w", 4);  // the name says which it is
  const auto once = Provenance::transform(negate, {w});
  EXPECT_TRUE(same(*once, *Provenance::transform(negate, {other})));
  EXPECT_FALSE(same(*once, *Provenance::transform(negate, {number("v", 3)})));
  EXPECT_FALSE(same(*once, *Provenance::transform(ops::Pointwise{ScalarFunction::abs}, {w})));
  EXPECT_FALSE(same(*once, *w.provenance));
  const Constant two = literal(Tensor::scalar(DType::f32, 2)), three = literal(Tensor::scalar(DType::f32, 3));
  EXPECT_TRUE(same(*Provenance::transform(multiply, {w, two}), *Provenance::transform(multiply, {other, two})));
  EXPECT_FALSE(same(*Provenance::transform(multiply, {w, two}), *Provenance::transform(multiply, {w, three})));
}

// x + x of x + x …: as many ways to the initializer as there are powers of 2.
TEST(Provenance, SharedPartsAreWalkedOnce) {
  Constant a = number("w", 0), b = number("w", 0);
  const ops::Pointwise add{ScalarFunction::add};
  for (int i = 0; i < 200; ++i) {
    a = made(add, {a, a});
    b = made(add, {b, b});
  }
  EXPECT_TRUE(same(*a.provenance, *b.provenance));
  EXPECT_EQ(initializer_names(*a.provenance).size(), 1U);
}

TEST(Provenance, DeepOnesAreGivenUp) {
  Constant x = number("w", 1);
  for (int i = 0; i < 10 * Provenance::most_depth; ++i) {
    x = made(negate, {x});
    ASSERT_LE(x.provenance->depth(), Provenance::most_depth);
  }
  EXPECT_FALSE(x.provenance->can_be_redone());
  EXPECT_EQ(initializer_names(*x.provenance), std::set<std::string>{"w"});
}

TEST(Provenance, MalformedOnesAreRefused) {
  const auto w = number("w", 1).provenance;
  EXPECT_THROW(Provenance(Provenance::Equal{}), Error);
  EXPECT_THROW(Provenance(Provenance::Equal{}, {nullptr}), Error);
  EXPECT_THROW(Provenance(Provenance::Initializer{"v", DType::f32, {}}, {w}), Error);
}

TEST(Provenance, GoesWithConstantsIntoOtherGraphs) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {2}});
  const Constant w = number("w", 3);
  const ValueId c = graph.add_constant("c", w);
  EXPECT_EQ(graph.constant(c).provenance, w.provenance);
  EXPECT_EQ(graph.constant(no_value).tensor, nullptr);
  const ValueId y = graph.add(multiply, {x, c}, "y");
  Graph other = graph;
  other.value(c).provenance = nullptr;
  EXPECT_TRUE(equal(graph, other));

  RegionEditor region(graph, ops::RegionKind::pointwise);
  std::map<ValueId, ValueId> there{{x, region.add_operand(x)}};
  const auto results = region.copy_node(graph, graph.nodes[0], there);
  EXPECT_EQ(region.body().constant(there.at(c)).provenance, w.provenance);
  region.add_result(y, results[0]);
}

}  // namespace
}  // namespace camshaft::provenance_test
