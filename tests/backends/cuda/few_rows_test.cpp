// Products of few rows with constant weights, by the GPU's kernels against the reference.
#include <gtest/gtest.h>

#include <limits>

#include "backends/cpu/random_data.h"
#include "backends/cuda/codegen/contract_text.h"
#include "backends/cuda/codegen/few_rows_text.h"
#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/run_product.h"
#include "backends/cuda/run_region.h"
#include "backends/cuda/tactics/epilogue.h"
#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::cuda::few_rows_test {
namespace {

using cpu::RandomData;

constexpr const char* tactic = "cuda_few_rows";

// Of sums in f32 that are rounded once.
double tolerance_of(DType dtype) {
  return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 1e-3 : 8e-3;
}

NodeTest product(RandomData& random, DType dtype, int64_t m, int64_t n, int64_t k, bool transpose_b) {
  const auto floats = [&](const Dims& dims) {
    const std::vector<float> values = random.floats(element_count(dims), 1);
    return tensor_of(dtype, dims, {values.begin(), values.end()});
  };
  NodeTest test(ops::MatMul{false, transpose_b}, {floats({m, k}), floats(transpose_b ? Dims{n, k} : Dims{k, n})},
                tactic, tolerance_of(dtype));
  test.constants = {1};
  return test;
}

TEST(FewRows, SizesAndTypes) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType dtype : types_of_products())
    for (int round = 0; round < 24; ++round) {
      NodeTest test =
          product(random, dtype, random.integer(1, random.coin() ? 8 : 40), random.integer(1, random.coin() ? 40 : 200),
                  random.integer(1, random.coin() ? 70 : 700), random.coin());
      test.misaligned = random.integer(0, 3) == 0;
      test.check();
    }
}

// Wide and deep enough for every number of warps, and of blocks that share columns.
TEST(FewRows, EveryVariant) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType dtype : types_of_products())
    for (const int64_t m : {int64_t{1}, random.integer(2, 8)}) {
      NodeTest test = product(random, dtype, m, 72, random.integer(4400, 4500), random.coin());
      const std::vector<std::string> variants = test.variants();
      EXPECT_EQ(variants.size(), gpu_features().clusters ? 6U : variants.size());
      EXPECT_GE(variants.size(), 5U);
      for (const std::string& variant : variants) {
        test.variant = variant;
        test.check();
      }
    }
}

// Whole pieces of all columns.
TEST(FewRows, EveryVariantOfWholePieces) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType dtype : types_of_products())
    for (const int64_t m : {int64_t{1}, random.integer(2, 8)}) {
      NodeTest test = product(random, dtype, m, 128, 256 * random.integer(1, m == 1 ? 9 : 2), true);
      for (const std::string& variant : test.variants()) {
        test.variant = variant;
        test.check();
      }
    }
}

// Rows of X that pass through shared memory part by part, and more than a block takes.
TEST(FewRows, MoreRows) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType dtype : types_of_products())
    for (const int64_t m : {3, 8, 9, 31}) product(random, dtype, m, 24, 9000, true).check();
}

TEST(FewRows, NoneAndBatches) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  product(random, DType::f16, 0, 24, 40, true).check();
  product(random, DType::f16, 3, 24, 1, true).check();
  NodeTest test = product(random, DType::f16, 6, 40, 96, false);
  test.inputs[0] = test.inputs[0].reshaped({3, 2, 96});
  test.check();
}

TEST(FewRows, InfinitiesAndNaN) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  const double odd[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()};
  for (const DType dtype : types_of_products())
    for (int round = 0; round < 8; ++round) {
      NodeTest test = product(random, dtype, random.integer(1, 12), 40, random.integer(1, 300), random.coin());
      // One row, or one column of weights; others beside it stay as they are.
      Tensor& changed = test.inputs[static_cast<size_t>(round % 2)];
      ops::store_elements(dtype, changed.mutable_data(), random.integer(0, changed.size() - 1), 1, 1,
                          &odd[random.integer(0, 2)]);
      test.check();
    }
}

// A bias, an activation, a residual that is a slice: what follows the sums.
TEST(FewRows, WhatFollows) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType dtype : types_of_products())
    for (const int64_t n : {40, 77}) {
      const std::string type(to_string(dtype)), columns = std::to_string(n);
      const NodeTest plain = product(random, dtype, 5, n, 130, false), other = product(random, dtype, 5, 1, n, false);
      NodeTest test(ops::Region{ops::RegionKind::contract}, {plain.inputs[0], plain.inputs[1], other.inputs[0]}, tactic,
                    tolerance_of(dtype));
      std::string text =
          "graph \"b\" (%x: T[5, 130], %w: T[130, N], %r: T[5, N]) {\n%a = matmul (%x, %w)\n"
          "%b = pointwise {function=add} (%a, %r)\n%y = pointwise {function=tanh} (%b)\nreturn y=%y\n}";
      for (const auto& [name, value] :
           {std::pair(std::string("T["), type + "["), std::pair(std::string("N]"), columns + "]")})
        for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
          text.replace(at, name.size(), value);
      test.bodies = {parse_graph(text, operators())};
      test.constants = {1};
      test.check();
      test.misaligned = true;
      test.check();
    }
}

