#include "ort_provider/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "test_random.h"

namespace camshaft::ort_provider::partition_test {
namespace {

using Kind = onnx::TypeProto::Kind;

onnx::ValueInfoProto value(const std::string& name, Kind kind = Kind::tensor, bool has_rank = true) {
  onnx::ValueInfoProto info{name, {}};
  info.type.kind = kind;
  info.type.elem_type = 1;
  if (has_rank) info.type.shape.emplace(1);
  return info;
}

/// A graph of nodes of one result, which has their name; all others that are read are inputs.
class Facts {
 public:
  Facts& node(const std::string& name, std::vector<std::string> inputs, std::vector<std::string> captured = {}) {
    onnx::NodeProto proto;
    proto.name = name;
    proto.op_type = "Op";
    proto.inputs = std::move(inputs);
    proto.outputs = {name};
    for (const auto* list : {&proto.inputs, &captured})
      for (const std::string& read : *list) type(read);
    type(name);
    facts.model.graph.nodes.push_back(std::move(proto));
    facts.captured.push_back(std::move(captured));
    return *this;
  }
  Facts& output(const std::string& name) {
    facts.model.graph.outputs.push_back({name, {}});
    return *this;
  }
  Facts& constant(const std::string& name) {
    facts.model.graph.initializers.emplace_back().name = name;
    known.insert(name);
    return *this;
  }
  Facts& type(const std::string& name, Kind kind = Kind::tensor, bool has_rank = true) {
    if (known.insert(name).second) facts.model.graph.value_infos.push_back(value(name, kind, has_rank));
    return *this;
  }
  std::vector<Group> groups(std::vector<bool> can) { return groups_of(facts, can); }

  GraphFacts facts;
  std::set<std::string> known;
};

TEST(Partition, AllThatCanIsOneGroup) {
  Facts f;
  f.node("a", {"x"}).node("b", {"x"}).node("c", {"a", "b"}).output("c");
  EXPECT_EQ(f.groups({true, true, true}), (std::vector<Group>{{0, 1, 2}}));
  EXPECT_TRUE(f.groups({false, false, false}).empty());
}

TEST(Partition, ANodeBetweenParts) {
  Facts f;
  f.node("a", {"x"}).node("b", {"a"}).node("c", {"b", "a"}).node("d", {"x"}).output("c").output("d");
  EXPECT_EQ(f.groups({true, false, true, true}), (std::vector<Group>{{0, 3}, {2}}));
}

TEST(Partition, SequencesAreNotHandedOver) {
  Facts f;
  f.type("s", Kind::sequence).node("s", {"x"}).node("t", {"s"}).node("u", {"t"}).output("u");
  EXPECT_EQ(f.groups({true, true, true}), (std::vector<Group>{{0, 1, 2}}));
  EXPECT_EQ(f.groups({true, false, true}), (std::vector<Group>{{2}}));
  EXPECT_EQ(f.groups({false, true, true}), (std::vector<Group>{{2}}));
}

TEST(Partition, WhatHasNoKnownRankIsNotHandedOver) {
  Facts f;
  f.type("x", Kind::tensor, false).node("a", {"x"}).node("b", {"a", "w"}).constant("w").output("b");
  EXPECT_EQ(f.groups({true, true}), (std::vector<Group>{{1}}));
}

TEST(Partition, WhatOnlyBodiesReadMustBeInside) {
  Facts f;
  f.node("a", {"x"}).node("b", {"c"}, {"a"}).output("b");
  EXPECT_EQ(f.groups({true, true}), (std::vector<Group>{{0, 1}}));
  EXPECT_TRUE(f.groups({false, true}).empty());
  Facts with_reader;
  with_reader.node("a", {"x"}).node("b", {"c"}, {"a"}).node("d", {"a"}).output("b").output("d");
  EXPECT_EQ(with_reader.groups({false, true, true}), (std::vector<Group>{{1, 2}}));
  Facts with_constant;
  with_constant.constant("w").node("b", {"c"}, {"w"}).output("b");
  EXPECT_EQ(with_constant.groups({true}), (std::vector<Group>{{0}}));
}

TEST(Partition, TheModelOfAGroup) {
  Facts f;
  f.constant("w").node("a", {"x", "w"}).node("b", {"a", ""}).node("c", {"b", "y"}).output("a").output("c");
  const onnx::ModelProto model = model_of(f.facts, {0, 1});
  const auto names = [](const auto& list) {
    std::vector<std::string> out;
    for (const auto& item : list) out.push_back(item.name);
    return out;
  };
  EXPECT_EQ(names(model.graph.inputs), std::vector<std::string>{"x"});
  EXPECT_EQ(names(model.graph.initializers), std::vector<std::string>{"w"});
  EXPECT_EQ(names(model.graph.outputs), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(names(model.graph.nodes), (std::vector<std::string>{"a", "b"}));
}

/// Whether a path from a node of the group leads out of it and back.
bool leads_back(const Facts& f, const Group& group) {
  const auto& nodes = f.facts.model.graph.nodes;
  const std::set<size_t> members(group.begin(), group.end());
  std::set<std::string> outside;  // what is computed outside, after something inside
  for (size_t n = 0; n < nodes.size(); ++n) {
    const auto reads = [&](const auto& holds) {
      return std::any_of(nodes[n].inputs.begin(), nodes[n].inputs.end(), holds);
    };
    const bool after_outside = reads([&](const std::string& name) { return outside.contains(name); });
    const bool after_inside = reads([&](const std::string& name) {
      return std::any_of(group.begin(), group.end(), [&](size_t m) { return nodes[m].name == name; });
    });
    if (members.contains(n) && after_outside) return true;
    if (!members.contains(n) && (after_inside || after_outside)) outside.insert(nodes[n].name);
  }
  return false;
}

TEST(Partition, NoPathLeadsOutOfAGroupAndBack) {
  Random random = test_random();
  for (int round = 0; round < 200; ++round) {
    Facts f;
    std::vector<std::string> names = {"x"};
    std::vector<bool> can;
    for (int n = 0; n < 25; ++n) {
      const auto any = [&] { return names[random.next() % names.size()]; };
      const std::string name = "n" + std::to_string(n);
      f.node(name, {any(), any()});
      names.push_back(name);
      can.push_back(random.next() % 3 > 0);
    }
    f.output(names.back());
    size_t taken = 0;
    for (const Group& group : f.groups(can)) {
      EXPECT_FALSE(leads_back(f, group));
      for (const size_t node : group) EXPECT_TRUE(can[node]);
      taken += group.size();
    }
    EXPECT_EQ(taken, static_cast<size_t>(std::count(can.begin(), can.end(), true)));
  }
}

}  // namespace
}  // namespace camshaft::ort_provider::partition_test
