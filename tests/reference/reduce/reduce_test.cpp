#include "ir/ops/reduce.h"

#include <cmath>
#include <limits>

#include "reference/random_tensor.h"
#include "reference/single_op.h"

namespace camshaft::ops::reduce_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Reduce, ByHand) {
  const Tensor x = f32({2, 3}, {1, -2, 3, 4, 5, -6});
  EXPECT_EQ(run_op(Reduce{ReduceKind::sum, {1}, true}, {x})[0], f32({2, 1}, {2, 3}));
  EXPECT_EQ(run_op(Reduce{ReduceKind::mean, {0}, false}, {x})[0], f32({3}, {2.5f, 1.5f, -1.5f}));
  EXPECT_EQ(run_op(Reduce{ReduceKind::prod, {0, 1}, false}, {x})[0], f32({}, {720}));
  EXPECT_EQ(run_op(Reduce{ReduceKind::sum_abs, {1}, false}, {x})[0], f32({2}, {6, 15}));
  EXPECT_EQ(run_op(Reduce{ReduceKind::sum_squares, {0}, false}, {x})[0], f32({3}, {17, 29, 45}));
  EXPECT_EQ(run_op(Reduce{ReduceKind::sum_abs, {}, true}, {x})[0], f32({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run_op(Reduce{ReduceKind::sum, {}, true}, {x})[0], x);
  EXPECT_EQ(run_op(Reduce{ReduceKind::mean, {0}, false}, {i64({2}, {-3, 0})})[0], i64({}, {-1}));
}

TEST(Reduce, NonFiniteAndEmpty) {
  const auto reduce = [](ReduceKind kind, const Tensor& t) { return run_op(Reduce{kind, {0}, false}, {t})[0]; };
  EXPECT_TRUE(std::isnan(reduce(ReduceKind::max, f32({3}, {1, nan, 2})).to_doubles()[0]));
  EXPECT_TRUE(std::isnan(reduce(ReduceKind::min, f32({3}, {nan, 1, 2})).to_doubles()[0]));
  EXPECT_EQ(reduce(ReduceKind::max, f32({2}, {-infinity, -infinity})), f32({}, {-infinity}));
  const Tensor none = f32({0, 2}, {});
  EXPECT_EQ(reduce(ReduceKind::sum, none), f32({2}, {0, 0}));
  EXPECT_EQ(reduce(ReduceKind::prod, none), f32({2}, {1, 1}));
  EXPECT_EQ(reduce(ReduceKind::max, none), f32({2}, {-infinity, -infinity}));
  EXPECT_EQ(reduce(ReduceKind::min, none), f32({2}, {infinity, infinity}));
  EXPECT_EQ(reduce(ReduceKind::max, i64({0}, {})), i64({}, {std::numeric_limits<int64_t>::min()}));
  EXPECT_EQ(reduce(ReduceKind::min, Tensor(DType::u8, {0})).to_ints()[0], 255);
  EXPECT_EQ(reduce(ReduceKind::max, Tensor(DType::i8, {0})).to_ints()[0], -128);
  EXPECT_EQ(reduce(ReduceKind::min, Tensor(DType::boolean, {0})).to_ints()[0], 1);
  const Tensor half = Tensor::of<uint16_t>(DType::f16, {2}, {0x5a40, 0x5a40});  // 200
  EXPECT_EQ(reduce(ReduceKind::sum_squares, half).to_doubles()[0], infinity);   // 80000, where f16 ends at 65504
  const Tensor big = i64({2}, {std::numeric_limits<int64_t>::max(), 1});
  EXPECT_EQ(reduce(ReduceKind::sum, big), i64({}, {std::numeric_limits<int64_t>::min()}));  // wraps
}

// A float sum in f32 would stop at 2^24.
TEST(Reduce, AccumulatesInDouble) {
  Tensor ones(DType::f32, {(1 << 24) + 2});
  std::fill_n(ones.as_mutable<float>(), ones.size(), 1.0f);
  EXPECT_EQ(run_op(Reduce{ReduceKind::sum, {0}, false}, {ones})[0], f32({}, {(1 << 24) + 2}));
}

TEST(Reduce, LikeNaiveLoops) {
  Random random = test_random();
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                          DType::i64, DType::i32, DType::i8,  DType::u8};
  for (int round = 0; round < 200; ++round) {
    const DType dtype = dtypes[random.integer(0, 7)];
    Reduce op{static_cast<ReduceKind>(random.integer(0, 6)), {}, random.integer(0, 1) == 1};
    Dims dims;
    for (int64_t i = random.integer(1, 4); i > 0; --i) dims.push_back(random.integer(1, round % 20 == 0 ? 40 : 6));
    for (size_t i = 0; i < dims.size(); ++i)
      if (random.integer(0, 1) == 1) op.axes.push_back(static_cast<int64_t>(i));
    if (op.axes.empty()) op.axes.push_back(0);
    if (op.kind == ReduceKind::prod && !is_floating(dtype)) op.kind = ReduceKind::max;  // overflows: tested by hand
    const Tensor x = random_tensor(random, dtype, dims), y = run_op(op, {x})[0];
    const std::vector<double> values = x.to_doubles(), got = y.to_doubles();
    std::vector<double> want(got.size(), op.kind == ReduceKind::prod  ? 1.0
                                         : op.kind == ReduceKind::max ? -infinity
                                         : op.kind == ReduceKind::min ? infinity
                                                                      : 0.0);
    std::vector<double> sizes(got.size());  // of the terms
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), target = 0, stride = 1;
      for (size_t axis = dims.size(); axis-- > 0;) {
        if (std::count(op.axes.begin(), op.axes.end(), static_cast<int64_t>(axis)) == 0) {
          target += rest % dims[axis] * stride;
          stride *= dims[axis];
        }
        rest /= dims[axis];
      }
      double& w = want[static_cast<size_t>(target)];
      const double v = op.kind == ReduceKind::sum_squares ? values[i] * values[i]
                       : op.kind == ReduceKind::sum_abs   ? std::abs(values[i])
                                                          : values[i];
      double& size = sizes[static_cast<size_t>(target)];
      size += std::abs(v);
      switch (op.kind) {
        case ReduceKind::prod:
          w *= v;
          size = std::abs(w);
          break;
        case ReduceKind::max:
          w = std::max(w, v);
          break;
        case ReduceKind::min:
          w = std::min(w, v);
          break;
        default:
          w += v;
      }
    }
    const double count = static_cast<double>(x.size()) / static_cast<double>(y.size());
    for (size_t i = 0; i < want.size(); ++i) {
      double w = want[i], error = 0;
      if (op.kind == ReduceKind::mean) w = is_floating(dtype) ? w / count : std::trunc(w / count);
      if (dtype == DType::i8) w = static_cast<int8_t>(static_cast<int64_t>(w));
      if (dtype == DType::u8) w = static_cast<uint8_t>(static_cast<int64_t>(w));
      // Two sums or products in f64, in whatever order, are that close; stored as f16 they may be infinite, too.
      if (is_floating(dtype) && op.kind != ReduceKind::max && op.kind != ReduceKind::min)
        error = (count + 1) * (0x1p-52 * sizes[i] + 0x1p-1074) / (op.kind == ReduceKind::mean ? count : 1);
      const std::string what = to_string(Op(op)) + " of " + std::string(to_string(dtype)) + to_string(dims);
      ASSERT_GE(got[i], rounded(dtype, w - error)) << what << " at " << i;
      ASSERT_LE(got[i], rounded(dtype, w + error)) << what << " at " << i;
    }
  }
}

