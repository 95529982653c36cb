#include "optimize/fuse/join_contractions.h"

#include <algorithm>
#include <map>

#include "ir/ops/weight_only.h"
#include "optimize/pass_test.h"

namespace camshaft::join_contractions_test {
namespace {

const std::string inputs = "%x: f32[n, 2], %mask: f32[n, n]";

TEST(JoinContractions, QueryKeyAndValue) {
  // Two heads of one element; the key has no bias.
  expect_pass(join_contractions,
              R"(const %a: f32[2, 2] = [1, 2, 3, 4]
                 const %b: f32[2, 2] = [5, 6, 7, 8]
                 const %c: f32[2, 4] = [1, 2, 3, 4, 5, 6, 7, 8]
                 const %d: f32[2] = [10, 20]
                 const %e: f32[4] = [1, 1, 2, 2]
                 %q1 = matmul (%x, %a)
                 %q = pointwise {function=add} (%q1, %d)
                 %k = matmul (%x, %b)
                 %v1 = matmul (%x, %c)
                 %v = pointwise {function=add} (%e, %v1)
                 %y = attention {outer=shape(2), queries=shape(n), keys=shape(n), size=1, value_size=2,
                                 query=shape(0, 1, 2, 1), key=shape(0, 1, 2, 1), value=shape(0, 2, 4, 1),
                                 result=shape(0, 2, 4, 1), shape=shape(n, 4)} (%q, %k, %v)
                 return "y" = %y)",
              R"(const %w: f32[2, 8] = [1, 2, 5, 6, 1, 2, 3, 4, 3, 4, 7, 8, 5, 6, 7, 8]
                 const %bias: f32[8] = [10, 20, 0, 0, 1, 1, 2, 2]
                 %p = matmul (%x, %w)
                 %r = pointwise {function=add} (%p, %bias)
                 %y = attention {outer=shape(2), queries=shape(n), keys=shape(n), size=1, value_size=2,
                                 query=shape(0, 1, 8, 1), key=shape(2, 1, 8, 1), value=shape(4, 2, 8, 1),
                                 result=shape(0, 2, 4, 1), shape=shape(n, 4)} (%r, %r, %r)
                 return "y" = %y)",
              inputs);
}

TEST(JoinContractions, TransposedWeightsOfKeyAndValue) {
  expect_pass(join_contractions,
              R"(const %b: f32[1, 2] = [5, 6]
                 const %c: f32[1, 2] = [7, 8]
                 %k = matmul {transpose_b=true} (%x, %b)
                 %v = matmul {transpose_b=true} (%x, %c)
                 %y = attention {queries=shape(n), keys=shape(n), query=shape(0, 2, 1), key=shape(0, 1, 1),
                                 value=shape(0, 1, 1), result=shape(0, 1, 1), shape=shape(n)} (%x, %k, %v)
                 return "y" = %y)",
              R"(const %w: f32[2, 2] = [5, 6, 7, 8]
                 %p = matmul {transpose_b=true} (%x, %w)
                 %y = attention {queries=shape(n), keys=shape(n), query=shape(0, 2, 1), key=shape(0, 2, 2),
                                 value=shape(1, 2, 2), result=shape(0, 1, 1), shape=shape(n)} (%x, %p, %p)
                 return "y" = %y)",
              inputs);
}

