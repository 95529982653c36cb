// PagedAttention of com.microsoft, against values computed by hand.
#include <cmath>

#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_paged_test {
namespace {

// Heads of `size`, blocks of two positions.
GraphWriter step(int64_t heads, int64_t key_heads, int64_t size, const std::vector<std::string>& more = {},
                 std::vector<AttributeWriter> attributes = {}) {
  GraphWriter graph;
  graph.input("q", DType::f32, {"t", heads * size}).input("k", DType::f32, {"t", key_heads * size});
  graph.input("v", DType::f32, {"t", key_heads * size});
  for (const char* cache : {"kc", "vc"}) graph.input(cache, DType::f32, {"b", 2, key_heads, size});
  graph.input("starts", DType::i32, {"n"}).input("past", DType::i32, {"s"}).input("table", DType::i32, {"s", "w"});
  graph.output("y", DType::f32).output("ko", DType::f32).output("vo", DType::f32);
  attributes.push_back(attr("num_heads", heads));
  attributes.push_back(attr("kv_num_heads", key_heads));
  std::vector<std::string> inputs{"q", "k", "v", "kc", "vc", "starts", "past", "table"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  graph.node("PagedAttention", inputs, {"y", "ko", "vo"}, attributes, "com.microsoft");
  return graph;
}

Tensor i32(Dims dims, const std::vector<int32_t>& values) {
  return Tensor::of<int32_t>(DType::i32, std::move(dims), values);
}

// The first of two sequences has one token in the cache and gets two, the second gets one; a fourth row is of none.
TEST(ImportPaged, StoresRowsWhereTheTablesSay) {
  const Graph imported = import_graph(step(1, 1, 1), 17);
  EXPECT_EQ(type_of_output(imported, 1), "f32[b, 2, 1, 1]");
  const Tensor zero = floats({4, 1}, {0, 0, 0, 0}), value = floats({4, 1}, {4, 16, 1, 99});
  const auto results = run(
      imported, {zero, zero, value, floats({3, 2, 1, 1}, {7, 7, 7, 7, 7, 7}), floats({3, 2, 1, 1}, {5, 5, 5, 5, 8, 5}),
                 i32({3}, {0, 2, 3}), i32({2}, {1, 0}), i32({2, 2}, {2, 0, 1, -1})});
  // Keys are 7 in the cache and the query is 0: all that is seen counts the same.
  expect_near(results[0], {4, 1}, {6, 28.0 / 3, 1, 0});
  expect_near(results[1], {3, 2, 1, 1}, {0, 7, 0, 7, 7, 0});
  expect_near(results[2], {3, 2, 1, 1}, {16, 5, 1, 5, 8, 4});
}

TEST(ImportPaged, ASequenceBeyondItsTableIsRefused) {
  const Graph imported = import_graph(step(1, 1, 1), 17);
  const Tensor x = floats({1, 1}, {0}), cache = floats({2, 2, 1, 1}, {0, 0, 0, 0});
  EXPECT_THROW(run(imported, {x, x, x, cache, cache, i32({2}, {0, 1}), i32({1}, {2}), i32({1, 1}, {0})}), Error);
}

// Queries and keys are turned by their positions: at 0 by nothing, at 1 by a quarter.
TEST(ImportPaged, RotatesByThePositionInTheSequence) {
  GraphWriter graph = step(1, 1, 2, {"cos", "sin"}, {attr("do_rotary", 1), attr("scale", 1.0F)});
  graph.input("cos", DType::f32, {"m", 1}).input("sin", DType::f32, {"m", 1});
  const Graph imported = import_graph(graph, 17);
  const Tensor x = floats({1, 2}, {1, 0}), cache = floats({1, 2, 1, 2}, {0, 2, 9, 9});
  const auto results = run(imported, {x, x, x, cache, floats({1, 2, 1, 2}, {1, 1, 9, 9}), i32({2}, {0, 1}),
                                      i32({1}, {1}), i32({1, 1}, {0}), floats({2, 1}, {1, 0}), floats({2, 1}, {0, 1})});
  expect_near(results[1], {1, 2, 1, 2}, {0, 2, 0, 1});
  const double e = std::exp(1.0);  // scores of 2 and 1
  expect_near(results[0], {1, 2}, {1, e / (1 + e)});
}

TEST(ImportPaged, PackedRowsSlotsAndSinks) {
  GraphWriter graph;
  graph.input("q", DType::f32, {"t", 4});  // two heads of the query, a key, a value
  for (const char* cache : {"kc", "vc"}) graph.input(cache, DType::f32, {"b", 2, 1, 1});
  graph.input("starts", DType::i32, {"n"}).input("past", DType::i32, {"s"}).input("table", DType::i32, {"s", "w"});
  graph.input("slots", DType::i32, {"t"}).input("sink", DType::f32, {2}).output("y", DType::f32);
  graph.output("ko", DType::f32).output("vo", DType::f32);
  graph.node("PagedAttention", {"q", "", "", "kc", "vc", "starts", "past", "table", "", "", "slots", "sink"},
             {"y", "ko", "vo"}, {attr("num_heads", 2), attr("kv_num_heads", 1)}, "com.microsoft");
  const Graph imported = import_graph(graph, 17);
  // The row is not stored (its slot is -1): its value is the 6 that was there.
  const auto results =
      run(imported, {floats({1, 4}, {0, 0, 5, 5}), floats({1, 2, 1, 1}, {3, 3}), floats({1, 2, 1, 1}, {6, 9}),
                     i32({2}, {0, 1}), i32({1}, {0}), i32({1, 1}, {0}), i32({1}, {-1}), floats({2}, {0, -100})});
  expect_near(results[0], {1, 2}, {3, 6});
  expect_near(results[2], {1, 2, 1, 1}, {6, 9});
}

TEST(ImportPaged, WhatIsNotThereYetIsNamed) {
  const auto error = [](std::vector<AttributeWriter> attributes) {
    const Error e = import_error(
        ModelWriter().opset(17).opset(1, "com.microsoft").graph(step(2, 1, 2, {}, std::move(attributes))).bytes());
    return std::string(e.what());
  };
  EXPECT_NE(error({attr("kv_cache_layout", "LATENT")}).find("LATENT"), std::string::npos);
  EXPECT_NE(error({attr("k_quant_type", "PER_TENSOR")}).find("quantised cache"), std::string::npos);
  EXPECT_NE(error({attr("k_cache_dtype", "int4")}).find("int4"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_paged_test
