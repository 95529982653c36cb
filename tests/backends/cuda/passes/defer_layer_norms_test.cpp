#include "backends/cuda/passes/defer_layer_norms.h"

#include <set>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/row_moments.h"
#include "optimize/fuse/fuse.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::defer_layer_norms_test {
namespace {

// x -> product + x -> norm -> product with a function behind it, and product + norm.
struct Block {
  Dim rows = 3;
  int64_t width = 64, inner = 96;
  DType dtype = DType::f16;
  bool scale = true, bias = true, root_mean_square = false, transpose_b = false;
  bool norm_is_output = false;
};

Tensor scaled(Random& random, DType dtype, const Dims& dims, double by, double plus = 0) {
  std::vector<double> values = random_tensor(random, dtype, dims).to_doubles();
  for (double& v : values) v = v * by + plus;
  Tensor made(dtype, dims);
  ops::store_elements(dtype, made.mutable_data(), 0, 1, made.size(), values.data());
  return made;
}

Graph graph_of(const Block& b, Random& random) {
  using F = ScalarFunction;
  Graph g;
  const auto weights = [&](const char* name, int64_t k, int64_t n) {
    const Dims dims = b.transpose_b ? Dims{n, k} : Dims{k, n};
    return g.add_constant(name, scaled(random, b.dtype, dims, 0.1));
  };
  const auto matmul = [&](ValueId a, ValueId w, const char* name) {
    return g.add(ops::MatMul{false, b.transpose_b}, {a, w}, name);
  };
  const ValueId x = g.add_input("x", {b.dtype, {2, b.rows, b.width}});
  const ValueId p = matmul(x, weights("w0", b.width, b.width), "p");
  const ValueId sum = g.add(ops::Pointwise{F::add}, {p, x}, "sum");
  std::vector<ValueId> operands{sum, no_value, no_value};
  if (b.scale) operands[1] = g.add_constant("scale", scaled(random, b.dtype, {b.width}, 0.3, 1));
  if (b.bias) operands[2] = g.add_constant("bias", scaled(random, b.dtype, {b.width}, 0.2));
  const ValueId n = g.add(ops::LayerNorm{2, 1e-5, b.root_mean_square}, operands, "n");
  const ValueId inner = matmul(n, weights("w1", b.width, b.inner), "inner");
  const ValueId active = g.add(ops::Pointwise{F::tanh}, {inner}, "active");
  const ValueId q = matmul(active, weights("w2", b.inner, b.width), "q");
  g.add_output("y", g.add(ops::Pointwise{F::add}, {q, n}, "y"));
  if (b.norm_is_output) g.add_output("n", n);
  fuse(g, test_context());
  return g;
}

size_t count_norms(const Graph& graph) {
  return static_cast<size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                           [](const Node& node) { return node.op.as<ops::LayerNorm>() != nullptr; }));
}

TEST(DeferLayerNorms, ProductsTakeThemAndTheResultIsTheSame) {
  Random random = test_random();
  for (const Block& block : std::vector<Block>{{},
                                               {.rows = 1, .width = 32, .inner = 8},
                                               {.dtype = DType::bf16},
                                               {.scale = false},
                                               {.bias = false, .root_mean_square = true},
                                               {.scale = false, .bias = false, .transpose_b = true}}) {
    Graph graph = graph_of(block, random);
    const Graph before = graph;
    run_pass_on_named(defer_layer_norms, graph, test_context(), "defer_layer_norms");
    verify(graph, "the pass under test");
    EXPECT_EQ(graph.nodes.size(), 3U) << print(graph);
    EXPECT_EQ(count_norms(graph), 0U);
    const Tensor x = random_tensor(random, block.dtype, {2, *block.rows.as_constant(), block.width});
    const std::vector<double> expected = evaluate(before, {x}, test_pool())[0].to_doubles(),
                              y = evaluate(graph, {x}, test_pool())[0].to_doubles();
    const double unit = block.dtype == DType::f16 ? 5e-3 : 4e-2;
    for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], unit * std::max(1.0, std::abs(expected[i])));
  }
}

// The widths of the parts that moments are given of, with sizes of a profile.
std::vector<int64_t> widths_of(Graph graph, const SymbolBindings& optimum) {
  PassContext context = test_context();
  context.optimum = optimum;
  run_pass_on_named(defer_layer_norms, graph, context, "defer_layer_norms");
  std::vector<int64_t> widths;
  for (const Node& node : graph.nodes)
    for (const Graph& body : node.bodies)
      for (const Node& inner : body.nodes) {
        if (const auto* given = inner.op.as<ops::RowMoments>()) widths.push_back(given->width);
        if (const auto* read = inner.op.as<ops::RowNorm>()) widths.push_back(read->width);
      }
  return widths;
}

// Blocks of few rows would wait for each other to give the moments of more columns than they have.
TEST(DeferLayerNorms, PartsOfFewRowsAreNarrow) {
  Random random = test_random();
  const auto widths = [&](Dim rows, const SymbolBindings& optimum = {}) {
    const std::vector<int64_t> all = widths_of(graph_of({.rows = std::move(rows)}, random), optimum);
    EXPECT_EQ(all.size(), 3U);  // one product gives them, two read them
    EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 1U);
    return all.empty() ? 0 : all[0];
  };
  EXPECT_EQ(widths(4), 16);  // of two
  EXPECT_EQ(widths(5), 32);
  const Dim n = Dim::symbol("n");
  EXPECT_EQ(widths(n, {{"n", 1}}), 16);
  EXPECT_EQ(widths(n, {{"n", 5}}), 32);
  EXPECT_EQ(widths(n), 32) << "nobody knows how many they are";
}

TEST(DeferLayerNorms, NotWhereSomebodyNeedsTheRows) {
  Random random = test_random();
  for (const Block& block :
       std::vector<Block>{{.norm_is_output = true}, {.width = 40}, {.dtype = DType::f32}, {.rows = 1025}}) {
    Graph graph = graph_of(block, random);
    const Graph before = graph;
    run_pass_on_named(defer_layer_norms, graph, test_context(), "defer_layer_norms");
    EXPECT_TRUE(equal(graph, before));
  }
}

// A scale so small that f16 would have little left of the weights.
TEST(DeferLayerNorms, NotWhereScaledWeightsDoNotFit) {
  Random random = test_random();
  for (const double scale : {1e-4, 6e5}) {
    Graph graph = graph_of({}, random);
    for (Value& value : graph.values)
      if (value.name == "scale")
        value.constant = std::make_shared<const Tensor>(scaled(random, DType::f16, {64}, 0, std::min(scale, 6e4)));
      else if (value.name == "w1" && scale > 1)
        value.constant = std::make_shared<const Tensor>(scaled(random, DType::f16, {64, 96}, 1));
    const Graph before = graph;
    run_pass_on_named(defer_layer_norms, graph, test_context(), "defer_layer_norms");
    EXPECT_TRUE(equal(graph, before));
  }
}

}  // namespace
}  // namespace camshaft::defer_layer_norms_test