TEST(ArgReduce, ByHand) {
  const Tensor x = f32({2, 3}, {1, 3, 3, 2, 0, 0});
  EXPECT_EQ(run_op(ArgReduce{true, 1, false, false}, {x})[0], i64({2}, {1, 0}));
  EXPECT_EQ(run_op(ArgReduce{true, 1, false, true}, {x})[0], i64({2}, {2, 0}));
  EXPECT_EQ(run_op(ArgReduce{false, 1, true, false}, {x})[0], i64({2, 1}, {0, 1}));
  EXPECT_EQ(run_op(ArgReduce{true, 0, false, false}, {x})[0], i64({3}, {1, 0, 0}));
  for (const bool last : {false, true})
    EXPECT_EQ(run_op(ArgReduce{true, 0, false, last}, {f32({4}, {1, nan, infinity, nan})})[0], i64({}, {1}));
  EXPECT_EQ(run_op(ArgReduce{false, 0, false, false}, {i64({3}, {5, -5, 7})})[0], i64({}, {1}));
  EXPECT_EQ(run_op(ArgReduce{true, 1, false, false}, {Tensor(DType::f32, {0, 3})})[0].size(), 0);
  EXPECT_NE(error_of([] {
              run_op(ArgReduce{true, 1, false, false}, {Tensor(DType::f32, {3, 0})});
            }).find("size 0"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::reduce_test
