// Attention and its relatives, against the formulas.
#include <cmath>

#include "onnx/import_test_util.h"
#include "reference/random_tensor.h"

namespace camshaft::onnx::testing::import_attention_test {
namespace {

struct Options {
  double softcap = 0;
  bool causal = false;
  int64_t past = 0;
  std::vector<double> bias;  // [queries, keys], or empty
};

// [b, h, l, d] tensors; heads of the key are shared by neighbouring heads of the query.
std::vector<double> naive(const Tensor& query, const Tensor& key, const Tensor& value, const Options& options) {
  const Dims &q = query.dims(), &k = key.dims(), &v = value.dims();
  const auto at = [](const Tensor& t, int64_t b, int64_t h, int64_t l, int64_t d) {
    const Dims& s = t.dims();
    return static_cast<double>(t.as<float>()[((b * s[1] + h) * s[2] + l) * s[3] + d]);
  };
  std::vector<double> out;
  for (int64_t b = 0; b < q[0]; ++b)
    for (int64_t h = 0; h < q[1]; ++h)
      for (int64_t i = 0; i < q[2]; ++i) {
        const int64_t kh = h / (q[1] / k[1]);
        std::vector<double> weights;
        double total = 0;
        for (int64_t j = 0; j < k[2]; ++j) {
          double score = 0;
          for (int64_t d = 0; d < q[3]; ++d) score += at(query, b, h, i, d) * at(key, b, kh, j, d);
          score /= std::sqrt(static_cast<double>(q[3]));
          if (options.softcap > 0) score = options.softcap * std::tanh(score / options.softcap);
          if (!options.bias.empty()) score += options.bias[static_cast<size_t>(i * k[2] + j)];
          weights.push_back(options.causal && j > i + options.past ? 0 : std::exp(score));
          total += weights.back();
        }
        for (int64_t d = 0; d < v[3]; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < k[2]; ++j) sum += weights[static_cast<size_t>(j)] / total * at(value, b, kh, j, d);
          out.push_back(sum);
        }
      }
  return out;
}

TEST(ImportAttention, SharedHeadsSoftcapAndMasks) {
  Random random = test_random();
  const auto tensor = [&](Dims dims) { return random_tensor(random, DType::f32, std::move(dims)); };
  const Tensor q = tensor({2, 6, 3, 4}), k = tensor({2, 2, 5, 4}), v = tensor({2, 2, 5, 7});
  expect_near(run_node("Attention", 23, {q, k, v}), {2, 6, 3, 7}, naive(q, k, v, {}));
  expect_near(run_node("Attention", 24, {q, k, v}, {attr("is_causal", 1), attr("softcap", 1.5F)}), {2, 6, 3, 7},
              naive(q, k, v, {1.5, true, 0, {}}));
  const Tensor bias = tensor({3, 5});
  expect_near(run_node("Attention", 24, {q, k, v, bias}), {2, 6, 3, 7},
              naive(q, k, v, {0, false, 0, bias.to_doubles()}));
  // A mask that is shorter than the keys: the last ones are out.
  const double out = -INFINITY;
  const Tensor mask = Tensor::of<uint8_t>(DType::boolean, {3, 4}, {1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1});
  expect_near(run_node("Attention", 24, {q, k, v, mask}), {2, 6, 3, 7},
              naive(q, k, v, {0, false, 0, {0, out, 0, 0, out, 0, 0, out, out, out, out, out, out, 0, out}}));
}

TEST(ImportAttention, ThreeAxesPastAndPresent) {
  Random random = test_random();
  const auto tensor = [&](Dims dims) { return random_tensor(random, DType::f32, std::move(dims)); };
  const Tensor q = tensor({1, 2, 8}), k = tensor({1, 2, 4}), v = tensor({1, 2, 6});
  const Tensor past_key = tensor({1, 2, 3, 2}), past_value = tensor({1, 2, 3, 3});
  GraphWriter graph;
  graph.input("q", DType::f32, {1, "l", 8}).input("k", DType::f32, {1, "l", 4}).input("v", DType::f32, {1, "l", 6});
  graph.input("pk", DType::f32, {1, 2, "past", 2}).input("pv", DType::f32, {1, 2, "past", 3});
  graph.output("y", DType::f32).output("nk", DType::f32).output("nv", DType::f32).output("qk", DType::f32);
  graph.node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "nk", "nv", "qk"},
             {attr("q_num_heads", 4), attr("kv_num_heads", 2), attr("is_causal", 1), attr("qk_matmul_output_mode", 3)});
  const Graph imported = import_graph(graph, 24);
  EXPECT_EQ(type_of_output(imported, 0), "f32[1, l, 12]");
  EXPECT_EQ(type_of_output(imported, 1), "f32[1, 2, l + past, 2]");
  EXPECT_EQ(type_of_output(imported, 3), "f32[1, 4, l, l + past]");
  const auto results = run(imported, {q, k, v, past_key, past_value});
  // Heads by hand: [b, l, h·d] -> [b, h, l, d].
  const auto split = [](const Tensor& x, int64_t heads) {
    const int64_t length = x.dims()[1], size = x.dims()[2] / heads;
    Tensor out(DType::f32, {1, heads, length, size});
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t l = 0; l < length; ++l)
        for (int64_t d = 0; d < size; ++d)
          out.as_mutable<float>()[(h * length + l) * size + d] = x.as<float>()[(l * heads + h) * size + d];
    return out;
  };
  const auto expected = naive(split(q, 4), results[1], results[2], {0, true, 3, {}});
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t l = 0; l < 2; ++l)
      for (int64_t d = 0; d < 3; ++d)
        EXPECT_NEAR(results[0].as<float>()[(l * 4 + h) * 3 + d], expected[static_cast<size_t>((h * 2 + l) * 3 + d)],
                    1e-5);
  EXPECT_EQ(results[1].as<float>()[3 * 2], split(k, 2).as<float>()[0]) << "new keys follow the past ones";
  EXPECT_EQ(results[3].as<float>()[4], 0) << "the first query does not see the last key";
}

