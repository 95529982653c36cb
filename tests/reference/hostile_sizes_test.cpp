// Sizes, fields and data that nobody means: no operator may loop, allocate or overflow because of them. What would take
// hours or terabytes fails here by not coming back.
#include <limits>

#include "base/error.h"
#include "base/text/regex.h"
#include "ir/ops/contract.h"
#include "ir/ops/dynamic.h"
#include "ir/ops/generate.h"
#include "ir/ops/index.h"
#include "ir/ops/linear_attention.h"
#include "ir/ops/map.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/resize.h"
#include "ir/ops/sample.h"
#include "ir/ops/select.h"
#include "ir/ops/sequence.h"
#include "ir/ops/signal.h"
#include "ir/ops/strings.h"
#include "ir/ops/support_vectors.h"
#include "ir/ops/window_ops.h"
#include "reference/single_op.h"

namespace camshaft::ops::hostile_sizes_test {
namespace {

constexpr int64_t many = int64_t{1} << 45;
constexpr int64_t highest = std::numeric_limits<int64_t>::max(), lowest = std::numeric_limits<int64_t>::min();

Tensor empty(Dims dims, DType dtype = DType::f32) {
  return Tensor(dtype, std::move(dims));
}
Dims dims_of(const Op& op, const std::vector<Tensor>& inputs) {
  return run_op(op, inputs).at(0).dims();
}
bool refuses(const Op& op, const std::vector<Tensor>& inputs, const SymbolBindings& bindings = {}) {
  try {
    run_op(op, inputs, bindings);
  } catch (const Error& e) {
    return e.code() != ErrorCode::internal;
  }
  return false;
}

TEST(HostileSizes, EmptyTensorsOfAnyNumberOfRows) {
  EXPECT_EQ(dims_of(MatMul{}, {empty({many, 0, 3}), empty({many, 3, 0})}), (Dims{many, 0, 0}));
  EXPECT_EQ(dims_of(Gather{1}, {empty({many, 3, 0}), i64({1}, {2})}), (Dims{many, 1, 0}));
  EXPECT_EQ(dims_of(ScatterND{}, {empty({0}), empty({many, 0}, DType::i64), empty({many, 0})}), (Dims{0}));
  EXPECT_EQ(dims_of(ScatterElements{1}, {empty({many, 0}), empty({many, 0}, DType::i64), empty({many, 0})}),
            (Dims{many, 0}));
  EXPECT_EQ(dims_of(TensorScatter{1}, {empty({many, 0}), empty({many, 0})}), (Dims{many, 0}));
  EXPECT_EQ(dims_of(ReverseSequence{true}, {empty({2, many, 0}), i64({2}, {many, 1})}), (Dims{2, many, 0}));
  EXPECT_EQ(dims_of(PairwiseDistance{}, {empty({many, 0}), empty({0, 0})}), (Dims{many, 0}));
  EXPECT_EQ(dims_of(NonMaxSuppression{}, {empty({1, 0, 4}), empty({1, many, 0}), i64({}, {1})}), (Dims{0, 3}));
  EXPECT_EQ(dims_of(Unique{1}, {empty({many, 3, 0})}), (Dims{many, 1, 0}));
  EXPECT_EQ(dims_of(LinearAttention{},
                    {empty({1 << 30, 1 << 15, 0}), empty({1 << 30, 1 << 15, 0}), empty({1 << 30, 1 << 15, 0})}),
            (Dims{1 << 30, 1 << 15, 0}));
  Recurrent layer;
  layer.activations = {"sigmoid", "tanh", "tanh"};
  layer.alphas = layer.betas = {0, 0, 0};
  EXPECT_EQ(dims_of(layer, {empty({1, many, 0}), empty({1, 0, 0}), empty({1, 0, 0})}), (Dims{1, 1, many, 0}));
  EXPECT_EQ(dims_of(Pad{PadMode::constant, {0, 0, 0, many}}, {empty({0, 3})}), (Dims{0, many + 3}));
  // Windows without channels, and image columns without windows.
  const Conv conv{{1}, {0, 0}, {1}};
  EXPECT_EQ(dims_of(conv, {empty({1, 0, (int64_t{1} << 30) + 1}), empty({1, 0, int64_t{1} << 30})}), (Dims{1, 1, 2}));
  const Col2Im fold{{1, 1}, {0, 0, 0, 0}, {1, 1}};
  EXPECT_EQ(dims_of(fold, {empty({1, int64_t{1} << 40, 0}), i64({2}, {1, 1}), i64({2}, {1 << 20, 1 << 20})}),
            (Dims{1, 1, 1, 1}));
  EXPECT_TRUE(refuses(Unique{0}, {empty({many, 0})})) << "its second result has as many elements";
  EXPECT_TRUE(refuses(SplitToSequence{0}, {empty({many, 0})}));
  EXPECT_TRUE(refuses(RowsToMaps{}, {empty({many, 0}), empty({0}, DType::i64)}));
}

TEST(HostileSizes, BesideAnEmptyAxisToo) {
  EXPECT_THROW(element_count({0, int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_EQ(element_count({0, int64_t{1} << 40}), 0);
  EXPECT_TRUE(refuses(Expand{{0, int64_t{1} << 40, int64_t{1} << 40}}, {f32({}, {1})}));
  EXPECT_TRUE(refuses(Pointwise{ScalarFunction::add}, {empty({many, 1, 0}), empty({1, many, 0})}));
}

TEST(HostileSizes, FieldsAndData) {
  EXPECT_EQ(run_op(Range{}, {i64({}, {lowest}), i64({}, {highest}), i64({}, {int64_t{1} << 62})})[0],
            i64({4}, {lowest, -(int64_t{1} << 62), 0, int64_t{1} << 62}));
  EXPECT_TRUE(refuses(Pad{PadMode::constant, {Dim::symbol("n"), 0}}, {f32({1}, {1})}, {{"n", highest}}));
  EXPECT_TRUE(refuses(Pad{PadMode::constant, {lowest, 0}}, {f32({1}, {1})}));
  EXPECT_TRUE(refuses(BitCast{DType::sequence}, {f32({1}, {1})}));
  EXPECT_TRUE(refuses(MelWeights{}, {i64({}, {highest}), i64({}, {16}), i64({}, {16}), f32({}, {0}), f32({}, {8})}));
  EXPECT_TRUE(refuses(Dft{0}, {empty({0, 1}), i64({}, {highest})}));
  const Conv strided{{int64_t{1} << 31}, {Dim::symbol("n"), 0}, {1}};
  EXPECT_TRUE(refuses(strided, {f32({1, 1, 1}, {1}), f32({1, 1, 1}, {1})}, {{"n", int64_t{1} << 40}}));
  LinearAttention heads;
  heads.heads = heads.key_heads = highest;
  EXPECT_TRUE(refuses(heads, {empty({1, 1, 0}), empty({1, 1, 0}), empty({1, 1, 0})}));
  Pool windows;
  windows.kernel = {int64_t{1} << 31, int64_t{1} << 31, int64_t{1} << 31};
  windows.strides = windows.dilations = {1, 1, 1};
  windows.pads = Shape(6, Dim(int64_t{1} << 30));
  EXPECT_TRUE(refuses(windows, {f32({1, 1, 1, 1, 1}, {1})}));
  // A scale that makes two elements of one, aligned by their corners, divides 0 by 0.
  Resize corners;
  corners.mode = ResizeMode::linear;
  corners.coordinate = ResizeCoordinate::align_corners;
  corners.axes = {0};
  corners.sizes = {2};
  corners.scales = {1};
  EXPECT_EQ(run_op(corners, {f32({1}, {3})})[0], f32({2}, {3, 3}));
  // What lies between: 2^20 by 2^20.
  Resize between;
  between.mode = ResizeMode::linear;
  between.axes = {0, 1};
  between.sizes = {1 << 20, 1};
  EXPECT_TRUE(refuses(between, {Tensor(DType::f32, {1, 1 << 20})}));
  // One long class shared by all its repeats.
  std::string wide = "[";
  for (int i = 0; i < 10000; ++i) wide += "a-z";
  const Regex regex(wide + "]{1000}");
  EXPECT_FALSE(regex.matches_all({'a'}));
}

// Sizes that the shape rule knows as symbols only.
TEST(HostileSizes, FoundOutWhenRunning) {
  Graph graph;
  const Dim n = Dim::symbol("n");
  const auto evaluate_with = [&](const Op& op, const std::vector<Shape>& shapes, const std::vector<Tensor>& inputs) {
    Graph rule;
    std::vector<ValueId> ids;
    for (size_t i = 0; i < inputs.size(); ++i) ids.push_back(rule.add_input("x", {inputs[i].dtype(), shapes[i]}));
    const std::vector<TensorType> types{rule.type(rule.add(op, ids, "y"))};
    const std::vector<Graph> bodies;
    return error_of([&] { evaluate(op, EvalContext{inputs, types, {{"n", 1}}, bodies, test_pool()}); });
  };
  const Tensor image = f32({1, 1, 1, 1}, {1}), region = f32({1, 1}, {0});
  EXPECT_NE(evaluate_with(RoiAlign{}, {{1, 1, 1, 1}, {1, n}, {1}}, {image, region, i64({1}, {0})}).find("[count, 4]"),
            std::string::npos);
  EXPECT_NE(evaluate_with(MaxRoiPool{}, {{1, 1, 1, 1}, {1, n}}, {image, region}).find("[count, 5]"), std::string::npos);
  const Tensor one = i64({1}, {1}), none = i64({0}, {});
  EXPECT_NE(evaluate_with(Range{}, {{n}, {1}, {1}}, {none, one, one}).find("one number"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::hostile_sizes_test
