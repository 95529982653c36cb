// Chains of one convolution, as tactics take them that compute it channel by channel.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "test_random.h"

namespace camshaft::cpu {

/// The convolution `op` (or a transposed one) of 1 to 3 axes, behind a transpose from channels-first where `turns_in`,
/// before one to it where `turns_out`, with a maximum with 0 behind it where `relu`. Weights and bias are known, or,
/// one time in four, packed in each run.
inline NodeTest chain_test(Random& random, const Op& op, const std::vector<Tensor>& operands, bool turns_in,
                           bool turns_out, bool relu, std::string tactic) {
  const std::vector<std::vector<int64_t>> to_last{{0, 2, 1}, {0, 2, 3, 1}, {0, 2, 3, 4, 1}};
  const std::vector<std::vector<int64_t>> to_first{{0, 2, 1}, {0, 3, 1, 2}, {0, 4, 1, 2, 3}};
  const size_t axes = operands[1].dims().size() - 2;
  Graph body;
  std::vector<ValueId> ids;
  for (const Tensor& t : operands)
    ids.push_back(body.add_input("i", {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
  if (turns_in) ids[0] = body.add(ops::Transpose{to_last[axes - 1]}, {ids[0]}, "x");
  ValueId y = no_value;
  if (relu) {
    Graph inner;
    std::vector<ValueId> own;
    for (const ValueId id : ids) own.push_back(inner.add_input("i", body.type(id)));
    const ValueId zero = inner.add_constant("k", Tensor::scalar(DType::f32, 0));
    inner.add_output("y", inner.add(ops::Pointwise{ScalarFunction::max}, {inner.add(op, own, "c"), zero}, "m"));
    y = body.add_node(ops::Region{ops::RegionKind::contract}, ids, {"l"}, {}, {inner})[0];
  } else {
    y = body.add(op, ids, "c");
  }
  if (turns_out) y = body.add(ops::Transpose{to_first[axes - 1]}, {y}, "t");
  body.add_output("y", y);
  std::vector<size_t> known{1};
  if (operands.size() == 3) known.push_back(2);
  if (random.integer(0, 3) == 0) known.clear();
  NodeTest test(ops::Region{ops::RegionKind::chain}, operands, known, std::move(tactic), 1e-5);
  test.bodies = {body};
  return test;
}

/// That the weights of `test`, its second operand, which are known and which its tactic packs, are recovered from their
/// packed form, and not as such of another shape.
inline void check_unpacking(const NodeTest& test) {
  const Graph graph = test.graph_of_node();
  const SymbolBindings symbols;
  PackedConstants packed;
  backend()->compile({graph, graph.nodes.back(), symbols}, Tactic{.name = test.tactic}, packed);
  const auto all = packed.all();
  ASSERT_EQ(all.size(), 1U);
  ASSERT_TRUE(backend()->can_unpack(all[0]->layout));
  const Tensor& weights = test.inputs[1];
  EXPECT_EQ(backend()->unpack(*all[0], DType::f32, weights.dims()).to_doubles(), weights.to_doubles());
  Dims other = weights.dims();
  ++other.back();
  EXPECT_THROW(backend()->unpack(*all[0], DType::f32, other), Error);
}

}  // namespace camshaft::cpu
