// What training does and inference graphs still have: batch statistics, dropout, random numbers.
#include <cmath>

#include "import_test_util.h"

namespace camshaft::onnx::testing::import_training_test {
namespace {

Tensor ones(const Dims& dims) {
  Tensor t(DType::f32, dims);
  std::fill_n(t.as_mutable<float>(), t.size(), 1.0F);
  return t;
}

std::vector<Tensor> run_outputs(const std::string& op, int64_t opset, const std::vector<Tensor>& inputs,
                                const std::vector<std::string>& outputs, const std::vector<AttributeWriter>& attributes,
                                const std::vector<bool>& constants = {}) {
  GraphWriter graph;
  std::vector<std::string> names;
  std::vector<Tensor> fed;
  for (const Tensor& t : inputs) {
    names.emplace_back(t.defined() ? std::string(1, static_cast<char>('a' + names.size())) : "");
    if (!t.defined()) continue;
    if (names.size() <= constants.size() && constants[names.size() - 1]) {
      graph.initializer(TensorWriter(names.back(), t.dims(), t.dtype(),
                                     std::string(reinterpret_cast<const char*>(t.data()), t.bytes())));
    } else {
      graph.input(names.back(), t.dtype(), ShapeWriter(t.dims().begin(), t.dims().end()));
      fed.push_back(t);
    }
  }
  for (const std::string& output : outputs) graph.output(output, DType::f32);
  graph.node(op, names, outputs, attributes);
  return run(import_graph(graph, opset), fed);
}

TEST(Training, BatchNormalizationGivesRunningStatistics) {
  const Tensor x = floats({2, 1, 2}, {1, 2, 3, 6});  // mean 3, variance 3.5
  const std::vector<Tensor> inputs{x, floats({1}, {2}), floats({1}, {1}), floats({1}, {10}), floats({1}, {20})};
  const double s = 2 / std::sqrt(3.5 + 1e-5);
  for (const int64_t opset : {14, 15}) {
    const auto out = run_outputs("BatchNormalization", opset, inputs, {"y", "mean", "variance"},
                                 {attr("training_mode", 1), attr("momentum", 0.75)});
    expect_near(out[0], {2, 1, 2}, {1 - 2 * s, 1 - s, 1, 1 + 3 * s});
    expect_near(out[1], {1}, {10 * 0.75 + 3 * 0.25});
    expect_near(out[2], {1}, {20 * 0.75 + 3.5 * 0.25});
  }
  const auto old = run_outputs("BatchNormalization", 9, inputs, {"y", "m", "v", "sm", "sv"}, {attr("momentum", 0.75)});
  expect_near(old[1], {1}, {8.25});
  expect_near(old[3], {1}, {3});
  expect_near(old[4], {1}, {3.5});
}

TEST(Training, BatchNormalizationOfPositionsAndVectors) {
  const Tensor x = floats({1, 2, 1}, {3, 5}), scale = floats({2, 1}, {1, 2}), zero = floats({2, 1}, {0, 1});
  expect_near(
      run_node("BatchNormalization", 7, {x, scale, zero, zero, scale}, {attr("spatial", 0), attr("epsilon", 0.0)}),
      {1, 2, 1}, {3, 1 + 4 * std::sqrt(2.0)});
  const Tensor one = floats({1}, {1}), none = floats({1}, {0});
  expect_near(run_node("BatchNormalization", 15, {floats({3}, {1, 2, 3}), one, none, one, one}, {attr("epsilon", 0.0)}),
              {3}, {0, 1, 2});
}

TEST(Training, DropoutZeroesAShareAndScalesTheRest) {
  const Tensor x = ones({100, 100}), yes = Tensor::of<uint8_t>(DType::boolean, {}, {1});
  for (const bool known : {false, true}) {
    const auto out = run_outputs("Dropout", 13, {x, Tensor::scalar(DType::f32, 0.75), yes}, {"y", "mask"},
                                 {attr("seed", 3)}, {false, known, known});
    const auto y = out[0].to_doubles(), mask = out[1].to_doubles();
    double kept = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], mask[i] * 4);
      kept += mask[i];
    }
    EXPECT_NEAR(kept / 10000, 0.25, 0.02);
  }
}

TEST(Training, DropoutOfNothingIsExact) {
  const Tensor x = floats({2}, {0.1F, -INFINITY}), yes = Tensor::of<uint8_t>(DType::boolean, {}, {1});
  const auto out = run_outputs("Dropout", 13, {x, Tensor::scalar(DType::f32, 0), yes}, {"y", "mask"}, {});
  EXPECT_EQ(out[0], x);
  EXPECT_EQ(out[1], Tensor::of<uint8_t>(DType::boolean, {2}, {1, 1}));
  const Tensor no = Tensor::of<uint8_t>(DType::boolean, {}, {0});
  EXPECT_EQ(run_outputs("Dropout", 13, {x, Tensor::scalar(DType::f32, 0.5), no}, {"y"}, {})[0], x);
  EXPECT_EQ(run_outputs("Dropout", 7, {x}, {"y", "mask"}, {})[1], floats({2}, {1, 1}));
  EXPECT_THROW(run_outputs("Dropout", 13, {x, Tensor::scalar(DType::f32, 0.5), floats({}, {NAN})}, {"y"}, {},
                           {false, false, true}),
               Error);
}

