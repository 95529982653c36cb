#include "optimize/recognize/recognize_rotary_embedding.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/attention.h"
#include "ir/ops/rotary_embedding.h"
#include "optimize/pass_test.h"
#include "optimize/recognize/recognize_attention.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::recognize_rotary_embedding_test {
namespace {

// The pass leaves one embedding and nothing else, and the graph computes what it did.
ops::RotaryEmbedding expect_rotary(const std::string& inputs, const std::string& body,
                                   const SymbolBindings& symbols = {}) {
  const Graph before = graph_of(inputs, body);
  Graph after = before;
  recognize_rotary_embedding(after, test_context());
  verify(after, "the pass");
  EXPECT_EQ(after.nodes.size(), 1U) << print(after);
  Random random = test_random();
  std::vector<Tensor> values;
  for (const ValueId id : before.inputs) {
    Dims dims;
    for (const Dim& d : before.shape(id)) dims.push_back(d.evaluate(symbols));
    values.push_back(random_tensor(random, before.type(id).dtype, dims));
  }
  const Tensor wanted = evaluate(before, values, test_pool())[0], got = evaluate(after, values, test_pool())[0];
  EXPECT_EQ(wanted.dims(), got.dims());
  const auto a = wanted.to_doubles(), b = got.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
  for (const Node& n : after.nodes)
    if (const auto* op = n.op.as<ops::RotaryEmbedding>()) return *op;
  return {};
}

void expect_none(const std::string& inputs, const std::string& body) {
  Graph graph = graph_of(inputs, body);
  const Graph before = graph;
  recognize_rotary_embedding(graph, test_context());
  EXPECT_TRUE(equal(before, graph)) << print(graph);
}

const std::string dense = "%x: f32[2, 3, 8], %c: f32[3, 8], %s: f32[3, 8]";
const std::string rotate_half = R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %b = slice {axes=[2], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %m = pointwise {function=neg} (%b)
      %r = concat {axis=2} (%m, %a)
)";
const SymbolBindings sizes{{"batch", 2}, {"n", 3}};

TEST(RecognizeRotaryEmbedding, HeadsOfAProjection) {
  // Llama, by either exporter: the projection is read where it is, and the tables are not repeated.
  const ops::RotaryEmbedding op = expect_rotary("%p: f32[batch, n, 24], %c: f32[1, n, 8], %s: f32[1, n, 8]", R"(
      %h = reshape {shape=shape(batch, n, 3, 8)} (%p)
      %x = transpose {permutation=[0, 2, 1, 3]} (%h)
      %c1 = reshape {shape=shape(1, 1, n, 8)} (%c)
      %s1 = reshape {shape=shape(1, 1, n, 8)} (%s)
      %a = slice {axes=[3], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %b = slice {axes=[3], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %m = pointwise {function=neg} (%b)
      %r = concat {axis=3} (%m, %a)
      %u = pointwise {function=mul} (%x, %c1)
      %v = pointwise {function=mul} (%r, %s1)
      %y = pointwise {function=add} (%u, %v)
      return "y" = %y)",
                                                sizes);
  const Dim n = Dim::symbol("n");
  EXPECT_FALSE(op.interleaved);
  EXPECT_EQ(op.axes, (Shape{Dim::symbol("batch"), 3, n}));
  EXPECT_EQ(op.x, (Shape{0, Dim(24) * n, 8, 24}));
  EXPECT_EQ(op.cosine, (Shape{0, 0, 0, 8, 4, 1}));
}

TEST(RecognizeRotaryEmbedding, OperandsInAnyOrder) {
  for (const char* sum : {"add} (%u, %v)", "add} (%v, %u)"})
    for (const char* left : {"(%x, %c)", "(%c, %x)"})
      for (const char* right : {"(%r, %s)", "(%s, %r)"}) {
        const ops::RotaryEmbedding op = expect_rotary(
            dense, rotate_half + "%u = pointwise {function=mul} " + left + "\n%v = pointwise {function=mul} " + right +
                       "\n%y = pointwise {function=" + sum + "\nreturn \"y\" = %y");
        EXPECT_EQ(op.axes, (Shape{2, 3}));
        EXPECT_EQ(op.sine, (Shape{0, 0, 8, 4, 1}));
      }
}

TEST(RecognizeRotaryEmbedding, SignsWhereverTheyAre) {
  // x·cos - concat(b, -a)·sin, and the sign taken of the product.
  expect_rotary(dense, R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %b = slice {axes=[2], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %m = pointwise {function=neg} (%a)
      %r = concat {axis=2} (%b, %m)
      %u = pointwise {function=mul} (%x, %c)
      %v = pointwise {function=mul} (%r, %s)
      %y = pointwise {function=sub} (%u, %v)
      return "y" = %y)");
  expect_rotary("%x: f32[2, 3, 8], %c: f32[3, 4], %s: f32[3, 4]", R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %b = slice {axes=[2], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %ac = pointwise {function=mul} (%a, %c)
      %bs = pointwise {function=mul} (%s, %b)
      %bn = pointwise {function=neg} (%bs)
      %re = pointwise {function=add} (%bn, %ac)
      %as = pointwise {function=mul} (%a, %s)
      %bc = pointwise {function=mul} (%b, %c)
      %im = pointwise {function=add} (%bc, %as)
      %y = concat {axis=2} (%re, %im)
      return "y" = %y)");
}

TEST(RecognizeRotaryEmbedding, RealAndImaginaryHalves) {
  const ops::RotaryEmbedding op = expect_rotary("%x: f32[2, 3, 8], %c: f32[3, 4], %s: f32[3, 4]", R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %b = slice {axes=[2], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %ac = pointwise {function=mul} (%a, %c)
      %bs = pointwise {function=mul} (%b, %s)
      %re = pointwise {function=sub} (%ac, %bs)
      %as = pointwise {function=mul} (%a, %s)
      %bc = pointwise {function=mul} (%b, %c)
      %im = pointwise {function=add} (%as, %bc)
      %y = concat {axis=2} (%re, %im)
      return "y" = %y)");
  EXPECT_EQ(op.cosine, (Shape{0, 0, 4, 0, 1}));
}

TEST(RecognizeRotaryEmbedding, TheFirstPartOfEachRow) {
  // Phi: 4 of 10 elements.
  const ops::RotaryEmbedding op = expect_rotary("%p: f32[2, 3, 20], %c: f32[3, 4], %s: f32[3, 4]", R"(
      %h = reshape {shape=shape(2, 3, 2, 10)} (%p)
      %x = transpose {permutation=[0, 2, 1, 3]} (%h)
      %t = slice {axes=[3], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %rest = slice {axes=[3], starts=shape(4), counts=shape(6), steps=[1]} (%x)
      %a = slice {axes=[3], starts=shape(0), counts=shape(2), steps=[1]} (%x)
      %b = slice {axes=[3], starts=shape(2), counts=shape(2), steps=[1]} (%x)
      %m = pointwise {function=neg} (%b)
      %r = concat {axis=3} (%m, %a)
      %u = pointwise {function=mul} (%t, %c)
      %v = pointwise {function=mul} (%r, %s)
      %w = pointwise {function=add} (%u, %v)
      %y = concat {axis=3} (%w, %rest)
      return "y" = %y)");
  EXPECT_EQ(op.rotated, 4);
  EXPECT_EQ(op.x, (Shape{0, 60, 10, 20}));
}

TEST(RecognizeRotaryEmbedding, NeighboursByTurns) {
  // GPT-J and EVA: rotate_half of every second element, stacked.
  const ops::RotaryEmbedding op = expect_rotary(dense, R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(4), steps=[2]} (%x)
      %b = slice {axes=[2], starts=shape(1), counts=shape(4), steps=[2]} (%x)
      %m = pointwise {function=neg} (%b)
      %a1 = reshape {shape=shape(2, 3, 4, 1)} (%a)
      %m1 = reshape {shape=shape(2, 3, 4, 1)} (%m)
      %r1 = concat {axis=3} (%m1, %a1)
      %r = reshape {shape=shape(2, 3, 8)} (%r1)
      %u = pointwise {function=mul} (%x, %c)
      %v = pointwise {function=mul} (%r, %s)
      %y = pointwise {function=add} (%u, %v)
      return "y" = %y)");
  EXPECT_TRUE(op.interleaved);
  EXPECT_EQ(op.cosine, (Shape{0, 0, 8, 1, 2}));
}

TEST(RecognizeRotaryEmbedding, ComplexNumbers) {
  // A view as pairs, a product of complex numbers, and back; of the first six elements.
  const ops::RotaryEmbedding op = expect_rotary("%x: f32[n, 2, 8], %c: f32[n, 1, 3], %s: f32[n, 1, 3]", R"(
      %t = slice {axes=[2], starts=shape(0), counts=shape(6), steps=[1]} (%x)
      %rest = slice {axes=[2], starts=shape(6), counts=shape(2), steps=[1]} (%x)
      %z = reshape {shape=shape(n, 2, 3, 2)} (%t)
      %a1 = slice {axes=[3], starts=shape(0), counts=shape(1), steps=[1]} (%z)
      %b1 = slice {axes=[3], starts=shape(1), counts=shape(1), steps=[1]} (%z)
      %a = reshape {shape=shape(n, 2, 3)} (%a1)
      %b = reshape {shape=shape(n, 2, 3)} (%b1)
      %ac = pointwise {function=mul} (%a, %c)
      %bs = pointwise {function=mul} (%b, %s)
      %re = pointwise {function=sub} (%ac, %bs)
      %as = pointwise {function=mul} (%a, %s)
      %bc = pointwise {function=mul} (%b, %c)
      %im = pointwise {function=add} (%as, %bc)
      %re1 = reshape {shape=shape(n, 2, 3, 1)} (%re)
      %im1 = reshape {shape=shape(n, 2, 3, 1)} (%im)
      %w1 = concat {axis=3} (%re1, %im1)
      %w = reshape {shape=shape(n, 2, 6)} (%w1)
      %y = concat {axis=2} (%w, %rest)
      return "y" = %y)",
                                                sizes);
  EXPECT_TRUE(op.interleaved);
  EXPECT_EQ(op.rotated, 6);
  EXPECT_EQ(op.axes, (Shape{Dim::symbol("n"), 2}));
}

TEST(RecognizeRotaryEmbedding, PartOfAProjectionAndOfThePositions) {
  // EVA: queries out of one projection with keys and values, without the first position.
  const ops::RotaryEmbedding op = expect_rotary("%p: f32[batch, 5, 24], %c: f32[4, 4], %s: f32[4, 4]", R"(
      %h = reshape {shape=shape(batch, 5, 3, 2, 4)} (%p)
      %t = transpose {permutation=[2, 0, 3, 1, 4]} (%h)
      %k = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[1]} (%t)
      %k1 = reshape {shape=shape(batch, 2, 5, 4)} (%k)
      %x = slice {axes=[2], starts=shape(1), counts=shape(4), steps=[1]} (%k1)
      %a = slice {axes=[2, 3], starts=shape(1, 0), counts=shape(4, 2), steps=[1, 1]} (%k1)
      %b = slice {axes=[2, 3], starts=shape(1, 2), counts=shape(4, 2), steps=[1, 1]} (%k1)
      %m = pointwise {function=neg} (%b)
      %r = concat {axis=3} (%m, %a)
      %u = pointwise {function=mul} (%x, %c)
      %v = pointwise {function=mul} (%r, %s)
      %y = pointwise {function=add} (%u, %v)
      return "y" = %y)",
                                                sizes);
  EXPECT_EQ(op.x, (Shape{32, 120, 4, 24}));
}

TEST(RecognizeRotaryEmbedding, AnEmbeddingReadsThroughMoves) {
  // As ONNX's operator is read, with heads that were split and turned before it; of the first four elements.
  const ops::RotaryEmbedding op = expect_rotary("%p: f32[2, 3, 12], %c: f32[3, 2], %s: f32[3, 2]", R"(
      %h = reshape {shape=shape(2, 3, 2, 6)} (%p)
      %x = transpose {permutation=[0, 2, 1, 3]} (%h)
      %y = rotary_embedding {interleaved=true, rotated=4, whole_tables=true, axes=shape(2, 2, 3), x=shape(0, 36, 18, 6), cosine=shape(0, 0, 0, 2, 0, 1), sine=shape(0, 0, 0, 2, 0, 1), shape=shape(2, 2, 3, 6)} (%x, %c, %s)
      return "y" = %y)");
  EXPECT_EQ(op.x, (Shape{0, 36, 6, 12}));
  EXPECT_TRUE(op.whole_tables);
}

TEST(RecognizeRotaryEmbedding, AttentionBehindIt) {
  Graph graph = graph_of("%p: f32[2, 3, 16], %k: f32[2, 2, 3, 8], %v: f32[2, 2, 3, 8], %c: f32[3, 8], %s: f32[3, 8]",
                         R"(
      %h = reshape {shape=shape(2, 3, 2, 8)} (%p)
      %x = transpose {permutation=[0, 2, 1, 3]} (%h)
      %a = slice {axes=[3], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %b = slice {axes=[3], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %m = pointwise {function=neg} (%b)
      %r = concat {axis=3} (%m, %a)
      %xc = pointwise {function=mul} (%x, %c)
      %rs = pointwise {function=mul} (%r, %s)
      %q = pointwise {function=add} (%xc, %rs)
      %scores = matmul {transpose_b=true} (%q, %k)
      %w = softmax {axis=3} (%scores)
      %y = matmul (%w, %v)
      return "y" = %y)");
  recognize_rotary_embedding(graph, test_context());
  recognize_attention(graph, test_context());
  verify(graph, "the passes");
  ASSERT_EQ(graph.nodes.size(), 2U) << print(graph);
  EXPECT_TRUE(graph.nodes[0].op.as<ops::RotaryEmbedding>());
  EXPECT_TRUE(graph.nodes[1].op.as<ops::Attention>());
}

TEST(RecognizeRotaryEmbedding, WhatIsNone) {
  const std::string products = R"(
      %u = pointwise {function=mul} (%x, %c)
      %v = pointwise {function=mul} (%r, %s)
      %y = pointwise {function=add} (%u, %v)
      return "y" = %y)";
  // Halves that change places without a sign, or with it on the wrong one.
  for (const char* parts : {"(%b, %a)", "(%m, %b)", "(%a, %m)"})
    expect_none(dense, R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %b = slice {axes=[2], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %m = pointwise {function=neg} (%b)
      %r = concat {axis=2} )" +
                           std::string(parts) + products);
  // Parts of different sizes.
  expect_none(dense, R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(3), steps=[1]} (%x)
      %b = slice {axes=[2], starts=shape(3), counts=shape(5), steps=[1]} (%x)
      %m = pointwise {function=neg} (%b)
      %r = concat {axis=2} (%m, %a))" +
                         products);
  // Halves of two tensors.
  expect_none("%z: f32[2, 3, 8], " + dense, R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(4), steps=[1]} (%z)
      %b = slice {axes=[2], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %m = pointwise {function=neg} (%b)
      %r = concat {axis=2} (%m, %a))" + products);
  // Other angles for a half.
  expect_none("%x: f32[2, 3, 8], %c: f32[3, 4], %d: f32[3, 4], %s: f32[3, 4]", R"(
      %a = slice {axes=[2], starts=shape(0), counts=shape(4), steps=[1]} (%x)
      %b = slice {axes=[2], starts=shape(4), counts=shape(4), steps=[1]} (%x)
      %ac = pointwise {function=mul} (%a, %c)
      %bs = pointwise {function=mul} (%b, %s)
      %re = pointwise {function=sub} (%ac, %bs)
      %as = pointwise {function=mul} (%a, %s)
      %bc = pointwise {function=mul} (%b, %d)
      %im = pointwise {function=add} (%as, %bc)
      %y = concat {axis=2} (%re, %im)
      return "y" = %y)");
  expect_none("%x: f32[2, 8], %y: f32[2, 8]", "%z = pointwise {function=add} (%x, %y)\nreturn \"z\" = %z");
}

}  // namespace
}  // namespace camshaft::recognize_rotary_embedding_test
