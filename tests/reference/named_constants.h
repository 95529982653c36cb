// Graphs whose constants are a model's initializers, and what passes make of them: every record of where a constant
// comes from is held against the constant.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "reference/replay.h"

namespace camshaft {

using NamedConstants = std::map<std::string, Tensor>;

/// What has made constants that cannot be redone, in all of the optimiser and the importer.
inline bool is_known_reason(const std::string& reason) {
  constexpr std::string_view known[] = {
      "a list of sizes that constants have a part in",
      "the factor of a mask, read off what is done to scores",
      "the factor within an activation, read off the steps that spell it",
      "the number that a mask gives, read off constants",
  };
  return std::find(std::begin(known), std::end(known), reason) != std::end(known);
}

/// Makes each constant of a graph an initializer; those of bodies are called "<node's output>/<name>".
inline void name_constants(Graph& graph, NamedConstants& named, const std::string& prefix = "") {
  for (Value& value : graph.values) {
    if (!value.constant) continue;
    value.provenance = Provenance::initializer(prefix + value.name, *value.constant);
    named.emplace(prefix + value.name, *value.constant);
  }
  for (Node& node : graph.nodes)
    for (size_t i = 0; i < node.bodies.size(); ++i)
      name_constants(node.bodies[i], named,
                     prefix + graph.value(node.outputs[0]).name + "/" + (i > 0 ? std::to_string(i) + "/" : ""));
}

/// Each constant that stems from initializers is what these give when it is redone.
inline void expect_constants_redone(const Graph& graph, const NamedConstants& named, ThreadPool& pool,
                                    const std::string& what) {
  const auto find = [&](const std::string& name) {
    const auto it = named.find(name);
    return it == named.end() ? Tensor() : it->second;
  };
  for (const Value& value : graph.values) {
    if (!value.constant || !value.provenance) continue;
    SCOPED_TRACE(what + ": " + value.name);
    if (value.provenance->can_be_redone()) {
      Tensor redone;
      ASSERT_NO_THROW(redone = replay(*value.provenance, find, pool));
      EXPECT_TRUE(redone == *value.constant);
    } else if (const auto* unknown = value.provenance->as<Provenance::Unknown>()) {
      EXPECT_TRUE(is_known_reason(unknown->reason)) << unknown->reason;
    }
  }
  for (const Node& node : graph.nodes)
    for (const Graph& body : node.bodies) expect_constants_redone(body, named, pool, what);
}

}  // namespace camshaft
