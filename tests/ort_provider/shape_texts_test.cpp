#include "ort_provider/shape_texts.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace camshaft::ort_provider::shape_texts_test {
namespace {

using Dims = std::vector<int64_t>;

std::string refusal(const std::string& text) {
  try {
    parse_shape_sets("min-shapes", text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.what();
  }
  return "";
}

TEST(ShapeTexts, NamesSizesAndSets) {
  EXPECT_TRUE(parse_shape_sets("min-shapes", "").empty());
  const auto sets = parse_shape_sets("min-shapes", "x:1x3, a:b:2,x:4x5,s:7");
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].at("x"), (Dims{1, 3}));
  EXPECT_EQ(sets[0].at("a:b"), (Dims{2}));
  EXPECT_EQ(sets[0].at("s"), (Dims{7}));
  EXPECT_EQ(sets[1].at("x"), (Dims{4, 5}));
  EXPECT_EQ(sets[1].size(), 1u);
}

TEST(ShapeTexts, WhatIsNoShape) {
  for (const char* text : {"x", ":1", "x:", "x:1x", "x:-1", "x:1.5", "x:99999999999999999999", "x:1,,y:2"})
    EXPECT_NE(refusal(text).find("is no shape; write NAME:SIZExSIZE"), std::string::npos) << text;
}

TEST(ShapeTexts, WhatIsLeftOutFollows) {
  const std::vector<Profile> profiles = parse_profiles("x:1", "", "x:8,y:2");
  ASSERT_EQ(profiles.size(), 1u);
  const ShapeRange& x = profiles[0].inputs.at("x");
  EXPECT_EQ(x.min, Dims{1});
  EXPECT_EQ(x.opt, Dims{8});
  EXPECT_EQ(x.max, Dims{8});
  EXPECT_EQ(profiles[0].inputs.at("y").min, Dims{2});
  EXPECT_EQ(parse_profiles("", "x:3", "").at(0).inputs.at("x").max, Dims{3});
  EXPECT_TRUE(parse_profiles("", "", "").empty());
}

TEST(ShapeTexts, SetsMustBeAsMany) {
  EXPECT_THROW(parse_profiles("x:1", "", "x:2,x:3"), Error);
  EXPECT_EQ(parse_profiles("x:1,x:4", "", "x:2,x:8").size(), 2u);
}

}  // namespace
}  // namespace camshaft::ort_provider::shape_texts_test