TEST(ImportAttention, HeadsOfSymbolicSize) {
  GraphWriter graph;
  for (const char* name : {"q", "k", "v"}) graph.input(name, DType::f32, {"b", "h", "l", "d"});
  graph.output("y", DType::f32).node("Attention", {"q", "k", "v"}, {"y"});
  const Graph imported = import_graph(graph, 23);
  EXPECT_EQ(type_of_output(imported), "f32[b, h, l, d]");
  Random random = test_random();
  const Tensor q = random_tensor(random, DType::f32, {1, 2, 3, 4});
  expect_near(run(imported, {q, q, q}).at(0), {1, 2, 3, 4}, naive(q, q, q, {}));
}

TEST(ImportAttention, NonPaddingLengths) {
  const Tensor q = floats({2, 1, 1, 1}, {1, 1}), k = floats({2, 1, 3, 1}, {0, 0, 0, 0, 0, 0});
  const Tensor v = floats({2, 1, 3, 1}, {2, 4, 100, 3, 50, 60});
  GraphWriter graph;
  graph.input("q", DType::f32, {2, 1, 1, 1}).input("k", DType::f32, {2, 1, 3, 1}).input("v", DType::f32, {2, 1, 3, 1});
  graph.input("n", DType::i64, {2}).output("y", DType::f32);
  graph.node("Attention", {"q", "k", "v", "", "", "", "n"}, {"y"});
  const Tensor n = Tensor::from_ints({2, 1});
  expect_near(run(import_graph(graph, 24), {q, k, v, n}).at(0), {2, 1, 1, 1}, {3, 3});
}

TEST(ImportAttention, BadNodes) {
  const auto error = [](const ShapeWriter& q, const ShapeWriter& k, const std::vector<AttributeWriter>& attributes) {
    GraphWriter graph;
    graph.input("q", DType::f32, q).input("k", DType::f32, k).input("v", DType::f32, k).output("y", DType::f32);
    graph.node("Attention", {"q", "k", "v"}, {"y"}, attributes);
    const Error e = import_error(ModelWriter().opset(24).graph(graph).bytes());
    EXPECT_EQ(e.code(), ErrorCode::invalid_model) << e.what();
    return std::string(e.what());
  };
  EXPECT_NE(error({1, 3, 2, 4}, {1, 2, 2, 4}, {}).find("3 heads of the query cannot share 2"), std::string::npos);
  EXPECT_NE(
      error({1, 2, 9}, {1, 2, 9}, {attr("q_num_heads", 2), attr("kv_num_heads", 2)}).find("2 heads do not divide"),
      std::string::npos);
  EXPECT_NE(error({1, 2, 9}, {1, 2, 9}, {}).find("q_num_heads"), std::string::npos);
  EXPECT_NE(error({2, 9}, {2, 9}, {}).find("3 or 4"), std::string::npos);
  EXPECT_NE(error({1, 2, 2, 4}, {1, 2, 2, 4}, {attr("qk_matmul_output_mode", 7)}).find("is 7"), std::string::npos);
}

