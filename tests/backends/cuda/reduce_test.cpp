// Reductions on a GPU, against the reference.
#include "ir/ops/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cuda/run_node.h"
#include "ir/ops/region.h"
#include "reference/random_reduction.h"

namespace camshaft::cuda::reduce_test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

double tolerance(DType dtype) {
  return dtype == DType::f16 ? 1e-3 : dtype == DType::bf16 ? 8e-3 : dtype == DType::f64 ? 1e-14 : 2e-6;
}

// A few numbers at random places of a tensor of floats.
Tensor with(const Tensor& tensor, Random& random, const std::vector<double>& numbers) {
  std::vector<double> values = tensor.to_doubles();
  for (const double number : numbers)
    values[static_cast<size_t>(random.integer(0, static_cast<int64_t>(values.size()) - 1))] = number;
  return tensor_of(tensor.dtype(), tensor.dims(), values);
}

// Terms of both signs cancel, and the partial sums were larger than what is left: their roundings are a part of the
// terms' root mean square times the root of their number, which is the standard deviation of such a sum (or mean).
double size_of_sums(const Tensor& in, const std::vector<int64_t>& axes, bool is_mean) {
  if (in.size() == 0) return 0;
  double squares = 0, count = 1;
  for (const double x : in.to_doubles()) squares += x * x;
  for (const int64_t axis : axes) count *= static_cast<double>(in.dims()[static_cast<size_t>(axis)]);
  return std::sqrt(squares / static_cast<double>(in.size()) * (is_mean ? 1 / count : count));
}

// Of that size, in f32. A thread adds up m terms, whose partial sums' variance grows from 1 to m of a term's, and l
// levels merge what n / m threads have; each rounding is at most u = 2^-24 of a partial sum, evenly distributed. The
// error's standard deviation is u sqrt(m / 6 + l / 3) of the size: 3.5 u for m = 49 and l = 11, as 100,003 terms have
// on the emulated GPU's 4 multiprocessors, and less where there are more. Four times that.
const double tolerance_of_sums = 4 * std::ldexp(std::sqrt(49.0 / 6 + 11.0 / 3), -24);

void check(ops::ReduceKind kind, DType dtype, const Dims& dims, const std::vector<int64_t>& axes, Random& random,
           bool misaligned = false) {
  const Tensor in = random_tensor(random, dtype, dims);
  NodeTest test(ops::Reduce{kind, axes, random.uniform() < 0.5}, {in}, "cuda_reduce");
  // The product of many numbers, and the sum of their squares, have large and small steps.
  if (is_floating(dtype)) test.tolerance = tolerance(dtype) * (kind == ops::ReduceKind::prod ? 4 : 1);
  if (is_floating(dtype) && (kind == ops::ReduceKind::sum || kind == ops::ReduceKind::mean)) {
    test.least_scale = size_of_sums(in, axes, kind == ops::ReduceKind::mean);
    if (dtype == DType::f32) test.tolerance = tolerance_of_sums;
  }
  test.misaligned = misaligned;
  test.check();
}

TEST(CudaReduce, EveryKindAndType) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int kind = 0; kind < 7; ++kind)
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i8, DType::u32}) {
      check(static_cast<ops::ReduceKind>(kind), dtype, {3, 40}, {1}, random);
      check(static_cast<ops::ReduceKind>(kind), dtype, {9, 5, 16}, {0, 1}, random);
    }
  for (const ops::ReduceKind kind : {ops::ReduceKind::max, ops::ReduceKind::min}) {
    check(kind, DType::boolean, {4, 7}, {0}, random);
    check(kind, DType::boolean, {4, 7}, {1}, random);
  }
}

TEST(CudaReduce, RowsAndColumnsOfManyLengths) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool misaligned : {false, true})
      for (const int64_t length : {1, 2, 7, 32, 49, 100, 1000}) {
        check(ops::ReduceKind::mean, dtype, {5, length}, {1}, random, misaligned);
        check(ops::ReduceKind::sum, dtype, {2, length, 24}, {1}, random, misaligned);
        check(ops::ReduceKind::max, dtype, {2, length, 3}, {1}, random, misaligned);
      }
}

TEST(CudaReduce, SeveralBlocksForAResult) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16}) {
    check(ops::ReduceKind::sum, dtype, {100003}, {0}, random);
    check(ops::ReduceKind::mean, dtype, {2, 65536}, {1}, random);
    check(ops::ReduceKind::mean, dtype, {1, 6000, 64}, {1}, random);
    check(ops::ReduceKind::sum_squares, dtype, {3000, 3}, {0}, random);
  }
}