// Weights of few bits: steps, scales and zero points side by side.
TEST(JoinContractions, WeightsOfFewBitsOfKeyAndValue) {
  const auto text = [](const std::string& products, const std::string& attention) {
    return products + R"(
                 %y = attention {queries=shape(n), keys=shape(n), query=shape(0, 2, 1), )" +
           attention + R"(
                                 result=shape(0, 1, 1), shape=shape(n)} (%x, )";
  };
  const std::string apart = R"(const %b: u4[1, 2] = [5, 6]
                 const %c: u4[1, 2] = [7, 8]
                 const %s: f32[1, 1] = [2]
                 const %t: f32[1, 1] = [3]
                 const %bias: f32[1] = [4]
                 const %z: ZERO
                 const %u: ZERO
                 %k = weight_only_matmul {block=2, transposed=true, rounded_block=32} (%x, %b, %s, %z)
                 %p = weight_only_matmul {block=2, transposed=true, rounded_block=32} (%x, %c, %t, %u)
                 %v = pointwise {function=add} (%p, %bias))";
  const std::string joined = R"(const %w: u4[2, 2] = [5, 6, 7, 8]
                 const %s: f32[2, 1] = [2, 3]
                 const %z: ZERO
                 const %bias: f32[2] = [0, 4]
                 %q = weight_only_matmul {block=2, transposed=true, rounded_block=32} (%x, %w, %s, %z)
                 %p = pointwise {function=add} (%q, %bias))";
  const auto with = [](std::string s, const std::string& zero) {
    for (size_t at; (at = s.find("ZERO")) != std::string::npos;) s.replace(at, 4, zero);
    return s;
  };
  const std::string two = text(apart, "key=shape(0, 1, 1), value=shape(0, 1, 1),") + "%k, %v)\nreturn \"y\" = %y",
                    one = text(joined, "key=shape(0, 2, 2), value=shape(1, 2, 2),") + "%p, %p)\nreturn \"y\" = %y";
  // One number for both.
  std::string common = with(two, "u4[] = 8");
  common.replace(common.find("%t, %u"), 6, "%t, %z");
  expect_pass(join_contractions, common, with(one, "u4[] = 8"), inputs);
  expect_pass(join_contractions, with(two, "u4[1, 1] = 3"), with(one, "u4[2, 1] = 3"), inputs);
  // So are those of rows that stay as they are.
  std::string exact = common, exact_one = with(one, "u4[] = 8");
  for (std::string* each : {&exact, &exact_one})
    for (size_t at; (at = each->find(", rounded_block=32")) != std::string::npos;) each->erase(at, 18);
  expect_pass(join_contractions, exact, exact_one, inputs);
}

// Two heads of two elements for the query, one for the key; rotary embeddings read them where they are.
TEST(JoinContractions, QueryAndKeyOfRotaryEmbeddings) {
  const std::string rest =
      R"(%q1 = rotary_embedding {rotated=2, axes=shape(2, n), x=shape(QUERY), cosine=shape(0, 0, 1, 0, 1),
                                 sine=shape(0, 0, 1, 0, 1), shape=shape(2, n, 2)} (QVALUE, %c, %s)
         %k1 = rotary_embedding {rotated=2, axes=shape(1, n), x=shape(KEY), cosine=shape(0, 0, 1, 0, 1),
                                 sine=shape(0, 0, 1, 0, 1), shape=shape(1, n, 2)} (KVALUE, %c, %s)
         return "q" = %q1, "k" = %k1)";
  const auto with = [&](std::string text, const std::map<std::string, std::string>& words) {
    for (const auto& [word, by] : words) text.replace(text.find(word), word.size(), by);
    return text;
  };
  expect_pass(join_contractions,
              "const %a: f32[2, 4] = [1, 2, 3, 4, 5, 6, 7, 8]\nconst %b: f32[2, 2] = [1, 2, 3, 4]\n"
              "%q = matmul (%x, %a)\n%k = matmul (%x, %b)\n" +
                  with(rest, {{"QUERY", "0, 2, 4"}, {"KEY", "0, 0, 2"}, {"QVALUE", "%q"}, {"KVALUE", "%k"}}),
              "const %w: f32[2, 6] = [1, 2, 3, 4, 1, 2, 5, 6, 7, 8, 3, 4]\n%p = matmul (%x, %w)\n" +
                  with(rest, {{"QUERY", "0, 2, 6"}, {"KEY", "4, 0, 6"}, {"QVALUE", "%p"}, {"KVALUE", "%p"}}),
              "%x: f32[n, 2], %c: f32[n, 1], %s: f32[n, 1]");
}

TEST(JoinContractions, ScalarsAreNoBiases) {
  expect_unchanged(join_contractions,
                   R"(const %b: f32[2, 1] = [5, 6]
                      const %one: f32[] = 1
                      %k = matmul (%x, %b)
                      %y = pointwise {function=add} (%k, %one)
                      return "y" = %y)",
                   inputs);
}

TEST(JoinContractions, OtherReadersKeepTheirs) {
  expect_unchanged(join_contractions,
                   R"(const %b: f32[2, 1] = [5, 6]
                      const %c: f32[2, 1] = [7, 8]
                      %k = matmul (%x, %b)
                      %v = matmul (%x, %c)
                      %y = attention {queries=shape(n), keys=shape(n), query=shape(0, 2, 1), key=shape(0, 1, 1),
                                      value=shape(0, 1, 1), result=shape(0, 1, 1), shape=shape(n)} (%x, %k, %v)
                      return "y" = %y, "k" = %k)",
                   inputs);
  // A query goes on in the next row.
  expect_unchanged(join_contractions,
                   R"(const %b: f32[2, 2] = [5, 6, 7, 8]
                      const %c: f32[2, 2] = [7, 8, 9, 10]
                      %q = matmul (%x, %b)
                      %v = matmul (%x, %c)
                      %y = attention {queries=shape(1), keys=shape(1), size=3, query=shape(0, 1, 1),
                                      key=shape(0, 1, 1), value=shape(0, 1, 1), result=shape(0, 1, 1),
                                      shape=shape(1)} (%q, %x, %v)
                      return "y" = %y)",
                   inputs);
}

