#include "optimize/precision/lower_precision.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/ops/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"

namespace camshaft::lower_precision_test {
namespace {

// "contract(matmul:f16, cast:f32, pointwise:f32, cast:f16):f16 softmax:f16 …": operators with what they give.
std::string outline(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes) {
    const auto* region = node.op.as<ops::Region>();
    out += out.empty() ? "" : " ";
    out += region ? std::string(EnumNames<ops::RegionKind>::values[static_cast<size_t>(region->kind)]) + "(" +
                        outline(node.bodies[0]) + ")"
                  : std::string(node.op.name());
    out += ":" + std::string(to_string(graph.type(node.outputs[0]).dtype));
  }
  return out;
}

Graph lowered(const std::string& body, DType storage = DType::f16, const std::set<std::string>* keep = nullptr) {
  Graph graph = graph_of("%x: f32[2, 4]", body);
  PassContext context = test_context();
  fuse(graph, context);
  context.storage = storage;
  context.keep_f32 = keep;
  run_pass_on_named(lower_precision, graph, context, "lower_precision");
  verify(graph, "the pass under test");
  return graph;
}

const std::string two_products = R"(
  const %w: f32[4, 4] = 0.5
  const %b: f32[4] = 0.25
  const %zero: f32[] = 0
  %p = matmul (%x, %w)
  %s = pointwise {function=add} (%p, %b)
  %r = pointwise {function=max} (%s, %zero)
  %y = matmul (%r, %w)
  return y=%y)";

TEST(LowerPrecision, ContractionsReadAndGiveIt) {
  EXPECT_EQ(outline(lowered(two_products)),
            "cast:f16 contract(matmul:f16 cast:f32 pointwise:f32 pointwise:f32 cast:f16):f16 matmul:f16 cast:f32");
}

TEST(LowerPrecision, TheModelsOwnConversionsAreNone) {
  Graph graph = graph_of("%x: f16[2, 4]", R"(
  const %w: f32[4, 4] = 0.5
  %wide = cast {to=f32} (%x)
  %p = matmul (%wide, %w)
  %s = pointwise {function=tanh} (%p)
  %r = pointwise {function=add} (%s, %wide)
  %y = matmul (%r, %w)
  %z = cast {to=f16} (%y)
  return y=%z, r=%r)");
  PassContext context = test_context();
  fuse(graph, context);
  context.storage = DType::f16;
  run_pass_on_named(lower_precision, graph, context, "lower_precision");
  verify(graph, "the pass under test");
  // Both results leave as their types say; what is within reads and gives halves.
  EXPECT_EQ(outline(graph).find("cast:f32 matmul"), std::string::npos);
  EXPECT_EQ(graph.type(graph.outputs[0]).dtype, DType::f16);
  EXPECT_EQ(graph.type(graph.outputs[1]).dtype, DType::f32);
  for (const Node& node : graph.nodes)
    if (node.op.as<ops::MatMul>()) {
      for (const ValueId id : node.inputs) EXPECT_EQ(graph.type(id).dtype, DType::f16);
      EXPECT_EQ(graph.outputs[0], node.outputs[0]) << outline(graph);
    }
}

TEST(LowerPrecision, ResultsAreTheSameButForRounding) {
  Tensor x(DType::f32, {2, 4});
  for (int64_t i = 0; i < x.size(); ++i) x.as_mutable<float>()[i] = 0.3f * static_cast<float>(i) - 1;
  const Tensor expected = evaluate(graph_of("%x: f32[2, 4]", two_products), {x}, test_pool())[0];
  for (const DType storage : {DType::f16, DType::bf16}) {
    const Tensor y = evaluate(lowered(two_products, storage), {x}, test_pool())[0];
    for (int64_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y.as<float>()[i], expected.as<float>()[i], storage == DType::f16 ? 4e-3 : 3e-2);
  }
}

