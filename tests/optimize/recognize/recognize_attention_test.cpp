#include "optimize/recognize/recognize_attention.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/attention.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "test_random.h"

namespace camshaft::recognize_attention_test {
namespace {

int64_t count(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op.name() == op; });
}

// The pass leaves one attention and no move, and the graph computes what it did.
ops::Attention expect_attention(const std::string& inputs, const std::string& body, const SymbolBindings& symbols = {},
                                int64_t moves_left = 0) {
  const Graph before = graph_of(inputs, body);
  Graph after = before;
  recognize_attention(after, test_context());
  verify(after, "the pass");
  EXPECT_EQ(count(after, "attention"), 1) << print(after);
  EXPECT_EQ(count(after, "softmax"), 0);
  EXPECT_EQ(count(after, "transpose") + count(after, "slice") + count(after, "expand"), moves_left) << print(after);
  Random random = test_random();
  std::vector<Tensor> values;
  for (const ValueId id : before.inputs) {
    Dims dims;
    for (const Dim& d : before.shape(id)) dims.push_back(d.evaluate(symbols));
    Tensor t(before.type(id).dtype, dims);
    for (int64_t i = 0; i < t.size(); ++i) {
      if (t.dtype() == DType::boolean) {
        t.as_mutable<uint8_t>()[i] = random.uniform() < 0.7;
      } else {
        t.as_mutable<float>()[i] = static_cast<float>(random.uniform(-1, 1));
      }
    }
    values.push_back(std::move(t));
  }
  const auto wanted = evaluate(before, values, test_pool()), got = evaluate(after, values, test_pool());
  for (size_t o = 0; o < wanted.size(); ++o) {
    EXPECT_EQ(wanted[o].dims(), got[o].dims());
    const auto a = wanted[o].to_doubles(), b = got[o].to_doubles();
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(std::abs(a[i] - b[i]) < 1e-5 || (std::isnan(a[i]) && std::isnan(b[i]))) << i << ": " << a[i] << b[i];
  }
  for (const Node& n : after.nodes)
    if (const auto* op = n.op.as<ops::Attention>()) return *op;
  return {};
}

// Nothing changes, and a note says why.
void expect_none(const std::string& inputs, const std::string& body, const std::string& reason = "") {
  Graph graph = graph_of(inputs, body);
  const Graph before = graph;
  PassContext context = test_context();
  PassNotes notes;
  context.notes = &notes;
  recognize_attention(graph, context);
  EXPECT_TRUE(equal(before, graph)) << print(graph);
  ASSERT_EQ(notes["p"].size(), 1U) << print(graph);
  EXPECT_NE(notes["p"][0].find(reason), std::string::npos) << notes["p"][0];
}

const std::string projections = "%q: f32[batch, n, 6], %k: f32[batch, m, 6], %v: f32[batch, m, 6]";
const SymbolBindings sizes{{"batch", 2}, {"n", 3}, {"m", 5}};

TEST(RecognizeAttention, HeadsOfProjections) {
  const ops::Attention op = expect_attention(projections, R"(
      const %scale: f32[] = 0.5
      %q1 = reshape {shape=shape(batch, n, 2, 3)} (%q)
      %q2 = transpose {permutation=[0, 2, 1, 3]} (%q1)
      %k1 = reshape {shape=shape(batch, m, 2, 3)} (%k)
      %k2 = transpose {permutation=[0, 2, 3, 1]} (%k1)
      %v1 = reshape {shape=shape(batch, m, 2, 3)} (%v)
      %v2 = transpose {permutation=[0, 2, 1, 3]} (%v1)
      %s = matmul (%q2, %k2)
      %t = pointwise {function=mul} (%s, %scale)
      %p = softmax {axis=3} (%t)
      %o = matmul (%p, %v2)
      %o1 = transpose {permutation=[0, 2, 1, 3]} (%o)
      %y = reshape {shape=shape(batch, n, 6)} (%o1)
      return "y" = %y)",
                                             sizes);
  EXPECT_EQ(op.outer, (Shape{Dim::symbol("batch"), 2}));
  EXPECT_EQ(op.query, (Shape{0, Dim(6) * Dim::symbol("n"), 3, 6, 1}));
  EXPECT_EQ(op.scale, 0.5);
}

