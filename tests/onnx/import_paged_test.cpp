// PagedAttention of com.microsoft and of camshaft, against values computed by hand.
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

// Scales that all tokens share: one of the keys, and one for each channel of two heads of values.
TEST(ImportPaged, QuantisedCachesWithScalesOfTheModel) {
  GraphWriter graph;
  graph.input("q", DType::f32, {"t", 8}).input("k", DType::f32, {"t", 4}).input("v", DType::f32, {"t", 4});
  graph.input("kc", DType::i8, {"b", 2, 2, 2}).input("vc", DType::f8e4m3, {"b", 2, 2, 2});
  graph.input("starts", DType::i32, {"n"}).input("past", DType::i32, {"s"}).input("table", DType::i32, {"s", "w"});
  graph.input("ks", DType::f32, {1}).input("vs", DType::f32, {2, 1, 2});
  graph.output("y", DType::f32).output("ko", DType::i8).output("vo", DType::f8e4m3);
  graph.node("PagedAttention",
             {"q", "k", "v", "kc", "vc", "starts", "past", "table", "", "", "", "", "", "", "ks", "vs"},
             {"y", "ko", "vo"},
             {attr("num_heads", 4), attr("kv_num_heads", 2), attr("scale", 1.0F), attr("k_quant_type", "PER_TENSOR"),
              attr("v_quant_type", "PER_CHANNEL")},
             "com.microsoft");
  const Graph imported = import_graph(graph, 17);
  Tensor values(DType::f8e4m3, {1, 2, 2, 2});
  const auto results =
      run(imported, {floats({1, 8}, {1, 0, 0, 0, 0, 0, 2, 0}), floats({1, 4}, {0.26F, -90, 1, 0}),
                     floats({1, 4}, {1, 3, 8, 4}), Tensor(DType::i8, {1, 2, 2, 2}), values, i32({2}, {0, 1}),
                     i32({1}, {1}), i32({1, 1}, {0}), floats({1}, {0.5F}), floats({2, 1, 2}, {1, 0.5F, 2, 0.25F})});
  EXPECT_EQ(results[1].to_ints(), (std::vector<int64_t>{0, 0, 0, 0, 1, -128, 2, 0}));
  EXPECT_EQ(results[2].to_doubles(), (std::vector<double>{0, 0, 0, 0, 1, 6, 4, 16}));
  // The first key and value are 0; the second has scores of 0.5, 0, 0 and 2.
  const double a = std::exp(0.5) / (1 + std::exp(0.5)), b = std::exp(2.0) / (1 + std::exp(2.0));
  expect_near(results[0], {1, 8}, {a, 3 * a, 0.5, 1.5, 4, 2, 8 * b, 4 * b});
}

TEST(ImportPaged, ScalesOfTokensAndHeads) {
  GraphWriter graph;
  graph.input("q", DType::f32, {"t", 2}).input("k", DType::f32, {"t", 2}).input("v", DType::f32, {"t", 2});
  for (const char* cache : {"kc", "vc"}) graph.input(cache, DType::i8, {"b", 2, 1, 2});
  for (const char* scales : {"ks", "vs"}) graph.input(scales, DType::f32, {"b", 2, 1});
  graph.input("starts", DType::i32, {"n"}).input("past", DType::i32, {"s"}).input("table", DType::i32, {"s", "w"});
  graph.output("y", DType::f32).output("ko", DType::i8).output("vo", DType::i8);
  graph.output("kso", DType::f32).output("vso", DType::f32);
  graph.node("PagedAttention", {"q", "k", "v", "kc", "vc", "ks", "vs", "starts", "past", "table"},
             {"y", "ko", "vo", "kso", "vso"}, {attr("num_heads", 1), attr("kv_num_heads", 1)}, "camshaft");
  const Graph imported = import_bytes(ModelWriter().opset(17).opset(1, "camshaft").graph(graph).bytes()).graph;
  const Tensor cache(DType::i8, {1, 2, 1, 2}), scales = floats({1, 2, 1}, {3, 3});
  const auto results = run(imported, {floats({1, 2}, {0, 0}), floats({1, 2}, {254, 2}), floats({1, 2}, {0, -1.27F}),
                                      cache, cache, scales, scales, i32({2}, {0, 1}), i32({1}, {0}), i32({1, 1}, {0})});
  EXPECT_EQ(results[1].to_ints(), (std::vector<int64_t>{127, 1, 0, 0}));
  EXPECT_EQ(results[2].to_ints(), (std::vector<int64_t>{0, -127, 0, 0}));
  expect_near(results[3], {1, 2, 1}, {2, 3});
  expect_near(results[4], {1, 2, 1}, {0.01, 3});
  expect_near(results[0], {1, 2}, {0, -1.27});
}

