// What operators state of themselves (ir/traits.h), held against their shape rules and their evaluation.
#include "ir/traits.h"

#include <algorithm>
#include <set>

#include "ir/ops/axis_order.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/move.h"
#include "ir/ops/reduce.h"
#include "reference/operator_samples.h"
#include "reference/single_op.h"

namespace camshaft::traits_test {
namespace {

const std::vector<OperatorSample>& samples() {
  static const std::vector<OperatorSample> all = operator_samples(test_pool());
  return all;
}

std::vector<Tensor> evaluated(const Op& op, const OperatorSample& sample, const std::vector<Tensor>& operands) {
  std::vector<Tensor> inputs;
  const Graph graph = graph_of_sample(op, sample, [&](Graph& g, size_t i) {
    inputs.push_back(operands[i]);
    return g.add_input("x", type_of(operands[i]));
  });
  return evaluate(graph, inputs, test_pool());
}

// The operands, each f32 one changed.
template <class Change>
std::vector<Tensor> changed(std::vector<Tensor> operands, Change&& change) {
  for (Tensor& operand : operands)
    if (operand.defined() && operand.dtype() == DType::f32) operand = change(operand);
  return operands;
}

template <class Function>
Tensor mapped(const Tensor& x, Function&& function) {
  std::vector<float> values(x.as<float>(), x.as<float>() + x.size());
  for (float& value : values) value = function(value);
  return f32(x.dims(), values);
}

Tensor transposed(const Tensor& x, const ops::AxisOrder& order) {
  return run_op(ops::Transpose{order}, {x})[0];
}

// The order of the axes that are left when some are dropped.
ops::AxisOrder without(const ops::AxisOrder& order, const std::vector<int64_t>& dropped) {
  ops::AxisOrder left;
  for (const int64_t axis : order) {
    const auto before = std::count_if(dropped.begin(), dropped.end(), [&](int64_t d) { return d < axis; });
    if (std::find(dropped.begin(), dropped.end(), axis) == dropped.end()) left.push_back(axis - before);
  }
  return left;
}

void expect_near(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.dims(), wanted.dims());
  if (got.dtype() == DType::string) {
    EXPECT_EQ(got, wanted);
    return;
  }
  const std::vector<double> a = got.to_doubles(), b = wanted.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * std::max(1.0, std::abs(b[i]))) << i;
}

TEST(Traits, EveryOperatorHasASample) {
  std::set<std::string_view> names;
  for (const OperatorSample& sample : samples()) names.insert(sample.op.name());
  for (const std::string& name : operators().names())
    EXPECT_TRUE(names.contains(name)) << "operator_sample_texts.h has no sample of '" << name << "'";
}

// Constants are folded and equal nodes merged whatever the operator is: random numbers are functions of a seed, too.
TEST(Traits, EveryOperatorGivesTheSameResultsEachTime) {
  const std::vector<OperatorSample> again = operator_samples(test_pool());
  ASSERT_EQ(again.size(), samples().size());
  for (size_t i = 0; i < again.size(); ++i)
    EXPECT_TRUE(again[i].results == samples()[i].results) << to_string(again[i].op);
}

TEST(Traits, ContractionsAloneHaveFlops) {
  for (const OperatorSample& sample : samples()) {
    std::vector<TensorType> types;
    for (const auto* tensors : {&sample.operands, &sample.results})
      for (const Tensor& t : *tensors) types.push_back(t.defined() ? type_of(t) : TensorType());
    std::vector<const Shape*> shapes;
    for (const TensorType& type : types) shapes.push_back(&type.shape);
    const auto middle = shapes.begin() + static_cast<int64_t>(sample.operands.size());
    const SymbolBindings symbols;
    const double flops = sample.op.flops(SizeContext({shapes.begin(), middle}, {middle, shapes.end()}, symbols));
    EXPECT_EQ(flops > 0, sample.op.traits().kind == OpKind::contraction) << to_string(sample.op) << ": " << flops;
  }
}