TEST(Random, NumbersFollowFromTheSeed) {
  const auto uniform = [](const std::vector<AttributeWriter>& more) {
    std::vector<AttributeWriter> attributes{attr("shape", {3, 500})};
    attributes.insert(attributes.end(), more.begin(), more.end());
    return run_outputs("RandomUniform", 22, {}, {"y"}, attributes)[0];
  };
  const Tensor y = uniform({attr("seed", 1.5), attr("low", 2.0), attr("high", 4.0)});
  EXPECT_EQ(y.dims(), (Dims{3, 500}));
  double sum = 0;
  for (const double v : y.to_doubles()) {
    ASSERT_TRUE(v >= 2 && v <= 4);
    sum += v;
  }
  EXPECT_NEAR(sum / 1500, 3, 0.1);
  EXPECT_EQ(uniform({attr("seed", 1.5)}), uniform({attr("seed", 1.5)}));
  EXPECT_FALSE(uniform({attr("seed", 1.5)}) == uniform({attr("seed", 2.5)}));
  EXPECT_EQ(uniform({}), uniform({}));
  EXPECT_EQ(uniform({attr("dtype", 10)}).dtype(), DType::f16);
}

// Two nodes without a seed draw different numbers, and their shape may be symbolic.
TEST(Random, NodesDrawTheirOwnNumbers) {
  GraphWriter graph;
  graph.input("x", DType::f16, {"n", 2}).output("a", DType::f16).output("b", DType::f64);
  graph.node("RandomNormalLike", {"x"}, {"a"}).node("RandomNormalLike", {"x"}, {"b"}, {attr("dtype", 11)});
  const Graph g = import_graph(graph, 22);
  EXPECT_EQ(type_of_output(g), "f16[n, 2]");
  EXPECT_EQ(type_of_output(g, 1), "f64[n, 2]");
  const auto out = run(g, {Tensor(DType::f16, {4, 2})});
  EXPECT_GT(std::abs(out[0].to_doubles()[0] - out[1].to_doubles()[0]), 1e-2);
  EXPECT_EQ(run(g, {Tensor(DType::f16, {0, 2})})[0].dims(), (Dims{0, 2}));
}

TEST(Random, BernoulliAndMultinomialFollowTheirProbabilities) {
  EXPECT_EQ(run_node("Bernoulli", 15, {floats({3}, {0, 1, 1})}), floats({3}, {0, 1, 1}));
  const Tensor p = Tensor::of<double>(DType::f64, {1000}, std::vector<double>(1000, 0.25));
  double sum = 0;
  for (const double v : run_node("Bernoulli", 15, {p}, {attr("dtype", 7)}).to_doubles()) sum += v;
  EXPECT_NEAR(sum / 1000, 0.25, 0.05);

  const float low = -INFINITY, third = std::log(3.0F);
  const Tensor y = run_node("Multinomial", 7, {floats({2, 3}, {low, 5, low, 0, low, third})},
                            {attr("sample_size", 1000), attr("dtype", 7)});
  EXPECT_EQ(y.dims(), (Dims{2, 1000}));
  const auto drawn = y.to_ints();
  double last = 0;
  for (size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(drawn[i], 1);
    ASSERT_NE(drawn[1000 + i], 1);
    last += drawn[1000 + i] == 2 ? 1 : 0;
  }
  EXPECT_NEAR(last / 1000, 0.75, 0.05);
}

TEST(Einsum, DiagonalsTracesAndScalars) {
  const Tensor x = floats({2, 2, 2}, {1, INFINITY, 3, 4, 5, 6, NAN, 8});
  expect_near(run_node("Einsum", 12, {x}, {attr("equation", "...ii->...i")}), {2, 2}, {1, 4, 5, 8});
  expect_near(run_node("Einsum", 12, {x}, {attr("equation", "bii")}), {2}, {5, 13});
  expect_near(run_node("Einsum", 12, {x}, {attr("equation", "iji->ij")}), {2, 2}, {1, 3, 6, 8});
  expect_near(run_node("Einsum", 12, {x}, {attr("equation", "iji->ji")}), {2, 2}, {1, 6, 3, 8});
  expect_near(run_node("Einsum", 12, {x}, {attr("equation", "iii->i")}), {2}, {1, 8});
  EXPECT_EQ(run_node("Einsum", 12, {floats({0, 0}, {})}, {attr("equation", "ii->i")}).dims(), Dims{0});
  expect_near(run_node("Einsum", 12, {floats({2, 2}, {1, 2, 3, 4})}, {attr("equation", "ii")}), {}, {5});
  expect_near(run_node("Einsum", 12, {floats({}, {3}), floats({2}, {1, 2})}, {attr("equation", ",i->i")}), {2}, {3, 6});
  const Tensor m = Tensor::of<int32_t>(DType::i32, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(run_node("Einsum", 12, {m, m}, {attr("equation", "ij,jj->i")}),
            Tensor::of<int32_t>(DType::i32, {2}, {9, 19}));
  EXPECT_NE(std::string(import_error(ModelWriter()
                                         .opset(12)
                                         .graph(GraphWriter()
                                                    .input("x", DType::f32, {2, 3})
                                                    .output("y", DType::f32)
                                                    .node("Einsum", {"x"}, {"y"}, {attr("equation", "ii->i")}))
                                         .bytes())
                            .what())
                .find("index 'i' names axes of 2 and 3 elements"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_training_test
