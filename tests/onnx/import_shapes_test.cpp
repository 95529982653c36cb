// Shape arithmetic: with dynamic sizes, none of it may be left in the graph.
#include <map>

#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_shapes_test {
namespace {

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

void add_ints(GraphWriter& graph, const std::string& name, const Ints& values) {
  graph.initializer(TensorWriter(name, {static_cast<int64_t>(values.size())}, values));
}

TEST(ImportShapes, ShapeGatherConcatReshapeLeavesOneReshape) {
  // x.reshape(x.shape[0], x.shape[1] // 64 * 16, 4) as PyTorch exports it.
  GraphWriter graph;
  graph.input("x", DType::f32, {"batch", "seq", 64}).output("y", DType::f32);
  graph.initializer(TensorWriter("zero", {}, Ints{0})).initializer(TensorWriter("one", {}, Ints{1}));
  graph.initializer(TensorWriter("sixteen", {}, Ints{16}));
  add_ints(graph, "four", {4});
  graph.node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "zero"}, {"b"}, {attr("axis", 0)})
      .node("Gather", {"shape", "one"}, {"s"}, {attr("axis", 0)})
      .node("Mul", {"s", "sixteen"}, {"m"})
      .node("Constant", {}, {"axes"}, {attr("value_ints", {0})})
      .node("Unsqueeze", {"b", "axes"}, {"b1"})
      .node("Unsqueeze", {"m", "axes"}, {"m1"})
      .initializer(TensorWriter("four1", {1}, Ints{4}))
      .node("Concat", {"b1", "m1", "four1"}, {"to"}, {attr("axis", 0)})
      .node("Reshape", {"x", "to"}, {"y"});
  const Graph g = import_graph(graph, 13);
  EXPECT_EQ(op_names(g), Names{"reshape"});
  EXPECT_EQ(type_of_output(g), "f32[batch, 16*seq, 4]");
}

TEST(ImportShapes, ReshapeResolvesZeroAndMinusOne) {
  const auto reshaped = [](const ShapeWriter& from, const Ints& to, bool allow_zero = false) {
    GraphWriter graph;
    add_ints(graph, "to", to);
    graph.input("x", DType::f32, from).output("y", DType::f32);
    graph.node("Reshape", {"x", "to"}, {"y"}, {attr("allowzero", allow_zero ? 1 : 0)});
    return type_of_output(import_graph(graph, 14));
  };
  EXPECT_EQ(reshaped({"batch", "seq", 768}, {0, -1, 12, 64}), "f32[batch, seq, 12, 64]");
  EXPECT_EQ(reshaped({"batch", "seq", 768}, {-1, 768}), "f32[batch*seq, 768]");
  EXPECT_EQ(reshaped({6, 4}, {3, -1}), "f32[3, 8]");
  EXPECT_EQ(reshaped({0, 4}, {4, 0}, true), "f32[4, 0]");
}

// weights.expand(batch, -1, windows) as PyTorch exports it, where `windows` is the length of a convolution's result, or
// less: the type of the result.
std::string expanded_to_windows(const Ints& less) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"batch", 1, "samples"}).output("y", DType::f32);
  graph.initializer(TensorWriter("kernel", {4, 1, 400}, std::vector<float>(1600)))
      .initializer(TensorWriter("weights", {1, 4, 1}, std::vector<float>(4)));
  for (const auto& [name, values] :
       std::map<std::string, Ints>{{"first", {0}}, {"last", {2}}, {"minus", {-1}}, {"less", less}, {"ones", {1, 1, 1}}})
    add_ints(graph, name, values);
  graph.node("Conv", {"x", "kernel"}, {"c"}, {attr("strides", {320})})
      .node("Shape", {"c"}, {"shape"})
      .node("Gather", {"shape", "first"}, {"b"}, {attr("axis", 0)})
      .node("Gather", {"shape", "last"}, {"windows"}, {attr("axis", 0)})
      .node("Sub", {"windows", "less"}, {"t"})
      .node("Concat", {"b", "minus", "t"}, {"to"}, {attr("axis", 0)})
      .node("Mul", {"ones", "minus"}, {"kept"})
      .node("Equal", {"to", "kept"}, {"is_kept"})
      .node("Where", {"is_kept", "ones", "to"}, {"sizes"})
      .node("Expand", {"weights", "sizes"}, {"y"});
  return type_of_output(import_graph(graph, 17));
}

