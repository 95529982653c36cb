#include "optimize/fuse/fuse.h"

#include <fmt/format.h>

#include "ir/ops/region.h"
#include "optimize/pass_test.h"

namespace camshaft::fuse_test {
namespace {

// "contract: conv add max; pointwise: …": each node of the result.
std::string outline(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes) {
    out += out.empty() ? "" : "; ";
    const auto* region = node.op.as<ops::Region>();
    if (!region) {
      out += node.op.name();
      continue;
    }
    out += EnumNames<ops::RegionKind>::values[static_cast<size_t>(region->kind)];
    out += ":";
    for (const Node& inner : node.bodies[0].nodes) {
      const Fields fields = inner.op.fields();
      out += " ";
      out += inner.op.name() == "pointwise" ? std::get<std::string>(fields[0].second) : std::string(inner.op.name());
    }
  }
  return out;
}

std::string fused(const std::string& body, const std::string& inputs) {
  return outline(run_pass(fuse, graph_text(inputs, body)));
}

constexpr const char* conv = "conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]}";

TEST(Fuse, ContractionWithItsEpilogue) {
  expect_pass(fuse,
              R"(const %w: f32[4, 5] = 0.5
                 const %b: f32[5] = [1, 2, 3, 4, 5]
                 const %zero: f32[] = 0
                 %p = matmul {} (%x, %w) from "MatMul"
                 %q = pointwise {function=add} (%p, %b) from "Add"
                 %y = pointwise {function=max} (%q, %zero) from "Relu"
                 %r = reduce {kind=max, axes=[1]} (%y)
                 return "r" = %r)",
              R"(const %w: f32[4, 5] = 0.5
                 const %b: f32[5] = [1, 2, 3, 4, 5]
                 %y = region {kind=contract} (%x, %w, %b)
                   graph (%x: f32[n, 4], %w: f32[4, 5], %b: f32[5]) {
                     const %zero: f32[] = 0
                     %p = matmul {} (%x, %w)
                     %q = pointwise {function=add} (%p, %b)
                     %y = pointwise {function=max} (%q, %zero)
                     return %y
                   }
                 %r = reduce {kind=max, axes=[1]} (%y)
                 return "r" = %r)",
              "%x: f32[n, 4]");
}

// Sums of products of 8-bit numbers go on in other types.
// A reduction makes real numbers of steps as it reads them; what else reads the result of a product gets them from it.
TEST(Fuse, StepsAreWidenedByTheReductionBehindThem) {
  const std::string begin = R"(const %w: i8[4, 5] = 1
                               const %zero: f32[] = 3
                               %p = integer_matmul {} (%x, %w)
                               %f = cast {to=f32} (%p)
                               %r = pointwise {function=round} (%f)
                               %q = cast {to=u8} (%r)
                               %g = cast {to=f32} (%q)
                               %h = pointwise {function=sub} (%g, %zero)
                               )";
  EXPECT_EQ(fused(begin + R"(%y = reduce {kind=mean, axes=[0]} (%h)
                             return "y" = %y)",
                  "%x: u8[n, 4]"),
            "contract: integer_matmul cast round cast; reduce: cast sub reduce");
  EXPECT_EQ(fused(begin + R"(return "y" = %h)", "%x: u8[n, 4]"), "contract: integer_matmul cast round cast cast sub");
}

TEST(Fuse, IntegerContractionAndItsScale) {
  const std::string begin = R"(const %w: i8[4, 5] = 1
                               const %zero: f32[] = 3
                               %p = integer_matmul {} (%x, %w)
                               %f = cast {to=f32} (%p)
                               %q = pointwise {function=mul} (%f, %s)
)";
  EXPECT_EQ(fused(begin + "return %q", "%x: u8[n, 4], %s: f32[5]"), "contract: integer_matmul cast mul");
  EXPECT_EQ(fused(begin + R"(%r = pointwise {function=round} (%q)
                             %z = pointwise {function=add} (%r, %zero)
                             %y = cast {to=u8} (%z)
                             %more = integer_matmul {} (%y, %v)
                             return %more)",
                  "%x: u8[n, 4], %s: f32[5], %v: i8[5, 2]"),
            "contract: integer_matmul cast mul round add cast; integer_matmul");
}

