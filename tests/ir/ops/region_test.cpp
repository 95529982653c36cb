#include "ir/ops/region.h"

#include "ir/ops/operators.h"
#include "ir/ops/small_tensors.h"
#include "ir/text.h"

namespace camshaft::region_test {
namespace {

// Kernels write as many results as the body has.
TEST(Region, HasTheOutputsOfItsBody) {
  EXPECT_THROW(parse_graph(R"(graph "g" (%x: f32[2]) {
    %y = region {kind=pointwise} (%x)
    graph (%a: f32[2]) {
      %b = pointwise {function=neg} (%a)
      return %b, %a
    }
    return "y" = %y
  })",
                           operators()),
               Error);
}

}  // namespace
}  // namespace camshaft::region_test
