// Graphs whose constants are a model's initializers, and what passes make of them: every record of where a constant
// comes from is held against the constant.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "reference/element_io.h"
#include "reference/replay.h"

namespace camshaft {

using NamedConstants = std::map<std::string, Tensor>;

/// What has made constants that cannot be redone, in all of the optimiser and the importer.
inline bool is_known_reason(const std::string& reason) {
  constexpr std::string_view known[] = {
      "a list of sizes that constants have a part in",
      "a tensor as large as constants tell",
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

/// Other numbers in the constants of a graph and of its bodies. What passes look at stays: single numbers, tensors of
/// one number over and over, and integers; equal constants stay equal.
inline void change_constants(Graph& graph) {
  for (Value& value : graph.values) {
    if (!value.constant || !is_floating(value.type.dtype) || value.constant->size() < 2) continue;
    std::vector<double> numbers = value.constant->to_doubles();
    if (std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end()) continue;
    std::rotate(numbers.begin(), numbers.begin() + 1, numbers.end());
    for (double& x : numbers) x *= 1.03125;
    Tensor other(value.type.dtype, value.constant->dims());
    ops::store_elements(other.dtype(), other.mutable_data(), 0, 1, other.size(), numbers.data());
    value.constant = std::make_shared<const Tensor>(std::move(other));
  }
  for (Node& node : graph.nodes)
    for (Graph& body : node.bodies) change_constants(body);
}

/// A graph after passes, and the constants that it had before them.
struct NamedGraph {
  const Graph& graph;
  const NamedConstants& named;
};

inline bool have_same_constants(const Graph& a, const Graph& b) {
  return a.nodes.size() == b.nodes.size() && std::equal(a.values.begin(), a.values.end(), b.values.begin(),
                                                        b.values.end(), [](const Value& x, const Value& y) {
                                                          return x.name == y.name && x.type == y.type &&
                                                                 !x.constant == !y.constant;
                                                        });
}

/// Each constant that stems from initializers is what these give when it is redone. `other` has gone through the same
/// passes with other numbers: its initializers give its constants by the records of the first graph, and literals are
/// the same in both. Where the numbers have led passes elsewhere it is not looked at.
inline void expect_constants_redone(const NamedGraph& made, const NamedGraph& other, ThreadPool& pool,
                                    const std::string& what) {
  const auto redo = [&](const Value& value, const NamedConstants& named) {
    return replay(
        *value.provenance, [&](const std::string& name) { return named.contains(name) ? named.at(name) : Tensor(); },
        pool);
  };
  const bool compares = have_same_constants(made.graph, other.graph);
  for (size_t v = 0; v < made.graph.values.size(); ++v) {
    const Value& value = made.graph.values[v];
    if (!value.constant) continue;
    SCOPED_TRACE(what + ": " + value.name);
    const Tensor* others = compares ? other.graph.values[v].constant.get() : nullptr;
    if (!value.provenance) {
      EXPECT_TRUE(!others || *others == *value.constant) << "it is no literal: it changes with the model";
    } else if (value.provenance->can_be_redone()) {
      Tensor redone, redone_of_others;
      ASSERT_NO_THROW(redone = redo(value, made.named));
      EXPECT_TRUE(redone == *value.constant);
      if (!others) continue;
      ASSERT_NO_THROW(redone_of_others = redo(value, other.named));
      EXPECT_TRUE(redone_of_others == *others) << "of other numbers";
    } else if (const auto* unknown = value.provenance->as<Provenance::Unknown>()) {
      EXPECT_TRUE(is_known_reason(unknown->reason)) << unknown->reason;
    }
  }
  for (size_t n = 0; n < made.graph.nodes.size(); ++n)
    for (size_t i = 0; i < made.graph.nodes[n].bodies.size(); ++i) {
      const bool has_other = compares && i < other.graph.nodes[n].bodies.size();
      const Graph& body = made.graph.nodes[n].bodies[i];
      const NamedGraph same{body, made.named};
      expect_constants_redone(same, has_other ? NamedGraph{other.graph.nodes[n].bodies[i], other.named} : same, pool,
                              what);
    }
}

}  // namespace camshaft
