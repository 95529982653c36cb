#include "backends/cuda/passes/reshape_behind_product.h"

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::reshape_behind_product_test {
namespace {

struct Case {
  Shape seen = {5, 1, 32};
  bool is_normed = true, epilogue = false, residual = false;
  int64_t k = 32;
};

// norm -> reshape -> product, with a vector and a function behind it or not.
Graph graph_of(const Case& c, Random& random) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::f16, {1, 5, 32}});
  const ValueId n = c.is_normed ? g.add(ops::LayerNorm{2, 1e-5, false}, {x, no_value, no_value}, "n")
                                : g.add(ops::Pointwise{ScalarFunction::neg}, {x}, "n");
  const ValueId seen = g.add(ops::Reshape{c.seen}, {n}, "seen");
  const ValueId w = g.add_constant("w", random_tensor(random, DType::f16, {c.k, 8}));
  ValueId y = g.add(ops::MatMul{}, {seen, w}, "y");
  if (c.epilogue) {
    const ValueId bias = g.add_constant("bias", random_tensor(random, DType::f16, {8}));
    y = g.add(ops::Pointwise{ScalarFunction::tanh}, {g.add(ops::Pointwise{ScalarFunction::add}, {y, bias}, "sum")},
              "active");
  }
  if (c.residual) {
    const ValueId r = g.add_input("r", {DType::f16, g.shape(y)});
    y = g.add(ops::Pointwise{ScalarFunction::add}, {y, r}, "added");
  }
  g.add_output("y", y);
  fuse(g, test_context());
  return g;
}

TEST(ReshapeBehindProduct, NormAndProductBecomeNeighbours) {
  Random random = test_random();
  for (const Case& c :
       std::vector<Case>{{}, {.epilogue = true}, {.seen = {5, 32}}, {.seen = {1, 1, 5, 32}, .epilogue = true}}) {
    Graph graph = graph_of(c, random);
    const Graph before = graph;
    reshape_behind_product(graph, test_context());
    verify(graph, "the pass under test");
    ASSERT_EQ(graph.nodes.size(), 3U) << print(graph);
    EXPECT_TRUE(graph.nodes[0].op.as<ops::LayerNorm>());
    EXPECT_TRUE(graph.nodes[2].op.as<ops::Reshape>());
    EXPECT_EQ(graph.nodes[1].inputs[0], graph.nodes[0].outputs[0]);
    const Tensor x = random_tensor(random, DType::f16, {1, 5, 32});
    EXPECT_TRUE(evaluate(before, {x}, test_pool())[0] == evaluate(graph, {x}, test_pool())[0]);
  }
}

TEST(ReshapeBehindProduct, NotWhereRowsChangeOrOthersHaveThemToo) {
  Random random = test_random();
  for (const Case& c : std::vector<Case>{{.is_normed = false}, {.residual = true}, {.seen = {10, 16}, .k = 16}}) {
    Graph graph = graph_of(c, random);
    const Graph before = graph;
    reshape_behind_product(graph, test_context());
    EXPECT_TRUE(equal(graph, before)) << print(graph);
  }
}

}  // namespace
}  // namespace camshaft::reshape_behind_product_test
