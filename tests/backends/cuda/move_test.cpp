// Operators that move elements on a GPU, against the reference.
#include "ir/ops/move.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backends/cuda/run_node.h"
#include "ir/ops/generate.h"
#include "ir/ops/index.h"
#include "reference/random_index_map.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda::move_test {
namespace {

constexpr DType widths[] = {DType::u8, DType::f16, DType::f32, DType::i64};

void check(Op op, std::vector<Tensor> operands, const char* tactic, bool misaligned = false,
           std::vector<size_t> constants = {}) {
  NodeTest test(std::move(op), std::move(operands), tactic);
  test.misaligned = misaligned;
  test.constants = std::move(constants);
  test.check();
}

Shape shape_of(const Dims& dims) {
  return Shape(dims.begin(), dims.end());
}

Tensor indices_of(DType dtype, Random& random, const Dims& dims, int64_t size) {
  Tensor made(dtype, dims);
  for (int64_t i = 0; i < made.size(); ++i) {
    const int64_t index = random.integer(-size, size - 1);
    if (dtype == DType::i64)
      made.as_mutable<int64_t>()[i] = index;
    else
      made.as_mutable<int32_t>()[i] = static_cast<int32_t>(index);
  }
  return made;
}

TEST(CudaMove, TransposesOfEveryWidth) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  const std::vector<std::pair<Dims, std::vector<int64_t>>> cases = {{{5, 7}, {1, 0}},
                                                                    {{64, 128}, {1, 0}},
                                                                    {{70, 33}, {1, 0}},
                                                                    {{2, 3, 40, 24}, {0, 2, 3, 1}},
                                                                    {{2, 9, 8, 3}, {0, 3, 1, 2}},
                                                                    {{3, 16, 20, 4}, {0, 2, 1, 3}},
                                                                    {{4, 10, 12, 2}, {2, 0, 1, 3}},
                                                                    {{2, 3, 4, 5, 6}, {4, 2, 0, 3, 1}},
                                                                    {{6, 1, 1}, {1, 2, 0}},
                                                                    {{40, 2, 36}, {2, 1, 0}},
                                                                    {{0, 4}, {1, 0}}};
  for (const DType dtype : widths)
    for (const auto& [dims, permutation] : cases)
      for (const bool misaligned : {false, true})
        check(ops::Transpose{permutation}, {random_tensor(random, dtype, dims)}, "cuda_transpose", misaligned);
}

TEST(CudaMove, RandomTransposes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int round = 0; round < 40; ++round) {
    const auto rank = random.integer(1, 6);
    Dims dims;
    for (int64_t d = 0; d < rank; ++d) dims.push_back(random.integer(1, rank < 4 ? 50 : 9));
    std::vector<int64_t> permutation(static_cast<size_t>(rank));
    std::iota(permutation.begin(), permutation.end(), 0);
    for (size_t i = permutation.size(); i-- > 1;)
      std::swap(permutation[i], permutation[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
    const DType dtype = widths[random.integer(0, 3)];
    check(ops::Transpose{permutation}, {random_tensor(random, dtype, dims)}, "cuda_transpose", random.uniform() < 0.3);
  }
}

TEST(CudaMove, IndexMaps) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const DType dtype = widths[random.integer(0, 3)];
    const RandomIndexMap made = random_index_map(random, dtype, 12);
    std::vector<Tensor> operands{made.x};
    if (random.uniform() < 0.5) operands.push_back(random_tensor(random, dtype, {}));
    check(made.op, operands, "cuda_index_map", random.uniform() < 0.3);
  }
  const Tensor x = random_tensor(random, DType::f32, {2, 20, 32});
  for (const bool misaligned : {false, true}) {
    check(ops::IndexMap{{2, 20, 9, 32}, {0, 1, 1, 2}, {1, 1, 1, 1}, {0, -4, 0}}, {x}, "cuda_index_map", misaligned);
    check(ops::IndexMap{{2, 20, 4, 8}, {0, 1, -1, 2}, {1, 1, 0, 1}, {0, 15, 0}, true}, {x}, "cuda_index_map",
          misaligned);
  }
}

