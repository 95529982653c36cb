#include "optimize/layout/compose_moves.h"

#include "optimize/analysis/even_indices.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::compose_moves_test {
namespace {

// What torch's unfold becomes: windows of 3 of a sequence of 5, with padding, and rows of 4 channels.
constexpr const char* windows = R"(
  const %i: i64[3, 5] = [0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6]
  %a = transpose {permutation=[0, 2, 1]} (%x)
  %b = reshape {shape=shape(n, 4, 5, 1)} (%a)
  %c = pad {mode="constant", pads=shape(0, 0, 1, 0, 0, 0, 1, 0)} (%b)
  %d = gather {axis=2} (%c, %i)
  %e = reshape {shape=shape(n, 12, 5)} (%d)
  %y = transpose {permutation=[0, 2, 1]} (%e)
  return "y" = %y)";

TEST(ComposeMoves, WindowsWithPaddingAreOneMap) {
  expect_pass(compose_moves, windows, R"(
  %a = index_map {shape=shape(n, 5, 4, 3), along=[0, 1, 2, 1], steps=[1, 1, 1, 1], starts=shape(0, -1, 0), wraps=false} (%x)
  %y = reshape {shape=shape(n, 5, 12)} (%a)
  return "y" = %y)",
              "%x: f32[n, 5, 4]");
}

// A product reads them with the channels as they lie in memory.
TEST(ComposeMoves, ProductsReadWhatLiesInOrder) {
  expect_pass(compose_moves, R"(
  const %i: i64[3, 5] = [0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6]
  %a = transpose {permutation=[0, 2, 1]} (%x)
  %c = pad {mode="constant", pads=shape(0, 0, 1, 0, 0, 1)} (%a)
  %d = gather {axis=2} (%c, %i)
  %e = transpose {permutation=[0, 3, 1, 2]} (%d)
  %y = matmul {transpose_a=false, transpose_b=false, rounding="none"} (%e, %w)
  return "y" = %y)",
              R"(
  %a = index_map {shape=shape(n, 5, 3, 4), along=[0, 1, 1, 2], steps=[1, 1, 1, 1], starts=shape(0, -1, 0), wraps=false} (%x)
  %y = matmul {transpose_a=true, transpose_b=false, rounding="none"} (%a, %w)
  return "y" = %y)",
              "%x: f32[n, 5, 4], %w: f32[n, 5, 3, 1]");
}

TEST(ComposeMoves, RollsAndWindowsAreOneMap) {
  expect_pass(compose_moves, R"(
  %a = slice {axes=[1], starts=shape(1), counts=shape(3), steps=[1]} (%x)
  %b = slice {axes=[1], starts=shape(0), counts=shape(1), steps=[1]} (%x)
  %c = concat {axis=1} (%a, %b)
  %d = slice {axes=[2], starts=shape(2), counts=shape(4), steps=[1]} (%c)
  %e = slice {axes=[2], starts=shape(0), counts=shape(2), steps=[1]} (%c)
  %f = concat {axis=2} (%d, %e)
  %g = reshape {shape=shape(n, 2, 2, 3, 2, 5)} (%f)
  %h = transpose {permutation=[0, 1, 3, 2, 4, 5]} (%g)
  %y = reshape {shape=shape(6*n, 4, 5)} (%h)
  return "y" = %y)",
              R"(
  %a = index_map {shape=shape(n, 2, 3, 2, 2, 5), along=[0, 1, 2, 1, 2, 3], steps=[1, 2, 2, 1, 1, 1], starts=shape(0, 1, 2, 0), wraps=true} (%x)
  %y = reshape {shape=shape(6*n, 4, 5)} (%a)
  return "y" = %y)",
              "%x: f32[n, 4, 6, 5]");
}

// What a key has with each distance, read for its query: distance 3 + k - q of six, of each of three keys.
TEST(ComposeMoves, RelativePositionsAreReadTransposed) {
  expect_pass(compose_moves, R"(
  const %i: i64[3, 3] = [3, 4, 5, 8, 9, 10, 13, 14, 15]
  %a = gather {axis=1} (%x, %i)
  %y = transpose {permutation=[0, 2, 1]} (%a)
  return "y" = %y)",
              R"(
  %y = index_map {shape=shape(h, 3, 3), along=[0, 1, 1], steps=[1, 1, 5], starts=shape(0, 3), wraps=false} (%x)
  return "y" = %y)",
              "%x: f32[h, 18]");
}

TEST(ComposeMoves, SlicesOfWhatIsTurnedLeaveTheRest) {
  expect_pass(compose_moves, R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %y = slice {axes=[0], starts=shape(1), counts=shape(2), steps=[1]} (%a)
  return "y" = %y)",
              R"(
  %y = index_map {shape=shape(2, 2), along=[1, 0], steps=[1, 1], starts=shape(0, 1), wraps=false} (%x)
  return "y" = %y)");
}