TEST(Fuse, EpilogueMayBeADag) {
  EXPECT_EQ(fused(R"(const %w: f32[4, 4] = 0.5
                     %p = matmul {} (%x, %w)
                     %s = pointwise {function=sigmoid} (%p)
                     %y = pointwise {function=mul} (%p, %s)
                     %z = matmul {} (%y, %w)
                     return %z)",
                  "%x: f32[n, 4]"),
            "contract: matmul sigmoid mul; matmul");
}

TEST(Fuse, TheLaterContractionTakesTheSharedAdd) {
  EXPECT_EQ(fused(R"(const %w: f32[4, 4] = 0.5
                     const %zero: f32[] = 0
                     %p = matmul {} (%x, %w)
                     %a = pointwise {function=max} (%p, %zero)
                     %q = matmul {} (%x, %x)
                     %s = pointwise {function=add} (%a, %q)
                     %y = pointwise {function=max} (%s, %zero)
                     return %y)",
                  "%x: f32[4, 4]"),
            "contract: matmul max; contract: matmul add max");
}

TEST(Fuse, StopsWhereAValueIsUsedElsewhere) {
  // The sum is a residual for later: it must be stored, so the exp cannot join.
  EXPECT_EQ(fused(R"(const %w: f32[4, 4] = 0.5
                     %p = matmul {} (%x, %w)
                     %s = pointwise {function=add} (%p, %x)
                     %e = pointwise {function=exp} (%s)
                     %t = pointwise {function=add} (%e, %x)
                     return %s, %t)",
                  "%x: f32[4, 4]"),
            "contract: matmul add; pointwise: exp add");
}

TEST(Fuse, ShapesOfEpiloguesDoNotGrow) {
  EXPECT_EQ(fused(R"(const %w: f32[4, 4] = 0.5
                     %p = matmul {} (%x, %w)
                     %s = pointwise {function=add} (%p, %big)
                     return %s)",
                  "%x: f32[1, 4], %big: f32[7, 4]"),
            "matmul; pointwise");
}

TEST(Fuse, SqueezeAndExcitation) {
  EXPECT_EQ(fused(std::string("const %w: f32[4, 4, 1, 1] = 0.5\n%p = ") + conv + R"( (%x, %w)
                     %s = pointwise {function=sigmoid} (%p)
                     %m = pointwise {function=mul} (%p, %s)
                     %r = reduce {kind=mean, axes=[2, 3]} (%m)
                     %g = )" +
                      conv + R"( (%r, %w)
                     %h = pointwise {function=sigmoid} (%g)
                     %y = pointwise {function=mul} (%m, %h)
                     %z = )" +
                      conv + R"( (%y, %w)
                     return %z)",
                  "%x: f32[1, 4, 8, 8]"),
            "contract: conv sigmoid mul; reduce; contract: conv sigmoid; pointwise; conv");
}

// What a sentence encoder ends in: the sum of what is not masked, over how many are not.
TEST(Fuse, ReductionWithStepsBeforeAndBehind) {
  expect_pass(fuse,
              R"(const %one: f32[] = 1
                 %f = cast {to=f32} (%mask)
                 %m = pointwise {function=mul} (%x, %f)
                 %s = reduce {kind=sum, axes=[1]} (%m)
                 %n = pointwise {function=max} (%count, %one)
                 %y = pointwise {function=div} (%s, %n)
                 return %y)",
              R"(const %one: f32[] = 1
                 %f = cast {to=f32} (%mask)
                 %n = pointwise {function=max} (%count, %one)
                 %y = region {kind=reduce} (%x, %f, %n)
                   graph (%x: f32[b, n, 8], %f: f32[b, n, 1], %n: f32[b, 1, 1]) {
                     %m = pointwise {function=mul} (%x, %f)
                     %s = reduce {kind=sum, axes=[1]} (%m)
                     %y = pointwise {function=div} (%s, %n)
                     return %y
                   }
                 return %y)",
              "%x: f32[b, n, 8], %mask: i64[b, n, 1], %count: f32[b, 1, 1]");
}