TEST(ImportShapes, ASizeOfATensorIsNeverTheMarkOfOneThatIsKept) {
  EXPECT_EQ(expanded_to_windows({0}), "f32[batch, 4, floor_div(samples + 240, 320) - 1]");
  EXPECT_EQ(expanded_to_windows({1}), "f32[@y.0, 4, @y.2]") << "which may be -1";
}

TEST(ImportShapes, AShapeThatIsDataIsReadWhenRunning) {
  GraphWriter graph;
  graph.input("x", DType::f32, {6}).input("to", DType::i64, {2}).output("y", DType::f32);
  graph.node("Reshape", {"x", "to"}, {"y"});
  const Graph g = import_graph(graph, 14);
  EXPECT_EQ(type_of_output(g), "f32[@y.0, @y.1]");
  EXPECT_EQ(run(g, {floats({6}, {1, 2, 3, 4, 5, 6}), Tensor::from_ints({3, -1})})[0].dims(), (Dims{3, 2}));
}

TEST(ImportShapes, SlicesFollowTheDims) {
  const auto sliced = [](const Ints& starts, const Ints& ends, const Ints& steps) {
    GraphWriter graph;
    graph.input("x", DType::f32, {2, "n"}).output("y", DType::f32);
    add_ints(graph, "s", starts);
    add_ints(graph, "e", ends);
    add_ints(graph, "a", {1});
    add_ints(graph, "t", steps);
    return import_graph(graph.node("Slice", {"x", "s", "e", "a", "t"}, {"y"}), 13);
  };
  constexpr int64_t end = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(sliced({0}, {end}, {1}).nodes.empty());
  EXPECT_EQ(type_of_output(sliced({0}, {end}, {2})), "f32[2, floor_div(n + 1, 2)]");
  Graph g = sliced({-1}, {-end}, {-1});
  EXPECT_EQ(type_of_output(g), "f32[2, n]");
  expect_near(run(g, {floats({2, 3}, {1, 2, 3, 4, 5, 6})})[0], {2, 3}, {3, 2, 1, 6, 5, 4});
  g = sliced({-2}, {end}, {1});
  expect_near(run(g, {floats({2, 3}, {1, 2, 3, 4, 5, 6})})[0], {2, 2}, {2, 3, 5, 6});
  expect_near(run(g, {floats({2, 1}, {1, 2})})[0], {2, 1}, {1, 2});
}

TEST(ImportShapes, SliceByAttributesAndByData) {
  GraphWriter old;
  old.input("x", DType::f32, {4}).output("y", DType::f32);
  old.node("Slice", {"x"}, {"y"}, {attr("starts", {1}), attr("ends", {-1})});
  expect_near(run(import_graph(old, 9), {floats({4}, {1, 2, 3, 4})})[0], {2}, {2, 3});

  GraphWriter data;
  data.input("x", DType::f32, {4}).input("s", DType::i64, {1}).input("e", DType::i64, {1}).output("y", DType::f32);
  data.node("Slice", {"x", "s", "e"}, {"y"});
  const Graph g = import_graph(data, 13);
  EXPECT_EQ(op_names(g), Names{"dynamic_slice"});
  expect_near(run(g, {floats({4}, {1, 2, 3, 4}), Tensor::from_ints({2}), Tensor::from_ints({9})})[0], {2}, {3, 4});
}

TEST(ImportShapes, SplitByNumberAndBySizes) {
  GraphWriter uneven;
  uneven.input("x", DType::f32, {5}).output("a", DType::f32).output("b", DType::f32);
  uneven.node("Split", {"x"}, {"a", "b"}, {attr("num_outputs", 2)});
  auto out = run(import_graph(uneven, 18), {floats({5}, {1, 2, 3, 4, 5})});
  expect_near(out[0], {3}, {1, 2, 3});
  expect_near(out[1], {2}, {4, 5});

  GraphWriter even;
  even.input("x", DType::f32, {2, "n"}).output("a", DType::f32).output("b", DType::f32);
  even.node("Split", {"x"}, {"a", "b"}, {attr("axis", 1)});
  EXPECT_EQ(type_of_output(import_graph(even, 13)), "f32[2, floor_div(n, 2)]");

  GraphWriter sizes;
  sizes.input("x", DType::f32, {5}).output("b", DType::f32);
  sizes.node("Split", {"x"}, {"", "b"}, {attr("split", {4, 1})});
  const Graph g = import_graph(sizes, 11);
  EXPECT_EQ(g.nodes.size(), 1U);
  expect_near(run(g, {floats({5}, {1, 2, 3, 4, 5})})[0], {1}, {5});
}

