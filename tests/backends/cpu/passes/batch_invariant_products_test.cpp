#include "backends/cpu/passes/batch_invariant_products.h"

#include "ir/ops/contract.h"
#include "ir/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"

namespace camshaft::batch_invariant_products_test {
namespace {

// Whether the only product is batch-invariant after the pass.
bool is_marked(bool attends, bool fused) {
  std::string text = "const %w: f32[2, 6] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n%y = matmul (%x, %w)\n";
  if (fused) text += "%r = pointwise {function=max} (%y, %y)\n";
  std::string last = fused ? "%r" : "%y";
  if (attends) {
    text += "%z = paged_attention {heads=2} (" + last + ", %keys, %keys, %starts, %past, %table)\n";
    last = "%z";
  }
  Graph graph = graph_of("%x: f32[3, 2], %keys: f32[5, 4, 2, 3], %starts: i32[2], %past: i32[1], %table: i32[1, 5]",
                         text + "return \"" + last.substr(1) + "\" = " + last);
  fuse(graph, test_context());
  batch_invariant_products(graph, test_context());
  verify(graph, "the pass under test");
  for (const Node& node : graph.nodes)
    if (const auto* product = first_operator(node).op.as<ops::MatMul>()) return product->batch_invariant;
  ADD_FAILURE() << "the product is gone";
  return false;
}

TEST(BatchInvariantProducts, OfGraphsWhoseSequencesComeAndGo) {
  for (const bool fused : {false, true}) {
    EXPECT_TRUE(is_marked(true, fused));
    EXPECT_FALSE(is_marked(false, fused));
  }
}

}  // namespace
}  // namespace camshaft::batch_invariant_products_test
