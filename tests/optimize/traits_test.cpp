// Passes do with every operator what its traits (ir/traits.h) say.
#include "ir/traits.h"

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "optimize/analysis/slice_readers.h"
#include "optimize/layout/to_channels_last.h"
#include "optimize/pass_test.h"
#include "optimize/precision/lower_precision.h"
#include "optimize/precision/widen_narrow_floats.h"
#include "reference/operator_samples.h"

namespace camshaft::traits_test {
namespace {

const std::vector<OperatorSample>& samples() {
  static const std::vector<OperatorSample> all = operator_samples(test_pool());
  return all;
}

// The last node of the operator that the sample is of; null if there is none.
const Node* find(const Graph& graph, const OperatorSample& sample) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (node->op.name() == sample.op.name()) return &*node;
  return nullptr;
}

// The operator that computes a value; empty of what none computes.
std::string_view producer(const Graph& graph, ValueId id) {
  for (const Node& node : graph.nodes)
    if (node.outputs[0] == id) return node.op.name();
  return "";
}

ValueId add_convolved(Graph& graph, const Tensor& operand) {
  Tensor weights(operand.dtype(), {operand.dims()[1], operand.dims()[1], 1, 1});
  return graph.add(ops::Conv{{1, 1}, Shape(4, Dim(0)), {1, 1}},
                   {graph.add_input("x", type_of(operand)), graph.add_constant("w", weights)}, "convolved");
}

// What comes out of a convolution goes on in its layout, through every operator that has one.
TEST(TraitsOfPasses, LayoutsGoThroughToChannelsLast) {
  for (const OperatorSample& sample : samples()) {
    const Traits& traits = sample.op.traits();
    if (traits.layout == Layout::fixed || sample.operands[0].dims().size() != 4 ||
        sample.operands[0].dtype() != DType::f32)
      continue;
    SCOPED_TRACE(to_string(sample.op));
    Graph graph = graph_of_sample(sample.op, sample, [&](Graph& g, size_t i) {
      return i < traits.layout_operands ? add_convolved(g, sample.operands[i])
                                        : g.add_input("x", type_of(sample.operands[i]));
    });
    to_channels_last(graph, test_context());
    verify(graph, "the pass under test");
    const Node* node = find(graph, sample);
    ASSERT_TRUE(node);
    if (traits.layout == Layout::permutes) {  // the one that is left brings the convolution its layout
      EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                              [](const Node& n) { return n.op.as<ops::Transpose>() != nullptr; }),
                1);
      continue;
    }
    for (size_t i = 0; i < std::min<size_t>(traits.layout_operands, node->inputs.size()); ++i)
      EXPECT_EQ(producer(graph, node->inputs[i]), ops::Conv::name) << print(graph);
  }
}

TEST(TraitsOfPasses, LowerPrecisionNarrowsOperands) {
  for (const OperatorSample& sample : samples()) {
    const Traits& traits = sample.op.traits();
    if (traits.kind == OpKind::pointwise || takes_containers(sample)) continue;
    Graph graph = graph_of_sample(sample.op, sample,
                                  [&](Graph& g, size_t i) { return g.add_input("x", type_of(sample.operands[i])); });
    PassContext context = test_context();
    context.storage = DType::f16;
    lower_precision(graph, context);
    verify(graph, "the pass under test");
    const Node* node = find(graph, sample);
    if (sample.op.name() == "region") continue;  // its body tells
    ASSERT_TRUE(node) << to_string(sample.op);
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      if (!sample.operands[i].defined() || sample.operands[i].dtype() != DType::f32) continue;
      EXPECT_EQ(graph.type(node->inputs[i]).dtype, i < traits.narrowed_operands ? DType::f16 : DType::f32)
          << to_string(sample.op) << ", operand " << i;
    }
  }
}

// Halves are read in f32 by what computes, and by moves where they are at hand in f32 alone.
TEST(TraitsOfPasses, WidenNarrowFloatsWidensOperands) {
  for (const OperatorSample& sample : samples()) {
    const Traits& traits = sample.op.traits();
    if (traits.widening == Widening::none) continue;
    Graph graph = graph_of_sample(sample.op, sample, [&](Graph& g, size_t i) {
      TensorType type = type_of(sample.operands[i]);
      if (type.dtype != DType::f32) return g.add_input("x", type);
      type.dtype = DType::f16;
      const ValueId x = g.add_input("x", type);
      return traits.widening == Widening::computes ? x : g.add(ops::Pointwise{ScalarFunction::neg}, {x}, "computed");
    });
    widen_narrow_floats(graph, test_context());
    verify(graph, "the pass under test");
    const Node* node = find(graph, sample);
    ASSERT_TRUE(node);
    for (const ValueId id : node->inputs) {
      if (id == no_value) continue;
      EXPECT_NE(graph.type(id).dtype, DType::f16) << to_string(sample.op);
    }
  }
}

// Every operator with strides among its fields can be made to read other columns.
TEST(TraitsOfPasses, StridesOfOperandsAreKnown) {
  for (const OperatorSample& sample : samples()) {
    if (takes_containers(sample)) continue;
    const size_t strided = sample.op.traits().strided_operands;
    Graph graph = graph_of_sample(sample.op, sample,
                                  [&](Graph& g, size_t i) { return g.add_input("x", type_of(sample.operands[i])); });
    const Node& node = graph.nodes.back();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      EXPECT_EQ(reads_through_strides(node, node.inputs[i]), i < strided) << to_string(sample.op);
      if (i >= strided) break;
      EXPECT_NO_THROW(reading_columns(node, node.inputs[i], node.inputs[i], {1, 0, 1}));
    }
  }
}

}  // namespace
}  // namespace camshaft::traits_test