TEST(ComposeMoves, WhatIsReadElsewhereOrSimpleEnoughStays) {
  for (const char* body : {R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %y = slice {axes=[0], starts=shape(1), counts=shape(2), steps=[1]} (%a)
  return "y" = %y, "a" = %a)",
                           // The slice is read through strides.
                           R"(
  %a = slice {axes=[1], starts=shape(1), counts=shape(2), steps=[1]} (%x)
  %y = transpose {permutation=[1, 0]} (%a)
  return "y" = %y)",
                           R"(
  %a = pad {mode="reflect", pads=shape(0, 1, 0, 1)} (%x)
  %y = transpose {permutation=[1, 0]} (%a)
  return "y" = %y)",
                           // Indices that are not evenly spaced, or that only running tells.
                           R"(
  const %i: i64[2, 2] = [0, 1, 2, 2]
  %a = transpose {permutation=[1, 0]} (%x)
  %y = gather {axis=0} (%a, %i)
  return "y" = %y)",
                           // Twice a padding: the first one's zeros lie inside the second one's tensor.
                           R"(
  %a = pad {mode="constant", pads=shape(0, 1, 0, 1)} (%x)
  %b = reshape {shape=shape(10)} (%a)
  %y = pad {mode="constant", pads=shape(1, 1)} (%b)
  return "y" = %y)"})
    expect_unchanged(compose_moves, body);
}

TEST(ComposeMoves, PaddingKeepsItsValue) {
  expect_pass(compose_moves, R"(
  %a = transpose {permutation=[1, 0]} (%x)
  %y = pad {mode="constant", pads=shape(1, -1, 0, 2)} (%a, %v)
  return "y" = %y)",
              R"(
  %y = index_map {shape=shape(4, 3), along=[1, 0], steps=[1, 1], starts=shape(1, -1), wraps=false} (%x, %v)
  return "y" = %y)",
              "%x: f32[2, 3], %v: f32[]");
}

TEST(ComposeMoves, PaddingsValueIsAChain) {
  expect_pass(compose_moves, R"(
  %a = transpose {permutation=[1, 0]} (%t)
  %s = slice {axes=[0, 1], starts=shape(1, 0), counts=shape(1, 1), steps=[1, 1]} (%a)
  %c = transpose {permutation=[1, 0]} (%s)
  %v = reshape {shape=shape()} (%c)
  %b = transpose {permutation=[1, 0]} (%x)
  %y = pad {mode="constant", pads=shape(1, 0, 0, 2)} (%b, %v)
  return "y" = %y)",
              R"(
  %m = index_map {shape=shape(), along=[], steps=[], starts=shape(0, 1), wraps=false} (%t)
  %y = index_map {shape=shape(4, 4), along=[1, 0], steps=[1, 1], starts=shape(0, -1), wraps=false} (%x, %m)
  return "y" = %y)",
              "%x: f32[2, 3], %t: f32[2, 3]");
}

TEST(ComposeMoves, SourcesAreKept) {
  const Graph graph = run_pass(compose_moves, R"(graph "g" (%x: f32[4, 6]) {
    %e = slice {axes=[0], starts=shape(1), counts=shape(3), steps=[1]} (%x) from "End"
    %b = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%x) from "Begin"
    %r = concat {axis=0} (%e, %b) from "Concat"
    %y = transpose {permutation=[1, 0]} (%r) from "Transpose"
    return %y
  })");
  ASSERT_EQ(graph.nodes.size(), 1U);
  std::vector<std::string> sources = graph.nodes[0].sources;
  std::sort(sources.begin(), sources.end());
  EXPECT_EQ(sources, (std::vector<std::string>{"Begin", "Concat", "End", "Transpose"}));
}