// Of operands of all axes in another order, a pointwise operator gives its result in that order.
TEST(Traits, PointwiseResultsAreComputedElementByElement) {
  for (const OperatorSample& sample : samples()) {
    if (sample.op.traits().kind != OpKind::pointwise) continue;
    SCOPED_TRACE(to_string(sample.op));
    ASSERT_EQ(sample.results.size(), 1U);
    const Dims& dims = sample.results[0].dims();
    Shape shape;
    for (const Tensor& operand : sample.operands) shape = ops::broadcast_shapes(shape, type_of(operand).shape);
    EXPECT_EQ(type_of(sample.results[0]).shape, shape);
    ops::AxisOrder reversed = ops::identity_order(dims.size());
    std::reverse(reversed.begin(), reversed.end());
    std::vector<Tensor> operands;
    for (const Tensor& operand : sample.operands) {
      Dims padded(dims.size() - operand.dims().size(), 1);
      padded.insert(padded.end(), operand.dims().begin(), operand.dims().end());
      operands.push_back(operand.dims().empty() ? operand : transposed(operand.reshaped(padded), reversed));
    }
    EXPECT_EQ(evaluated(sample.op, sample, operands)[0], transposed(sample.results[0], reversed));
  }
}

TEST(Traits, MovesGiveElementsOfTheirOperands) {
  for (const OperatorSample& sample : samples()) {
    if (sample.op.traits().kind != OpKind::move) continue;
    SCOPED_TRACE(to_string(sample.op));
    std::set<double> elements;
    if (!sample.op.selects()) elements.insert(0);  // where no operand has a place
    for (const Tensor& operand : sample.operands)
      if (operand.defined() && operand.dtype() == sample.operands[0].dtype())
        for (const double value : operand.to_doubles()) elements.insert(value);
    for (const Tensor& result : sample.results) {
      EXPECT_EQ(result.dtype(), sample.operands[0].dtype());
      for (const double value : result.to_doubles()) EXPECT_TRUE(elements.contains(value)) << value;
    }
    // What the elements are decides nothing: other ones come out of the same places.
    const auto other = [](const Tensor& x) {
      return mapped(x, [](float value) { return value == 0 ? 0 : 1 / value; });
    };
    const std::vector<Tensor> results = evaluated(sample.op, sample, changed(sample.operands, other));
    for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], other(sample.results[i]));
  }
}

TEST(Traits, ReductionsTakeElementsInAnyOrder) {
  const auto reversed = [](const Tensor& x) {
    std::vector<float> values(x.as<float>(), x.as<float>() + x.size());
    std::reverse(values.begin(), values.end());
    return f32(x.dims(), values);
  };
  for (const OperatorSample& sample : samples()) {
    if (sample.op.traits().kind != OpKind::reduction) continue;
    SCOPED_TRACE(to_string(sample.op));
    EXPECT_LT(sample.results[0].size(), sample.operands[0].size());
    expect_near(evaluated(sample.op, sample, changed(sample.operands, reversed))[0], reversed(sample.results[0]));
  }
}

// permuted(order) of operands in that order gives the result in it, without the axes that are reduced.
TEST(Traits, LayoutsGoThrough) {
  std::set<std::string_view> wanted, seen;
  for (const OperatorSample& sample : samples()) {
    const Traits& traits = sample.op.traits();
    if (!has_permuted(traits.layout)) {
      EXPECT_FALSE(sample.op.permuted(ops::channels_last_order(4))) << to_string(sample.op);
      continue;
    }
    wanted.insert(sample.op.name());
    const size_t rank = sample.results[0].dims().size();
    if (sample.operands[0].dims().size() != 4) continue;
    SCOPED_TRACE(to_string(sample.op));
    std::vector<ops::AxisOrder> orders{ops::channels_last_order(4)};
    if (traits.layout != Layout::image) orders.insert(orders.end(), {{3, 1, 0, 2}, {2, 0, 3, 1}});
    for (const ops::AxisOrder& order : orders) {
      const std::optional<Op> op = sample.op.permuted(order);
      ASSERT_TRUE(op);
      std::vector<Tensor> operands = sample.operands;
      for (size_t i = 0; i < std::min<size_t>(traits.layout_operands, operands.size()); ++i)
        operands[i] = transposed(operands[i], order);
      std::vector<int64_t> dropped;
      if (const auto* reduce = sample.op.as<ops::Reduce>(); reduce && rank < 4) dropped = reduce->axes;
      if (const auto* reduce = sample.op.as<ops::ArgReduce>(); reduce && rank < 4) dropped = {reduce->axis};
      expect_near(evaluated(*op, sample, operands)[0], transposed(sample.results[0], without(order, dropped)));
      seen.insert(sample.op.name());
    }
    if (traits.layout != Layout::image) continue;
    EXPECT_FALSE(sample.op.permuted({2, 0, 3, 1}));
    EXPECT_FALSE(sample.op.permuted(orders[0])->permuted(orders[0])) << "it is channels-last already";
  }
  EXPECT_EQ(seen, wanted);
}

