#include "optimize/layout/narrow_transposes.h"

#include "optimize/pass_test.h"

namespace camshaft::narrow_transposes_test {
namespace {

TEST(NarrowTransposes, WhatNoSliceHasIsNotMoved) {
  expect_pass(narrow_transposes, R"(
  %a = transpose {permutation=[1, 0, 2]} (%x)
  %y = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[1]} (%a)
  %z = slice {axes=[0, 2], starts=shape(2, 0), counts=shape(1, 2), steps=[1, 2]} (%a)
  return "y" = %y, "z" = %z)",
              R"(
  %a = index_map {shape=shape(2, n, 4), along=[1, 0, 2], steps=[1, 1, 1], starts=shape(0, 1, 0), wraps=false} (%x)
  %y = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%a)
  %z = slice {axes=[0, 2], starts=shape(1, 0), counts=shape(1, 2), steps=[1, 2]} (%a)
  return "y" = %y, "z" = %z)",
              "%x: f32[n, 3, 4]");
}

TEST(NarrowTransposes, OneSliceIsAll) {
  expect_pass(narrow_transposes, R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %y = slice {axes=[0], starts=shape(1), counts=shape(2), steps=[1]} (%a)
  return "y" = %y)",
              R"(
  %y = index_map {shape=shape(2, 2), along=[1, 0], steps=[1, 1], starts=shape(0, 1), wraps=false} (%x)
  return "y" = %y)");
}

TEST(NarrowTransposes, SourcesAreKept) {
  const Graph graph = run_pass(narrow_transposes, R"(graph "g" (%x: f32[2, 3]) {
    %a = transpose {permutation=[1, 0]} (%x) from "Transpose"
    %y = slice {axes=[0], starts=shape(1), counts=shape(2), steps=[1]} (%a) from "Slice"
    return %y
  })");
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].sources, (std::vector<std::string>{"Transpose", "Slice"}));
}

TEST(NarrowTransposes, WhatIsAllReadStays) {
  for (const char* body : {R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %y = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%a)
  %z = slice {axes=[0], starts=shape(1), counts=shape(2), steps=[1]} (%a)
  return "y" = %y, "z" = %z)",
                           R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %y = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%a)
  return "y" = %y, "a" = %a)",
                           R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %y = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%a)
  %z = pointwise {function="neg"} (%a)
  return "y" = %y, "z" = %z)",
                           R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %y = slice {axes=[0], starts=shape(2), counts=shape(2), steps=[-1]} (%a)
  return "y" = %y)"})
    expect_unchanged(narrow_transposes, body);
}

}  // namespace
}  // namespace camshaft::narrow_transposes_test
