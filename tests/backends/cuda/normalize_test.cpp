// Softmax and the normalisations on a GPU, against the reference.
#include <gtest/gtest.h>

#include <limits>

#include "backends/cuda/run_node.h"
#include "ir/ops/operators.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/text.h"
#include "reference/random_tensor.h"
#include "test_random.h"

namespace camshaft::cuda::normalize_test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

double tolerance(DType dtype) {
  return dtype == DType::f16 ? 1e-3 : dtype == DType::bf16 ? 8e-3 : dtype == DType::f64 ? 1e-14 : 2e-6;
}

Tensor parameter(Random& random, DType dtype, const Dims& dims) {
  return random.uniform() < 0.25 ? Tensor() : random_tensor(random, dtype, dims);
}

TEST(CudaSoftmax, RowsOfManyLengths) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const bool logarithm : {false, true})
      for (const int64_t length : {1, 3, 8, 33, 128, 197, 1000, 5003, 20000}) {
        const Tensor in = random_tensor(random, dtype, {3, length});
        NodeTest test(ops::Softmax{1, logarithm}, {in}, "cuda_softmax", tolerance(dtype));
        test.check();
        test.misaligned = true;
        test.check();
      }
}

TEST(CudaSoftmax, AxesBeforeTheLast) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool logarithm : {false, true})
      for (const Dims& dims : {Dims{2, 21, 50}, Dims{1, 300, 3}, Dims{3, 1, 7}, Dims{5, 64, 2}})
        for (const int64_t axis : {0, 1})
          NodeTest(ops::Softmax{axis, logarithm}, {random_tensor(random, dtype, dims)}, "cuda_softmax",
                   tolerance(dtype))
              .check();
}

TEST(CudaSoftmax, NaNAndInfinity) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const int64_t length : {5, 300, 9000})
    for (const double number : {nan, infinity, -infinity})
      for (const bool everywhere : {false, true})
        for (const bool logarithm : {false, true})
          for (const int64_t axis : {0, 1}) {
            const Dims dims = axis == 0 ? Dims{length, 2} : Dims{2, length};
            std::vector<double> values = random_tensor(random, DType::f32, dims).to_doubles();
            if (everywhere) std::fill(values.begin(), values.end(), number);
            values[0] = number;
            NodeTest(ops::Softmax{axis, logarithm}, {tensor_of(DType::f32, dims, values)}, "cuda_softmax", 1e-5)
                .check();
          }
}

TEST(CudaLayerNorm, RowsOfManyLengths) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const bool rms : {false, true})
      for (const int64_t length : {1, 7, 64, 100, 768, 4096, 20000}) {
        const DType other = random.uniform() < 0.3 ? DType::f32 : dtype;
        const Tensor in = random_tensor(random, dtype, {3, 2, length});
        NodeTest test(ops::LayerNorm{2, 1e-5, rms},
                      {in, parameter(random, dtype, {length}), parameter(random, other, {length})}, "cuda_layer_norm",
                      2 * tolerance(dtype));
        test.check();
        test.misaligned = true;
        test.check();
      }
  // Clamped: some of the rows' mean squares are below the least one.
  for (const DType dtype : {DType::f32, DType::f16, DType::f64})
    for (const int64_t length : {3, 64, 20000})
      NodeTest(ops::LayerNorm{1, 0.33, true, true},
               {random_tensor(random, dtype, {20, length}), parameter(random, dtype, {length})}, "cuda_layer_norm",
               2 * tolerance(dtype))
          .check();
  const Tensor in = random_tensor(random, DType::f32, {3, 4, 5, 2});
  NodeTest(ops::LayerNorm{1, 1e-5}, {in, random_tensor(random, DType::f32, {4, 5, 2})}, "cuda_layer_norm", 4e-6)
      .check();
  NodeTest(ops::LayerNorm{0, 1e-5}, {random_tensor(random, DType::f32, {0, 5})}, "cuda_layer_norm").check();
}

