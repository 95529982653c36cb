// Operators over maps: types, values, and what is refused.
#include "ir/ops/map.h"

#include <gtest/gtest.h>

#include "ir/container_type.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/evaluate.h"
#include "reference/run_graph.h"
#include "reference/single_op.h"

namespace camshaft::map_test {
namespace {

Tensor ints(const std::vector<int64_t>& values) {
  return Tensor::from_ints(values);
}
Tensor words(const std::vector<std::string>& values) {
  return Tensor::of<std::string>(DType::string, {static_cast<int64_t>(values.size())}, values);
}

TEST(Map, RowsBecomeMapsWithAscendingKeys) {
  const Graph graph = parse(R"(graph "g" (%x: f32[n, 3], %keys: i64[3]) {
    %y = rows_to_maps {} (%x, %keys)
    return "y" = %y
  })");
  EXPECT_EQ(type_of(graph), "seq[n]<map<i64, f32>>");
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run(graph, {x, ints({30, -10, 20})})[0],
            Tensor::sequence({Tensor::map(ints({-10, 20, 30}), f32({3}, {2, 3, 1})),
                              Tensor::map(ints({-10, 20, 30}), f32({3}, {5, 6, 4}))}));
  // The last of equal keys counts.
  EXPECT_EQ(run(graph, {x, ints({7, 1, 7})})[0], Tensor::sequence({Tensor::map(ints({1, 7}), f32({2}, {2, 3})),
                                                                   Tensor::map(ints({1, 7}), f32({2}, {5, 6}))}));
  EXPECT_EQ(run(graph, {f32({0, 3}, {}), ints({1, 2, 3})})[0], Tensor::sequence({}));
}

TEST(Map, AVectorIsOneRowAndValuesMayBeStrings) {
  const Graph graph = parse(R"(graph "g" (%x: string[k], %keys: string[k]) {
    %y = rows_to_maps {} (%x, %keys)
    return "y" = %y
  })");
  EXPECT_EQ(type_of(graph), "seq[1]<map<string, string>>");
  EXPECT_EQ(run(graph, {words({"one", "two"}), words({"b", "a"})})[0],
            Tensor::sequence({Tensor::map(words({"a", "b"}), words({"two", "one"}))}));
  EXPECT_EQ(run(graph, {words({}), words({})})[0], Tensor::sequence({Tensor::map(words({}), words({}))}));
}

TEST(Map, ResultsOutliveTheInput) {
  const Graph graph = parse(R"(graph "g" (%x: f32[1, 2], %keys: i64[2]) {
    %y = rows_to_maps {} (%x, %keys)
    return "y" = %y
  })");
  std::vector<float> memory{1, 2};
  const Tensor view(DType::f32, {1, 2}, std::as_bytes(std::span(memory)), nullptr);
  const Tensor y = run(graph, {view, ints({1, 2})})[0];
  memory = {8, 9};
  EXPECT_EQ(y.element(0).element(1), f32({2}, {1, 2}));
}

TEST(Map, EntriesAreSortedAndTheLastOfEqualKeysCounts) {
  const Graph graph = parse(R"(graph "g" (%m: map<i64, f32>) {
    %keys, %values = map_entries {} (%m)
    return "keys" = %keys, "values" = %values
  })");
  EXPECT_EQ(type_of(graph, 0), "i64[@keys.0]");
  EXPECT_EQ(type_of(graph, 1), "f32[@keys.0]");
  const auto out = run(graph, {Tensor::map(ints({5, -1, 5, 3}), f32({4}, {1, 2, 3, 4}))});
  EXPECT_EQ(out[0], ints({-1, 3, 5}));
  EXPECT_EQ(out[1], f32({3}, {2, 4, 3}));
  EXPECT_EQ(run(graph, {Tensor::map(ints({}), f32({0}, {}))})[1], f32({0}, {}));
}

TEST(Map, WhatDoesNotFitIsRefused) {
  const auto refused = [](const std::string& text) {
    try {
      parse(text);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto zip = [&](const std::string& x, const std::string& keys) {
    return refused("graph \"g\" (%x: " + x + ", %keys: " + keys +
                   ") {\n %y = rows_to_maps {} (%x, %keys)\n return \"y\" = %y\n}");
  };
  EXPECT_NE(zip("f32[n, 3]", "i64[4]").find("4 keys do not fit rows of 3 values"), std::string::npos);
  EXPECT_NE(zip("f32[]", "i64[1]").find("1 or 2 axes"), std::string::npos);
  EXPECT_NE(zip("f32[2, 2]", "f32[2]").find("keys must be i64 or strings"), std::string::npos);
  EXPECT_NE(zip("i4[2, 2]", "i64[2]").find("i4"), std::string::npos);
  EXPECT_NE(refused(R"(graph "g" (%x: f32[2]) {
    %k, %v = map_entries {} (%x)
    return "k" = %k
  })")
                .find("must be a map"),
            std::string::npos);
  // Known only when running.
  const Graph graph = parse(R"(graph "g" (%x: f32[n, k], %keys: i64[m]) {
    %y = rows_to_maps {} (%x, %keys)
    return "y" = %y
  })");
  EXPECT_THROW(run(graph, {f32({1, 2}, {1, 2}), ints({1})}), Error);
}

}  // namespace
}  // namespace camshaft::map_test