const std::string image = "%x: f32[n, 5, 5, 2]";
const std::string point = "conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} ";
const std::string window = "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} ";

// YOLO's C3: one branch goes on, and its successor takes its place before the other one.
TEST(JoinContractions, BranchesOfOneActivation) {
  const std::string before =
      "const %a: f32[2, 2, 1, 1] = [1, 2, 3, 4]\nconst %b: f32[1, 2, 1, 1] = [5, 6]\n"
      "const %d: f32[2] = [7, 8]\nconst %e: f32[2, 2, 3, 3] = 1\n"
      "%1 = " +
      point +
      "(%x, %a, %d)\n"
      "%2 = pointwise {function=sigmoid} (%1)\n"
      "%3 = pointwise {function=mul} (%1, %2)\n"
      "%4 = " +
      window +
      "(%3, %e)\n"
      "%5 = " +
      point +
      "(%x, %b)\n"
      "%6 = pointwise {function=sigmoid} (%5)\n"
      "%7 = pointwise {function=mul} (%5, %6)\n"
      "%y = concat {axis=3} ";
  expect_pass(join_contractions, before + "(%4, %7)\nreturn \"y\" = %y",
              "const %w: f32[3, 2, 1, 1] = [1, 2, 3, 4, 5, 6]\nconst %d: f32[3] = [7, 8, 0]\n"
              "const %e: f32[2, 2, 3, 3] = 1\n"
              "%1 = " +
                  point +
                  "(%x, %w, %d)\n"
                  "%2 = pointwise {function=sigmoid} (%1)\n"
                  "%3 = pointwise {function=mul} (%1, %2)\n"
                  "%a = slice {axes=[3], starts=shape(0), counts=shape(2), steps=[1]} (%3)\n"
                  "%b = slice {axes=[3], starts=shape(2), counts=shape(1), steps=[1]} (%3)\n"
                  "%4 = " +
                  window +
                  "(%a, %e)\n"
                  "%y = concat {axis=3} (%4, %b)\nreturn \"y\" = %y",
              image);
  // The other way round the columns of the concatenation are theirs, too.
  expect_pass(join_contractions, before + "(%7, %4)\nreturn \"y\" = %y",
              "const %w: f32[3, 2, 1, 1] = [5, 6, 1, 2, 3, 4]\nconst %d: f32[3] = [0, 7, 8]\n"
              "const %e: f32[2, 2, 3, 3] = 1\n"
              "%1 = " +
                  point +
                  "(%x, %w, %d)\n"
                  "%2 = pointwise {function=sigmoid} (%1)\n"
                  "%3 = pointwise {function=mul} (%1, %2)\n"
                  "%b = slice {axes=[3], starts=shape(0), counts=shape(1), steps=[1]} (%3)\n"
                  "%a = slice {axes=[3], starts=shape(1), counts=shape(2), steps=[1]} (%3)\n"
                  "%4 = " +
                  window +
                  "(%a, %e)\n"
                  "%y = concat {axis=3} (%b, %4)\nreturn \"y\" = %y",
              image);
  // Here the slice would be copied.
  expect_unchanged(join_contractions, before + "(%4, %7, %4)\nreturn \"y\" = %y", image);
  expect_unchanged(join_contractions, before + "(%4, %7)\nreturn \"y\" = %y, \"z\" = %7", image);
}

