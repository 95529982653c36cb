#include "backends/cuda/passes/widen_images.h"

#include "backends/cuda/passes/join_transposes.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::widen_images_test {
namespace {

struct Case {
  Dims image;    // batch, channels, height, width
  Dims weights;  // out channels, height, width
  int64_t stride = 1;
  std::vector<int64_t> pads = {0, 0, 0, 0};
  bool with_relu = false;
};

// How an image comes: f32 or f16, with its channels first, or f16 with them last.
enum class Comes { wide, narrow, channels_last };

// A convolution of an image.
Graph make(const Case& c, Random& random, Comes comes = Comes::wide) {
  Graph graph;
  graph.name = "g";
  Shape shape(c.image.begin(), c.image.end());
  if (comes == Comes::channels_last) shape = {shape[0], shape[2], shape[3], shape[1]};
  ValueId narrow = graph.add_input("x", {comes == Comes::wide ? DType::f32 : DType::f16, shape});
  if (comes != Comes::channels_last) narrow = graph.add(ops::Transpose{{0, 2, 3, 1}}, {narrow}, "t");
  if (comes == Comes::wide) narrow = graph.add(ops::Cast{.to = DType::f16}, {narrow}, "c");
  const ValueId weights = graph.add_constant(
      "w", random_tensor(random, DType::f16, {c.weights[0], c.image[1], c.weights[1], c.weights[2]}));
  ops::Conv conv;
  conv.strides = {c.stride, c.stride};
  conv.dilations = {1, 1};
  conv.channels_last = true;
  for (const int64_t pad : c.pads) conv.pads.emplace_back(pad);
  ValueId y = graph.add(conv, {narrow, weights}, "y");
  if (c.with_relu) y = graph.add(ops::Pointwise{ScalarFunction::neg}, {y}, "r");
  graph.add_output("y", y);
  fuse(graph, test_context());
  join_transposes(graph, test_context());
  return graph;
}

int64_t channels_read(const Graph& graph) {
  const Node& last = graph.nodes.back();
  return *graph.shape(last.inputs[0]).back().as_constant();
}

TEST(WidenImages, ComputesTheSame) {
  Random random = test_random();
  for (const Case& c : std::vector<Case>{{{2, 3, 9, 12}, {5, 3, 3}, 2, {1, 1, 1, 1}},
                                         {{1, 3, 12, 12}, {4, 7, 7}, 2, {3, 3, 3, 3}, true},
                                         {{1, 3, 12, 16}, {4, 6, 6}, 2, {2, 2, 2, 2}},
                                         {{1, 3, 16, 16}, {4, 8, 8}, 8},
                                         {{1, 3, 8, 10}, {4, 2, 2}, 4, {0, 1, 0, 0}},
                                         {{2, 4, 6, 6}, {3, 1, 1}, 2},
                                         {{1, 1, 6, 6}, {3, 3, 3}, 1, {1, 1, 1, 1}},
                                         {{1, 3, 6, 7}, {3, 3, 3}, 2, {0, 1, 0, 1}},
                                         {{1, 5, 6, 8}, {3, 3, 2}, 2}}) {
    for (const Comes comes : {Comes::wide, Comes::narrow, Comes::channels_last}) {
      Graph graph = make(c, random, comes);
      const Graph before = graph;
      run_pass_on_named(widen_images, graph, test_context(), "widen_images");
      verify(graph, "the pass under test");
      EXPECT_EQ(channels_read(graph), 8) << print(graph);
      const TensorType& type = graph.type(graph.inputs[0]);
      Dims dims;
      for (const Dim& d : type.shape) dims.push_back(*d.as_constant());
      const Tensor x = random_tensor(random, type.dtype, dims);
      const std::vector<double> got = evaluate(graph, {x}, test_pool())[0].to_doubles(),
                                want = evaluate(before, {x}, test_pool())[0].to_doubles();
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 4e-3 * std::abs(want[i]) + 2e-3) << i;
    }
  }
}

TEST(WidenImages, PairsOfPixelsWhereStridesAreEven) {
  Random random = test_random();
  Graph graph = make({{1, 3, 12, 12}, {4, 7, 7}, 2, {3, 3, 3, 3}}, random);
  run_pass_on_named(widen_images, graph, test_context(), "widen_images");
  EXPECT_EQ(graph.shape(graph.nodes.back().inputs[0]), (Shape{1, 12, 6, 8}));
  EXPECT_EQ(graph.shape(graph.nodes.back().inputs[1]), (Shape{4, 8, 7, 4}));
  graph = make({{1, 3, 12, 12}, {4, 3, 3}, 1, {1, 1, 1, 1}}, random);
  run_pass_on_named(widen_images, graph, test_context(), "widen_images");
  EXPECT_EQ(graph.shape(graph.nodes.back().inputs[0]), (Shape{1, 12, 12, 8}));
}

TEST(WidenImages, ImagesOfManyChannelsStay) {
  Random random = test_random();
  const Graph many = make({{1, 8, 6, 6}, {3, 3, 3}}, random);
  Graph graph = many;
  run_pass_on_named(widen_images, graph, test_context(), "widen_images");
  EXPECT_TRUE(equal(graph, many));
}

TEST(WidenImages, ImagesThatOthersReadAreCopied) {
  Random random = test_random();
  Graph graph = make({{1, 3, 6, 6}, {3, 3, 3}}, random);
  graph.add_output("image", graph.nodes.back().inputs[0]);
  const Graph before = graph;
  run_pass_on_named(widen_images, graph, test_context(), "widen_images");
  verify(graph, "the pass under test");
  EXPECT_EQ(channels_read(graph), 8) << print(graph);
  const Tensor x = random_tensor(random, DType::f32, {1, 3, 6, 6});
  const std::vector<Tensor> got = evaluate(graph, {x}, test_pool()), want = evaluate(before, {x}, test_pool());
  EXPECT_EQ(got[1].to_doubles(), want[1].to_doubles());
  for (size_t i = 0; i < want[0].to_doubles().size(); ++i)
    EXPECT_NEAR(got[0].to_doubles()[i], want[0].to_doubles()[i], 1e-2);
}

}  // namespace
}  // namespace camshaft::widen_images_test
