#include "ir/ops/size_bounds.h"

#include <gtest/gtest.h>

#include "ir/ops/graph_text.h"

namespace camshaft::ops::size_bounds_test {
namespace {

/// The most of each size of the graph's outputs, -1 where nothing tells.
std::vector<std::vector<int64_t>> largest(std::string_view text, const SymbolBindings& symbols) {
  const Graph graph = parse(text);
  const SizeBounds bounds(graph, symbols);
  std::vector<std::vector<int64_t>> found;
  for (const ValueId output : graph.outputs) {
    found.emplace_back();
    for (const Dim& size : graph.shape(output)) found.back().push_back(bounds.of(size).value_or(-1));
  }
  return found;
}

using Sizes = std::vector<std::vector<int64_t>>;

TEST(SizeBounds, ChosenElementsAreNoMoreThanAll) {
  EXPECT_EQ(largest(R"(graph (%x: f32[n, 4], %k: i64[1]) {
    %places = non_zero (%x)
    %rows = transpose {permutation=[1, 0]} (%places)
    %unique, %first, %which, %counts = unique {axis=-1, sorted=true} (%x)
    %values, %indices = top_k {axis=1, largest=true} (%x, %k)
    return %places, %rows, %unique, %which, %indices
  })",
                    {{"n", 3}}),
            (Sizes{{2, 12}, {12, 2}, {12}, {12}, {3, 4}}));
}

TEST(SizeBounds, WhatIsChosenOfWhatWasChosen) {
  EXPECT_EQ(largest(R"(graph (%x: f32[n], %start: i64[1], %end: i64[1]) {
    const %axis: i64[1] = [0]
    %part = dynamic_slice (%x, %start, %end, %axis)
    %places = non_zero (%part)
    return %part, %places
  })",
                    {{"n", 9}}),
            (Sizes{{9}, {1, 9}}));
}

TEST(SizeBounds, BoxesOfEachClassOfEachSample) {
  constexpr std::string_view text = R"(graph (%boxes: f32[2, n, 4], %scores: f32[2, 3, n]) {
    const %most: i64[] = 5
    %kept = non_max_suppression {center_point_box=false} (%boxes, %scores, %most)
    return %kept
  })";
  EXPECT_EQ(largest(text, {{"n", 100}}), (Sizes{{30, 3}}));
  EXPECT_EQ(largest(text, {{"n", 4}}), (Sizes{{24, 3}}));
}

TEST(SizeBounds, NothingIsSaidOfOthers) {
  EXPECT_EQ(largest(R"(graph (%limit: i64[], %x: f32[n]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    %r = range (%zero, %limit, %one)
    %places = non_zero (%r)
    return %r, %places, %x
  })",
                    {{"n", 2}}),
            (Sizes{{-1}, {1, -1}, {2}}));
}

}  // namespace
}  // namespace camshaft::ops::size_bounds_test
