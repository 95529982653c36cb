#include "optimize/precision/allow_rounding.h"

#include "ir/ops/attention.h"
#include "ir/ops/contract.h"
#include "optimize/pass_test.h"

namespace camshaft::allow_rounding_test {
namespace {

const std::string model = R"(graph "g" (%x: f32[2, 4, 3], %h: f16[2, 3]) {
    const %w: f32[3, 5] = 0.5
    const %v: f32[5, 3, 1] = 0.5
    const %u: f16[3, 5] = 0.5
    %r = region {kind=contract} (%x, %w)
      graph (%a: f32[2, 4, 3], %b: f32[3, 5]) {
        %m = matmul (%a, %b)
        %e = pointwise {function=exp} (%m)
        return %e
      }
    %c = conv {strides=[1], pads=shape(0, 0), dilations=[1], channels_last=true} (%x, %v)
    %n = matmul (%h, %u)
    %a = attention {outer=shape(2), queries=shape(4), keys=shape(4), size=3, value_size=3, query=shape(0, 12, 3, 1), key=shape(0, 12, 3, 1), value=shape(0, 12, 3, 1), result=shape(0, 12, 3, 1), masks=shape(), masked=[], shape=shape(2, 4, 3)} (%x, %x, %x)
    return "r" = %r, "c" = %c, "n" = %n, "a" = %a
  })";

TEST(AllowRounding, MarksProductsOfF32WhereAllowed) {
  const Graph before = parse_graph(model, operators());
  Graph graph = before;
  PassContext context = test_context();
  allow_rounding(graph, context);
  EXPECT_TRUE(equal(graph, before));
  for (const ops::Rounding rounding : {ops::Rounding::tf32, ops::Rounding::bf16}) {
    context.rounding = rounding;
    graph = before;
    allow_rounding(graph, context);
    verify(graph, "the pass under test");
    ASSERT_EQ(graph.nodes.size(), 4U);
    EXPECT_EQ(graph.nodes[0].bodies[0].nodes[0].op.as<ops::MatMul>()->rounding, rounding);
    EXPECT_EQ(graph.nodes[1].op.as<ops::Conv>()->rounding, rounding);
    const bool has_kernels = rounding == ops::Rounding::bf16;
    EXPECT_EQ(graph.nodes[3].op.as<ops::Attention>()->rounding, has_kernels ? rounding : ops::Rounding::none);
    EXPECT_EQ(graph.nodes[2].op.as<ops::MatMul>()->rounding, ops::Rounding::none);  // of f16
    EXPECT_TRUE(equal(parse_graph(print(graph), operators()), graph));
  }
}

}  // namespace
}  // namespace camshaft::allow_rounding_test
