#include "tools/shapes_option.h"

#include <gtest/gtest.h>

#include "camshaft/error.hpp"

namespace camshaft::tools::shapes_option_test {
namespace {

using Dims = std::vector<int64_t>;

TEST(Shapes, ReadsNamesAndSizes) {
  const NamedShapes shapes = parse_shapes("x:1x3x224x224,mask:8,input:0:2x0");
  ASSERT_EQ(shapes.size(), 3u);
  EXPECT_EQ(shapes.at("x"), (Dims{1, 3, 224, 224}));
  EXPECT_EQ(shapes.at("mask"), Dims{8});
  EXPECT_EQ(shapes.at("input:0"), (Dims{2, 0}));
}

TEST(Shapes, SeveralTextsAreOne) {
  EXPECT_EQ(parse_shapes(std::vector<std::string>{"a:1", "b:2"}).size(), 2u);
  EXPECT_TRUE(parse_shapes(std::vector<std::string>{}).empty());
  EXPECT_THROW(parse_shapes(std::vector<std::string>{"a:1", "a:2"}), Error);
}

TEST(Shapes, RefusesWhatItCannotReadAndQuotesIt) {
  for (const char* text : {"", "x", "x:", ":1x2", "x:1xfour", "x:1x-1", "x:1x", "x:1xx2", "x:1x2,", "x:+1", "x: 1",
                           "x:99999999999999999999", "x:1.5", "x:0x10y"}) {
    try {
      parse_shapes(text, "--opt-shapes");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(error.what()).find("--opt-shapes: '"), 0u) << error.what();
    }
  }
}

TEST(Profiles, EachTimeIsAProfile) {
  const auto profiles = parse_profiles({{"x:1", "x:5"}, {"x:2", "x:6"}, {"x:3,y:4", "x:7"}});
  ASSERT_EQ(profiles.size(), 2u);
  const ShapeRange& first = profiles[0].inputs.at("x");
  EXPECT_EQ(first.min, Dims{1});
  EXPECT_EQ(first.opt, Dims{2});
  EXPECT_EQ(first.max, Dims{3});
  EXPECT_EQ(profiles[0].inputs.at("y").min, Dims{4});
  EXPECT_EQ(profiles[1].inputs.at("x").opt, Dims{6});
  EXPECT_TRUE(parse_profiles({}).empty());
  EXPECT_THROW(parse_profiles({{"x:1"}, {"x:1", "x:2"}, {}}), Error);
}

TEST(Profiles, WhatIsLeftOutFollowsFromTheRest) {
  const auto range = [](const ProfileTexts& texts) { return parse_profiles(texts).at(0).inputs.at("x"); };
  const ShapeRange no_opt = range({{"x:1"}, {}, {"x:9"}}), only_opt = range({{}, {"x:4"}, {}}),
                   only_min = range({{"x:2"}, {}, {}});
  EXPECT_EQ(no_opt.min, Dims{1});
  EXPECT_EQ(no_opt.opt, Dims{9});
  EXPECT_EQ(only_opt.min, Dims{4});
  EXPECT_EQ(only_opt.max, Dims{4});
  EXPECT_EQ(only_min.max, Dims{2});
}

}  // namespace
}  // namespace camshaft::tools::shapes_option_test
