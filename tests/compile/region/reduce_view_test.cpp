#include "compile/region/reduce_view.h"

#include <gtest/gtest.h>

#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::reduce_view_test {
namespace {

std::optional<ReduceView> view_of(const std::string& body) {
  const Graph graph = parse_graph(
      "graph (%x: f32[4, 1]) {\n%y = region {kind=reduce} (%x)\ngraph (%x: f32[4, 1]) {\n" + body + "}\nreturn %y\n}",
      operators());
  const SymbolBindings symbols;
  return view_reduce({graph, graph.nodes[0], symbols});
}

TEST(ReduceView, StepsBeforeAndBehind) {
  const auto view = view_of(
      "%e = pointwise {function=exp} (%x)\n%r = reduce {kind=sum, axes=[1]} (%e)\n"
      "%n = pointwise {function=neg} (%r)\nreturn %n\n");
  ASSERT_TRUE(view && view->before && view->behind);
  EXPECT_EQ(view->before->loads, (std::vector<int32_t>{0}));
  EXPECT_EQ(view->behind->loads, (std::vector<int32_t>{view->reduced}));
}

// As only a damaged engine file has it: fuse() gives what it computes last.
TEST(ReduceView, BodiesThatGiveSomethingElseAreNone) {
  EXPECT_FALSE(view_of("%e = pointwise {function=exp} (%x)\n%r = reduce {kind=sum, axes=[1]} (%e)\nreturn %e\n"));
}

}  // namespace
}  // namespace camshaft::reduce_view_test
