#include "ir/ops/plugin.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/test_plugin.h"

namespace camshaft::plugin_test {
namespace {

void expect_same(const PluginAttribute& attribute) {
  const PluginAttribute back = decode_attribute(encode(attribute));
  EXPECT_EQ(back.name, attribute.name);
  EXPECT_EQ(back.single, attribute.single);
  EXPECT_TRUE(back.value == attribute.value) << encode(attribute);
}

TEST(PluginAttribute, ComesBackFromItsText) {
  expect_same({"axis", std::vector<int64_t>{-3}, true});
  expect_same({"axes", std::vector<int64_t>{}});
  expect_same({"axes", std::vector<int64_t>{1, INT64_MIN, INT64_MAX}});
  expect_same({"scale", std::vector<double>{static_cast<double>(0.1F), 1e-45, -0.0, 3e38, HUGE_VAL}});
  expect_same({"mode", std::vector<std::string>{"a 1:b;=c\n", "", std::string("\0\xff", 2)}});
  expect_same({"", std::vector<std::string>{}});
  expect_same({"table", Tensor::of<float>(DType::f32, {2, 1}, {1.5F, -2})});
  expect_same({"none", Tensor(DType::u8, {0, 3})});
}

TEST(PluginAttribute, AnyOtherTextIsRefused) {
  for (const std::string text :
       {"", "1:a", "1:a integers", "9:a integers 1;", "1:a integers 1", "1:a integers x;", "1:a words 1;",
        "1:a texts 5:ab", "1:a tensor f32 1 2 4:0000",
        "1:a tensor f32 1 -1 0:", "1:a tensor f99 0 0:", "1:a tensor f32 0 8:0000zz00", "99999999999999999999:a"})
    EXPECT_THROW(decode_attribute(text), Error) << text;
}

TEST(Plugins, AreFoundByDomainAndName) {
  add_test_plugin();
  EXPECT_TRUE(find_plugin("test", "Doubled"));
  EXPECT_TRUE(find_plugin("test::Doubled"));
  EXPECT_FALSE(find_plugin("test", "doubled"));
  EXPECT_FALSE(find_plugin("", "Doubled"));
  add_test_plugin();  // again
}

TEST(Plugins, OfOneNameThereIsOne) {
  add_test_plugin();
  auto other = std::make_shared<DoubledOperator>();
  other->hash = "1";
  EXPECT_THROW(add_plugin(other), Error);
}

// What an engine recorded must be what is loaded.
TEST(Plugins, AnotherVersionOrHashIsMissing) {
  add_test_plugin();
  const ops::Plugin op = ops::make_plugin(*find_plugin("test::Doubled"), {});
  EXPECT_TRUE(op.instance());
  for (const auto member : {&ops::Plugin::operator_name, &ops::Plugin::version, &ops::Plugin::hash}) {
    ops::Plugin other = op;
    other.*member += "x";
    EXPECT_THROW(other.instance(), MissingPlugin);
    Graph graph;
    EXPECT_THROW(graph.add(other, {graph.add_input("x", {DType::f32, {2}})}, "y"), MissingPlugin);
  }
}

TEST(Plugins, EqualNodesShareAnInstance) {
  add_test_plugin();
  const ops::Plugin op = ops::make_plugin(*find_plugin("test::Doubled"), {});
  ops::Plugin other = op;
  other.attributes.push_back(encode({"a", std::vector<int64_t>{1}}));
  EXPECT_EQ(op.instance(), ops::Plugin(op).instance());
  EXPECT_NE(op.instance(), other.instance());
}

}  // namespace
}  // namespace camshaft::plugin_test
