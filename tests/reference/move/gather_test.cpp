#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/ops/move.h"
#include "reference/single_op.h"
#include "test_random.h"

namespace camshaft::ops::gather_test {
namespace {

Tensor counting(DType dtype, const Dims& dims) {
  const int64_t n = element_count(dims);
  if (dtype == DType::string) {
    std::vector<std::string> v;
    for (int64_t i = 0; i < n; ++i) v.push_back("element number " + std::to_string(i));
    return Tensor::of(dtype, dims, v);
  }
  std::vector<int64_t> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  if (dtype == DType::i64) return i64(dims, v);
  return Tensor::of(dtype, dims, std::vector<float>(v.begin(), v.end()));
}

std::string text(const Tensor& t, int64_t i) {
  return t.dtype() == DType::string ? t.as<std::string>()[i] : std::to_string(t.to_doubles()[static_cast<size_t>(i)]);
}

TEST(Gather, RandomShapes) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    Dims dims, index_dims;
    for (int64_t a = random.integer(1, 4); a > 0; --a) dims.push_back(random.integer(1, 6));
    for (int64_t a = random.integer(0, 2); a > 0; --a) index_dims.push_back(random.integer(0, 5));
    const auto axis = static_cast<size_t>(random.integer(0, static_cast<int64_t>(dims.size()) - 1));
    const DType dtype = std::vector<DType>{DType::f32, DType::i64, DType::string}[static_cast<size_t>(round % 3)];
    const Tensor x = counting(dtype, dims);
    Tensor indices(round % 2 ? DType::i64 : DType::i32, index_dims);
    for (int64_t i = 0; i < indices.size(); ++i) {
      const int64_t index = random.integer(-dims[axis], dims[axis] - 1);
      if (round % 2) {
        indices.as_mutable<int64_t>()[i] = index;
      } else {
        indices.as_mutable<int32_t>()[i] = static_cast<int32_t>(index);
      }
    }
    const Tensor y = run_op(Gather{static_cast<int64_t>(axis)}, {x, indices})[0];
    const int64_t inner =
        std::accumulate(dims.begin() + static_cast<int64_t>(axis) + 1, dims.end(), int64_t{1}, std::multiplies<>());
    const std::vector<int64_t> list = indices.to_ints();
    for (int64_t i = 0; i < y.size(); ++i) {
      const int64_t k = i % inner, outer = i / inner / indices.size();
      int64_t index = list[static_cast<size_t>(i / inner % indices.size())];
      if (index < 0) index += dims[axis];
      ASSERT_EQ(text(y, i), text(x, (outer * dims[axis] + index) * inner + k)) << "round " << round;
    }
  }
}

TEST(Gather, FourBitElements) {
  const Tensor x = Tensor::of<uint8_t>(DType::u4, {2, 3}, {0x21, 0x43, 0x65});  // 1 2 3 / 4 5 6
  EXPECT_EQ(run_op(Gather{1}, {x, i64({2}, {2, 0})})[0], Tensor::of<uint8_t>(DType::u4, {2, 2}, {0x13, 0x46}));
}

TEST(Gather, Errors) {
  const Tensor x(DType::f32, {2, 3});
  EXPECT_NE(error_of([&] {
              run_op(Gather{1}, {x, i64({1}, {3})});
            }).find("index 3 is out of range for axis 1 of size 3"),
            std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Gather{0}, {x, i64({1}, {-3})}); }).find("index -3"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Gather{0}, {x, i64({1}, {-3})}, {}, true); }).find("index -3"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Gather{2}, {x, i64({1}, {0})}); }).find("axis 2"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Gather{0}, {x, x}); }).find("i64 or i32"), std::string::npos);
}

TEST(GatherElements, EveryAxis) {
  Random random = test_random();
  for (int round = 0; round < 30; ++round) {
    const Dims dims{random.integer(1, 5), random.integer(1, 5), random.integer(1, 5)};
    const auto axis = static_cast<size_t>(round % 3);
    Dims index_dims;
    for (size_t a = 0; a < 3; ++a) index_dims.push_back(random.integer(1, a == axis ? 7 : dims[a]));
    const Tensor x = counting(DType::f32, dims);
    Tensor indices(DType::i64, index_dims);
    for (int64_t i = 0; i < indices.size(); ++i)
      indices.as_mutable<int64_t>()[i] = random.integer(-dims[axis], dims[axis] - 1);
    const Tensor y = run_op(GatherElements{static_cast<int64_t>(axis)}, {x, indices})[0];
    for (int64_t i = 0; i < y.size(); ++i) {
      Dims at{i / (index_dims[1] * index_dims[2]), i / index_dims[2] % index_dims[1], i % index_dims[2]};
      at[axis] = (indices.as<int64_t>()[i] + dims[axis]) % dims[axis];
      ASSERT_EQ(y.as<float>()[i], static_cast<float>((at[0] * dims[1] + at[1]) * dims[2] + at[2])) << "round " << round;
    }
  }
  const Tensor x(DType::f32, {2, 3});
  EXPECT_NE(error_of([&] { run_op(GatherElements{1}, {x, i64({1, 1}, {5})}); }).find("index 5"), std::string::npos);
  EXPECT_NE(error_of([&] {
              run_op(GatherElements{1}, {x, i64({3, 1}, {0, 0, 0})});
            }).find("axis 0"),
            std::string::npos);
}