TEST(JoinContractions, NumbersOfColumnsBehindProducts) {
  const std::string numbers = "const %half: f32[] = 0.5\n";
  expect_pass(join_contractions, numbers + R"(const %a: f32[2, 2] = [1, 2, 3, 4]
                 const %b: f32[2, 3] = [5, 6, 7, 8, 9, 10]
                 const %s: f32[2] = [1, 2]
                 const %t: f32[1, 3] = [3, 4, 5]
                 const %v: f32[3, 4] = 1
                 %1 = matmul (%x, %a)
                 %2 = pointwise {function=mul} (%s, %1)
                 %3 = pointwise {function=max} (%2, %half)
                 %4 = matmul (%x, %b)
                 %5 = pointwise {function=mul} (%t, %4)
                 %6 = pointwise {function=max} (%5, %half)
                 %y = transpose {permutation=[1, 0]} (%3)
                 %z = matmul (%6, %v)
                 return "y" = %y, "z" = %z)",
              numbers + R"(const %w: f32[2, 5] = [1, 2, 5, 6, 7, 3, 4, 8, 9, 10]
                 const %s: f32[5] = [1, 2, 3, 4, 5]
                 const %v: f32[3, 4] = 1
                 %1 = matmul (%x, %w)
                 %2 = pointwise {function=mul} (%s, %1)
                 %3 = pointwise {function=max} (%2, %half)
                 %a = slice {axes=[1], starts=shape(0), counts=shape(2), steps=[1]} (%3)
                 %b = slice {axes=[1], starts=shape(2), counts=shape(3), steps=[1]} (%3)
                 %y = transpose {permutation=[1, 0]} (%a)
                 %z = matmul (%b, %v)
                 return "y" = %y, "z" = %z)",
              "%x: f32[n, 2]");
}

// A shortcut is read by the epilogue of a convolution behind it: it has none of its own.
TEST(JoinContractions, ShortcutsAndFirstConvolutions) {
  expect_pass(join_contractions,
              "const %a: f32[2, 2, 1, 1] = [1, 2, 3, 4]\nconst %b: f32[2, 2, 1, 1] = [5, 6, 7, 8]\n"
              "const %e: f32[2, 2, 3, 3] = 1\n"
              "%s = " +
                  point + "(%x, %a)\n%1 = " + point + "(%x, %b)\n%2 = " + window +
                  "(%1, %e)\n%y = pointwise {function=add} (%2, %s)\nreturn \"y\" = %y",
              "const %w: f32[4, 2, 1, 1] = [1, 2, 3, 4, 5, 6, 7, 8]\nconst %e: f32[2, 2, 3, 3] = 1\n"
              "%1 = " +
                  point +
                  "(%x, %w)\n"
                  "%s = slice {axes=[3], starts=shape(0), counts=shape(2), steps=[1]} (%1)\n"
                  "%b = slice {axes=[3], starts=shape(2), counts=shape(2), steps=[1]} (%1)\n"
                  "%2 = " +
                  window + "(%b, %e)\n%y = pointwise {function=add} (%2, %s)\nreturn \"y\" = %y",
              image);
}

std::string notes_of(const std::string& body, const std::string& inputs) {
  Graph graph = graph_of(inputs, body);
  const Graph before = graph;
  PassNotes notes;
  PassContext context = test_context();
  context.notes = &notes;
  join_contractions(graph, context);
  EXPECT_TRUE(equal(before, graph)) << print(graph);
  std::string all;
  for (const auto& [name, lines] : notes)
    for (const std::string& line : lines) all += name + ": " + line + "\n";
  return all;
}

TEST(JoinContractions, NotesSayWhatStaysApart) {
  const std::string none = "no other that could be joined has the same operators behind it\n";
  const std::string apart = ": not joined with '", same = "', which reads the same: ";
  EXPECT_EQ(notes_of("const %a: f32[2, 2, 1, 1] = 1\nconst %b: f32[2, 2, 1, 1] = 2\nconst %c: f32[2, 2, 1, 1] = 3\n"
                     "%1 = " +
                         point + "(%x, %a) from \"one\"\n%y = pointwise {function=tanh} (%1)\n%z = " + point +
                         "(%y, %c)\n%2 = " + point +
                         "(%x, %b)\n%w = transpose {permutation=[0, 3, 1, 2]} (%2)\n"
                         "return \"z\" = %z, \"w\" = %w",
                     image),
            "2" + apart + "one" + same + none + "y" + apart + "2" + same + none);
  EXPECT_EQ(notes_of("const %a: f32[2, 2, 1, 1] = 1\nconst %b: f32[2, 2, 1, 1] = 2\n"
                     "%1 = " +
                         point + "(%x, %a) from \"one\"\n%y = softmax {axis=3} (%1) from \"s\"\n%2 = " + point +
                         "(%x, %b)\n%w = transpose {permutation=[0, 3, 1, 2]} (%2)\nreturn \"y\" = %y, \"w\" = %w",
                     image),
            "1" + apart + "2" + same + "a slice would be copied for 's'\n2" + apart + "one" + same + none);
}

