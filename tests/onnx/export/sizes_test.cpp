// Arithmetic on sizes comes back as the same numbers, at every size.
#include <tuple>

#include "ir/ops/generate.h"
#include "onnx/export/export_test.h"

namespace camshaft::onnx::sizes_test {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

Tensor of_shape(const Dims& dims) {
  return {DType::f32, dims};
}

const std::vector<Dims> sizes = {{1, 1}, {2, 3}, {7, 2}, {3, 1}, {5, 5}, {0, 4}, {12, 9}};

TEST(ExportSizes, EveryExpressionIsTheSameNumber) {
  const char* expressions[] = {
      "a",
      "a + 1",
      "3*a - 2*b",
      "a*b",
      "a*a*b - b + 4",
      "floor_div(a, 2)",
      "floor_div(a - b, 3)",  // rounds down below 0, where ONNX's Div does not
      "floor_div(5 - a, b)",
      "-1*floor_div(-1*a, 4)",
      "min(a, b)",
      "max(a - 3, 0)",
      "max(a, b)*min(a, 4) + floor_div(a*b + 1, 2)",
      "a - floor_div(max(b, 2), 2)*floor_div(max(b, 2), 2)",
  };
  for (const char* text : expressions) {
    const Dim dim = Dim::parse(text);
    for (const bool scalar : {false, true})
      for (const DType dtype : {DType::i64, DType::i32}) {
        Graph graph = graph_of("graph (%x: f32[a, b]) {\n%y = pointwise {function=neg} (%x)\nreturn %y\n}");
        graph.add_output(
            "d", graph.add(ops::DimsTensor{scalar ? Shape{dim} : Shape{2, dim, dim, 7}, dtype, scalar}, {}, "d"));
        for (const Dims& size : sizes) {
          if (std::string(text).find(", b)") != std::string::npos && size[1] == 0) continue;
          SCOPED_TRACE(std::string(text) + " of " + to_string(size));
          expect_same(graph, {of_shape(size)});
        }
      }
  }
}

TEST(ExportSizes, BroadcastSizesAreTheLargerOne) {
  const Graph graph = graph_of(
      "graph (%x: f32[a, 3], %y: f32[b, 1]) {\n%s = pointwise {function=add} (%x, %y)\n"
      "%t = reshape {shape=shape(3*broadcast(a, b))} (%s)\nreturn %t\n}");
  for (const auto& [a, b] : {std::pair(4, 4), std::pair(1, 5), std::pair(6, 1), std::pair(1, 1), std::pair(0, 1)})
    expect_same(graph, {of_shape({a, 3}), of_shape({b, 1})});
}

TEST(ExportSizes, ReshapesTakeEverySizeAlsoNone) {
  for (const char* shape : {"a, b, 1", "a*b", "b, a", "a, 1, b", "1, a*b, 1", "b*a, 1", "a, 0, b"}) {
    SCOPED_TRACE(shape);
    const std::string x = std::string(shape) == "a, 0, b" ? "a, b, 0" : "a, b";
    const Graph graph =
        graph_of("graph (%x: f32[" + x + "]) {\n%y = reshape {shape=shape(" + shape + ")} (%x)\nreturn %y\n}");
    for (Dims size : sizes) {
      if (x == "a, b, 0") size.push_back(0);
      expect_same(graph, {of_shape(size)});
    }
  }
}

TEST(ExportSizes, ReshapesThatOnlySplitOrJoinNeedNoArithmetic) {
  for (const char* shape : {"a, 4, 16", "a*64", "a, 64, 1"}) {
    const Graph graph =
        graph_of(std::string("graph (%x: f32[a, 64]) {\n%y = reshape {shape=shape(") + shape + ")} (%x)\nreturn %y\n}");
    EXPECT_EQ(operators_of(export_model(graph)), std::vector<std::string>{"Reshape"}) << shape;
  }
}

TEST(ExportSizes, AxesOfOneElementComeAndGoWithoutArithmetic) {
  const std::vector<std::string> add{"Unsqueeze"}, drop{"Squeeze"};
  for (const auto& [from, to, operators] :
       {std::tuple("a, b", "a, 1, b", add), std::tuple("a, b", "1, a, 1, 1, b", add),
        std::tuple("a, 1, b, 1", "a, b", drop), std::tuple("1, a, 1, b", "1, a, b", drop)}) {
    SCOPED_TRACE(std::string(from) + " to " + to);
    const Graph graph = graph_of(std::string("graph (%x: f32[") + from + "]) {\n%y = reshape {shape=shape(" + to +
                                 ")} (%x)\nreturn %y\n}");
    EXPECT_EQ(operators_of(export_model(graph)), operators);
    for (const Dims& size : sizes) {
      Dims dims;
      for (const Dim& dim : graph.shape(graph.inputs[0]))
        dims.push_back(dim == Dim(1) ? 1 : size[dim == Dim::symbol("a") ? 0 : 1]);
      expect_same(graph, {of_shape(dims)});
    }
  }
}

TEST(ExportSizes, SlicesStopAtTheEndByThemselves) {
  const auto written = [](const std::string& start, const std::string& count) {
    return operators_of(export_model(graph_of("graph (%x: f32[a, b]) {\n%y = slice {axes=[0], starts=shape(" + start +
                                              "), counts=shape(" + count + "), steps=[1]} (%x)\nreturn %y\n}")));
  };
  EXPECT_EQ(written("0", "min(a, b)"), (std::vector<std::string>{"Shape", "Slice"}));
  // An end below 0 would be one from behind, and of another size nothing is known.
  EXPECT_EQ(written("0", "min(a, b - 3)").size(), 5);
  EXPECT_EQ(written("0", "min(b, 7)").size(), 3);
}

TEST(ExportSizes, SlicesTakeTheSameElements) {
  const char* slices[] = {
      "axes=[0], starts=shape(0), counts=shape(a), steps=[1]",
      "axes=[0], starts=shape(1), counts=shape(max(a - 1, 0)), steps=[1]",
      "axes=[0], starts=shape(a - 1), counts=shape(a), steps=[-1]",
      "axes=[1], starts=shape(b - 1), counts=shape(floor_div(b + 1, 2)), steps=[-2]",
      "axes=[0, 1], starts=shape(0, 0), counts=shape(floor_div(a + 1, 2), floor_div(b + 2, 3)), steps=[2, 3]",
      "axes=[1], starts=shape(floor_div(b, 2)), counts=shape(b - floor_div(b, 2)), steps=[1]",
      "axes=[0], starts=shape(0), counts=shape(min(a, b)), steps=[1]",
      "axes=[1], starts=shape(0), counts=shape(min(a, b)), steps=[1]",
  };
  for (const char* slice : slices) {
    const Graph graph = graph_of(std::string("graph (%x: f32[a, b]) {\n%y = slice {") + slice + "} (%x)\nreturn %y\n}");
    for (const Dims& size : sizes) {
      SCOPED_TRACE(std::string(slice) + " of " + to_string(size));
      Tensor x = of_shape(size);
      for (int64_t i = 0; i < x.size(); ++i) x.as_mutable<float>()[i] = static_cast<float>(i);
      expect_same(graph, {x});
    }
  }
}

TEST(ExportSizes, SizesThatOnlyRunningTellsAreTakenFromTheirValue) {
  const Graph graph = graph_of(
      "graph (%x: f32[a]) {\n%n = non_zero {} (%x)\n%m = transpose {permutation=[1, 0]} (%n)\n"
      "%d = dims {elements=shape(2*'@n.1')} ()\nreturn %m, %d\n}");
  expect_same(graph, {Tensor::of<float>(DType::f32, {4}, {1, 0, 2, 3})});
  expect_same(graph, {of_shape({3})});
}

TEST(ExportSizes, ASizeThatNoInputTellsIsRefused) {
  Graph graph = graph_of("graph (%x: f32[2*a]) {\n%y = pointwise {function=neg} (%x)\nreturn %y\n}");
  graph.add_output("d", graph.add(ops::DimsTensor{{Dim::symbol("a")}, DType::i64, false}, {}, "d"));
  try {
    export_model(graph);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(e.what()).find("the size 'a'"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("--shapes"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace camshaft::onnx::sizes_test