TEST(CudaLayerNorm, ManyRows) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  struct Rows {
    DType dtype;
    int64_t rows, length;
  };
  for (const auto& [dtype, rows, length] :
       {Rows{DType::f16, 3400, 264}, {DType::f32, 3300, 100}, {DType::f16, 3300, 33}})
    NodeTest(ops::LayerNorm{1, 1e-5},
             {random_tensor(random, dtype, {rows, length}), parameter(random, dtype, {length}),
              parameter(random, DType::f32, {length})},
             "cuda_layer_norm", 2 * tolerance(dtype))
        .check();
}

// Scales and biases that are known when the kernel is compiled are read before its turn, where registers hold them.
TEST(CudaLayerNorm, ConstantParameters) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const bool rms : {false, true})
      for (const int64_t length : {7, 64, 264, 768, 1025, 3000, 20000}) {
        const DType other = random.uniform() < 0.3 ? DType::f32 : dtype;
        NodeTest test(ops::LayerNorm{1, 1e-5, rms},
                      {random_tensor(random, dtype, {5, length}), parameter(random, dtype, {length}),
                       parameter(random, other, {length})},
                      "cuda_layer_norm", 2 * tolerance(dtype));
        test.constants = {1, 2};
        test.check();
        test.misaligned = true;
        test.check();
      }
}

// By columns: groups that are wider than a chunk, as wide, narrower, and not a multiple; rows of which each thread has
// several chunks, and of which it has none; numbers that are far from 0 beside how they differ.
TEST(CudaGroupNorm, Columns) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  struct Sizes {
    int64_t images, positions, channels, groups;
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    for (const bool constant : {false, true})
      for (const auto& [images, positions, channels, groups] : {Sizes{2, 700, 64, 1},
                                                                {1, 3, 320, 32},
                                                                {3, 49, 96, 3},
                                                                {2, 100, 36, 9},
                                                                {1, 1500, 24, 12},
                                                                {2, 5, 7, 7},
                                                                {1, 260, 512, 1},
                                                                {2, 33, 1040, 2},
                                                                {1, 4000, 16, 16}}) {
        std::vector<double> values = random_tensor(random, DType::f64, {images, positions, channels}).to_doubles();
        for (double& x : values) x = 0.25 * x + 3;
        NodeTest test(ops::GroupNorm{groups, 1e-5, true},
                      {tensor_of(dtype, {images, positions, channels}, values), parameter(random, dtype, {channels}),
                       parameter(random, DType::f32, {channels})},
                      "cuda_group_norm_columns", dtype == DType::f64 ? 1e-12 : 4 * tolerance(dtype));
        if (constant) test.constants = {1, 2};
        test.check();
        test.misaligned = true;
        test.check();
      }
}

TEST(CudaGroupNorm, BothLayouts) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool last : {false, true})
      for (const int64_t groups : {2, 8, 16})
        for (const int64_t channels : {16, 64, 48})
          for (const Dims& spatial : {Dims{7, 5}, Dims{16, 8}, Dims{1}, Dims{65, 64}}) {
            Dims dims = spatial;
            dims.insert(last ? dims.end() : dims.begin(), channels);
            dims.insert(dims.begin(), 2);
            NodeTest test(ops::GroupNorm{groups, 1e-5, last},
                          {random_tensor(random, dtype, dims), parameter(random, dtype, {channels}),
                           parameter(random, dtype, {channels})},
                          "cuda_group_norm", 2 * tolerance(dtype));
            test.misaligned = random.uniform() < 0.2;
            test.check();
            test.tactic = "cuda_group_norm_columns";
            if (last) test.check();
          }
}

// Groups in several pieces, the last one narrower, and few positions; scale and bias of another type than the data.
TEST(CudaGroupNorm, WideGroups) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const auto& [groups, channels] :
         {std::pair<int64_t, int64_t>{1, 320}, {1, 512}, {2, 1040}, {1, 333}, {3, 783}})
      for (const Dims& spatial : {Dims{14, 14}, Dims{3}}) {
        Dims dims{2};
        dims.insert(dims.end(), spatial.begin(), spatial.end());
        dims.push_back(channels);
        NodeTest test(ops::GroupNorm{groups, 1e-5, true},
                      {random_tensor(random, dtype, dims), parameter(random, dtype, {channels}),
                       parameter(random, DType::f32, {channels})},
                      "cuda_group_norm_columns", 2 * tolerance(dtype));
        test.misaligned = random.uniform() < 0.3;
        test.check();
      }
}