// Rows of an encoder go to their slots, and every token of a decoder sees all keys of its sequence.
TEST(ImportPaged, CrossAttentionReadsWhatWasStored) {
  GraphWriter graph;
  graph.input("q", DType::f32, {"t", 1}).input("rows", DType::f32, {"r", 1, 1}).input("slots", DType::i64, {"r"});
  for (const char* cache : {"kc", "vc"}) graph.input(cache, DType::f32, {"b", 2, 1, 1});
  graph.input("starts", DType::i32, {"n"}).input("lengths", DType::i32, {"s"}).input("table", DType::i32, {"s", "w"});
  graph.output("y", DType::f32).output("vo", DType::f32);
  graph.node("PagedStore", {"vc", "rows", "slots"}, {"vo"}, {}, "camshaft");
  graph.node("PagedCrossAttention", {"q", "kc", "vo", "starts", "lengths", "table"}, {"y"},
             {attr("num_heads", 1), attr("kv_num_heads", 1)}, "camshaft");
  const Graph imported = import_bytes(ModelWriter().opset(17).opset(1, "camshaft").graph(graph).bytes()).graph;
  // Keys are 0: each token gets the mean of its sequence's values. The first sequence has three in blocks 2 and 0, the
  // second, with more room in its row than keys, one in block 1.
  const auto results =
      run(imported,
          {floats({3, 1}, {1, 2, 3}), floats({3, 1, 1}, {1, 2, 6}), Tensor::of<int64_t>(DType::i64, {3}, {4, 5, 0}),
           floats({3, 2, 1, 1}, {0, 0, 0, 0, 0, 0}), floats({3, 2, 1, 1}, {9, 9, 7, 9, 9, 9}), i32({3}, {0, 2, 3}),
           i32({2}, {3, 1}), i32({2, 2}, {2, 0, 1, -1})});
  expect_near(results[0], {3, 1}, {3, 3, 7});
  expect_near(results[1], {3, 2, 1, 1}, {6, 9, 7, 9, 1, 2});
}

TEST(ImportPaged, CrossAttentionOverKeysWithScales) {
  GraphWriter graph;
  graph.input("q", DType::f32, {"t", 2}).input("rows", DType::f32, {"r", 1, 2}).input("slots", DType::i64, {"r"});
  for (const char* cache : {"kc", "vc"}) graph.input(cache, DType::i8, {"b", 2, 1, 2});
  for (const char* scales : {"ks", "vs"}) graph.input(scales, DType::f32, {"b", 2, 1});
  graph.input("starts", DType::i32, {"n"}).input("lengths", DType::i32, {"s"}).input("table", DType::i32, {"s", "w"});
  graph.output("y", DType::f32).output("vo", DType::i8).output("vso", DType::f32);
  graph.node("PagedQuantize", {"vc", "vs", "rows", "slots"}, {"vo", "vso"}, {}, "camshaft");
  graph.node("PagedCrossAttention", {"q", "kc", "vo", "starts", "lengths", "table", "ks", "vso"}, {"y"},
             {attr("num_heads", 1), attr("kv_num_heads", 1), attr("scale", 1.0F)}, "camshaft");
  const Graph imported = import_bytes(ModelWriter().opset(17).opset(1, "camshaft").graph(graph).bytes()).graph;
  const Tensor keys = Tensor::of<int8_t>(DType::i8, {1, 2, 1, 2}, {2, 0, 0, 2});
  const auto results = run(imported, {floats({1, 2}, {1, 0}), floats({2, 1, 2}, {254, 0, 0, 127}),
                                      Tensor::of<int64_t>(DType::i64, {2}, {0, 1}), keys,
                                      Tensor(DType::i8, {1, 2, 1, 2}), floats({1, 2, 1}, {0.5F, 0.5F}),
                                      floats({1, 2, 1}, {3, 3}), i32({2}, {0, 1}), i32({1}, {2}), i32({1, 1}, {0})});
  EXPECT_EQ(results[1].to_ints(), (std::vector<int64_t>{127, 0, 0, 127}));
  expect_near(results[2], {1, 2, 1}, {2, 1});
  const double a = std::exp(1.0) / (1 + std::exp(1.0));  // scores of 1 and 0
  expect_near(results[0], {1, 2}, {254 * a, 127 * (1 - a)});
}