TEST(ImportAttention, RotaryHalvesAndNeighbours) {
  // Both heads of 4, of which 2 or 4 elements turn by 90°: cos 0, sin 1.
  const Tensor x = floats({1, 1, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto rotary = [&](int64_t angles, const std::vector<AttributeWriter>& more) {
    const auto n = static_cast<size_t>(angles);
    std::vector<AttributeWriter> attributes{attr("num_heads", 2), attr("rotary_embedding_dim", 2 * angles)};
    attributes.insert(attributes.end(), more.begin(), more.end());
    return run_node(
        "RotaryEmbedding", 23,
        {x, floats({1, 1, angles}, std::vector<float>(n, 0)), floats({1, 1, angles}, std::vector<float>(n, 1))},
        attributes);
  };
  expect_near(rotary(2, {}), {1, 1, 8}, {-3, -4, 1, 2, -7, -8, 5, 6});
  expect_near(rotary(2, {attr("interleaved", 1)}), {1, 1, 8}, {-2, 1, -4, 3, -6, 5, -8, 7});
  expect_near(rotary(1, {}), {1, 1, 8}, {-2, 1, 3, 4, -6, 5, 7, 8});
  // Positions choose rows of the tables.
  const Tensor cosines = floats({2, 1}, {1, 0}), sines = floats({2, 1}, {0, 1});
  const Tensor positions = Tensor::of<int64_t>(DType::i64, {1, 2}, {1, 0});
  expect_near(run_node("RotaryEmbedding", 23, {floats({1, 1, 2, 2}, {1, 2, 3, 4}), cosines, sines, positions}),
              {1, 1, 2, 2}, {-2, 1, 3, 4});
}

TEST(ImportAttention, LinearRules) {
  // One head, keys and values of one element: S is a number.
  const Tensor q = floats({1, 2, 1}, {1, 1}), k = floats({1, 2, 1}, {2, 3}), v = floats({1, 2, 1}, {5, 7});
  const Tensor decay = floats({1, 2, 1}, {static_cast<float>(std::log(0.5)), static_cast<float>(std::log(0.5))});
  const Tensor beta = floats({1, 2, 1}, {0.5F, 0.25F});
  const auto rule = [&](const char* name, bool gated, bool delta) {
    GraphWriter graph;
    for (const char* input : {"q", "k", "v", "d", "b"}) graph.input(input, DType::f32, {1, "t", 1});
    graph.output("y", DType::f32).output("s", DType::f32);
    graph.node("LinearAttention", {"q", "k", "v", "", gated ? "d" : "", delta ? "b" : ""}, {"y", "s"},
               {attr("q_num_heads", 1), attr("kv_num_heads", 1), attr("scale", 1.0F), attr("update_rule", name)});
    return run(import_graph(graph, 27), {q, k, v, decay, beta});
  };
  expect_near(rule("linear", false, false)[0], {1, 2, 1}, {10, 31});
  expect_near(rule("gated", true, false)[0], {1, 2, 1}, {10, 26});
  expect_near(rule("delta", false, true)[0], {1, 2, 1}, {5, 5 + 0.25 * 3 * (7 - 15)});
  expect_near(rule("gated_delta", true, true)[1], {1, 1, 1, 1}, {2.5 + 0.25 * 3 * (7 - 7.5)});
}

TEST(ImportAttention, CausalConvolutionCarriesItsState) {
  const Tensor x = floats({1, 1, 3}, {1, 2, 3}), weights = floats({1, 1, 3}, {1, 10, 100});
  GraphWriter graph;
  graph.input("x", DType::f32, {1, 1, "t"}).input("w", DType::f32, {1, 1, 3}).input("s", DType::f32, {1, 1, 2});
  graph.output("y", DType::f32).output("n", DType::f32).output("y0", DType::f32).output("n0", DType::f32);
  graph.node("CausalConvWithState", {"x", "w", "", "s"}, {"y", "n"})
      .node("CausalConvWithState", {"x", "w"}, {"y0", "n0"});
  const auto results = run(import_graph(graph, 27), {x, weights, floats({1, 1, 2}, {5, 6})});
  expect_near(results[0], {1, 1, 3}, {165, 216, 321});
  expect_near(results[1], {1, 1, 2}, {2, 3});
  expect_near(results[2], {1, 1, 3}, {100, 210, 321});
  expect_near(results[3], {1, 1, 2}, {2, 3});
}

TEST(ImportAttention, FlexAttentionRunsItsSubgraphs) {
  Random random = test_random();
  const Tensor q = random_tensor(random, DType::f32, {1, 2, 3, 4});
  const auto modifier = [](const char* op, const std::vector<float>& value) {
    GraphWriter body("modifier");
    body.input("x", DType::f32, {1, 2, 3, 3}).output("z", DType::f32);
    body.initializer(TensorWriter("value", {static_cast<int64_t>(value.size())}, value));
    return body.node(op, {"x", "value"}, {"z"});
  };
  GraphWriter graph;
  graph.input("q", DType::f32, {1, 2, 3, 4}).output("y", DType::f32);
  graph.node("FlexAttention", {"q", "q", "q"}, {"y"},
             {attr("score_mod", modifier("Add", {1, 2, 3})), attr("prob_mod", modifier("Mul", {2}))},
             "ai.onnx.preview");
  const Graph imported = import_bytes(ModelWriter().opset(26).opset(1, "ai.onnx.preview").graph(graph).bytes()).graph;
  auto expected = naive(q, q, q, {0, false, 0, {1, 2, 3, 1, 2, 3, 1, 2, 3}});
  for (double& v : expected) v *= 2;
  expect_near(run(imported, {q}).at(0), {1, 2, 3, 4}, expected);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_attention_test
