#include "backends/cuda/passes/join_transposes.h"

#include "ir/ops/region.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::join_transposes_test {
namespace {

Graph parsed(const std::string& body, const std::string& input) {
  return graph_of("%x: " + input, body);
}

TEST(JoinTransposes, WithACastBeforeOrBehindAndARegion) {
  Random random = test_random();
  for (const char* body :
       {"%c = cast {to=f16} (%x)\n%y = transpose {permutation=[0, 2, 3, 1]} (%c)\nreturn \"y\" = %y",
        "%t = transpose {permutation=[0, 2, 3, 1]} (%x)\n%y = cast {to=f16} (%t)\nreturn \"y\" = %y",
        "const %a: f32[] = 0.5\n%b = pointwise {function=mul} (%x, %a)\n%c = pointwise {function=exp} "
        "(%b)\n%y = transpose {permutation=[0, 2, 3, 1]} (%c)\nreturn \"y\" = %y"}) {
    Graph graph = parsed(body, "f32[2, 3, 5, 7]");
    fuse(graph, test_context());
    const Graph before = graph;
    join_transposes(graph, test_context());
    verify(graph, "the pass under test");
    EXPECT_EQ(graph.nodes.size(), 1U) << print(graph);
    const Tensor x = random_tensor(random, DType::f32, {2, 3, 5, 7});
    EXPECT_EQ(evaluate(graph, {x}, test_pool())[0], evaluate(before, {x}, test_pool())[0]);
  }
}

TEST(JoinTransposes, NotWhereRowsWouldBeReadByColumns) {
  for (const auto& [body, input] :
       {std::pair("%c = cast {to=f16} (%x)\n%y = transpose {permutation=[1, 0]} (%c)\nreturn \"y\" = %y",
                  "f32[64, 64]"),
        {"%c = cast {to=f16} (%x)\n%y = transpose {permutation=[1, 0]} (%c)\nreturn \"y\" = "
         "%y, \"c\" = %c",
         "f32[3, 64]"}}) {
    Graph graph = parsed(body, input);
    const Graph before = graph;
    join_transposes(graph, test_context());
    EXPECT_TRUE(equal(graph, before));
  }
}

}  // namespace
}  // namespace camshaft::join_transposes_test