TEST(Fuse, StepsThatOthersReadStayBeforeAReduction) {
  // The exponentials are divided too; the sum of their squares alone is computed where it is reduced.
  EXPECT_EQ(fused(R"(%e = pointwise {function=exp} (%x)
                     %q = pointwise {function=mul} (%e, %e)
                     %s = reduce {kind=sum, axes=[1]} (%q)
                     %r = pointwise {function=sqrt} (%s)
                     %y = pointwise {function=div} (%e, %r)
                     return %y)",
                  "%x: f32[n, 4]"),
            "pointwise; reduce: mul reduce sqrt; pointwise");
}

TEST(Fuse, AContractionKeepsWhatStandsBehindIt) {
  EXPECT_EQ(fused(R"(const %w: f32[4, 5] = 0.5
                     %p = matmul {} (%x, %w)
                     %e = pointwise {function=exp} (%p)
                     %s = reduce {kind=mean, axes=[0]} (%e)
                     %r = pointwise {function=neg} (%s)
                     %y = matmul {} (%r, %v)
                     return %y)",
                  "%x: f32[n, 4], %v: f32[5, 2]"),
            "contract: matmul exp; reduce: reduce neg; matmul");
}

// The steps between two reductions of the same shape belong to the later one; where both meet, the later takes the
// step.
TEST(Fuse, SeveralReductions) {
  EXPECT_EQ(fused(R"(%a = reduce {kind=sum, axes=[2]} (%x)
                     %b = pointwise {function=exp} (%a)
                     %c = reduce {kind=max, axes=[1]} (%b)
                     return %c)",
                  "%x: f32[n, 4, 5]"),
            "reduce; reduce: exp reduce");
  EXPECT_EQ(fused(R"(const %one: f32[] = 1
                     %m = pointwise {function=mul} (%x, %f)
                     %s = reduce {kind=sum, axes=[1]} (%m)
                     %t = reduce {kind=sum, axes=[1]} (%f)
                     %n = pointwise {function=max} (%t, %one)
                     %y = pointwise {function=div} (%s, %n)
                     return %y)",
                  "%x: f32[n, 4], %f: f32[n, 4]"),
            "reduce: mul reduce; reduce: reduce max div");
}

TEST(Fuse, ReductionsTakeNoMoreStepsThanAKernel) {
  std::string inputs = "%x: f32[n, 2]", body;
  for (int i = 0; i < 40; ++i) {
    inputs += fmt::format(", %a{}: f32[n, 2]", i);
    body += fmt::format("%v{0} = pointwise {{function=add}} (%{1}, %a{0})\n", i, i ? fmt::format("v{}", i - 1) : "x");
  }
  const Graph graph = run_pass(
      fuse, "graph \"g\" (" + inputs + ") {\n" + body + "%r = reduce {kind=sum, axes=[1]} (%v39)\nreturn %r\n}");
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[1].inputs.size(), 16U);
  // Of booleans, of more axes than kernels walk, and of none.
  for (const char* alone :
       {"%b = pointwise {function=less} (%x, %y)\n%r = reduce {kind=max, axes=[0]} (%b)\nreturn %r",
        "%b = pointwise {function=add} (%x, %y)\n%r = reduce {kind=sum_squares, axes=[]} (%b)\nreturn %r"})
    EXPECT_EQ(fused(alone, "%x: f32[n, 2], %y: f32[n, 2]"), "pointwise; reduce");
  EXPECT_EQ(fused("%b = pointwise {function=exp} (%x)\n%r = reduce {kind=sum, axes=[0]} (%b)\nreturn %r",
                  "%x: f32[n, 2, 2, 2, 2, 2, 2]"),
            "pointwise; reduce");
}