TEST(CudaReduce, AnyAxes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    Dims dims;
    std::vector<int64_t> axes;
    for (int64_t d = 0, rank = random.integer(0, 6); d < rank; ++d) {
      dims.push_back(random.integer(random.uniform() < 0.05 ? 0 : 1, 9));
      if (random.uniform() < 0.5) axes.push_back(d);
    }
    const auto kind = static_cast<ops::ReduceKind>(random.integer(0, 6));
    if (axes.empty() && kind != ops::ReduceKind::sum_squares && kind != ops::ReduceKind::sum_abs) continue;
    check(kind, random.uniform() < 0.5 ? DType::f32 : DType::i32, dims, axes, random, random.uniform() < 0.3);
  }
}

TEST(CudaReduce, NaNAndInfinity) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const std::vector<double>& numbers :
       {std::vector<double>{nan}, {infinity}, {-infinity}, {infinity, -infinity}, {nan, infinity}})
    for (int kind = 0; kind < 7; ++kind)
      for (const int64_t axis : {0, 1}) {
        const Tensor in = with(random_tensor(random, DType::f32, {6, 70}), random, numbers);
        NodeTest(ops::Reduce{static_cast<ops::ReduceKind>(kind), {axis}, true}, {in}, "cuda_reduce", 1e-5).check();
      }
}

NodeTest test_of(ReductionSteps steps, double difference) {
  NodeTest test(ops::Region{ops::RegionKind::reduce}, steps.operands, "cuda_reduce", difference);
  test.bodies = {steps.finish()};
  return test;
}

NodeTest test_of(const ReductionSteps& steps) {
  return test_of(steps, std::max(1e-5, steps.tolerance));
}

TEST(CudaReduce, StepsBeforeAndBehind) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int round = 0; round < 12; ++round) {
    Dims dims;
    std::vector<int64_t> axes;
    const int64_t rank = random.integer(1, 5);
    for (int64_t d = 0; d < rank; ++d) {
      dims.push_back(random.integer(random.uniform() < 0.05 ? 0 : 1, rank < 3 ? 100 : 12));
      if (random.integer(0, 1)) axes.push_back(d);
    }
    if (axes.empty()) axes = {random.integer(0, rank - 1)};
    const DType dtype = random.uniform() < 0.8 ? DType::f32 : DType::i32;
    NodeTest test = test_of(random_reduction(dtype, dims, axes, random));
    test.misaligned = random.uniform() < 0.3;
    test.check();
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(CudaReduce, SeveralBlocksForAResultWithSteps) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  test_of(random_reduction(DType::f32, {60'000}, {0}, random)).check();
  test_of(random_reduction(DType::f32, {2, 40'000}, {1}, random)).check();
  test_of(random_reduction(DType::f32, {3000, 24}, {0}, random)).check();
}

// What is stored in 16 bits, as lower_precision leaves it, and a mask of integers.
TEST(CudaReduce, OperandsOfOtherTypes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const int64_t size : {3, 64}) {
    ReductionSteps steps(DType::f32);
    steps.last = steps.operand(random_tensor(random, DType::i64, {2, 30, 1}));
    steps.cast();
    const ValueId mask = steps.last;
    steps.last = steps.operand(random_tensor(random, DType::f16, {2, 30, size}));
    steps.cast();
    steps.apply(ScalarFunction::mul, {steps.last, mask});
    steps.reduce(ops::ReduceKind::sum, {1}, false);
    steps.apply(ScalarFunction::div, {steps.last, steps.operand(number_of(DType::f32, 7))});
    test_of(steps).check();
  }
}

TEST(CudaReduce, IndicesOfExtremes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const bool largest : {false, true})
    for (const bool last : {false, true})
      for (const DType dtype : {DType::f32, DType::f16, DType::i8, DType::u8, DType::f64})
        for (const Dims& dims : {Dims{3, 50, 4}, Dims{2, 3, 300}, Dims{1, 1, 20000}, Dims{40, 2, 5}})
          for (const int64_t axis : {0, 1, 2}) {
            Tensor in = random_tensor(random, dtype, dims);
            if (is_floating(dtype) && random.uniform() < 0.3) in = with(in, random, {nan, nan, infinity});
            NodeTest(ops::ArgReduce{largest, axis, true, last}, {in}, "cuda_arg_reduce").check();
          }
}

// Whose blocks leave what they found to be merged.
TEST(CudaReduce, IndicesOfExtremesOfLongRows) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const bool last : {false, true})
    for (const DType dtype : {DType::f32, DType::f16, DType::f64, DType::i8})
      for (const Dims& dims : {Dims{1, 128256}, Dims{3, 100003}}) {
        Tensor in = random_tensor(random, dtype, dims);  // of i8 with many that are equal
        if (dtype == DType::f16 && last) in = with(in, random, {nan, nan, infinity});
        NodeTest(ops::ArgReduce{true, 1, true, last}, {in}, "cuda_arg_reduce").check();
      }
}

}  // namespace
}  // namespace camshaft::cuda::reduce_test