TEST(ComposeMoves, GiveWhatTheChainGives) {
  Random random = test_random();
  int composed = 0;
  for (int round = 0; round < 300; ++round) {
    // A random chain over [n, 4, 6].
    std::string constants, body;
    Dims dims{3, 4, 6};
    std::string last = "x";
    const auto add = [&](const std::string& op, const std::string& more = "") {
      const std::string name = "v" + std::to_string(body.size());
      body += "  %" + name + " = " + op + " (%" + last + more + ")\n";
      last = name;
    };
    const auto list = [](const std::vector<int64_t>& values) {
      std::string text;
      for (const int64_t v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
      return text;
    };
    for (int step = 0; step < 5; ++step) {
      const auto rank = static_cast<int64_t>(dims.size());
      const int64_t axis = random.integer(0, rank - 1);
      int64_t& size = dims[static_cast<size_t>(axis)];
      switch (random.integer(0, 5)) {
        case 0: {
          std::vector<int64_t> permutation;
          for (int64_t i = 0; i < rank; ++i) permutation.push_back((i + axis) % rank);
          const Dims old = dims;
          for (size_t i = 0; i < dims.size(); ++i) dims[i] = old[static_cast<size_t>(permutation[i])];
          add("transpose {permutation=[" + list(permutation) + "]}");
          break;
        }
        case 1: {
          const int64_t start = random.integer(0, size - 1), count = random.integer(1, size - start);
          size = count;
          add("slice {axes=[" + std::to_string(axis) + "], starts=shape(" + std::to_string(start) + "), counts=shape(" +
              std::to_string(count) + "), steps=[1]}");
          break;
        }
        case 2: {
          std::vector<int64_t> pads(2 * dims.size());
          pads[static_cast<size_t>(axis)] = random.integer(0, 2);
          pads[static_cast<size_t>(axis) + dims.size()] = random.integer(0, 2);
          size += pads[static_cast<size_t>(axis)] + pads[static_cast<size_t>(axis) + dims.size()];
          add("pad {mode=\"constant\", pads=shape(" + list(pads) + ")}");
          break;
        }
        case 3: {
          if (size < 3) break;
          const int64_t count = size - 2;
          std::vector<int64_t> indices;
          for (int64_t k = 0; k < 3; ++k)
            for (int64_t i = 0; i < count; ++i) indices.push_back(i + k);
          const std::string name = "i" + std::to_string(body.size());
          constants += "  const %" + name + ": i64[3, " + std::to_string(count) + "] = [" + list(indices) + "]\n";
          size = count;
          dims.insert(dims.begin() + axis, 3);
          add("gather {axis=" + std::to_string(axis) + "}", ", %" + name);
          break;
        }
        case 4: {
          if (size < 2) break;
          const std::string from = last, k = std::to_string(random.integer(1, size - 1));
          const std::string rest = std::to_string(size - std::stoll(k)), at = std::to_string(axis);
          add("slice {axes=[" + at + "], starts=shape(" + k + "), counts=shape(" + rest + "), steps=[1]}");
          const std::string end = last;
          last = from;
          add("slice {axes=[" + at + "], starts=shape(0), counts=shape(" + k + "), steps=[1]}");
          const std::string begin = last;
          last = end;
          add("concat {axis=" + at + "}", ", %" + begin);
          break;
        }
        default: {
          if (rank < 2) break;
          const auto d = static_cast<size_t>(random.integer(0, rank - 2));
          dims[d] *= dims[d + 1];
          dims.erase(dims.begin() + static_cast<int64_t>(d) + 1);
          add("reshape {shape=shape(" + list(dims) + "), allow_zero=false}");
        }
      }
    }
    if (last == "x") continue;
    const std::string text =
        "graph \"g\" (%x: f32[3, 4, 6]) {\n" + constants + body + "  return \"y\" = %" + last + "\n}";
    const Graph before = parse_graph(text, operators());
    Graph after = before;
    compose_moves(after, test_context());
    verify(after, "the pass under test");
    composed += after.nodes.size() < before.nodes.size() ? 1 : 0;
    const Tensor x = random_tensor(random, DType::f32, {3, 4, 6});
    ASSERT_EQ(evaluate(after, {x}, test_pool())[0], evaluate(before, {x}, test_pool())[0])
        << print(before) << print(after);
  }
  EXPECT_GT(composed, 50);
}

// As an exporter writes the windows of a sequence whose length is not known.
TEST(ComposeMoves, IndicesMayBeSumsOfRanges) {
  expect_pass(compose_moves, R"(
  const %zero: i64[] = 0
  const %one: i64[] = 1
  const %k: i64[3, 1] = [0, 1, 2]
  %n = dims {elements=shape(n), dtype="i64", scalar=true} ()
  %r = range (%zero, %n, %one)
  %s = reshape {shape=shape(1, n), allow_zero=false} (%r)
  %i = pointwise {function="add"} (%s, %k)
  %a = transpose {permutation=[1, 0]} (%x)
  %b = pad {mode="constant", pads=shape(0, 1, 0, 1)} (%a)
  %c = gather {axis=1} (%b, %i)
  %y = transpose {permutation=[2, 0, 1]} (%c)
  return "y" = %y)",
              R"(
  %y = index_map {shape=shape(n, 4, 3), along=[0, 1, 0], steps=[1, 1, 1], starts=shape(-1, 0), wraps=false} (%x)
  return "y" = %y)",
              "%x: f32[n, 4]");
}

TEST(ComposeMoves, EvenlySpacedIndices) {
  const auto of = [](const Dims& dims, const std::vector<int64_t>& values) {
    Graph graph;
    const ValueId indices = graph.add_constant("i", Tensor::of(DType::i64, dims, values));
    return even_indices(graph, Uses(graph), indices, 9);
  };
  const auto windows = of({3, 2}, {0, 2, 1, 3, 2, 4});
  ASSERT_TRUE(windows);
  EXPECT_EQ(windows->first, Dim(0));
  EXPECT_EQ(windows->steps, (std::vector<int64_t>{1, 2}));
  const auto negative = of({2}, {-9, 4});
  ASSERT_TRUE(negative);
  EXPECT_EQ(negative->steps, (std::vector<int64_t>{4}));
  EXPECT_FALSE(of({2}, {4, 0}));
  EXPECT_FALSE(of({3}, {0, 1, 3}));
  EXPECT_FALSE(of({2}, {0, 9}));
  EXPECT_FALSE(of({2}, {-10, 0}));
  EXPECT_FALSE(of({0}, {}));
  EXPECT_TRUE(of({1, 1}, {8}));
}

}  // namespace
}  // namespace camshaft::compose_moves_test