TEST(Fuse, PointwiseGroupsAreConvex) {
  // b and d are connected, but a path leads from b through the reduction back to d.
  EXPECT_EQ(fused(R"(%a = pointwise {function=exp} (%x)
                     %b = pointwise {function=sqrt} (%a)
                     %c = reduce {kind=sum, axes=[1]} (%b)
                     %d = pointwise {function=div} (%b, %c)
                     %e = pointwise {function=neg} (%d)
                     return %e, %a)",
                  "%x: f32[4, 4]"),
            "pointwise: exp sqrt; reduce; pointwise: div neg");
}

TEST(Fuse, PointwiseGroupsWithSeveralResults) {
  expect_pass(fuse,
              R"(const %c: f32[3] = [1, 2, 3]
                 %a = pointwise {function=add} (%x, %c)
                 %b = pointwise {function=exp} (%a)
                 %d = pointwise {function=neg} (%a)
                 return %b, %d, %a)",
              R"(const %c: f32[3] = [1, 2, 3]
                 %a, %b, %d = region {kind=pointwise} (%x, %c)
                   graph (%x: f32[2, 3], %c: f32[3]) {
                     %a = pointwise {function=add} (%x, %c)
                     %b = pointwise {function=exp} (%a)
                     %d = pointwise {function=neg} (%a)
                     return %a, %b, %d
                   }
                 return %b, %d, %a)");
}

TEST(Fuse, LongChainsAreCut) {
  std::string body;
  for (int i = 0; i < 150; ++i)
    body += fmt::format("%v{} = pointwise {{function=neg}} (%{})\n", i, i ? fmt::format("v{}", i - 1) : "x");
  const Graph graph = run_pass(fuse, graph_text("%x: f32[n]", body + "return %v149"));
  ASSERT_EQ(graph.nodes.size(), 3U);
  EXPECT_EQ(graph.nodes[0].bodies[0].nodes.size(), 64U);
  EXPECT_EQ(graph.nodes[2].bodies[0].nodes.size(), 22U);
}

TEST(Fuse, GroupsTakeNoMoreOperandsThanAKernel) {
  // A choice between the results of two steps, for each layer of a model: every result is an output.
  std::string inputs = "%c: bool[n]", body, outputs;
  for (int i = 0; i < 40; ++i) {
    inputs += fmt::format(", %a{0}: f32[n], %b{0}: f32[n]", i);
    const std::string last = i ? fmt::format("v{}", i - 1) : "a0";
    body += fmt::format("%v{0} = pointwise {{function=select}} (%c, %b{0}, %{1})\n", i, last);
    outputs += fmt::format("{}%v{}", i ? ", " : "", i);
  }
  Graph graph = run_pass(fuse, graph_text(inputs, body + "return " + outputs));
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].inputs.size() + graph.nodes[0].outputs.size(), 64U);

  // A sum of many terms: the intermediate sums do not count, the terms do.
  inputs = "%x: f32[n]", body = "";
  for (int i = 0; i < 100; ++i) {
    inputs += fmt::format(", %a{}: f32[n]", i);
    body += fmt::format("%v{0} = pointwise {{function=add}} (%{1}, %a{0})\n", i, i ? fmt::format("v{}", i - 1) : "x");
  }
  graph = run_pass(fuse, graph_text(inputs, body + "return %v99"));
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].inputs.size(), 63U);
  EXPECT_EQ(graph.nodes[1].inputs.size(), 39U);
}

TEST(Fuse, SourcesAreKept) {
  const Graph graph = run_pass(fuse, R"(graph "g" (%x: f32[n]) {
                                          %a = pointwise {function=exp} (%x) from "A"
                                          %b = pointwise {function=neg} (%a) from "B", "A"
                                          return %b
                                        })");
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].sources, (std::vector<std::string>{"A", "B"}));
}

// What is said about the one value that is not fused with its reader.
std::string parting(const std::string& body, const std::string& inputs = "%x: f32[n, 4]") {
  Graph graph = graph_of(inputs, body);
  PassNotes notes;
  PassContext context = test_context();
  context.notes = &notes;
  fuse(graph, context);
  std::string text;
  for (const auto& [name, list] : notes)
    for (const std::string& note : list) text += name + ": " + note + "\n";
  return text;
}

