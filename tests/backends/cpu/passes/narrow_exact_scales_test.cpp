#include "backends/cpu/passes/narrow_exact_scales.h"

#include "ir/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"

namespace camshaft::narrow_exact_scales_test {
namespace {

// The dtype of the scale of the only product, after the pass.
DType scale_of(const std::string& x, const std::string& scale, bool fused) {
  const std::string behind =
      fused ? "\n%r = pointwise {function=max} (%y, %y)\nreturn \"r\" = %r" : "\nreturn \"y\" = %y";
  Graph graph = graph_of("%x: " + x + "[3, 4]",
                         "const %w: u4[2, 4] = [1, 2, 3, 4, 5, 6, 7, 8]\nconst %s: f32[2, 1] = [" + scale +
                             "]\n%y = weight_only_matmul {block=4, transposed=true} (%x, %w, %s)" + behind);
  fuse(graph, test_context());
  narrow_exact_scales(graph, test_context());
  verify(graph, "the pass under test");
  const Node& product = graph.nodes.back();
  const Node& first = first_operator(product);
  return (&first == &product ? graph : product.bodies[0]).type(first.inputs[2]).dtype;
}

TEST(NarrowExactScales, OfWhichHalvesHaveAllBits) {
  for (const bool fused : {false, true}) {
    EXPECT_EQ(scale_of("f32", "0.25, 0", fused), DType::f16);
    EXPECT_EQ(scale_of("f32", "0.25, 0.000030517578125", fused), DType::f16);  // no normal number
    EXPECT_EQ(scale_of("f32", "0.25, 0.1", fused), DType::f32);
    EXPECT_EQ(scale_of("f32", "0.25, 100000", fused), DType::f32);
    EXPECT_EQ(scale_of("bf16", "0.25, 0", fused), DType::f32);
  }
}

}  // namespace
}  // namespace camshaft::narrow_exact_scales_test
