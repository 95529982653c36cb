// Sizes that 32 bits do not hold are refused when a kernel is prepared, whatever the tactic, not cut off.
#include "backends/cuda/run_node.h"
#include "backends/cuda/tactics/narrow.h"
#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::cuda::sizes_test {
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

// The inputs of a graph over n and m, its one node, and constants.
struct Sample {
  const char *inputs, *node, *constants = "";
};

// Kernels that count elements in 32 bits; all of them have more than 2^31 for n = m = 2^17.
constexpr Sample samples[] = {
    // Fewer rows in each matrix, and in all of them more than 2^32.
    {"%x: f32[n, m, 1], %y: f32[n, 1, 8]", "matmul {} (%x, %y)"},
    {"%x: f32[n, 1, m], %y: f32[n, 1, 8]", "matmul {transpose_a=true} (%x, %y)"},
    {"%x: f32[n, m]", "pointwise {function=exp} (%x)"},
    {"%x: f32[n, m], %y: f32[m]", "pointwise {function=add} (%x, %y)"},
    {"%x: f32[n, m]", "softmax {axis=1} (%x)"},
    {"%x: f32[n, m]", "softmax {axis=0} (%x)"},
    {"%x: f32[n, m]", "reduce {kind=sum, axes=[1], keep_dims=false} (%x)"},
    {"%x: f32[n, m]", "reduce {kind=sum, axes=[0], keep_dims=false} (%x)"},
    {"%x: f32[n, m]", "arg_reduce {axis=1} (%x)"},
    {"%x: f32[n, m]", "transpose {permutation=[1, 0]} (%x)"},
    {"%x: f32[n, m], %y: f32[n, m]", "concat {axis=1} (%x, %y)"},
    {"%x: f32[n, m]", "expand {shape=shape(2, n, m)} (%x)"},
    {"%x: f32[n, m]", "slice {axes=[0], starts=shape(1), counts=shape(n - 1), steps=[1]} (%x)"},
    {"%x: f32[n, m]", "pad {mode=constant, pads=shape(0, 1, 0, 1)} (%x)"},
    {"%x: f32[n, m]", "pad {mode=reflect, pads=shape(0, 1, 0, 1)} (%x)"},
    {"%x: f32[n, 8], %i: i64[m]", "gather {axis=1} (%x, %i)"},
    {"%x: f32[n, m], %i: i64[n, m]", "gather_elements {axis=1} (%x, %i)"},
    {"%x: f32[n, m], %i: i64[n, 1]", "gather_nd {} (%x, %i)"},
    {"%x: f32[n, m], %i: i64[2, 1], %u: f32[2, m]", "scatter_nd {} (%x, %i, %u)"},
    {"%x: f32[n, m], %i: i64[n, m], %u: f32[n, m]", "scatter_elements {axis=1} (%x, %i, %u)"},
    {"%x: f32[n, m]", "cumulative {} (%x, %a)", "const %a: i64[] = 1\n"},
    {"%x: f32[n, m], %s: f32[m]", "layer_norm {axis=1} (%x, %s)"},
    {"%x: f32[n, m, 1, 1], %s: f32[m], %b: f32[m]", "group_norm {groups=1} (%x, %s, %b)"},
    {"%x: f32[n, m, 1, 8]",
     "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} (%x, %w)",
     "const %w: f32[8, 8, 3, 3] = 1\n"},
    {"%x: f32[n, m, 1, 8]",
     "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=8, channels_last=true} (%x, %w)",
     "const %w: f32[8, 1, 3, 3] = 1\n"},
    {"%x: f32[n, m, 1, 8]",
     "conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0), "
     "channels_last=true} (%x, %w)",
     "const %w: f32[8, 8, 2, 2] = 1\n"},
    {"%x: f32[n, 1, m, 2]",
     "pool {kind=max, kernel=[2, 2], strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x)"},
    {"%x: f32[n, 1, m, 2]", "resize {mode=nearest, axes=[3], sizes=shape(4)} (%x)"},
    {"%x: f32[n, 1, m, 2]", "resize {mode=linear, axes=[3], sizes=shape(4)} (%x)"},
};

TEST(CudaSizes, WhatIsTooLargeIsRefused) {
  SKIP_WITHOUT_GPU();
  std::string problem;
  const auto gpu = backend_if_any(problem);
  const SymbolBindings usual{{"n", 8}, {"m", 16}}, large{{"n", int64_t{1} << 17}, {"m", int64_t{1} << 17}};
  for (const Sample& sample : samples) {
    SCOPED_TRACE(sample.node);
    const Graph graph = parse_graph("graph (" + std::string(sample.inputs) + ") {\n" + sample.constants +
                                        "%y0 = " + sample.node + "\nreturn %y0\n}",
                                    operators());
    const RegionView region{graph, graph.nodes.back(), usual};
    KernelShapes shapes;
    shapes.symbols = &large;
    const auto bound = [&](ValueId id) {
      Dims dims;
      for (const Dim& d : graph.shape(id)) dims.push_back(d.evaluate(large));
      return OperandShape{graph.type(id).dtype, dims};
    };
    for (const ValueId id : region.node.inputs) shapes.inputs.push_back(bound(id));
    shapes.outputs.push_back(bound(region.node.outputs[0]));
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
        ADD_FAILURE() << tactic.str() << " takes sizes beyond 32 bits";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::unsupported) << tactic.str() << ": " << e.what();
      }
    }
    EXPECT_GT(tried, 0);
  }
}

}  // namespace
}  // namespace camshaft::cuda::sizes_test