TEST(RecognizeAttention, FusedProjectionWithMasks) {
  // Query, key and value out of one tensor, as ViT and Swin have it; two masks of other shapes, a NaN guard.
  expect_attention("%x: f32[n, 4, 24], %bias: f32[2, 4, 4], %seen: bool[n, 1, 1, 4]", R"(
      const %zero: f32[] = 0
      const %low: f32[] = -inf
      %a = reshape {shape=shape(n, 4, 3, 2, 4)} (%x)
      %b = transpose {permutation=[2, 0, 3, 1, 4]} (%a)
      %q1 = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%b)
      %k1 = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[1]} (%b)
      %v1 = slice {axes=[0], starts=shape(2), counts=shape(1), steps=[1]} (%b)
      %q = reshape {shape=shape(n, 2, 4, 4)} (%q1)
      %k = reshape {shape=shape(n, 2, 4, 4)} (%k1)
      %v = reshape {shape=shape(n, 2, 4, 4)} (%v1)
      %s = matmul {transpose_b=true} (%q, %k)
      %t = pointwise {function=add} (%bias, %s)
      %u = pointwise {function=select} (%seen, %t, %low)
      %p = softmax {axis=3} (%u)
      %nan = pointwise {function=is_nan} (%p)
      %z = pointwise {function=select} (%nan, %zero, %p)
      %y = matmul (%z, %v)
      return "y" = %y)",
                   {{"n", 3}});
}

TEST(RecognizeAttention, WindowsThatShareMasks) {
  // Swin: the mask belongs to the window, whose axis is apart only while it is added.
  expect_attention(
      "%n: f32[n], %q: f32[6*n, 2, 4, 3], %k: f32[6*n, 2, 4, 3], %v: f32[6*n, 2, 4, 3], %mask: f32[1, 6, 1, 4, 4]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %t = reshape {shape=shape(n, 6, 2, 4, 4)} (%s)
      %u = pointwise {function=add} (%t, %mask)
      %w = reshape {shape=shape(6*n, 2, 4, 4)} (%u)
      %p = softmax {axis=3} (%w)
      %y = matmul (%p, %v)
      return "y" = %y)",
      {{"n", 2}});
}

TEST(RecognizeAttention, GroupsOfHeadsShareKeys) {
  // Keys repeated for each head of a group by Expand, as exporters write it …
  const ops::Attention repeated =
      expect_attention("%q: f32[batch, 4, n, 3], %k: f32[batch, 2, m, 3], %v: f32[batch, 2, m, 3], %mask: f32[n, m]",
                       R"(
      %k1 = reshape {shape=shape(batch, 2, 1, m, 3)} (%k)
      %k2 = expand {shape=shape(batch, 2, 2, m, 3)} (%k1)
      %k3 = reshape {shape=shape(batch, 4, m, 3)} (%k2)
      %v1 = reshape {shape=shape(batch, 2, 1, m, 3)} (%v)
      %v2 = expand {shape=shape(batch, 2, 2, m, 3)} (%v1)
      %v3 = reshape {shape=shape(batch, 4, m, 3)} (%v2)
      %s = matmul {transpose_b=true} (%q, %k3)
      %t = pointwise {function=add} (%s, %mask)
      %p = softmax {axis=3} (%t)
      %y = matmul (%p, %v3)
      return "y" = %y)",
                       sizes);
  // … or the heads of a group as rows of one matrix, as the importer does: the same operator.
  const ops::Attention grouped =
      expect_attention("%q: f32[batch, 4, n, 3], %k: f32[batch, 2, m, 3], %v: f32[batch, 2, m, 3], %mask: f32[n, m]",
                       R"(
      %g = reshape {shape=shape(batch, 2, 2*n, 3)} (%q)
      %s1 = matmul {transpose_b=true} (%g, %k)
      %s = reshape {shape=shape(batch, 4, n, m)} (%s1)
      %t = pointwise {function=add} (%s, %mask)
      %p = softmax {axis=3} (%t)
      %p1 = reshape {shape=shape(batch, 2, 2*n, m)} (%p)
      %y1 = matmul (%p1, %v)
      %y = reshape {shape=shape(batch, 4, n, 3)} (%y1)
      return "y" = %y)",
                       sizes);
  EXPECT_EQ(repeated.outer, (Shape{Dim(2) * Dim::symbol("batch")}));
  EXPECT_EQ(repeated.queries, (Shape{2, Dim::symbol("n")}));
  EXPECT_EQ(repeated.queries, grouped.queries);
  EXPECT_EQ(repeated.key, grouped.key);
}