TEST(ScatterND, ElementsAndSlices) {
  const Tensor x = f32({4}, {1, 2, 3, 4});
  EXPECT_EQ(run_op(ScatterND{}, {x, i64({2, 1}, {-1, 1}), f32({2}, {9, 8})})[0], f32({4}, {1, 8, 3, 9}));
  const Tensor m = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_op(ScatterND{}, {m, i64({1, 1}, {1}), f32({1, 3}, {7, 8, 9})})[0], f32({2, 3}, {1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(run_op(ScatterND{}, {m, i64({2}, {0, 2}), f32({}, {7})})[0], f32({2, 3}, {1, 2, 7, 4, 5, 6}));
  EXPECT_EQ(run_op(ScatterND{}, {m, i64({0}, {}), f32({2, 3}, {0, 0, 0, 1, 1, 1})})[0],
            f32({2, 3}, {0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(m, f32({2, 3}, {1, 2, 3, 4, 5, 6})) << "the input must stay as it was";
}

TEST(ScatterND, KindsWithRepeatedIndices) {
  const Tensor x = f32({3}, {1, 2, 3}), at = i64({3, 1}, {0, 0, 2}), updates = f32({3}, {5, 0.5f, 4});
  const auto with = [&](ScatterKind kind) { return run_op(ScatterND{kind}, {x, at, updates})[0]; };
  EXPECT_EQ(with(ScatterKind::assign), f32({3}, {0.5f, 2, 4}));
  EXPECT_EQ(with(ScatterKind::add), f32({3}, {6.5f, 2, 7}));
  EXPECT_EQ(with(ScatterKind::mul), f32({3}, {2.5f, 2, 12}));
  EXPECT_EQ(with(ScatterKind::max), f32({3}, {5, 2, 4}));
  EXPECT_EQ(with(ScatterKind::min), f32({3}, {0.5f, 2, 3}));
  EXPECT_EQ(run_op(ScatterND{ScatterKind::max}, {Tensor::of<uint64_t>(DType::u64, {1}, {UINT64_MAX}), i64({1, 1}, {0}),
                                                 Tensor::of<uint64_t>(DType::u64, {1}, {1})})[0],
            Tensor::of<uint64_t>(DType::u64, {1}, {UINT64_MAX}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [a, b] : {std::pair(nan, 1.0f), std::pair(1.0f, nan)})
    for (const ScatterKind kind : {ScatterKind::max, ScatterKind::min})
      EXPECT_TRUE(
          std::isnan(run_op(ScatterND{kind}, {f32({1}, {a}), i64({1, 1}, {0}), f32({1}, {b})})[0].as<float>()[0]));
}

TEST(ScatterND, LargeIsTheSameAsOneAfterAnother) {
  Random random = test_random();
  const Dims dims{50, 300};
  Tensor x = counting(DType::f32, dims);
  std::vector<int64_t> rows;
  std::vector<float> updates, expected(x.as<float>(), x.as<float>() + x.size());
  for (int64_t i = 0; i < 200; ++i) {
    rows.push_back(random.integer(0, 49));
    for (int64_t k = 0; k < 300; ++k) {
      updates.push_back(static_cast<float>(random.integer(-9, 9)));
      expected[static_cast<size_t>(rows.back() * 300 + k)] += updates.back();
    }
  }
  EXPECT_EQ(run_op(ScatterND{ScatterKind::add}, {x, i64({200, 1}, rows), f32({200, 300}, updates)})[0],
            f32(dims, expected));
}

TEST(ScatterND, Errors) {
  const Tensor x(DType::f32, {2, 3});
  const auto run = [&](const Tensor& at, const Tensor& updates) {
    return error_of([&] { run_op(ScatterND{}, {x, at, updates}); });
  };
  EXPECT_NE(run(i64({1, 2}, {0, 3}), f32({1}, {1})).find("index 3 is out of range for axis 1"), std::string::npos);
  EXPECT_NE(run(i64({1, 3}, {0, 0, 0}), f32({1}, {1})).find("names 3 axes"), std::string::npos);
  EXPECT_NE(run(i64({1, 1}, {0}), f32({1, 2}, {1, 1})).find("axis 1"), std::string::npos);
  EXPECT_NE(run(i64({1, 1}, {0}), f32({3}, {1, 1, 1})).find("2 axes"), std::string::npos);
  EXPECT_NE(run(i64({1, 1}, {0}), i64({1, 3}, {1, 1, 1})).find("i64"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::gather_test