TEST(CudaMove, Expansions) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : widths)
    for (const bool misaligned : {false, true})
      for (const auto& [from, to] : std::vector<std::pair<Dims, Dims>>{{{1, 5}, {4, 5}},
                                                                       {{6, 1}, {6, 32}},
                                                                       {{3, 1, 8}, {3, 7, 8}},
                                                                       {{}, {2, 16}},
                                                                       {{1}, {0}},
                                                                       {{2, 1, 3, 1}, {2, 5, 3, 48}}})
        check(ops::Expand{shape_of(to)}, {random_tensor(random, dtype, from)}, "cuda_expand", misaligned);
}

TEST(CudaMove, Slices) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : widths)
    for (const bool misaligned : {false, true}) {
      const Tensor x = random_tensor(random, dtype, {6, 10, 48});
      check(ops::Slice{{2}, {Dim(16)}, {Dim(32)}, {1}}, {x}, "cuda_slice", misaligned);
      check(ops::Slice{{2}, {Dim(1)}, {Dim(32)}, {1}}, {x}, "cuda_slice", misaligned);
      check(ops::Slice{{1}, {Dim(9)}, {Dim(5)}, {-2}}, {x}, "cuda_slice", misaligned);
      check(ops::Slice{{0, 2}, {Dim(1), Dim(47)}, {Dim(3), Dim(16)}, {2, -3}}, {x}, "cuda_slice", misaligned);
      check(ops::Slice{{1}, {Dim(3)}, {Dim(0)}, {1}}, {x}, "cuda_slice", misaligned);
    }
}

TEST(CudaMove, Concatenations) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : widths)
    for (const bool misaligned : {false, true})
      for (const int64_t axis : {0, 1, 2}) {
        std::vector<Tensor> parts;
        for (const int64_t size : {3, 16, 0, 1, 32}) {
          Dims dims{5, 6, 16};
          dims[static_cast<size_t>(axis)] = size;
          parts.push_back(random_tensor(random, dtype, dims));
        }
        check(ops::Concat{axis}, parts, "cuda_concat", misaligned);
        check(ops::Concat{axis}, {parts[1], parts[4]}, "cuda_concat", misaligned);
      }
  std::vector<Tensor> many;  // more than one launch takes
  for (int i = 0; i < 37; ++i) many.push_back(random_tensor(random, DType::f32, {2, i % 5}));
  check(ops::Concat{1}, many, "cuda_concat");
}

TEST(CudaMove, Padding) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const ops::PadMode mode :
       {ops::PadMode::constant, ops::PadMode::reflect, ops::PadMode::edge, ops::PadMode::wrap})
    for (const DType dtype : widths)
      for (const Dims& pads : std::vector<Dims>{{0, 1, 2, 0, 0, 1, 2, 0},
                                                {0, 0, 3, 5, 0, 0, 0, 4},
                                                {1, 0, -1, 16, 0, 2, -1, 16},
                                                {0, 7, 0, -2, 0, 9, 1, 3}})
        for (const bool misaligned : {false, true}) {
          const Tensor x = random_tensor(random, dtype, {2, 4, 5, 16});
          check(ops::Pad{mode, shape_of(pads)}, {x}, "cuda_pad", misaligned);
          check(ops::Pad{mode, shape_of(pads)}, {x, random_tensor(random, dtype, {})}, "cuda_pad", misaligned);
        }
  check(ops::Pad{ops::PadMode::constant, shape_of({2, 3})}, {Tensor(DType::f32, {0})}, "cuda_pad");
  check(ops::Pad{ops::PadMode::reflect, shape_of({2, 3})}, {random_tensor(random, DType::f32, {1})}, "cuda_pad");
}

TEST(CudaGather, Rows) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : widths)
    for (const DType index : {DType::i64, DType::i32})
      for (const bool misaligned : {false, true}) {
        const Tensor x = random_tensor(random, dtype, {5, 7, 16});
        for (const int64_t axis : {0, 1, 2})
          check(ops::Gather{axis}, {x, indices_of(index, random, {3, 4}, x.dims()[static_cast<size_t>(axis)])},
                "cuda_gather", misaligned);
        check(ops::Gather{1}, {x, indices_of(index, random, {}, 7)}, "cuda_gather", misaligned);
        check(ops::Gather{1}, {x, Tensor(index, {0})}, "cuda_gather", misaligned);
      }
}