// sigmoid(g) · g · u + c, of rows that may be slices, and its product with weights and a residual.
NodeTest chained(RandomData& random, DType dtype, int64_t m, int64_t n, int64_t k, const char* name) {
  const NodeTest plain = product(random, dtype, m, n, k, false), other = product(random, dtype, m, 1, k, false),
                 residual = product(random, dtype, m, 1, n, false), columns = product(random, dtype, 1, 1, k, false);
  NodeTest test(
      ops::Region{ops::RegionKind::chain},
      {plain.inputs[0], other.inputs[0], columns.inputs[0].reshaped({k}), plain.inputs[1], residual.inputs[0]}, name,
      2 * tolerance(dtype));
  std::string text = R"(graph "b" (%g: T[M, K], %u: T[M, K], %c: T[K], %w: T[K, N], %r: T[M, N]) {
    %h = region {kind=pointwise} (%g, %u, %c) graph (%g: T[M, K], %u: T[M, K], %c: T[K]) {
      %s = pointwise {function=sigmoid} (%g)
      %a = pointwise {function=mul} (%s, %g)
      %b = pointwise {function=mul} (%a, %u)
      %h = pointwise {function=add} (%b, %c)
      return %h
    }
    %y = region {kind=contract} (%h, %w, %r) graph (%h: T[M, K], %w: T[K, N], %r: T[M, N]) {
      %p = matmul (%h, %w)
      %y = pointwise {function=add} (%p, %r)
      return %y
    }
    return %y
  })";
  const std::pair<std::string, std::string> names[] = {{"T[", std::string(to_string(dtype)) + "["},
                                                       {"[M", "[" + std::to_string(m)},
                                                       {"[K", "[" + std::to_string(k)},
                                                       {" K]", " " + std::to_string(k) + "]"},
                                                       {" N]", " " + std::to_string(n) + "]"}};
  for (const auto& [from, to] : names)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  test.bodies = {parse_graph(text, operators())};
  test.constants = {3};
  return test;
}

TEST(FewRows, LayersBeforeThem) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType dtype : types_of_products())
    for (int round = 0; round < 6; ++round) {
      const int64_t m = round % 2 ? random.integer(1, 8) : random.integer(9, 70), n = random.integer(1, 90),
                    k = random.integer(1, round < 3 ? 90 : 900);
      for (const char* name : {"cuda_few_rows", "cuda_chained_contract"}) {
        NodeTest test = chained(random, dtype, m, n, k, name);
        test.check();
        test.misaligned = true;
        test.check();
      }
    }
}

TEST(FewRows, WhatItDoesNotTake) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  NodeTest variable = product(random, DType::f16, 3, 8, 16, true);
  variable.constants = {};
  EXPECT_TRUE(variable.variants().empty());
  NodeTest transposed = product(random, DType::f16, 3, 8, 16, true);
  transposed.op = ops::MatMul{true, true};
  transposed.inputs[0] = transposed.inputs[0].reshaped({16, 3});
  EXPECT_TRUE(transposed.variants().empty());
}

TEST(FewRowsText, Compiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  using Kind = ScalarInstruction::Kind;
  for (const int capability : {75, 80, 90})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      if (dtype == DType::bf16 && capability < 80) continue;
      EpilogueView view;
      view.result = dtype;
      view.program.inputs = 1;
      view.program.instructions = {{.kind = Kind::load, .dtype = DType::f32, .a = 0}};
      view.program.outputs = {0};
      for (const int rows : {1, 8}) {
        const FewRowsForm form{.dtype = dtype, .rows = rows, .warps = 8, .shares = 4};
        EXPECT_FALSE(
            compiler.compile({"few_rows", few_rows_text(form, finish_text(view, true)), architecture(capability)})
                .empty());
      }
    }
}

// A norm of the rows that a product takes, a residual, and the moments of what it gives: all that a decoder's layers
// have.
TEST(FewRowsText, NormsAndResidualsCompile) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  using Kind = ScalarInstruction::Kind;
  const auto apply = [](ScalarFunction function, int32_t a, int32_t b) {
    return ScalarInstruction{.kind = Kind::apply, .function = function, .dtype = DType::f32, .a = a, .b = b};
  };
  for (const bool is_normed : {false, true}) {
    EpilogueView view;
    view.result = DType::f16;
    view.gives_moments = ops::RowMoments{};
    view.loads = {3, 2};
    view.types = {DType::f16, DType::f32};
    view.layouts = {EpilogueView::Layout::dense, EpilogueView::Layout::row_factor};
    view.constant = {false, false};
    view.program.inputs = 3;
    view.program.instructions = {{.kind = Kind::load, .dtype = DType::f32, .a = 0},
                                 {.kind = Kind::load, .dtype = DType::f16, .a = 1},
                                 {.kind = Kind::cast, .dtype = DType::f32, .a = 1},
                                 apply(ScalarFunction::add, 0, 2)};
    view.program.outputs = {3};
    if (is_normed) {
      view.norm = ops::RowNorm{};
      view.program.instructions.push_back({.kind = Kind::load, .dtype = DType::f32, .a = 2});
      view.program.instructions.push_back(apply(ScalarFunction::mul, 3, 4));
      view.program.outputs = {5};
    } else {
      view.loads.pop_back(), view.types.pop_back(), view.layouts.pop_back(), view.constant.pop_back();
      view.program.inputs = 2;
    }
    for (const int rows : {1, 8}) {
      const FewRowsForm form{.dtype = DType::f16, .rows = rows, .warps = 8, .shares = 4, .cluster = 4};
      EXPECT_FALSE(Compiler(nvrtc)
                       .compile({"few_rows", few_rows_text(form, finish_text(view, true)), architecture(90)})
                       .empty());
    }
  }
}

}  // namespace
}  // namespace camshaft::cuda::few_rows_test
