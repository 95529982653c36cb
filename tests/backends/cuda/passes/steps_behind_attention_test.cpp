#include "backends/cuda/passes/steps_behind_attention.h"

#include "ir/ops/move.h"
#include "ir/ops/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::steps_behind_attention_test {
namespace {

// Heads of `size` elements beside each other in the rows of one tensor, then steps.
std::string nodes(int64_t size, const std::string& results, bool is_seen = false) {
  const std::string width = std::to_string(2 * size), row = std::to_string(6 * size), d = std::to_string(size);
  return "%y = attention {outer=shape(2), queries=shape(5), keys=shape(5), size=" + d + ", value_size=" + d +
         ", query=shape(0, " + d + ", " + row + ", 1), key=shape(" + width + ", " + d + ", " + row +
         ", 1), value=shape(" + std::to_string(4 * size) + ", " + d + ", " + row + ", 1), result=shape(0, " + d + ", " +
         width + ", 1), shape=shape(5, " + (is_seen ? "2, " + d : width) + ")} (%x, %x, %x)" +
         (is_seen ? "\n%o = reshape {shape=shape(5, " + width + ")} (%y)" : "") + R"(
    const %s: f32[] = 0.125
    const %z: f32[] = 3
    %d = pointwise {function=div} (%)" +
         std::string(is_seen ? "o" : "y") + R"(, %s)
    %r = pointwise {function=round} (%d)
    %m = pointwise {function=add} (%r, %z)
    %q = cast {to=u8} (%m)
    )" + results;
}

struct Passed {
  Graph before, after;
};

Passed passed(int64_t size, const std::string& results, bool is_seen = false) {
  Graph graph = graph_of("%x: f32[5, " + std::to_string(6 * size) + "]", nodes(size, results, is_seen));
  fuse(graph, test_context());
  Passed p{graph, graph};
  steps_behind_attention(p.after, test_context());
  verify(p.after, "the pass under test");
  return p;
}

TEST(StepsBehindAttention, AreAPartOfIt) {
  Random random = test_random();
  const Passed p = passed(4, "return \"q\" = %q");
  ASSERT_EQ(p.after.nodes.size(), 1U) << print(p.after);
  EXPECT_EQ(p.after.nodes[0].op.as<ops::Region>()->kind, ops::RegionKind::attention);
  EXPECT_EQ(p.after.nodes[0].inputs.size(), 1U);
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {5, 24})};
  EXPECT_EQ(evaluate(p.after, inputs, test_pool()), evaluate(p.before, inputs, test_pool()));
}

TEST(StepsBehindAttention, OfHeadsThatAreSeenAsRows) {
  Random random = test_random();
  const Passed p = passed(4, "return \"q\" = %q", true);
  ASSERT_EQ(p.after.nodes.size(), 2U) << print(p.after);
  EXPECT_TRUE(p.after.nodes[0].op.as<ops::Region>());
  EXPECT_TRUE(p.after.nodes[1].op.as<ops::Reshape>());
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {5, 24})};
  EXPECT_EQ(evaluate(p.after, inputs, test_pool()), evaluate(p.before, inputs, test_pool()));
}

TEST(StepsBehindAttention, NotWhereOthersReadTheResult) {
  const Passed p = passed(4, "%t = softmax {axis=1} (%y)\nreturn \"q\" = %q, \"t\" = %t");
  EXPECT_TRUE(equal(p.before, p.after));
}

TEST(StepsBehindAttention, NotOfHeadsThatKernelsMayNotTake) {
  const Passed p = passed(130, "return \"q\" = %q");
  EXPECT_TRUE(equal(p.before, p.after));
}

}  // namespace
}  // namespace camshaft::steps_behind_attention_test