// Scores are the bias alone: in the first operator by the distance to keys in front, in the second also to those
// behind.
TEST(ImportPaged, ScoresWithABiasByDistance) {
  GraphWriter graph;
  for (const char* rows : {"q", "k", "v"}) graph.input(rows, DType::f32, {"t", 1});
  for (const char* cache : {"kc", "vc"}) graph.input(cache, DType::f32, {"b", 2, 1, 1});
  graph.input("starts", DType::i32, {"n"}).input("past", DType::i32, {"s"}).input("table", DType::i32, {"s", "w"});
  graph.input("bias", DType::f32, {1, 3}).input("lengths", DType::i32, {"s"});
  graph.output("y", DType::f32).output("ko", DType::f32).output("vo", DType::f32).output("all", DType::f32);
  const std::vector<AttributeWriter> heads{attr("num_heads", 1), attr("kv_num_heads", 1), attr("scale", 1.0F)};
  graph.node("PagedAttention", {"q", "k", "v", "kc", "vc", "", "", "starts", "past", "table", "bias"},
             {"y", "ko", "vo"}, heads, "camshaft");
  graph.node("PagedCrossAttention", {"q", "ko", "vo", "starts", "lengths", "table", "", "", "bias"}, {"all"}, heads,
             "camshaft");
  const Graph imported = import_bytes(ModelWriter().opset(17).opset(1, "camshaft").graph(graph).bytes()).graph;
  const Tensor zero = floats({2, 1}, {0, 0});
  const auto results =
      run(imported, {zero, floats({2, 1}, {5, 5}), floats({2, 1}, {2, 4}), floats({2, 2, 1, 1}, {9, 9, 9, 9}),
                     floats({2, 2, 1, 1}, {7, 7, 1, 7}), i32({2}, {0, 2}), i32({1}, {1}), i32({1, 2}, {1, 0}),
                     floats({1, 3}, {std::log(3.0F), 0, std::log(2.0F)}), i32({1}, {3})});
  expect_near(results[2], {2, 2, 1, 1}, {4, 7, 1, 2});
  expect_near(results[0], {2, 1}, {(3 * 1 + 2) / 4.0, (3 * 1 + 3 * 2 + 4) / 7.0});
  expect_near(results[3], {2, 1}, {(3 * 1 + 2 + 2 * 4) / 6.0, (3 * 1 + 3 * 2 + 4) / 7.0});
}

TEST(ImportPaged, RowsChooseTheirMatrix) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"t", 2}).input("at", DType::i32, {"t"}).input("w", DType::f32, {"m", 2, 1});
  graph.output("y", DType::f32);
  graph.node("GatherMatMul", {"x", "at", "w"}, {"y"}, {}, "camshaft");
  const Graph imported = import_bytes(ModelWriter().opset(17).opset(1, "camshaft").graph(graph).bytes()).graph;
  const auto results =
      run(imported, {floats({3, 2}, {1, 2, 1, 2, 1, 2}), i32({3}, {1, -1, 0}), floats({2, 2, 1}, {1, 2, 3, 4})});
  expect_near(results[0], {3, 1}, {11, 0, 5});
}

TEST(ImportPaged, WhatIsNotThereYetIsNamed) {
  const auto error = [](std::vector<AttributeWriter> attributes) {
    const Error e = import_error(
        ModelWriter().opset(17).opset(1, "com.microsoft").graph(step(2, 1, 2, {}, std::move(attributes))).bytes());
    return std::string(e.what());
  };
  EXPECT_NE(error({attr("kv_cache_layout", "LATENT")}).find("LATENT"), std::string::npos);
  EXPECT_NE(error({attr("k_quant_type", "PER_TENSOR")}).find("these alone, are quantised"), std::string::npos);
  EXPECT_NE(error({attr("v_quant_type", "PER_TOKEN")}).find("PER_TOKEN"), std::string::npos);
  EXPECT_NE(error({attr("k_cache_dtype", "int4")}).find("int4"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_paged_test