// As many groups as channels, and numbers far from 0: what is near to their mean does not cancel.
TEST(CudaGroupNorm, InstancesFarFromZero) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const int64_t channels : {3, 32}) {
    std::vector<double> values = random_tensor(random, DType::f32, {2, 30, 40, channels}).to_doubles();
    for (double& v : values) v = 100 + v;
    const Tensor in = tensor_of(DType::f32, {2, 30, 40, channels}, values);
    for (const char* tactic : {"cuda_group_norm", "cuda_group_norm_columns"})
      NodeTest(ops::GroupNorm{channels, 1e-5, true}, {in}, tactic, 5e-5).check();
  }
}

// Steps of 1/8: where a row is a rounding away from the reference's, a step may be its neighbour.
TEST(CudaLayerNorm, StepsOfRows) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f16, DType::f32})
    for (const int64_t length : {1, 7, 64, 768, 5000})
      for (const bool gives_rows : {false, true})
        for (const auto& [zero, evened] :
             std::vector<std::pair<int64_t, std::string>>{{0, "%f"}, {128, "%f"}, {0, "%f, %e"}, {128, "%e, %f"}}) {
          const std::string type(to_string(dtype)), count = std::to_string(length), shape = "[5, " + count + "]";
          const bool has_factors = evened.size() > 2;
          std::string body = "graph \"b\" (%x: " + type + shape + ", %w: " + type + "[" + count + "]" +
                             (has_factors ? ", %e: f32[" + count + "]" : "") +
                             ") {\n%y = layer_norm {axis=1, epsilon=1e-5} (%x, %w)\n%f = cast {to=f32} (%y)\n";
          if (has_factors) body += "%g = pointwise {function=mul} (" + evened + ")\n";
          body += std::string("const %s: f32[] = 8\n%d = pointwise {function=mul} (") + (has_factors ? "%g" : "%f") +
                  ", %s)\n%r = pointwise {function=round} (%d)\n";
          if (zero != 0)
            body += "const %z: f32[] = " + std::to_string(zero) + "\n%m = pointwise {function=add} (%r, %z)\n";
          body += std::string("%q = cast {to=") + (zero != 0 ? "u8" : "i8") + "} (" + (zero != 0 ? "%m" : "%r") +
                  ")\nreturn " + (gives_rows ? "y=%y, " : "") + "q=%q\n}";
          NodeTest test(ops::Region{ops::RegionKind::reduce},
                        {random_tensor(random, dtype, {5, length}), random_tensor(random, dtype, {length})},
                        "cuda_layer_norm", tolerance(dtype));
          if (has_factors) {
            test.inputs.push_back(random_tensor(random, DType::f32, {length}));
            test.constants = {2};
          }
          test.bodies = {parse_graph(body, operators())};
          test.outputs = gives_rows ? 2 : 1;
          const auto results = test.run_all();
          ASSERT_EQ(results.size(), test.outputs);
          ThreadPool pool(1);
          const Graph& graph = test.bodies[0];
          std::vector<TensorType> types;
          for (const ValueId id : graph.outputs) types.push_back(graph.type(id));
          const auto expected = evaluate(test.op, {test.inputs, types, {}, test.bodies, pool});
          const std::vector<double> got = results.back().to_doubles(), wanted = expected.back().to_doubles();
          for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1) << "at " << i;
          if (gives_rows) {
            const std::vector<double> rows = results[0].to_doubles(), right = expected[0].to_doubles();
            for (size_t i = 0; i < right.size(); ++i)
              ASSERT_NEAR(rows[i], right[i], 4 * tolerance(dtype)) << "at " << i;
          }
        }
}

}  // namespace
}  // namespace camshaft::cuda::normalize_test
