#include "backends/cuda/passes/steps_behind_products.h"

#include "backends/cuda/passes/steps_behind_norms.h"
#include "ir/ops/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::steps_behind_products_test {
namespace {

struct Passed {
  Graph before, after;
};

Passed passed(void (*pass)(Graph&, const PassContext&), const std::string& body, const std::string& inputs) {
  Graph graph = graph_of(inputs, body);
  fuse(graph, test_context());
  Passed p{graph, graph};
  pass(p.after, test_context());
  verify(p.after, "the pass under test");
  return p;
}

void expect_equal_results(const Passed& p, const std::vector<Tensor>& inputs) {
  const auto got = evaluate(p.after, inputs, test_pool()), want = evaluate(p.before, inputs, test_pool());
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], want[i]);
}

const std::string steps_of_y = R"(
    const %s: f32[] = 0.125
    const %z: f32[] = 3
    %d = pointwise {function=div} (%y, %s)
    %r = pointwise {function=round} (%d)
    %m = pointwise {function=add} (%r, %z)
    %q = cast {to=u8} (%m))";

TEST(StepsBehindProducts, AreAPartOfThem) {
  Random random = test_random();
  const Passed p = passed(steps_behind_products, "%y = matmul (%a, %b)" + steps_of_y + "\nreturn \"q\" = %q",
                          "%a: f32[3, 4], %b: f32[4, 5]");
  ASSERT_EQ(p.after.nodes.size(), 1U) << print(p.after);
  EXPECT_EQ(p.after.nodes[0].op.as<ops::Region>()->kind, ops::RegionKind::contract);
  expect_equal_results(p, {random_tensor(random, DType::f32, {3, 4}), random_tensor(random, DType::f32, {4, 5})});
}

TEST(StepsBehindProducts, NotWhereOthersReadTheResult) {
  const Passed p =
      passed(steps_behind_products,
             "%y = matmul (%a, %b)" + steps_of_y + "\n%t = softmax {axis=1} (%y)\nreturn \"q\" = %q, \"t\" = %t",
             "%a: f32[3, 4], %b: f32[4, 5]");
  EXPECT_TRUE(equal(p.before, p.after));
}

TEST(StepsBehindNorms, AloneOrBesideTheRows) {
  Random random = test_random();
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {3, 8}), random_tensor(random, DType::f32, {8})};
  for (const bool alone : {true, false}) {
    const Passed p = passed(steps_behind_norms,
                            "%y = layer_norm {axis=1, epsilon=1e-5} (%x, %w)" + steps_of_y +
                                (alone ? "\nreturn \"q\" = %q" : "\nreturn \"q\" = %q, \"y\" = %y"),
                            "%x: f32[3, 8], %w: f32[8]");
    ASSERT_EQ(p.after.nodes.size(), 1U) << print(p.after);
    EXPECT_EQ(p.after.nodes[0].outputs.size(), alone ? 1U : 2U);
    expect_equal_results(p, inputs);
  }
}

// Factors of channels lie along the rows, and not along anything else.
TEST(StepsBehindNorms, EvenedOutChannels) {
  Random random = test_random();
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {3, 8}), random_tensor(random, DType::f32, {8})};
  const std::string evened = R"(
    const %e: f32[8] = [1, 2, 0.5, 1, 4, 1, 1, 3]
    %y = pointwise {function=mul} (%l, %e))";
  for (const int axis : {1, 0}) {
    const std::string weights = axis == 1 ? "%w: f32[8]" : "%w: f32[3, 8]";
    const Passed p = passed(steps_behind_norms,
                            "%l = layer_norm {axis=" + std::to_string(axis) + ", epsilon=1e-5} (%x, %w)" + evened +
                                steps_of_y + "\nreturn \"q\" = %q, \"l\" = %l",
                            "%x: f32[3, 8], " + weights);
    EXPECT_EQ(p.after.nodes.size(), axis == 1 ? 1U : 2U) << print(p.after);
    if (axis == 1) expect_equal_results(p, inputs);
  }
}

}  // namespace
}  // namespace camshaft::steps_behind_products_test