TEST(ImportShapes, PadsReversedAsAMatrixAreKnown) {
  // torch.nn.functional.pad: the list is reversed in pairs through a matrix.
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 2}).output("y", DType::f32);
  add_ints(graph, "pads", {1, 2, 0, 0});
  add_ints(graph, "pairs", {-1, 2});
  add_ints(graph, "flat", {-1});
  add_ints(graph, "from", {-1});
  add_ints(graph, "to", {std::numeric_limits<int64_t>::min()});
  add_ints(graph, "axis", {0});
  graph.node("Reshape", {"pads", "pairs"}, {"matrix"})
      .node("Slice", {"matrix", "from", "to", "axis", "from"}, {"reversed"})
      .node("Transpose", {"reversed"}, {"turned"}, {attr("perm", {1, 0})})
      .node("Reshape", {"turned", "flat"}, {"list"})
      .node("Pad", {"x", "list"}, {"y"});
  const Graph g = import_graph(graph, 13);
  EXPECT_EQ(op_names(g), Names{"pad"});
  EXPECT_EQ(type_of_output(g), "f32[n, 5]");
  expect_near(run(g, {floats({1, 2}, {7, 8})})[0], {1, 5}, {0, 7, 8, 0, 0});
}

TEST(ImportShapes, ExpandTileConstantOfShapeRange) {
  GraphWriter graph;
  graph.input("x", DType::f32, {1, "n"}).output("e", DType::f32).output("t", DType::f32).output("c", DType::f32);
  graph.output("r", DType::i64);
  add_ints(graph, "to", {2, 1});
  graph.initializer(TensorWriter("zero", {}, Ints{0})).initializer(TensorWriter("one", {}, Ints{1}));
  graph.node("Expand", {"x", "to"}, {"e"})
      .node("Tile", {"x", "to2"}, {"t"})
      .initializer(TensorWriter("to2", {2}, Ints{2, 2}))
      .node("Shape", {"x"}, {"shape"})
      .node("ConstantOfShape", {"shape"}, {"c"}, {attr("value", TensorWriter("", {1}, std::vector<float>{4}))})
      .node("Gather", {"shape", "one"}, {"n"})
      .node("Range", {"zero", "n", "one"}, {"r"});
  const Graph g = import_graph(graph, 13);
  EXPECT_EQ(type_of_output(g, 0), "f32[2, n]");
  EXPECT_EQ(type_of_output(g, 1), "f32[2, 2*n]");
  EXPECT_EQ(type_of_output(g, 2), "f32[1, n]");
  EXPECT_EQ(type_of_output(g, 3), "i64[n]");
  const auto out = run(g, {floats({1, 2}, {5, 6})});
  expect_near(out[0], {2, 2}, {5, 6, 5, 6});
  expect_near(out[1], {2, 4}, {5, 6, 5, 6, 5, 6, 5, 6});
  expect_near(out[2], {1, 2}, {4, 4});
  EXPECT_EQ(out[3].to_ints(), (Ints{0, 1}));
}

// Which axes have size 1 only running tells, how many the model declares.
TEST(ImportShapes, SqueezeOfWhateverHasOneElement) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 1, "m"}).output("y", DType::f32, {"k"}).node("Squeeze", {"x"}, {"y"});
  const Graph g = import_graph(graph, 17);
  EXPECT_EQ(run(g, {floats({2, 1, 1}, {3, 4})})[0], floats({2}, {3, 4}));
  EXPECT_EQ(run(g, {floats({1, 1, 2}, {3, 4})})[0], floats({2}, {3, 4}));
  EXPECT_THROW(run(g, {floats({2, 1, 2}, {3, 4, 5, 6})}), Error);
}

TEST(ImportShapes, SqueezeWithoutAxesChecksTheSizesThatItKeeps) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 1, "m"}).output("y", DType::f32).node("Squeeze", {"x"}, {"y"});
  const Graph imported = import_graph(graph, 13);
  EXPECT_EQ(run(imported, {floats({2, 1, 3}, {1, 2, 3, 4, 5, 6})})[0].dims(), (Dims{2, 3}));
  EXPECT_EQ(run(imported, {floats({0, 1, 3}, {})})[0].dims(), (Dims{0, 3}));
  EXPECT_THROW(run(imported, {floats({1, 1, 3}, {1, 2, 3})}), Error);
}

