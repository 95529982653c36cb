// Regions of a contraction and what follows it, run through a tactic of the GPU backend.
#pragma once

#include "backends/cuda/run_node.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"

namespace camshaft::cuda {

/// Built from the contraction on; `last` is the value that has been computed, in f32.
struct RegionTest {
  using F = ScalarFunction;
  DType dtype = DType::f16, result = DType::f16;  ///< of the contraction's operands, and of what is stored
  Graph body;
  std::vector<Tensor> operands;
  std::vector<size_t> constants = {1};
  ValueId last = no_value;

  RegionTest(const Op& anchor, std::vector<Tensor> inputs) : dtype(inputs[0].dtype()), result(dtype) {
    std::vector<ValueId> ids;
    for (Tensor& t : inputs) {
      operands.push_back(std::move(t));
      ids.push_back(add_input(operands.back()));
    }
    last = wide(body.add(anchor, ids, "product"));
  }

  ValueId add_input(const Tensor& t) {
    return body.add_input("x" + std::to_string(body.inputs.size()),
                          {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
  }
  ValueId wide(ValueId id) {
    return body.type(id).dtype == DType::f32 ? id : body.add(ops::Cast{.to = DType::f32}, {id}, "wide");
  }
  ValueId operand(Tensor t) {
    operands.push_back(std::move(t));
    return wide(add_input(operands.back()));
  }
  ValueId number(double x) { return body.add_constant("number", tensor_of(DType::f32, {}, {x})); }
  ValueId apply(F f, std::vector<ValueId> inputs) { return body.add(ops::Pointwise{f}, std::move(inputs), "y"); }
  /// By tanh, or by erf.
  ValueId gelu(ValueId x, bool by_tanh) {
    const ValueId cube = apply(F::mul, {apply(F::pow, {x, number(3)}), number(0.044715)});
    const ValueId inner = by_tanh ? apply(F::mul, {number(0.7978845608), apply(F::add, {x, cube})})
                                  : apply(F::mul, {x, number(0.70710678)});
    const ValueId one = apply(F::add, {apply(by_tanh ? F::tanh : F::erf, {inner}), number(1)});
    return apply(F::mul, {apply(F::mul, {x, number(0.5)}), one});
  }

  NodeTest make(const std::string& tactic, double tolerance) {
    end();
    NodeTest test(ops::Region{ops::RegionKind::contract}, operands, tactic, tolerance);
    test.constants = constants;
    test.bodies = {body};
    return test;
  }
  bool is_taken_by(const std::string& tactic) {
    end();
    std::string problem;
    const auto gpu = backend_if_any(problem);
    Graph graph;
    std::vector<ValueId> ids;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Tensor& t = operands[i];
      const std::string name = "i" + std::to_string(i);
      const bool is_constant = std::find(constants.begin(), constants.end(), i) != constants.end();
      ids.push_back(is_constant ? graph.add_constant(name, t)
                                : graph.add_input(name, {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
    }
    graph.add_node(ops::Region{ops::RegionKind::contract}, ids, {"out"}, {}, {body});
    const SymbolBindings symbols;
    const auto tactics = gpu->tactics({graph, graph.nodes.back(), symbols});
    return std::any_of(tactics.begin(), tactics.end(), [&](const Tactic& t) { return t.name == tactic; });
  }

 private:
  void end() {
    if (result != DType::f32) last = body.add(ops::Cast{.to = result}, {last}, "narrow");
    body.add_output("out", last);
    remove_dead(body);
  }
};

}  // namespace camshaft::cuda