TEST(LowerPrecision, AnOutputComesFromItsRegionInF32) {
  EXPECT_EQ(outline(lowered(R"(
  const %w: f32[4, 4] = 0.5
  %p = matmul (%x, %w)
  %y = pointwise {function=tanh} (%p)
  return y=%y)")),
            "cast:f16 contract(matmul:f16 cast:f32 pointwise:f32):f32");
}

TEST(LowerPrecision, ValuesThatOthersReadAreStoredOnce) {
  EXPECT_EQ(outline(lowered(R"(
  const %w: f32[4, 4] = 0.5
  %t = pointwise {function=tanh} (%x)
  %p = matmul (%t, %w)
  %y = pointwise {function=add} (%p, %t)
  return y=%y)")),
            "pointwise(pointwise:f32 cast:f16):f16 contract(matmul:f16 cast:f32 cast:f32 pointwise:f32):f32");
}

// What ranks send each other is half as much then; products of all ranks leave its range.
TEST(LowerPrecision, CollectivesMoveHalves) {
  const auto between_products = [](const std::string& collective) {
    return outline(lowered("const %w: f32[4, 4] = 0.5\n%p = matmul (%x, %w)\n%c = collective {ranks=2, " + collective +
                           "} (%p)\n%y = matmul (%c, %w)\nreturn y=%y"));
  };
  EXPECT_EQ(between_products("kind=all_gather, axis=0"), "cast:f16 matmul:f16 collective:f16 matmul:f16 cast:f32");
  EXPECT_EQ(between_products("kind=all_reduce"), "cast:f16 matmul:f16 collective:f16 matmul:f16 cast:f32");
  EXPECT_NE(between_products("kind=all_reduce, reduction=prod").find("collective:f32"), std::string::npos);
}

TEST(LowerPrecision, OperatorsWithoutItStayF32) {
  EXPECT_EQ(outline(lowered(R"(
  const %axis: i64[] = 1
  const %w: f32[4, 4] = 0.5
  %p = matmul (%x, %w)
  %c = cumulative (%p, %axis)
  %y = matmul (%c, %w)
  return y=%y)")),
            "cast:f16 matmul:f16 cast:f32 cumulative:f32 cast:f16 matmul:f16 cast:f32");
}

TEST(LowerPrecision, WhatItCannotHoldStaysF32) {
  const std::string body = R"(
  const %w: f32[4, 4] = 100000
  %y = matmul (%x, %w)
  return y=%y)";
  EXPECT_EQ(outline(lowered(body)), "matmul:f32");
  EXPECT_EQ(outline(lowered(R"(
  const %w: f32[4, 4] = 0.00001
  %y = matmul (%x, %w)
  return y=%y)")),
            "matmul:f32");
  EXPECT_EQ(outline(lowered(body, DType::bf16)), "cast:bf16 matmul:bf16 cast:f32");
  const std::set<std::string> keep{"r"};
  // Nor can the product that reads it.
  EXPECT_EQ(outline(lowered(two_products, DType::f16, &keep)),
            "contract(matmul:f32 pointwise:f32 pointwise:f32):f32 matmul:f32");
  const std::set<std::string> keep_last{"y"};
  EXPECT_EQ(outline(lowered(two_products, DType::f16, &keep_last)),
            "cast:f16 contract(matmul:f16 cast:f32 pointwise:f32 pointwise:f32):f32 matmul:f32");
}

TEST(LowerPrecision, ProductsAndSquaresStayF32) {
  EXPECT_EQ(outline(lowered(R"(
  %p = reduce {kind=prod, axes=[1]} (%x)
  return y=%p)")),
            "reduce:f32");
  EXPECT_EQ(outline(lowered(R"(
  const %w: f32[4, 4] = 0.5
  %m = matmul (%x, %w)
  %p = reduce {kind=sum_squares, axes=[1]} (%m)
  return y=%p)")),
            "cast:f16 matmul:f16 cast:f32 reduce:f32");
}

TEST(LowerPrecision, WhatIsComputedForAReductionStaysF32) {
  EXPECT_EQ(outline(lowered(R"(
  const %w: f32[4, 4] = 0.5
  %m = matmul (%x, %w)
  %s = pointwise {function=mul} (%m, %m)
  %p = reduce {kind=sum, axes=[1]} (%s)
  return y=%p)")),
            "cast:f16 contract(matmul:f16 cast:f32 pointwise:f32):f32 reduce:f32");
}

// The region reads what is stored, and its squares leave f16's range nowhere.
TEST(LowerPrecision, ReductionsWithStepsReadItAndGiveF32) {
  EXPECT_EQ(outline(lowered(R"(
  const %w: f32[4, 4] = 0.5
  %m = matmul (%x, %w)
  %s = pointwise {function=mul} (%m, %m)
  %n = reduce {kind=sum, axes=[1]} (%s)
  %q = pointwise {function=sqrt} (%n)
  %e = matmul (%m, %w)
  %y = matmul {transpose_a=true} (%q, %e)
  return y=%y)")),
            "cast:f16 matmul:f16 reduce(cast:f32 pointwise:f32 reduce:f32 pointwise:f32):f32 matmul:f16 cast:f16 "
            "matmul:f16 cast:f32");
  EXPECT_EQ(outline(lowered(R"(
  const %w: f32[4, 4] = 0.5
  %m = matmul (%x, %w)
  %n = reduce {kind=sum_squares, axes=[1]} (%m)
  %q = pointwise {function=sqrt} (%n)
  return y=%q)")),
            "cast:f16 matmul:f16 cast:f32 reduce(reduce:f32 pointwise:f32):f32");
}

TEST(LowerPrecision, WhatIsDividedByStaysF32) {
  EXPECT_EQ(outline(lowered(R"(
  const %w: f32[4, 4] = 0.5
  const %least: f32[] = 1e-12
  %m = matmul (%x, %w)
  %n = reduce {kind=max, axes=[1]} (%m)
  %b = pointwise {function=max} (%n, %least)
  %e = expand {shape=shape(2, 4)} (%b)
  %d = pointwise {function=div} (%m, %e)
  %y = matmul (%d, %w)
  return y=%y)")),
            "cast:f16 matmul:f16 reduce(cast:f32 reduce:f32 pointwise:f32):f32 expand:f32 "
            "pointwise(cast:f32 pointwise:f32 cast:f16):f16 matmul:f16 cast:f32");
}

TEST(LowerPrecision, RotaryEmbeddingsKeepTheirTables) {
  const Graph graph = lowered(R"(
  const %w: f32[4, 4] = 0.5
  const %t: f32[2] = 0.3
  %p = matmul (%x, %w)
  %r = rotary_embedding {rotated=4, axes=shape(2), x=shape(0, 4), cosine=shape(0, 0, 0, 1), sine=shape(0, 0, 0, 1), shape=shape(2, 4)} (%p, %t, %t)
  %y = matmul (%r, %w)
  return y=%y)");
  EXPECT_EQ(outline(graph), "cast:f16 matmul:f16 rotary_embedding:f16 matmul:f16 cast:f32");
  EXPECT_EQ(graph.type(graph.nodes[2].inputs[1]).dtype, DType::f32);
}

TEST(LowerPrecision, NothingWithoutBeingAsked) {
  EXPECT_EQ(outline(lowered(two_products, DType::f32)),
            "contract(matmul:f32 pointwise:f32 pointwise:f32):f32 matmul:f32");
}

TEST(LowerPrecision, IntegersAreLeftAlone) {
  EXPECT_EQ(outline(lowered(R"(
  %i = cast {to=i64} (%x)
  %s = reduce {kind=sum, axes=[1]} (%i)
  return y=%s)")),
            "reduce(cast:i64 reduce:i64):i64");
}

TEST(LowerPrecision, NamesConstantsThatF16CannotHold) {
  const auto kept = [](const std::string& number, DType storage) {
    Graph graph = graph_of("%x: f32[2, 4]", "const %w: f32[4, 4] = " + number + "\n%p = matmul (%x, %w)\nreturn y=%p");
    PassContext context = test_context();
    context.storage = storage;
    std::set<std::string> names;
    context.kept_constants = &names;
    run_pass_on_named(lower_precision, graph, context, "lower_precision");
    EXPECT_EQ(names.empty(), graph.type(graph.nodes[0].outputs[0]).dtype == storage) << print(graph);
    return names;
  };
  EXPECT_EQ(kept("1e6", DType::f16), std::set<std::string>{"w"});
  EXPECT_EQ(kept("1e-5", DType::f16), std::set<std::string>{"w"});
  EXPECT_EQ(kept("0.5", DType::f16), std::set<std::string>());
  EXPECT_EQ(kept("0", DType::f16), std::set<std::string>());
  EXPECT_EQ(kept("1e6", DType::bf16), std::set<std::string>());
  EXPECT_EQ(kept("-3.4e38", DType::bf16), std::set<std::string>{"w"}) << "would be infinite";
}

// What is divided by stays f32, and so does what it is made of, but for the operands of sums of products.
TEST(LowerPrecision, DivisorsAreNotFollowedThroughAttention) {
  const std::string divided = R"(
    %s = softmax {axis=1} (%x)
    %a = attention {outer=shape(1), queries=shape(2), keys=shape(2), size=4, value_size=4, query=shape(0, 0, 4, 1),
                    key=shape(0, 0, 4, 1), value=shape(0, 0, 4, 1), result=shape(0, 0, 4, 1), shape=shape(2, 4)}
         (%s, %x, %x)
    %y = pointwise {function=div} (%x, %a)
    return y=%y)";
  EXPECT_TRUE(outline(lowered(divided)).starts_with("cast:f16 softmax:f16 cast:f32 attention:f32"))
      << outline(lowered(divided));
}

// A mask's numbers that mean "never" become the largest of the narrow type: of a row of infinities a softmax is NaN.
TEST(LowerPrecision, MasksStayFinite) {
  for (const DType storage : {DType::f16, DType::bf16}) {
    const Graph graph = lowered(R"(
    const %w: f32[4, 4] = 0.5
    const %m: f32[2, 2] = -3.4e38
    %q = matmul (%x, %w)
    %a = attention {outer=shape(1), queries=shape(2), keys=shape(2), size=4, value_size=4, query=shape(0, 0, 4, 1),
                    key=shape(0, 0, 4, 1), value=shape(0, 0, 4, 1), result=shape(0, 0, 4, 1), masks=shape(0, 0, 2, 1),
                    masked=[0], shape=shape(2, 4)} (%q, %q, %q, %m)
    return y=%a)",
                                storage);
    const auto attention = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                        [](const Node& node) { return node.op.name() == "attention"; });
    ASSERT_NE(attention, graph.nodes.end()) << print(graph);
    const Tensor& mask = *graph.value(attention->inputs[3]).constant;
    EXPECT_EQ(mask.dtype(), storage);
    for (const double x : mask.to_doubles()) EXPECT_TRUE(std::isfinite(x) && x <= -65504) << x;
  }
}

// What a sine or a cosine is taken of stays f32, and what that is made of: f16 has no 4,097th position.
TEST(LowerPrecision, AnglesStayAsTheyAre) {
  const std::string turned = R"(
    const %f: f32[4] = [1, 0.1, 0.01, 0.001]
    %t = pointwise {function=mul} (%x, %f)
    %r = transpose {permutation=[1, 0]} (%t)
    %c = pointwise {function=cos} (%r)
    %y = softmax {axis=1} (%c)
    return y=%y)";
  EXPECT_TRUE(outline(lowered(turned)).starts_with("pointwise:f32 transpose:f32")) << outline(lowered(turned));
}

}  // namespace
}  // namespace camshaft::lower_precision_test