TEST(RecognizeAttention, OnlyRunningTellsWhetherADimIsBroadcast) {
  for (const int64_t queries : {1, 4})
    for (const int64_t keys : {1, 4})
      expect_attention("%q: f32[b, 2, 4, 3], %k: f32[b, 2, 4, 3], %v: f32[b, 2, 4, 3], %mask: f32[b, 1, qm, km]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %t = pointwise {function=add} (%s, %mask)
      %p = softmax {axis=3} (%t)
      %y = matmul (%p, %v)
      return "y" = %y)",
                       {{"b", 2}, {"qm", queries}, {"km", keys}});
  for (const auto& [b, c] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)})
    expect_attention("%q: f32[b, 2, 4, 3], %k: f32[c, 2, 5, 3], %v: f32[c, 2, 5, 3]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %p = softmax {axis=3} (%s)
      %y = matmul (%p, %v)
      return "y" = %y)",
                     {{"b", b}, {"c", c}});
  for (const int64_t heads : {1, 4})
    expect_attention("%q: f32[b, 4, 2, 3], %k: f32[b, g, 5, 3], %v: f32[b, g, 5, 3]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %p = softmax {axis=3} (%s)
      %y = matmul (%p, %v)
      return "y" = %y)",
                     {{"b", 2}, {"g", heads}});
}

TEST(RecognizeAttention, KeysAsRows) {
  // Channels first: softmax(qᵀ·k) and v·pᵀ.
  expect_attention("%q: f32[2, 3, n], %k: f32[2, 3, m], %v: f32[2, 5, m]", R"(
      %s = matmul {transpose_a=true} (%q, %k)
      %p = softmax {axis=2} (%s)
      %y = matmul {transpose_b=true} (%v, %p)
      return "y" = %y)",
                   sizes);
  // Softmax along the rows: the operands have changed places.
  expect_attention("%q: f32[2, n, 3], %k: f32[2, m, 3], %v: f32[2, m, 5]", R"(
      %s = matmul {transpose_b=true} (%k, %q)
      %p = softmax {axis=1} (%s)
      %y = matmul {transpose_a=true} (%p, %v)
      return "y" = %y)",
                   sizes);
}

TEST(RecognizeAttention, InvertedMask) {
  expect_attention("%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5], %out: bool[n, m]", R"(
      const %low: f32[] = -10000.0
      %s = matmul {transpose_b=true} (%q, %k)
      %t = pointwise {function=select} (%out, %low, %s)
      %p = softmax {axis=1} (%t)
      %y = matmul (%p, %v)
      return "y" = %y)",
                   sizes);
}

TEST(RecognizeAttention, MaskOfZeros) {
  const ops::Attention op = expect_attention("%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5]", R"(
      const %nothing: f32[1, 1] = 0
      %s = matmul {transpose_b=true} (%q, %k)
      %t = pointwise {function=add} (%nothing, %s)
      %p = softmax {axis=1} (%t)
      %y = matmul (%p, %v)
      return "y" = %y)",
                                             sizes);
  EXPECT_TRUE(op.masks.empty());
}