TEST(Fuse, NotesSayWhyNeighboursStayApart) {
  const std::string product = "const %w: f32[4, 5] = 0.5\n%p = matmul {} (%x, %w)\n";
  EXPECT_EQ(parting(product + "%y = pointwise {function=exp} (%p) from \"Exp\" return %y"), "");
  EXPECT_EQ(parting(product + "%y = pointwise {function=exp} (%p) from \"Exp\" return %y, %p"),
            "p: not fused with 'Exp': 'p' is an output of the model, so it is written anyway\n");
  EXPECT_EQ(parting(product + R"(%y = pointwise {function=exp} (%p) from "Exp"
                                 %r = reduce {kind=max, axes=[1]} (%p)
                                 return %y, %r)"),
            "p: not fused with 'Exp': 2 operators read 'p', and what they compute does not meet in one result\n");
  EXPECT_EQ(parting(product + "%y = pointwise {function=add} (%p, %z) from \"Add\" return %y",
                    "%x: f32[1, 4], %z: f32[3, 5]"),
            "p: not fused with 'Add': its result is f32[3, 5], of another shape than f32[1, 5]\n");
  EXPECT_EQ(parting(product + "%y = cast {to=f64} (%p) from \"Cast\" return %y"),
            "p: not fused with 'Cast': it has operands of other types than f32\n");
  EXPECT_EQ(parting(product + R"(%q = matmul {} (%x, %w)
                                 %y = pointwise {function=add} (%p, %q) from "Add"
                                 return %y)"),
            "p: not fused with 'Add': it is computed together with 'q'\n");
  EXPECT_EQ(parting(R"(%a = pointwise {function=exp} (%x) from "Exp"
                       %s = softmax {axis=1} (%a)
                       %y = pointwise {function=add} (%a, %s) from "Add"
                       return %y)"),
            "a: not fused with 'Add': an operator between the two cannot be part of the group\n");
}

TEST(Fuse, NotesSayWhatStaysBeforeAndBehindAReduction) {
  const std::string sum = "%r = reduce {kind=sum, axes=[1]} (%a) from \"Sum\"\n";
  const std::string e = "%a = pointwise {function=exp} (%x)\n";
  EXPECT_EQ(parting(e + sum + "%y = pointwise {function=neg} (%r) from \"Neg\" return %y"), "");
  EXPECT_EQ(parting(e + sum + "return %r, %a"),
            "a: not fused with 'Sum': 'a' is an output of the model, so it is written anyway\n");
  EXPECT_EQ(parting(e + sum + "%s = reduce {kind=max, axes=[1]} (%a) from \"Max\" return %r, %s"),
            "a: not fused with 'Sum': 2 operators read 'a'\na: not fused with 'Max': 2 operators read 'a'\n");
  EXPECT_EQ(parting("%a = pointwise {function=exp} (%z)\n%b = pointwise {function=add} (%x, %a) from \"Add\"\n"
                    "%r = reduce {kind=sum, axes=[1]} (%b) from \"Sum\" return %r",
                    "%x: f32[n, 4], %z: f32[4]"),
            "a: not fused with 'Add': it is f32[4], of another shape than the f32[n, 4] that 'Sum' reduces\n");
  EXPECT_EQ(parting(sum + "%y = pointwise {function=div} (%a, %r) from \"Div\" return %y", "%a: f32[n, 4]"),
            "r: not fused with 'Div': its result is f32[n, 4], of another shape than f32[n, 1]\n");
  EXPECT_EQ(parting(sum + "%y = cast {to=f64} (%r) from \"Cast\" return %y", "%a: f32[n, 4]"),
            "r: not fused with 'Cast': it has operands of other types than f32\n");
  EXPECT_EQ(
      parting("%a = pointwise {function=less} (%x, %x)\n%r = reduce {kind=max, axes=[1]} (%a) from \"Any\" return %r"),
      "a: not fused with 'Any': a reduction of bool[n, 4] along 1 axes is a step of its own\n");
}

}  // namespace
}  // namespace camshaft::fuse_test
