#include "backends/cuda/passes/chain_prologues.h"

#include "optimize/fuse/fuse.h"
#include "optimize/outline.h"
#include "optimize/pass_test.h"

namespace camshaft::chain_prologues_test {
namespace {

std::string chained(const std::string& inputs, const std::string& body) {
  Graph graph = parse_graph("graph \"g\" (" + inputs + ") {\n" + body + "\n}", operators());
  fuse(graph, test_context());
  chain_prologues(graph, test_context());
  verify(graph, "the pass under test");
  return outline(graph);
}

const std::string rows = "%g: f16[n, 64], %u: f16[n, 64]";
const std::string weights = "const %w: f16[64, 32] = 0.5\n";
const std::string swiglu =
    "%s = pointwise {function=sigmoid} (%g)\n%a = pointwise {function=mul} (%s, %g)\n"
    "%h = pointwise {function=mul} (%a, %u)\n";

TEST(ChainPrologues, APointwiseLayerAndTheProductOfWhatItGives) {
  EXPECT_EQ(chained(rows + ", %r: f16[n, 32]",
                    weights + swiglu + "%p = matmul (%h, %w)\n%y = pointwise {function=add} (%p, %r)\nreturn %y"),
            "chain(pointwise(pointwise, pointwise, pointwise), contract(matmul, pointwise))");
}

TEST(ChainPrologues, AllResultsOfTheProduct) {
  Graph graph = parse_graph("graph \"g\" (" + rows + ") {\n" + weights + swiglu +
                                "%y, %m = region {kind=contract} (%h, %w) graph (%h: f16[n, 64], %w: f16[64, 32]) {\n"
                                "%p = matmul (%h, %w)\n%m = row_moments {width=32} (%p)\nreturn %p, %m\n}\n"
                                "return %y, %m\n}",
                            operators());
  fuse(graph, test_context());
  chain_prologues(graph, test_context());
  verify(graph, "the pass under test");
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].outputs, graph.outputs);
}

TEST(ChainPrologues, OthersStayApart) {
  const std::string apart = "pointwise(pointwise, pointwise, pointwise), matmul";
  const std::string product = "%y = matmul (%h, %w)\nreturn %y";
  EXPECT_EQ(chained(rows, weights + swiglu + product), "chain(pointwise(pointwise, pointwise, pointwise), matmul)");
  // Somebody else reads the rows; they are many; weights are computed, or of f32.
  EXPECT_EQ(chained(rows, weights + swiglu + product + ", %h"), apart);
  EXPECT_EQ(chained("%g: f16[n, 65, 64], %u: f16[n, 65, 64]", weights + swiglu + product), apart);
  EXPECT_EQ(chained(rows + ", %w: f16[64, 32]", swiglu + product), apart);
  EXPECT_EQ(chained("%g: f32[n, 64], %u: f32[n, 64]", "const %w: f32[64, 32] = 0.5\n" + swiglu + product), apart);
}

}  // namespace
}  // namespace camshaft::chain_prologues_test