TEST(RecognizeAttention, CappedScores) {
  const std::string inputs = "%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5], %mask: f32[n, m]";
  const auto body = [](const std::string& cap) {
    return "const %scale: f32[] = 0.25\nconst %below: f32[] = 4\nconst %cap: f32[] = " + cap + R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %a = pointwise {function=mul} (%s, %scale)
      %b = pointwise {function=div} (%a, %below)
      %t = pointwise {function=tanh} (%b)
      %u = pointwise {function=mul} (%t, %cap)
      %w = pointwise {function=add} (%mask, %u)
      %p = softmax {axis=1} (%w)
      %y = matmul (%p, %v)
      return "y" = %y)";
  };
  ops::Attention op = expect_attention(inputs, body("4"), sizes);
  EXPECT_EQ(op.softcap, 4);
  EXPECT_EQ(op.scale, 0.25);
  // Other factors before and behind, a negative one, none behind.
  op = expect_attention(inputs, body("-2"), sizes);
  EXPECT_EQ(op.softcap, 2);
  EXPECT_EQ(op.scale, -0.125);
  expect_none(inputs, body("0"));
  expect_none(inputs, body("inf"));
  op = expect_attention("%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %t = pointwise {function=tanh} (%s)
      %p = softmax {axis=1} (%t)
      %y = matmul (%p, %v)
      return "y" = %y)",
                        sizes);
  EXPECT_EQ(op.softcap, 1);
  // A mask before the cap, and two of them.
  for (const std::string middle : {"%a = pointwise {function=add} (%s, %mask)\n%t = pointwise {function=tanh} (%a)\n",
                                   "%a = pointwise {function=tanh} (%s)\n%t = pointwise {function=tanh} (%a)\n"})
    expect_none(inputs, "%s = matmul {transpose_b=true} (%q, %k)\n" + middle + R"(%p = softmax {axis=1} (%t)
      %y = matmul (%p, %v)
      return "y" = %y)");
}

// Cosine attention (Swin V2, XCiT) has a temperature for each head.
TEST(RecognizeAttention, FactorsByHead) {
  const std::string inputs = "%q: f32[b, 2, n, 3], %k: f32[b, 2, m, 3], %v: f32[b, 2, m, 5], %mask: f32[n, m]";
  const auto body = [](const std::string& product, const std::string& axis, const std::string& behind,
                       const std::string& dims = "2, 1, 1") {
    return "const %t: f32[" + dims + "] = [3, 0.5]\n%s = matmul {transpose_b=true} " + product + R"(
      %a = pointwise {function=mul} (%s, %t)
      %p = softmax {axis=)" +
           axis + R"(} (%a)
      %y = matmul )" +
           behind + R"( (%p, %v)
      return "y" = %y)";
  };
  const SymbolBindings with_batch{{"b", 2}, {"n", 3}, {"m", 5}};
  expect_attention(inputs, body("(%q, %k)", "3", ""), with_batch);
  // Keys first, and the softmax along the rows.
  expect_attention(inputs, body("(%k, %q)", "2", "{transpose_a=true}"), with_batch);
  // By query, and behind a mask.
  expect_none("%q: f32[b, 2, 2, 3], %k: f32[b, 2, m, 3], %v: f32[b, 2, m, 5]", body("(%q, %k)", "3", "", "2, 1"));
  expect_none(inputs, R"(const %t: f32[2, 1, 1] = [3, 0.5]
      %s = matmul {transpose_b=true} (%q, %k)
      %a = pointwise {function=add} (%s, %mask)
      %b = pointwise {function=mul} (%a, %t)
      %p = softmax {axis=3} (%b)
      %y = matmul (%p, %v)
      return "y" = %y)");
}

