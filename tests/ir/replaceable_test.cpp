// What is decided by numbers that may be replaced is noted.
#include "ir/replaceable.h"

#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/ops/pointwise.h"

namespace camshaft::replaceable_test {
namespace {

class Watched : public ::testing::Test {
 protected:
  Constant named(const std::string& name, Tensor tensor) {
    all_.add(name, tensor);
    auto provenance = Provenance::initializer(name, tensor);
    return {std::make_shared<const Tensor>(std::move(tensor)), std::move(provenance)};
  }
  Replaceable all_{{"a", "b", "sizes", "weights", "small", "large"}};
  const ReplaceableScope scope_{&all_};
};

TEST_F(Watched, AnInitializerIsReplaceableUntilItIsFixed) {
  const Constant a = named("a", Tensor::scalar(DType::f32, 1)), b = named("b", Tensor::scalar(DType::f32, 2));
  const auto sum = Provenance::transform(ops::Pointwise{ScalarFunction::add}, {a, b});
  EXPECT_TRUE(may_be_replaced(sum));
  fix_numbers(a.provenance, "the first reason");
  fix_numbers(a.provenance, "another one");
  EXPECT_FALSE(may_be_replaced(a.provenance));
  EXPECT_TRUE(may_be_replaced(sum)) << "b is not fixed";
  fix_numbers(sum, "of both");
  EXPECT_FALSE(may_be_replaced(sum));
  const std::vector<InitializerRecord> records = all_.records();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].fixed_by, "the first reason");
  EXPECT_EQ(records[1].fixed_by, "of both");
  EXPECT_EQ(records[1].value, Tensor::scalar(DType::f32, 2));
}

TEST_F(Watched, OthersAreNot) {
  EXPECT_FALSE(may_be_replaced(nullptr));
  const Tensor tensor = Tensor::scalar(DType::f32, 1);
  EXPECT_FALSE(may_be_replaced(Provenance::initializer("plain", tensor)));
  fix_numbers(nullptr, "nothing happens");
  note_replaceable(nullptr, "nothing happens");
}

TEST_F(Watched, WhatCannotBeRedoneIsFixed) {
  const Constant a = named("a", Tensor(DType::f32, {3}));
  Provenance::unknown("by hand", {a});
  EXPECT_EQ(all_.records().at(0).fixed_by, "by hand");
}

TEST_F(Watched, IntegersThatShapeRulesSeeAreFixed) {
  Graph graph;
  graph.add_constant("sizes", named("sizes", Tensor::from_ints({2, 3})));
  graph.add_constant("weights", named("weights", Tensor(DType::f32, {2, 3})));
  EXPECT_FALSE(all_.contains("sizes"));
  EXPECT_TRUE(all_.contains("weights"));
}

TEST_F(Watched, OnlySmallOnesAreKept) {
  constexpr int64_t most = InitializerRecord::most_kept_bytes / 4;
  const Constant small = named("small", Tensor(DType::f32, {most})),
                 large = named("large", Tensor(DType::f32, {most + 1}));
  fix_numbers(small.provenance, "both");
  fix_numbers(large.provenance, "both");
  const std::vector<InitializerRecord> records = all_.records();
  EXPECT_FALSE(records.at(0).value.defined());
  EXPECT_NE(records.at(0).hash, records.at(1).hash);
  EXPECT_TRUE(records.at(1).value.defined());
}

TEST_F(Watched, ScopesNestAndEnd) {
  const Constant a = named("a", Tensor(DType::f32, {3}));
  {
    const ReplaceableScope nothing(nullptr);
    EXPECT_FALSE(may_be_replaced(a.provenance));
    fix_numbers(a.provenance, "goes nowhere");
  }
  EXPECT_TRUE(may_be_replaced(a.provenance));
}

TEST_F(Watched, OnlyWhatMayBeReplacedIsListed) {
  all_.add("c", Tensor(DType::f32, {3}));
  EXPECT_TRUE(all_.records().empty());
}

}  // namespace
}  // namespace camshaft::replaceable_test