std::string swiglu(const std::string& size) {
  return "const %a: f32[" + size + ", 2] = 1\nconst %b: f32[" + size + R"(, 2] = 1
          const %c: f32[2] = [3, 4]
          %gate = matmul (%x, %a) from "gate"
          %s = pointwise {function=sigmoid} (%gate)
          %silu = pointwise {function=mul} (%gate, %s)
          %u = matmul (%x, %b) from "up"
          %up = pointwise {function=add} (%u, %c)
          %y = pointwise {function=mul} (%silu, %up) from "product"
          return "y" = %y)";
}

// SwiGLU's gate and up meet in one operator, which is a step of its own then: worth it for long sums.
TEST(JoinContractions, EpiloguesThatMeet) {
  expect_pass(join_contractions, swiglu("256"),
              R"(const %w: f32[256, 4] = 1
                 const %bias: f32[4] = [0, 0, 3, 4]
                 %p = matmul (%x, %w)
                 %q = pointwise {function=add} (%p, %bias)
                 %gate = slice {axes=[1], starts=shape(0), counts=shape(2), steps=[1]} (%q)
                 %up = slice {axes=[1], starts=shape(2), counts=shape(2), steps=[1]} (%q)
                 %s = pointwise {function=sigmoid} (%gate)
                 %silu = pointwise {function=mul} (%gate, %s)
                 %y = pointwise {function=mul} (%silu, %up)
                 return "y" = %y)",
              "%x: f32[n, 256]");
  EXPECT_EQ(notes_of(swiglu("255"), "%x: f32[n, 255]"),
            "silu: not joined with 'up', which reads the same: no other that could be joined has the same operators "
            "behind it\nup: not joined with 'gate', which reads the same: 'product' is computed with it, and would be "
            "a step of its own\n");
}

// Of few bits, too, where the product that reads the result computes what they meet in.
TEST(JoinContractions, WeightsOfFewBitsThatMeet) {
  const std::string body = R"(const %a: u4[2, 256] = 5
                              const %b: u4[2, 256] = 6
                              const %s: f32[2, 8] = 2
                              const %t: f32[2, 8] = 3
                              const %z: u4[] = 8
                              %gate = weight_only_matmul {block=32, transposed=true} (%x, %a, %s, %z)
                              %up = weight_only_matmul {block=32, transposed=true} (%x, %b, %t, %z)
                              %l = pointwise {function=sigmoid} (%gate)
                              %y = pointwise {function=mul} (%l, %up)
                              return "y" = %y)";
  for (const DType storage : {DType::f32, DType::f16}) {
    Graph graph = graph_of("%x: f32[n, 256]", body);
    PassContext context = test_context();
    context.storage = storage;
    join_contractions(graph, context);
    const auto products = std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
      return node.op.as<ops::WeightOnlyMatMul>() != nullptr;
    });
    EXPECT_EQ(products, storage == DType::f32 ? 2 : 1) << print(graph);
  }
}

TEST(JoinContractions, OfOtherFormsStayApart) {
  expect_unchanged(
      join_contractions,
      "const %a: f32[2, 2, 1, 1] = 1\nconst %b: f32[2, 2, 3, 3] = 2\nconst %c: f32[2, 2, 1, 1] = 3\n"
      "%1 = " +
          point + "(%x, %a)\n%2 = " + window +
          "(%x, %b)\n"
          "%3 = conv {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%x, %c)\n"
          "%u = transpose {permutation=[0, 3, 1, 2]} (%1)\n%v = transpose {permutation=[0, 3, 1, 2]} (%2)\n"
          "%w = transpose {permutation=[0, 3, 1, 2]} (%3)\nreturn \"u\" = %u, \"v\" = %v, \"w\" = %w",
      image);
  // One matrix for two products, and one that is no constant.
  expect_unchanged(join_contractions,
                   R"(const %a: f32[2, 2] = 1
                      %1 = matmul (%x, %a)
                      %2 = matmul (%x, %a)
                      %3 = matmul (%x, %m)
                      %u = transpose {permutation=[1, 0]} (%1)
                      %v = transpose {permutation=[1, 0]} (%2)
                      %w = transpose {permutation=[1, 0]} (%3)
                      return "u" = %u, "v" = %v, "w" = %w)",
                   "%x: f32[n, 2], %m: f32[2, 2]");
}

}  // namespace
}  // namespace camshaft::join_contractions_test
