// PackedMultiHeadAttention of com.microsoft, beside MultiHeadAttention of each sequence alone.
#include "onnx/import_test_util.h"
#include "test_random.h"

namespace camshaft::onnx::testing::import_packed_attention_test {
namespace {

Tensor i32(Dims dims, const std::vector<int32_t>& values) {
  return Tensor::of<int32_t>(DType::i32, std::move(dims), values);
}

Tensor random_rows(Random& random, int64_t rows, int64_t width) {
  std::vector<float> values(static_cast<size_t>(rows * width));
  for (float& value : values) value = static_cast<float>(random.uniform(-2, 2));
  return floats({rows, width}, values);
}

// Rows [begin, end) as a batch of one.
Tensor part(const Tensor& rows, int64_t begin, int64_t end) {
  const int64_t width = rows.dims()[1];
  const float* from = rows.as<float>();
  return floats({1, end - begin, width}, {from + begin * width, from + end * width});
}

GraphWriter packed(int64_t width, int64_t value_width, int64_t heads, bool has_bias) {
  GraphWriter graph;
  graph.input("q", DType::f32, {"t", width}).input("k", DType::f32, {"t", width});
  graph.input("v", DType::f32, {"t", value_width}).input("o", DType::i32, {"s", "l"}).input("c", DType::i32, {"n"});
  if (has_bias) graph.input("b", DType::f32, {2 * width + value_width});
  graph.output("y", DType::f32);
  graph.node("PackedMultiHeadAttention", {"q", "k", "v", has_bias ? "b" : "", "o", "c"}, {"y"},
             {attr("num_heads", heads)}, "com.microsoft");
  return graph;
}

TEST(ImportPackedAttention, IsThatOfEachSequence) {
  Random random = test_random();
  for (int round = 0; round < 20; ++round) {
    const int64_t heads = random.integer(1, 4), size = random.integer(1, 5), value_size = random.integer(1, 5);
    const int64_t width = heads * size, value_width = heads * value_size, padding = random.integer(0, 2);
    std::vector<int32_t> starts{0};
    for (int64_t sequences = random.integer(0, 4); sequences > 0; --sequences)
      starts.push_back(starts.back() + static_cast<int32_t>(random.integer(0, 6)));
    const int64_t used = starts.back(), tokens = used + padding, count = std::ssize(starts) - 1, longest = 6;
    const Tensor q = random_rows(random, tokens, width), k = random_rows(random, tokens, width);
    const Tensor v = random_rows(random, tokens, value_width), bias = random_rows(random, 1, 2 * width + value_width);
    const bool has_bias = round % 2 == 1;
    const Graph graph = import_graph(packed(width, value_width, heads, has_bias), 17);
    std::vector<Tensor> inputs{q, k, v, Tensor(DType::i32, {count, longest}), i32({count + 1}, starts)};
    const Tensor vector = floats({2 * width + value_width}, {bias.as<float>(), bias.as<float>() + bias.size()});
    if (has_bias) inputs.push_back(vector);
    const Tensor y = run(graph, inputs).at(0);
    ASSERT_EQ(y.dims(), (Dims{tokens, value_width}));
    for (int64_t s = 0; s < count; ++s) {
      const int64_t begin = starts[static_cast<size_t>(s)], end = starts[static_cast<size_t>(s) + 1];
      if (begin == end) continue;
      std::vector<Tensor> alone{part(q, begin, end), part(k, begin, end), part(v, begin, end)};
      if (has_bias) alone.push_back(vector);
      const Tensor wanted = run_node("MultiHeadAttention", 17, alone, {attr("num_heads", heads)}, "com.microsoft");
      for (int64_t i = 0; i < wanted.size(); ++i)
        ASSERT_NEAR(y.as<float>()[begin * value_width + i], wanted.as<float>()[i], 1e-5) << "sequence " << s;
    }
    for (int64_t i = used * value_width; i < y.size(); ++i) EXPECT_EQ(y.as<float>()[i], 0) << "of no sequence";
  }
}

// [tokens, heads, 3, size]: what each head has lies together.
TEST(ImportPackedAttention, QueriesKeysAndValuesInOneTensor) {
  GraphWriter graph;
  graph.input("q", DType::f32, {"t", 2, 3, 1}).input("o", DType::i32, {"s", "l"}).input("c", DType::i32, {"n"});
  graph.output("y", DType::f32);
  graph.node("PackedMultiHeadAttention", {"q", "", "", "", "o", "c"}, {"y"}, {attr("num_heads", 2)}, "com.microsoft");
  // Queries are 0: the values are averaged, of the first head 4 and 8, of the second 1 and 2.
  const std::vector<Tensor> inputs{floats({2, 2, 3, 1}, {0, 5, 4, 0, 6, 1, 0, 7, 8, 0, 8, 2}),
                                   Tensor(DType::i32, {1, 2}), i32({2}, {0, 2})};
  expect_near(run(import_graph(graph, 17), inputs).at(0), {2, 2}, {6, 1.5, 6, 1.5});
}

TEST(ImportPackedAttention, LengthsThatAreWrongAreRefused) {
  const Graph graph = import_graph(packed(1, 1, 1, false), 17);
  const Tensor x = floats({3, 1}, {1, 2, 3});
  const auto attempt = [&](const std::vector<int32_t>& starts, int64_t longest) {
    const auto count = static_cast<int64_t>(starts.size());
    run(graph, {x, x, x, Tensor(DType::i32, {count - 1, longest}), i32({count}, starts)});
  };
  attempt({0, 1, 3}, 2);
  EXPECT_THROW(attempt({0, 3}, 2), Error) << "longer than the longest";
  EXPECT_THROW(attempt({0, 4}, 9), Error) << "more than there are";
  EXPECT_THROW(attempt({0, 2, 1}, 9), Error);
  EXPECT_THROW(attempt({1, 2}, 9), Error);
}

TEST(ImportPackedAttention, WhatIsNotThereYetIsNamed) {
  const auto error = [](const GraphWriter& graph) {
    return std::string(import_error(ModelWriter().opset(17).opset(1, "com.microsoft").graph(graph).bytes()).what());
  };
  GraphWriter biased = packed(2, 2, 1, false);
  biased.input("a", DType::f32, {1, 1, "l", "l"}).output("z", DType::f32);
  biased.node("PackedMultiHeadAttention", {"q", "k", "v", "", "o", "c", "a"}, {"z"}, {attr("num_heads", 1)},
              "com.microsoft");
  EXPECT_NE(error(biased).find("attention_bias"), std::string::npos);
  EXPECT_NE(error(packed(2, 2, 0, false)).find("0 heads"), std::string::npos);
  EXPECT_FALSE(error(packed(3, 2, 2, false)).empty()) << "heads that do not divide";
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_packed_attention_test
