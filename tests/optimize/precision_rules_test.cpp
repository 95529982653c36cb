#include "optimize/precision_rules.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace camshaft::precision_rules_test {
namespace {

TEST(PrecisionRules, AreReadFromText) {
  EXPECT_EQ(parse_precision_rule("conv1:fp16"), (PrecisionRule{"conv1", LayerPrecision::fp16}));
  EXPECT_EQ(parse_precision_rule("a:b/*:int8"), (PrecisionRule{"a:b/*", LayerPrecision::int8}));
  for (const char* text : {"", "conv1", ":fp16", "conv1:", "conv1:half", "conv1:fp16 ", "fp16"})
    EXPECT_THROW(parse_precision_rule(text), Error) << text;
}

TEST(PrecisionRules, StarsStandForAnyText) {
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "abc"));
  EXPECT_TRUE(matches("a*c", "ac"));
  EXPECT_TRUE(matches("a*c", "abcbc"));
  EXPECT_TRUE(matches("*b*b*", "xbybz"));
  EXPECT_TRUE(matches("a**", "a"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("a", "ab"));
  EXPECT_FALSE(matches("a*c", "acb"));
  EXPECT_FALSE(matches("*b*b*", "xby"));
  const std::string many(200, 'a');
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*b", many));  // backtracks over one star alone
}

TEST(PrecisionRules, NamesCountBeforePatternsAndLaterOnesBeforeEarlier) {
  const PrecisionRules rules(
      {{"conv1", LayerPrecision::fp32}, {"*", LayerPrecision::int8}, {"fc*", LayerPrecision::bf16}});
  EXPECT_EQ(rules.of({"conv1"}), LayerPrecision::fp32);
  EXPECT_EQ(rules.of({"conv2"}), LayerPrecision::int8);
  EXPECT_EQ(rules.of({"fc"}), LayerPrecision::bf16);
  EXPECT_EQ(rules.of({}), std::nullopt);
  EXPECT_EQ(PrecisionRules().of({"fc"}), std::nullopt);
}

TEST(PrecisionRules, OfSeveralNodesTheWidestCounts) {
  const PrecisionRules rules({{"a", LayerPrecision::int8}, {"b", LayerPrecision::fp16}});
  EXPECT_EQ(rules.of({"a", "x", "b"}), LayerPrecision::fp16);
  EXPECT_TRUE(rules.allows({"a"}, LayerPrecision::int8));
  EXPECT_FALSE(rules.allows({"a", "b"}, LayerPrecision::int8));
  EXPECT_TRUE(rules.allows({"x"}, LayerPrecision::bf16));
}

}  // namespace
}  // namespace camshaft::precision_rules_test
