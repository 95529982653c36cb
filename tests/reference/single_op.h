// Runs one operator on host tensors: its shape rule, then its reference evaluation, and holds the one to the other.
#pragma once

#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "ir/ops/small_tensors.h"
#include "reference/evaluate.h"

namespace camshaft {

inline ThreadPool& test_pool() {
  static ThreadPool pool(3);
  return pool;
}

/// `bindings` are of the symbols in the operator's fields. An undefined tensor is an omitted input. Constants take part
/// in the shape rule when `constants` is set.
inline std::vector<Tensor> run_op(const Op& op, const std::vector<Tensor>& inputs, const SymbolBindings& bindings = {},
                                  bool constants = false) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Tensor& t : inputs) {
    if (!t.defined()) {
      ids.push_back(no_value);
    } else if (constants) {
      ids.push_back(graph.add_constant("c", t));
    } else {
      ids.push_back(graph.add_input("x", {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
    }
  }
  const ValueId out = graph.add(op, ids, "y");
  const std::vector<TensorType> types{graph.type(out)};
  const std::vector<Graph> bodies;
  std::vector<Tensor> results = evaluate(op, EvalContext{inputs, types, bindings, bodies, test_pool()});
  EXPECT_EQ(results.at(0).dtype(), types[0].dtype);
  EXPECT_EQ(results[0].dims().size(), types[0].shape.size());
  for (size_t i = 0; i < types[0].shape.size() && i < results[0].dims().size(); ++i) {
    std::vector<std::string> names;
    types[0].shape[i].collect_symbols(names);
    bool fresh = false;
    for (const std::string& n : names) fresh = fresh || n[0] == '@';
    if (fresh) continue;
    EXPECT_EQ(types[0].shape[i].evaluate(bindings), results[0].dims()[i]) << "axis " << i;
  }
  return results;
}

}  // namespace camshaft
