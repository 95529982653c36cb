// What layers are measured on.
#include "compile/tune/contestant.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"
#include "ir/ops/region.h"
#include "reference/random_paged_step.h"

namespace camshaft::contestant_test {
namespace {

KernelShapes shapes_of(const Graph& graph) {
  static const SymbolBindings none;
  return *measured_shapes({graph, graph.nodes.back(), none}, 1);
}

Tensor operand(const Graph& graph, size_t i) {
  const SymbolBindings none;
  return measured_operand({graph, graph.nodes.back(), none}, shapes_of(graph).inputs[i], i).value();
}

TEST(MeasuredOperand, SequencesHaveAllKeysThatTheirTablesHaveRoomFor) {
  using Op = ops::PagedAttention;
  constexpr int64_t tokens = 7, sequences = 3, width = 5, blocks = 16, block_size = 4;
  Graph graph;
  const auto input = [&](const char* name, DType dtype, const Shape& shape) {
    return graph.add_input(name, {dtype, shape});
  };
  graph.add(Op{.heads = 2},
            {input("query", DType::f32, {tokens, 16}), input("keys", DType::f32, {blocks, block_size, 1, 8}),
             input("values", DType::f32, {blocks, block_size, 1, 8}), input("starts", DType::i32, {sequences + 1}),
             input("past", DType::i32, {sequences}), input("table", DType::i32, {sequences, width})},
            "y");
  const Tensor starts = operand(graph, Op::in_starts), past = operand(graph, Op::in_past),
               table = operand(graph, Op::in_table);
  const ops::PagedSequences step{
      starts.as<int32_t>(), past.as<int32_t>(), table.as<int32_t>(), sequences, width, tokens, blocks, block_size};
  EXPECT_NO_THROW(ops::check_sequences(step));
  for (int64_t s = 0; s < sequences; ++s) EXPECT_EQ(step.length(s), width * block_size) << s;
  EXPECT_EQ(step.starts[sequences], tokens);
  EXPECT_EQ(std::set<int32_t>(step.table, step.table + sequences * width).size(), size_t{sequences * width});
  const SymbolBindings none;
  EXPECT_FALSE(
      measured_operand({graph, graph.nodes.back(), none}, shapes_of(graph).inputs[Op::in_query], Op::in_query));
}

TEST(MeasuredOperand, ThoseOfAChainAreItsParts) {
  Random random(1);
  const RandomPagedStep made = random_paged_step(random, DType::f32, DType::f32, {.most_queries = 1, .size = 8}, false);
  Graph graph;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    const Tensor& t = made.inputs[i];
    ids.push_back(graph.add_input("x" + std::to_string(i), {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
  }
  graph.add_node(ops::Region{ops::RegionKind::chain}, ids, {"y", "keys", "values"}, {}, {made.body});
  const Tensor starts = operand(graph, ops::PagedUpdate::input_count);
  EXPECT_EQ(starts.as<int32_t>()[3], made.inputs[0].dims()[0]);
  EXPECT_EQ(operand(graph, ops::PagedUpdate::in_slots).size(), made.inputs[0].dims()[0]);
}

TEST(MeasuredOperand, RowsHaveSlotsOfTheirOwn) {
  for (const DType dtype : {DType::i32, DType::i64}) {
    Graph graph;
    graph.add(ops::PagedStore{},
              {graph.add_input("cache", {DType::f32, {4, 8, 2}}), graph.add_input("rows", {DType::f32, {5, 2}}),
               graph.add_input("slots", {dtype, {5}})},
              "y");
    std::set<double> seen;
    for (const double slot : operand(graph, ops::PagedStore::in_slots).to_doubles()) {
      EXPECT_GE(slot, 0);
      EXPECT_LT(slot, 32);
      seen.insert(slot);
    }
    EXPECT_EQ(seen.size(), 5U);
  }
}

}  // namespace
}  // namespace camshaft::contestant_test
