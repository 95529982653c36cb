// The tail of a detector: the best candidates, their boxes, suppression, and what is left, which may be nothing.
#include <cmath>

#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_detection_test {
namespace {

// boxes [1, n, 4], scores [1, 1, n]: the 3 best, suppressed, and the boxes that remain.
Graph detector() {
  GraphWriter graph;
  graph.input("boxes", DType::f32, {1, 5, 4}).input("scores", DType::f32, {1, 1, 5});
  graph.input("k", DType::i64, {1}).input("most", DType::i64, {}).input("iou", DType::f32, {});
  graph.input("threshold", DType::f32, {}).input("column", DType::i64, {});
  graph.input("first", DType::i64, {});
  graph.node("TopK", {"scores", "k"}, {"best", "which"}, {attr("axis", -1)});
  graph.node("Gather", {"which", "first"}, {"row"}, {attr("axis", 1)});
  graph.node("Gather", {"row", "first"}, {"ids"}, {attr("axis", 0)});
  graph.node("Gather", {"boxes", "ids"}, {"candidates"}, {attr("axis", 1)});
  graph.node("NonMaxSuppression", {"candidates", "best", "most", "iou", "threshold"}, {"selected"});
  graph.node("Gather", {"selected", "column"}, {"kept"}, {attr("axis", 1)});
  graph.node("Gather", {"candidates", "kept"}, {"result"}, {attr("axis", 1)});
  graph.output("result", DType::f32);
  return import_graph(graph, 13);
}

TEST(ImportDetection, NothingAndMany) {
  const Graph graph = detector();
  const Tensor boxes = floats({1, 5, 4}, {0, 0, 1, 1, 0, 0, 1, 1.1F, 5, 5, 6, 6, 8, 8, 9, 9, 2, 2, 3, 3});
  const Tensor scores = floats({1, 1, 5}, {0.8F, 0.9F, 0.7F, 0.1F, 0.2F});
  const auto scalar = [](int64_t v) { return Tensor::of<int64_t>(DType::i64, {}, {v}); };
  const auto detect = [&](float threshold) {
    return run(graph, {boxes, scores, Tensor::from_ints({3}), scalar(10), floats({}, {0.5F}), floats({}, {threshold}),
                       scalar(2), scalar(0)})
        .at(0);
  };
  expect_near(detect(0.5F), {1, 2, 4}, {0, 0, 1, 1.1F, 5, 5, 6, 6});
  EXPECT_EQ(detect(0.95F).dims(), (Dims{1, 0, 4}));
}

// The standard leaves the order open.
TEST(ImportDetection, TopKOfWholeLinesInAnyOrder) {
  const auto of_lines = [](int64_t k, int sorted) {
    GraphWriter graph;
    graph.input("x", DType::f32, {2, 3}).initializer(TensorWriter("k", {1}, std::vector<int64_t>{k}));
    graph.node("TopK", {"x", "k"}, {"best", "which"}, {attr("axis", 1), attr("sorted", sorted)});
    graph.output("best", DType::f32).output("which", DType::i64);
    return import_graph(graph, 13);
  };
  const Tensor x = floats({2, 3}, {1, 3, 2, 6, 4, 5});
  const Graph whole = of_lines(3, 0);
  for (const Node& node : whole.nodes) EXPECT_NE(node.op.name(), "top_k");
  const std::vector<Tensor> lines = run(whole, {x});
  EXPECT_EQ(lines.at(0), x);
  EXPECT_EQ(lines.at(1), Tensor::of<int64_t>(DType::i64, {2, 3}, {0, 1, 2, 0, 1, 2}));
  const std::vector<Tensor> sorted = run(of_lines(3, 1), {x});
  EXPECT_EQ(sorted.at(0), floats({2, 3}, {3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(sorted.at(1), Tensor::of<int64_t>(DType::i64, {2, 3}, {1, 2, 0, 0, 2, 1}));
  EXPECT_EQ(run(of_lines(2, 0), {x}).at(0).dims(), (Dims{2, 2}));
}

TEST(ImportDetection, Compress) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto bits = [](const std::vector<uint8_t>& v) {
    return Tensor::of<uint8_t>(DType::boolean, {static_cast<int64_t>(v.size())}, v);
  };
  expect_near(run_node("Compress", 11, {x, bits({0, 1, 1})}, {attr("axis", 1)}), {2, 2}, {2, 3, 5, 6});
  expect_near(run_node("Compress", 11, {x, bits({0, 1, 0, 0, 1})}), {2}, {2, 5});
  EXPECT_EQ(run_node("Compress", 9, {x, bits({0})}, {attr("axis", 0)}).dims(), (Dims{0, 3}));
}

TEST(ImportDetection, Losses) {
  const Tensor scores = floats({2, 2}, {-1, -2, -3, -4}), labels = Tensor::from_ints({1, 0});
  expect_near(run_node("NegativeLogLikelihoodLoss", 13, {scores, labels}), {}, {2.5});
  expect_near(run_node("NegativeLogLikelihoodLoss", 13, {scores, labels, floats({2}, {1, 3})}), {},
              {(3 * 2 + 1 * 3) / 4.0});
  expect_near(run_node("NegativeLogLikelihoodLoss", 13, {scores, Tensor::from_ints({-5, 0})},
                       {attr("ignore_index", -5), attr("reduction", "none")}),
              {2}, {0, 3});
  expect_near(run_node("SoftmaxCrossEntropyLoss", 13, {floats({1, 2}, {0, 0}), Tensor::from_ints({1})}), {},
              {std::log(2.0)});
}

TEST(ImportDetection, Windows) {
  expect_near(run_node("HannWindow", 17, {Tensor::of<int64_t>(DType::i64, {}, {4})}), {4}, {0, 0.5, 1, 0.5});
  expect_near(run_node("HannWindow", 17, {Tensor::of<int64_t>(DType::i64, {}, {5})}, {attr("periodic", 0)}), {5},
              {0, 0.5, 1, 0.5, 0});
}

TEST(ImportDetection, GridSampleReflects) {
  const Tensor x = floats({1, 1, 1, 3}, {1, 2, 4});
  const Tensor grid = floats({1, 1, 3, 2}, {-1, 0, 1.5F, 0, 0.5F, 0});
  const auto with = [&](const char* padding) {
    return run_node("GridSample", 20, {x, grid}, {attr("align_corners", 1), attr("padding_mode", padding)});
  };
  expect_near(with("reflection"), {1, 1, 1, 3}, {1, 3, 3});
  expect_near(with("border"), {1, 1, 1, 3}, {1, 4, 3});
  expect_near(with("zeros"), {1, 1, 1, 3}, {1, 2, 3});
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_detection_test
