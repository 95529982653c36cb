#include "backends/cuda/passes/chain_updates.h"

#include "optimize/outline.h"
#include "optimize/pass_test.h"

namespace camshaft::chain_updates_test {
namespace {

const std::string inputs =
    "%q: f16[n, 8], %k: f16[n, 4], %v: f16[n, 4], %c: f16[n, 2], %s: f16[n, 2], %at: i64[n], %kc: f16[b, 4, 1, 4], "
    "%vc: f16[b, 4, 1, 4], %starts: i32[m], %past: i32[s], %table: i32[s, w]";
const std::string update =
    "%turned, %ko, %vo = paged_update {heads=2, rotated=4} (%q, %k, %v, %c, %s, %at, %kc, %vc)\n";
const std::string attention = "%y = paged_attention {heads=2} (%turned, %ko, %vo, %starts, %past, %table)\n";

Graph chained(const std::string& body) {
  Graph graph = parse_graph("graph \"g\" (" + inputs + ") {\n" + body + "\n}", operators());
  chain_updates(graph, test_context());
  verify(graph, "the pass under test");
  return graph;
}

TEST(ChainUpdates, TheAttentionAndTheCachesAreResults) {
  const Graph graph = chained(update + attention + "return %y, %ko, %vo");
  EXPECT_EQ(outline(graph), "chain(paged_update, paged_attention)");
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(graph.nodes[0].outputs, graph.outputs);
}

// As passes before leave it.
TEST(ChainUpdates, ViewsBetweenAreNoneOfItsParts) {
  const std::string there = "%h = reshape {shape=shape(n, 2, 4)} (%turned)\n%r = reshape {shape=shape(n, 8)} (%h)\n";
  const std::string read = "%y = paged_attention {heads=2} (%r, %ko, %vo, %starts, %past, %table)\n";
  EXPECT_EQ(outline(chained(update + there + read + "return %y, %ko, %vo")), "chain(paged_update, paged_attention)");
  EXPECT_EQ(outline(chained(update + there + read + "return %y, %ko, %vo, %h")),
            "paged_update, reshape, paged_attention");
}

TEST(ChainUpdates, OthersStayApart) {
  const std::string apart = "paged_update, paged_attention";
  EXPECT_EQ(outline(chained(update + attention + "return %y, %turned")), apart);
  EXPECT_EQ(outline(chained(update + "%y = paged_attention {heads=2} (%turned, %kc, %vo, %starts, %past, %table)\n" +
                            "return %y, %ko")),
            apart);
  // Nobody has the caches, which then are nobody's memory.
  EXPECT_EQ(outline(chained(update + attention + "return %y")), apart);
  // A cache is read before the attention is.
  EXPECT_EQ(outline(chained(update + "%z = pointwise {function=neg} (%ko)\n" + attention + "return %y, %z")),
            "paged_update, pointwise, paged_attention");
}

}  // namespace
}  // namespace camshaft::chain_updates_test