TEST(RecognizeAttention, SubtractedAndScaledMasks) {
  const std::string inputs = "%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5], %mask: f32[n, m], %seen: bool[1, m]";
  const auto body = [](const std::string& factor) {
    return "const %low: f32[] = -1000\nconst %scale: f32[] = " + factor + R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %a = pointwise {function=sub} (%s, %mask)
      %b = pointwise {function=select} (%seen, %a, %low)
      %c = pointwise {function=mul} (%b, %scale)
      %p = softmax {axis=1} (%c)
      %y = matmul (%p, %v)
      return "y" = %y)";
  };
  const ops::Attention op = expect_attention(inputs, body("0.5"), sizes);
  EXPECT_EQ(op.scale, 0.5);
  EXPECT_EQ(op.masked, (std::vector<double>{0, -500}));
  // The other way round, and by nothing: everybody would be seen.
  expect_none(inputs, body("-0.5"));
  expect_none(inputs, body("0"));
  expect_none("%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5], %mask: f32[n, m]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %a = pointwise {function=sub} (%mask, %s)
      %p = softmax {axis=1} (%a)
      %y = matmul (%p, %v)
      return "y" = %y)");
  // What is done to a constant mask is done when building.
  const std::string constant = R"(const %half: f32[] = 0.5
      const %bias: f32[1, 5] = [1, 2, 3, 4, 5]
      %s = matmul {transpose_b=true} (%q, %k)
      %a = pointwise {function=sub} (%s, %bias)
      %c = pointwise {function=mul} (%a, %half)
      %p = softmax {axis=1} (%c)
      %y = matmul (%p, %v)
      return "y" = %y)";
  Graph graph = graph_of("%q: f32[n, 3], %k: f32[5, 3], %v: f32[5, 5]", constant);
  recognize_attention(graph, test_context());
  EXPECT_EQ(graph.nodes.size(), 1U) << print(graph);
}

// A value of the model's name would be held for the model's, and its layer for one that is wrong.
TEST(RecognizeAttention, MasksThatAreChangedHaveOtherNames) {
  Graph graph = graph_of("%q: f32[n, 3], %k: f32[5, 3], %v: f32[5, 5], %seen: f32[n, 5]", R"(const %low: f32[] = 100
      const %scale: f32[] = 0.5
      %mask = pointwise {function=mul} (%seen, %low)
      %s = matmul {transpose_b=true} (%q, %k)
      %a = pointwise {function=sub} (%s, %mask)
      %p = softmax {axis=1} (%a)
      %y = matmul (%p, %v)
      return "y" = %y)");
  recognize_attention(graph, test_context());
  ASSERT_EQ(graph.nodes.size(), 3U) << print(graph);
  EXPECT_EQ(graph.value(graph.nodes[0].outputs[0]).name, "mask");
  EXPECT_EQ(graph.value(graph.nodes[1].outputs[0]).name, "mask.scaled");
}

TEST(RecognizeAttention, OtherUsesOfTheScoresStay) {
  expect_none("%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %p = softmax {axis=1} (%s)
      %y = matmul (%p, %v)
      return "y" = %y, "p" = %p)",
              "the probabilities do not go into a product alone");
  expect_none("%q: f32[n, 3], %k: f32[m, 3], %v: f32[n, 5]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %p = softmax {axis=1} (%s)
      %y = matmul {transpose_a=true} (%p, %v)
      return "y" = %y)",
              "the product behind it does not sum over the keys");
  expect_none("%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %t = pointwise {function=sin} (%s)
      %p = softmax {axis=1} (%t)
      %y = matmul (%p, %v)
      return "y" = %y)",
              "'t' does something else to the scores");
  expect_none("%q: f32[n, 3], %k: f32[m, 3], %v: f32[m, 5]", R"(
      %s = matmul {transpose_b=true} (%q, %k)
      %p = softmax {axis=1} (%s)
      %y = matmul (%p, %v)
      return "y" = %y, "s" = %s)",
              "another operator than a pointwise one lies before it, or reads the scores");
}

}  // namespace
}  // namespace camshaft::recognize_attention_test
