// Products that give the moments of their rows, and products of normed rows, against the reference.
#include <gtest/gtest.h>

#include "backends/cuda/run_node.h"
#include "ir/ops/operators.h"
#include "ir/ops/region.h"
#include "ir/text.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda::row_norm_test {
namespace {

struct Sizes {
  int64_t m, n, k;
};

// Tails of tiles along m, parts of them along n, and k that several blocks share.
const std::vector<Sizes> all_sizes = {{1, 32, 32},   {5, 96, 64},     {64, 64, 128},  {130, 768, 96},
                                      {3, 160, 512}, {16, 768, 3072}, {200, 32, 1024}};

std::vector<DType> half_types() {
  std::vector<DType> types = types_of_products();
  types.erase(types.begin());
  return types;
}

// Columns that moments are given of.
constexpr int64_t widths[] = {16, 32};

Graph body(const std::string& inputs, const std::string& nodes, DType dtype, const Sizes& s, int64_t width) {
  std::string text = "graph \"b\" (" + inputs + ") {\n" + nodes + "\n}";
  const auto put = [&](const std::string& name, const std::string& value) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name))
      text.replace(at, name.size(), value);
  };
  put("TYPE", std::string(to_string(dtype)));
  put("PARTS", std::to_string(s.k / width));
  put("WIDTH", std::to_string(width));
  put("M", std::to_string(s.m));
  put("N", std::to_string(s.n));
  put("K", std::to_string(s.k));
  return parse_graph(text, operators());
}

constexpr const char* tactics[] = {"cuda_contract", "cuda_few_rows"};

double tolerance(DType dtype) {
  return dtype == DType::f16 ? 4e-3 : 3e-2;
}

TEST(CudaRowNorm, MomentsBesideTheRows) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : half_types())
    for (const int64_t width : widths)
      for (const Sizes& s : all_sizes) {
        NodeTest test(ops::Region{ops::RegionKind::contract},
                      {random_tensor(random, dtype, {s.m, s.k}), random_tensor(random, dtype, {s.k, s.n}),
                       random_tensor(random, dtype, {s.m, s.n})},
                      "", tolerance(dtype));
        test.bodies = {
            body("%x: TYPE[M, K], %w: TYPE[K, N], %r: TYPE[M, N]",
                 "%a = matmul (%x, %w)\n%y = pointwise {function=add} (%a, %r)\n%m = row_moments {width=WIDTH} (%y)\n"
                 "return y=%y, m=%m",
                 dtype, s, width)};
        test.constants = {1};
        test.outputs = 2;
        for (const char* tactic : tactics) {
          test.tactic = tactic;
          test.check();
        }
        if (s.k > 128 || s.m > 64 || dtype != half_types()[0]) continue;
        for (const std::string& variant : test.variants()) {  // of the last one: clusters of every size
          test.variant = variant;
          test.check();
        }
        test.variant.clear();
      }
}

Tensor moments_of(Random& random, const Sizes& s, int64_t width) {
  Tensor made = random_tensor(random, DType::f32, {s.m, s.k / width, 2});
  for (int64_t i = 1; i < made.size(); i += 2) made.as_mutable<float>()[i] = 20 + made.as<float>()[i];
  return made;
}

TEST(CudaRowNorm, NormedResults) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : half_types())
    for (const bool root_mean_square : {false, true})
      for (size_t i = 0; i < all_sizes.size(); ++i) {
        const Sizes& s = all_sizes[i];
        const int64_t width = widths[(i + (root_mean_square ? 1 : 0)) % 2];
        NodeTest test(ops::Region{ops::RegionKind::contract},
                      {random_tensor(random, dtype, {s.m, s.k}), random_tensor(random, dtype, {s.k, s.n}),
                       moments_of(random, s, width), random_tensor(random, DType::f32, {s.n})},
                      "", tolerance(dtype));
        test.bodies = {body("%x: TYPE[M, K], %w: TYPE[K, N], %t: f32[M, PARTS, 2], %u: f32[N]",
                            "%a = matmul (%x, %w)\n%c = cast {to=f32} (%a)\n%mean, %factor = row_norm "
                            "{epsilon=0.001, root_mean_square=" +
                                std::string(root_mean_square ? "true" : "false") +
                                ", width=WIDTH} (%t)\n%b = pointwise {function=mul} (%mean, %u)\n%d = pointwise "
                                "{function=sub} (%c, %b)\n%e = pointwise {function=mul} (%d, %factor)\n%y = cast "
                                "{to=TYPE} (%e)\nreturn y=%y",
                            dtype, s, width)};
        test.constants = {1};
        for (const char* tactic : tactics) {
          test.tactic = tactic;
          test.check();
        }
      }
}

// The moments of one kernel are those that the next one reads.
TEST(CudaRowNorm, ProductsOfOtherFormsAreLeftToOthers) {
  SKIP_WITHOUT_GPU();
  std::string problem;
  const auto gpu = backend_if_any(problem);
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f16, {4, 64}}), w = graph.add_input("w", {DType::f16, {64, 64}});
  Graph inner =
      body("%x: TYPE[M, K], %w: TYPE[K, N]",
           "%y = matmul (%x, %w)\n%m = row_moments {width=32} (%y)\nreturn y=%y, m=%m", DType::f16, {4, 64, 64}, 32);
  graph.add_node(ops::Region{ops::RegionKind::contract}, {x, w}, {"y", "m"}, {}, {inner});
  const SymbolBindings symbols;
  for (const Tactic& tactic : gpu->tactics({graph, graph.nodes[0], symbols})) EXPECT_EQ(tactic.name, "reference");
}

}  // namespace
}  // namespace camshaft::cuda::row_norm_test