TEST(ImportShapes, SqueezeUnsqueezeFlattenSize) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 1, 3, 4}).output("s", DType::f32).output("u", DType::f32);
  graph.output("f", DType::f32).output("size", DType::i64);
  graph.node("Squeeze", {"x"}, {"s"}, {attr("axes", {1})})
      .node("Unsqueeze", {"x"}, {"u"}, {attr("axes", {0, -1})})
      .node("Flatten", {"x"}, {"f"}, {attr("axis", 2)})
      .node("Size", {"x"}, {"size"});
  const Graph g = import_graph(graph, 11);
  EXPECT_EQ(type_of_output(g, 0), "f32[n, 3, 4]");
  EXPECT_EQ(type_of_output(g, 1), "f32[1, n, 1, 3, 4, 1]");
  EXPECT_EQ(type_of_output(g, 2), "f32[n, 12]");
  EXPECT_EQ(run(g, {Tensor(DType::f32, {2, 1, 3, 4})})[3].to_ints(), Ints{24});
}

TEST(ImportShapes, DepthToSpaceAndBack) {
  const Tensor x = floats({1, 4, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor y = run_node("DepthToSpace", 13, {x}, {attr("blocksize", 2)});
  expect_near(y, {1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7});
  expect_near(run_node("SpaceToDepth", 13, {y}, {attr("blocksize", 2)}), {1, 4, 1, 2}, x.to_doubles());
  for (const char* name : {"DepthToSpace", "SpaceToDepth"}) {
    EXPECT_THROW(run_node(name, 13, {x}, {attr("blocksize", INT64_MAX - 1)}), Error) << name;
  }
}

TEST(ImportShapes, SizesThatOperatorsDemandAreKnown) {
  // A picture as exporters declare it who leave all of its sizes open, and features likewise.
  GraphWriter graph;
  graph.input("pixels", DType::f32, {"batch", "channels", "height", "width"}).input("x", DType::f32, {"batch", "wide"});
  graph.initializer(TensorWriter("kernel", {8, 3, 4, 4}, std::vector<float>(384)))
      .initializer(TensorWriter("weights", {5, 2}, std::vector<float>(10)));
  add_ints(graph, "axis", {1});
  add_ints(graph, "rest", {-1});
  graph.node("Conv", {"pixels", "kernel"}, {"y"}, {attr("strides", {4, 4})})
      .node("MatMul", {"x", "weights"}, {"z"})
      .node("Shape", {"pixels"}, {"shape"})
      .node("Gather", {"shape", "axis"}, {"size"})
      .node("Concat", {"size", "rest"}, {"to"}, {attr("axis", 0)})
      .node("Reshape", {"pixels", "to"}, {"rows"})
      .output("y", DType::f32)
      .output("z", DType::f32)
      .output("rows", DType::f32);
  const Graph g = import_graph(graph, 13);
  EXPECT_EQ(to_string(g.type(g.inputs[0])), "f32[batch, 3, height, width]");
  EXPECT_EQ(to_string(g.type(g.inputs[1])), "f32[batch, 5]");
  EXPECT_EQ(to_string(g.type(g.outputs[2])), "f32[3, batch*height*width]") << "shape arithmetic folds";
}

TEST(ImportShapes, SizesThatBranchesDemandStayOpen) {
  GraphWriter then_branch, else_branch, graph;
  then_branch.node("Conv", {"pixels", "kernel"}, {"t"}).output("t", DType::f32);
  else_branch.node("Identity", {"pixels"}, {"e"}).output("e", DType::f32);
  graph.input("pixels", DType::f32, {1, "channels", 4, 4}).input("convolves", DType::boolean, {});
  graph.initializer(TensorWriter("kernel", {3, 3, 1, 1}, std::vector<float>(9)));
  graph.node("If", {"convolves"}, {"y"}, {attr("then_branch", then_branch), attr("else_branch", else_branch)})
      .output("y", DType::f32);
  const Graph g = import_graph(graph, 13);
  EXPECT_EQ(to_string(g.type(g.inputs[0])), "f32[1, channels, 4, 4]");
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_shapes_test
