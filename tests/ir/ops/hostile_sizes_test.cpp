// Sizes, fields and data that nobody means: no shape rule may loop, allocate or overflow because of them.
#include <limits>

#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/scalar_function.h"
#include "ir/ops/sequence.h"
#include "ir/ops/small_tensors.h"

namespace camshaft::ops::hostile_sizes_test {
namespace {

constexpr int64_t many = int64_t{1} << 45;
constexpr int64_t highest = std::numeric_limits<int64_t>::max();

// Types of as many elements as their contents, whatever a rule makes of them.
TEST(HostileSizes, RulesOnTypesAlone) {
  const auto refused = [](const Op& op, const std::vector<TensorType>& types) {
    Graph graph;
    std::vector<ValueId> ids;
    for (const TensorType& type : types) ids.push_back(graph.add_input("x", type));
    return !error_of([&] { graph.add(op, ids, "y"); }).empty();
  };
  EXPECT_TRUE(refused(DynamicSlice{}, {{DType::f32, {3}}, {DType::i64, {many}}, {DType::i64, {many}}}));
  EXPECT_TRUE(
      refused(SequenceAt{highest}, {{DType::sequence, {2}, true, {{DType::f32, {}, false}}}, {DType::i64, {}}}));
  Graph graph;
  EXPECT_THROW(graph.add_input("x", {DType::f32, {0, int64_t{1} << 40, int64_t{1} << 40}}), Error);
  const ValueId three = graph.add_constant("c", i64({3}, {1, 2, 3}));
  const ValueId reshaped = graph.add(Reshape{{Dim::symbol("n")}}, {three}, "y");
  EXPECT_FALSE(graph.value(reshaped).content) << "n need not be 3";
  EXPECT_NO_THROW(graph.add(Slice{{0}, {5}, {1}, {1}}, {reshaped}, "z"));
  const ValueId yes = graph.add_constant("yes", Tensor::scalar(DType::boolean, 1).reshaped({1}));
  const ValueId few = graph.add_constant("few", i64({1}, {1}));
  const ValueId lots = graph.add_input("lots", {DType::i64, {many}});
  EXPECT_FALSE(graph.value(graph.add(Pointwise{ScalarFunction::select}, {yes, few, lots}, "w")).content);
}

// Found by fuzzing: an engine may say of any constant that only its packed form is stored.
TEST(HostileSizes, RulesDoNotReadConstantsThatAreNotThere) {
  Graph graph;
  const ValueId one = graph.add_constant("one", i64({}, {1}));
  const ValueId elided = graph.add_input("elided", {DType::i64, {}});
  graph.value(elided).constant = std::make_shared<const Tensor>(Tensor::elided(DType::i64, {}));
  const ValueId range = graph.add(Range{}, {one, elided, one}, "r");
  EXPECT_FALSE(graph.shape(range)[0].is_constant());
}

}  // namespace
}  // namespace camshaft::ops::hostile_sizes_test