// The same operator on operands that are stored in 16 bits gives results of that type, but for those that an operand
// behind these becomes.
TEST(Traits, NarrowedOperandsGiveNarrowResults) {
  for (const OperatorSample& sample : samples()) {
    const Traits& traits = sample.op.traits();
    if (traits.narrowed_operands == 0 || traits.kind == OpKind::pointwise) continue;
    const auto narrowed = [](const Tensor& x) { return x.dtype() == DType::f32 ? DType::f16 : x.dtype(); };
    const Graph graph = graph_of_sample(sample.op, sample, [&](Graph& g, size_t i) {
      TensorType type = type_of(sample.operands[i]);
      if (i < traits.narrowed_operands) type.dtype = narrowed(sample.operands[i]);
      return g.add_input("x", type);
    });
    const auto is_updated = [&](const Tensor& result) {
      for (size_t i = traits.narrowed_operands; i < sample.operands.size(); ++i)
        if (sample.operands[i].dtype() == result.dtype() && sample.operands[i].dims() == result.dims()) return true;
      return false;
    };
    EXPECT_EQ(graph.type(graph.outputs[0]).dtype, narrowed(sample.results[0])) << to_string(sample.op);
    for (size_t i = 1; i < sample.results.size(); ++i)
      EXPECT_EQ(graph.type(graph.outputs[i]).dtype,
                is_updated(sample.results[i]) ? sample.results[i].dtype() : narrowed(sample.results[i]))
          << to_string(sample.op);
  }
}

TEST(Traits, PickingReadsNoMoreThanIsWritten) {
  for (const OperatorSample& sample : samples()) {
    if (!sample.op.picks()) continue;
    int64_t written = 0;
    for (const Tensor& result : sample.results) written += result.size();
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      if (sample.operands[i].dtype() != DType::f32) continue;
      int64_t read = 0;
      for (int64_t at = 0; at < sample.operands[i].size(); ++at) {
        std::vector<Tensor> operands = sample.operands;
        operands[i] = operands[i].copy();
        operands[i].as_mutable<float>()[at] += 1000;
        read += evaluated(sample.op, sample, operands) == sample.results ? 0 : 1;
      }
      EXPECT_LE(read, written) << to_string(sample.op) << ", operand " << i;
    }
  }
}

// An increasing function of all elements may be taken before or after.
TEST(Traits, SelectingKeepsTheOrderOfElements) {
  const auto function = [](const Tensor& x) {
    return mapped(x, [](float value) { return 2 * value * value * value + 1; });
  };
  std::set<std::string_view> depending, selecting;
  for (const OperatorSample& sample : samples()) {
    if (sample.op.traits().selects == Answer::depends) depending.insert(sample.op.name());
    if (!sample.op.selects()) continue;
    SCOPED_TRACE(to_string(sample.op));
    selecting.insert(sample.op.name());
    const std::vector<Tensor> results = evaluated(sample.op, sample, changed(sample.operands, function));
    for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], function(sample.results[i]));
  }
  for (const std::string_view name : depending)
    EXPECT_TRUE(selecting.contains(name)) << "no sample of '" << name << "' selects";
}

}  // namespace
}  // namespace camshaft::traits_test