TEST(CudaGather, ElementsAndSlices) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : widths)
    for (const DType index : {DType::i64, DType::i32}) {
      const Tensor x = random_tensor(random, dtype, {4, 5, 6});
      check(ops::GatherElements{1}, {x, indices_of(index, random, {4, 9, 3}, 5)}, "cuda_gather_elements");
      check(ops::GatherElements{0}, {x, indices_of(index, random, {8, 5, 6}, 4)}, "cuda_gather_elements");
      check(ops::GatherND{0}, {x, indices_of(index, random, {7, 2}, 4)}, "cuda_gather_nd");
      check(ops::GatherND{0}, {x, indices_of(index, random, {2, 3, 3}, 4)}, "cuda_gather_nd");
      check(ops::GatherND{1}, {x, indices_of(index, random, {4, 3, 1}, 5)}, "cuda_gather_nd");
    }
}

TEST(CudaGather, AnIndexOutOfRangeIsAnErrorThatNamesIt) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  const Tensor x = random_tensor(random, DType::f32, {4, 5});
  const auto message = [](const NodeTest& test) -> std::string {
    try {
      test.run();
    } catch (const Error& e) {
      return std::string(to_string(e.code())) + ": " + e.what();
    }
    return "";
  };
  EXPECT_EQ(message({ops::Gather{0}, {x, Tensor::from_ints({1, 4})}, "cuda_gather"}),
            "invalid argument: layer 'y': index 4 is out of range for axis 0 of size 4");
  EXPECT_EQ(message({ops::GatherElements{1}, {x, Tensor::from_ints({0, -6}).reshaped({1, 2})}, "cuda_gather_elements"}),
            "invalid argument: layer 'y': index -6 is out of range for axis 1 of size 5");
  EXPECT_EQ(message({ops::GatherND{0}, {x, Tensor::from_ints({0, 77}).reshaped({1, 2})}, "cuda_gather_nd"}),
            "invalid argument: layer 'y': index 77 is out of range for axis 1 of size 5");
}

TEST(CudaScatter, TheLastOfEqualIndicesHolds) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : widths)
    for (const DType index : {DType::i64, DType::i32})
      for (const bool misaligned : {false, true}) {
        const Tensor x = random_tensor(random, dtype, {4, 5, 16});
        check(ops::ScatterND{}, {x, indices_of(index, random, {9, 2}, 4), random_tensor(random, dtype, {9, 16})},
              "cuda_scatter_nd", misaligned);
        check(ops::ScatterND{}, {x, indices_of(index, random, {3, 1}, 4), random_tensor(random, dtype, {3, 5, 16})},
              "cuda_scatter_nd", misaligned);
        check(ops::ScatterND{}, {x, Tensor(index, {0, 1}), Tensor(dtype, {0, 5, 16})}, "cuda_scatter_nd", misaligned);
        check(ops::ScatterElements{1, ops::ScatterKind::assign},
              {x, indices_of(index, random, {4, 8, 3}, 5), random_tensor(random, dtype, {4, 8, 3})},
              "cuda_scatter_elements", misaligned);
      }
}

TEST(CudaGenerate, SizesAndRanges) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  check(ops::DimsTensor{{Dim(3), Dim(70000)}, DType::i64, false}, {}, "cuda_dims");
  check(ops::DimsTensor{{Dim(3)}, DType::i32, true}, {}, "cuda_dims");
  check(ops::ShapeOf{1, 3}, {random_tensor(random, DType::f32, {2, 3, 4})}, "cuda_shape");
  for (const DType dtype : {DType::f32, DType::i64, DType::i32, DType::i16, DType::f64}) {
    std::vector<Tensor> bounds;
    for (const double number : {3.0, 700.0, 2.0}) bounds.push_back(tensor_of(dtype, {}, {number}));
    check(ops::Range{}, bounds, "cuda_range", false, {0, 1, 2});
  }
}

TEST(CudaCumulative, EveryDirection) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::i64, DType::i8})
    for (const auto kind : {ops::CumulativeKind::sum, ops::CumulativeKind::product})
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          for (const auto& [dims, axis] : std::vector<std::pair<Dims, int64_t>>{
                   {{3, 7, 5}, 1}, {{2, 1000}, 1}, {{300, 3}, 0}, {{2, 64, 2}, -2}, {{4, 0}, 1}}) {
            NodeTest test(ops::Cumulative{kind, exclusive, reverse},
                          {random_tensor(random, dtype, dims), Tensor::from_ints({axis})}, "cuda_cumulative");
            test.constants = {1};
            if (dtype == DType::f32) test.tolerance = 1e-6;
            if (dtype == DType::f16) test.tolerance = 1e-3;
            test.check();
          }
}

}  // namespace
}  // namespace camshaft::cuda::move_test
