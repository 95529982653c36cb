#include <cmath>
#include <limits>

#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/window_ops.h"
#include "reference/random_tensor.h"
#include "reference/single_op.h"

namespace camshaft::ops::pool_test {
namespace {

Pool pool_1d(PoolKind kind, int64_t kernel, int64_t stride, int64_t begin, int64_t end) {
  Pool op;
  op.kind = kind;
  op.kernel = {kernel};
  op.strides = {stride};
  op.pads = {begin, end};
  op.dilations = {1};
  return op;
}

TEST(Pool, ByHand) {
  const Tensor x = f32({1, 1, 5}, {1, 2, 3, 4, 5});
  EXPECT_EQ(run_op(pool_1d(PoolKind::max, 3, 2, 1, 1), {x})[0], f32({1, 1, 3}, {2, 4, 5}));
  Pool average = pool_1d(PoolKind::average, 3, 2, 1, 1);
  EXPECT_EQ(run_op(average, {x})[0], f32({1, 1, 3}, {1.5f, 3, 4.5f}));
  average.count_include_pad = true;
  EXPECT_EQ(run_op(average, {x})[0], f32({1, 1, 3}, {1, 3, 3}));
  const Tensor low = Tensor::of<int8_t>(DType::i8, {1, 1, 2}, {-128, -5});
  EXPECT_EQ(run_op(pool_1d(PoolKind::max, 2, 1, 1, 0), {low})[0].to_ints(), (std::vector<int64_t>{-128, -5}));
  // A window without taps has the lowest number of the type.
  for (const auto& [dtype, lowest] : {std::pair{DType::i8, -128}, {DType::i16, -32768}, {DType::u8, 0}}) {
    const Tensor one = Tensor::from_ints({3}).reshaped({1, 1, 1});
    const Tensor narrow = run_op(Cast{dtype}, {one})[0];
    EXPECT_EQ(run_op(pool_1d(PoolKind::max, 1, 1, 1, 0), {narrow})[0].to_ints(), (std::vector<int64_t>{lowest, 3}));
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // NaN is passed over, as in the standard's reference and ONNX Runtime.
  EXPECT_EQ(run_op(pool_1d(PoolKind::max, 2, 1, 0, 0), {f32({1, 1, 2}, {nan, 1})})[0], f32({1, 1, 1}, {1}));
}

TEST(Pool, CeilMode) {
  Pool op = pool_1d(PoolKind::average, 2, 2, 0, 0);
  op.ceil_mode = true;
  op.count_include_pad = true;
  // The last window has one element; what lies beyond input and padding is not counted.
  EXPECT_EQ(run_op(op, {f32({1, 1, 3}, {1, 3, 5})})[0], f32({1, 1, 2}, {2, 5}));
  // A window that would start in the end's padding is left out.
  Pool late = pool_1d(PoolKind::max, 1, 2, 0, 1);
  late.ceil_mode = true;
  EXPECT_EQ(run_op(late, {f32({1, 1, 2}, {1, 2})})[0], f32({1, 1, 1}, {1}));
}

TEST(Pool, LikeNaiveLoops) {
  Random random = test_random();
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8};
  for (int round = 0; round < 150; ++round) {
    const DType dtype = dtypes[random.integer(0, 5)];
    Pool op;
    op.kind = is_floating(dtype) && random.integer(0, 1) ? PoolKind::average : PoolKind::max;
    op.ceil_mode = random.integer(0, 1) == 1;
    op.count_include_pad = random.integer(0, 1) == 1;
    op.channels_last = random.integer(0, 1) == 1;
    Dims size, begins, ends;
    for (int i = 0; i < 2; ++i) {
      op.kernel.push_back(random.integer(1, 3));
      op.strides.push_back(random.integer(1, 3));
      op.dilations.push_back(random.integer(1, 2));
      begins.push_back(random.integer(0, op.kernel.back() - 1));
      ends.push_back(random.integer(0, op.kernel.back() - 1));
      size.push_back(random.integer(5, 12));
    }
    op.pads = {begins[0], begins[1], ends[0], ends[1]};
    const int64_t images = random.integer(1, 2), channels = random.integer(1, 5);
    const Tensor x = random_tensor(
        random, dtype,
        op.channels_last ? Dims{images, size[0], size[1], channels} : Dims{images, channels, size[0], size[1]});
    const Tensor y = run_op(op, {x})[0];
    const size_t first = op.channels_last ? 1 : 2;
    const int64_t rows = y.dims()[first], columns = y.dims()[first + 1];
    const std::vector<double> v = x.to_doubles(), got = y.to_doubles();
    const auto index = [&](int64_t n, int64_t c, int64_t r, int64_t k, int64_t h, int64_t w) {
      return static_cast<size_t>(op.channels_last ? ((n * h + r) * w + k) * channels + c
                                                  : ((n * channels + c) * h + r) * w + k);
    };
    for (int64_t n = 0; n < images; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t k = 0; k < columns; ++k) {
            double sum = 0, largest = -std::numeric_limits<double>::infinity();
            int inside = 0, padded = 0;
            for (int64_t i = 0; i < op.kernel[0]; ++i)
              for (int64_t j = 0; j < op.kernel[1]; ++j) {
                const int64_t a = r * op.strides[0] - begins[0] + i * op.dilations[0];
                const int64_t b = k * op.strides[1] - begins[1] + j * op.dilations[1];
                if (a < size[0] + ends[0] && b < size[1] + ends[1]) ++padded;
                if (a < 0 || b < 0 || a >= size[0] || b >= size[1]) continue;
                ++inside;
                sum += v[index(n, c, a, b, size[0], size[1])];
                largest = std::max(largest, v[index(n, c, a, b, size[0], size[1])]);
              }
            const int count = op.count_include_pad ? padded : inside;
            double want = op.kind == PoolKind::max ? largest : count ? sum / count : 0;
            if (op.kind == PoolKind::max && inside == 0 && !is_floating(dtype)) want = dtype == DType::u8 ? 0 : -128;
            ASSERT_NEAR(got[index(n, c, r, k, rows, columns)], rounded(dtype, want),
                        std::isinf(want) ? 0 : tolerance(dtype, want))
                << to_string(Op(op)) << to_string(x.dims());
          }
  }
}

// Dilated and padded windows, against the elements that lie under each tap.
TEST(MaxPoolIndices, ByHand) {
  const Tensor x = f32({1, 1, 5}, {1, 5, 2, 4, 3});
  EXPECT_EQ(run_op(MaxPoolIndices{{2}, {1}, {1, 1}, {3}}, {x}).at(0), i64({1, 1, 4}, {2, 3, 1, 2}));
  EXPECT_EQ(run_op(MaxPoolIndices{{3}, {2}, {1, 1}, {1}}, {x}).at(0), i64({1, 1, 3}, {1, 1, 3}));
  const Tensor image = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  const MaxPoolIndices op{{2, 2}, {1, 1}, {1, 1, 0, 0}, {1, 1}, false, true};
  EXPECT_EQ(run_op(op, {image}).at(0), i64({1, 1, 2, 2}, {0, 2, 1, 3}));
}

// It would not end if it looked at every tap.
TEST(MaxPoolIndices, WindowsFarLargerThanTheImage) {
  const Tensor x = f32({1, 1, 2, 2}, {1, 7, 5, 3});
  const int64_t half = int64_t{1} << 29;
  const MaxPoolIndices op{{2 * half, 2 * half}, {1, 1}, {half, half, half - 1, half - 1}, {1, 1}};
  EXPECT_EQ(run_op(op, {x}).at(0), i64({1, 1, 2, 2}, {1, 1, 1, 1}));
}

TEST(Pool, ShapeRule) {
  Graph graph;
  const Dim n = Dim::symbol("n"), w = Dim::symbol("w");
  const ValueId x = graph.add_input("x", {DType::f32, {n, 3, w}});
  EXPECT_EQ(graph.type(graph.add(pool_1d(PoolKind::max, 2, 2, 0, 0), {x}, "y")).shape[2],
            floor_div(w - Dim(2), 2) + Dim(1));
  Pool ceil = pool_1d(PoolKind::max, 3, 2, 1, 1);
  ceil.ceil_mode = true;
  EXPECT_EQ(graph.type(graph.add(ceil, {x}, "y")).shape[2], ceil_div(w + Dim(1), 2));
  Pool bad = pool_1d(PoolKind::average, 2, 2, 0, 0);
  bad.kernel = {2, 2};
  EXPECT_NE(error_of([&] { graph.add(bad, {x}, "y"); }).find("a kernel of 2"), std::string::npos);
  const ValueId i = graph.add_input("i", {DType::i8, {1, 1, 4}});
  EXPECT_NE(error_of([&] { graph.add(pool_1d(PoolKind::average, 2, 2, 0, 0), {i}, "y"); }).find("got i8"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::pool_test
