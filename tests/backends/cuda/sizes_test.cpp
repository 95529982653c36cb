// Sizes that 32 bits do not hold are refused when a kernel is prepared, whatever the tactic, not cut off.
#include "backends/cuda/run_node.h"
#include "backends/cuda/tactics/narrow.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"

namespace camshaft::cuda {
namespace {

TEST(CudaSizes, NarrowIsExactOrRefuses) {
  EXPECT_EQ(narrow(int64_t{0}), 0U);
  EXPECT_EQ(narrow((int64_t{1} << 31) - 1), 0x7fffffffU);
  EXPECT_EQ(narrow(size_t{7}), 7U);
  for (const int64_t value : {int64_t{1} << 31, int64_t{1} << 32, (int64_t{1} << 32) + 5, int64_t{-1}, INT64_MIN}) {
    try {
      narrow(value, "a number of rows");
      ADD_FAILURE() << value;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(e.what()).find("a number of rows of " + std::to_string(value)), std::string::npos);
    }
  }
  EXPECT_THROW(narrow(SIZE_MAX), Error);
}

TEST(CudaSizes, WhatIsTooLargeIsRefused) {
  SKIP_WITHOUT_GPU();
  std::string problem;
  const auto gpu = backend_if_any(problem);
  const Shape matrix{Dim::symbol("n"), Dim::symbol("m")}, batch{Dim::symbol("n"), Dim::symbol("m"), 1};
  const Shape transposed{Dim::symbol("n"), 1, Dim::symbol("m")};
  struct Sample {
    Op op;
    std::vector<Shape> shapes;
    SymbolBindings sizes;
  };
  const SymbolBindings square{{"n", int64_t{1} << 17}, {"m", int64_t{1} << 17}};
  const Sample samples[] = {
      // Fewer rows in each matrix, and in all of them more than 2^32.
      {ops::MatMul{}, {batch, {Dim::symbol("n"), 1, 8}}, square},
      {ops::MatMul{true, false}, {transposed, {Dim::symbol("n"), 1, 8}}, square},
      {ops::Pointwise{ScalarFunction::exp}, {matrix}, square},
      {ops::Pointwise{ScalarFunction::add}, {matrix, {Dim::symbol("m")}}, square},
      {ops::Softmax{1}, {matrix}, square},
      {ops::Softmax{0}, {matrix}, square},
      {ops::Reduce{ops::ReduceKind::sum, {1}, false}, {matrix}, square},
      {ops::Reduce{ops::ReduceKind::sum, {0}, false}, {matrix}, square},
      {ops::Transpose{{1, 0}}, {matrix}, square},
      {ops::Concat{1}, {matrix, matrix}, square},
      {ops::LayerNorm{1, 1e-5}, {matrix}, square},
  };
  for (const Sample& sample : samples) {
    Graph graph;
    std::vector<ValueId> ids;
    for (const Shape& shape : sample.shapes) ids.push_back(graph.add_input("x", {DType::f32, shape}));
    graph.add_output("y", graph.add(sample.op, ids, "y"));
    const SymbolBindings usual{{"n", 8}, {"m", 16}};
    const RegionView region{graph, graph.nodes.back(), usual};
    KernelShapes shapes;
    shapes.symbols = &sample.sizes;
    const auto bound = [&](const Shape& shape) {
      Dims dims;
      for (const Dim& d : shape) dims.push_back(d.evaluate(sample.sizes));
      return OperandShape{DType::f32, dims};
    };
    for (const Shape& shape : sample.shapes) shapes.inputs.push_back(bound(shape));
    shapes.outputs.push_back(bound(graph.shape(graph.nodes.back().outputs[0])));
    int tried = 0;
    for (const Tactic& tactic : gpu->tactics(region)) {
      if (tactic.name == "cuda_blas") continue;  // the library's strides have 64 bits, and its batch is checked
      PackedConstants packed;
      const auto kernel = gpu->compile(region, tactic, packed);
      if (kernel->place() != Place::device) continue;
      if (tactic.name.starts_with("cuda_blas")) continue;  // which counts in 64 bits
      ++tried;
      try {
        kernel->prepare(shapes);
        ADD_FAILURE() << sample.op.name() << " by " << tactic.str() << " takes sizes beyond 32 bits";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::unsupported) << sample.op.name() << " by " << tactic.str() << ": " << e.what();
      }
    }
    EXPECT_GT(tried, 0) << sample.op.name();
  }
}

}  // namespace
}  // namespace camshaft::cuda
