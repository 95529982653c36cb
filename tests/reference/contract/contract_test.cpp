#include "ir/ops/contract.h"

#include <limits>

#include "reference/random_tensor.h"
#include "reference/single_op.h"

namespace camshaft::ops::contract_test {
namespace {

void expect_close(const Tensor& got, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(got.size(), static_cast<int64_t>(want.size())) << what;
  const std::vector<double> values = got.to_doubles();
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(values[i], rounded(got.dtype(), want[i]), tolerance(got.dtype(), want[i])) << what << " at " << i;
}

TEST(MatMul, ByHand) {
  const Tensor a = f32({2, 3}, {1, 2, 3, 4, 5, 6}), b = f32({3, 2}, {1, 0, 0, 1, 1, 1});
  EXPECT_EQ(run_op(MatMul{}, {a, b})[0], f32({2, 2}, {4, 5, 10, 11}));
  EXPECT_EQ(run_op(MatMul{true, true}, {b, a})[0], f32({2, 2}, {4, 10, 5, 11}));
  EXPECT_EQ(run_op(MatMul{}, {f32({2, 0}, {}), f32({0, 1}, {})})[0], f32({2, 1}, {0, 0}));
  EXPECT_EQ(run_op(MatMul{}, {f32({0, 3}, {}), b})[0].dims(), (Dims{0, 2}));
}

TEST(MatMul, IntegersAreExact) {
  const int64_t big = (int64_t{1} << 53) + 1;
  EXPECT_EQ(run_op(MatMul{}, {i64({1, 2}, {big, 1}), i64({2, 1}, {1, 1})})[0], i64({1, 1}, {big + 1}));
  const auto i32 = [](int32_t v) { return Tensor::of<int32_t>(DType::i32, {1, 1}, {v}); };
  EXPECT_EQ(run_op(MatMul{}, {i32(-70000), i32(70000)})[0], i32(static_cast<int32_t>(-4900000000LL)));  // wraps
}

// NaN and infinities reach only the elements that use them, padding of the blocks notwithstanding.
TEST(MatMul, NonFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<double> y =
      run_op(MatMul{}, {f32({2, 2}, {infinity, 1, 1, 1}), f32({2, 2}, {1, 0, -1, 2})})[0].to_doubles();
  EXPECT_EQ(y[0], infinity);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 2);
}

TEST(MatMul, LikeNaiveLoops) {
  Random random = test_random();
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                          DType::i32, DType::i8,  DType::u8,  DType::i64};
  for (int round = 0; round < 80; ++round) {
    const DType dtype = dtypes[random.integer(0, 7)];
    const bool big = round % 16 == 0;  // several blocks with tails
    const int64_t m = random.integer(1, big ? 400 : 20), n = random.integer(1, big ? 400 : 40);
    const int64_t k = random.integer(big ? 100 : 0, big ? 300 : 30);
    const MatMul op{random.integer(0, 1) == 1, random.integer(0, 1) == 1};
    const int64_t outer = random.integer(1, big ? 1 : 3), inner = random.integer(1, big ? 1 : 3);
    const auto dims = [&](int64_t rows, int64_t columns, bool transposed, int64_t drop) {
      Dims d{outer, inner, transposed ? columns : rows, transposed ? rows : columns};
      if (random.integer(0, 2) == 0) d[0] = 1;
      if (random.integer(0, 2) == 0) d[1] = 1;
      d.erase(d.begin(), d.begin() + drop);
      return d;
    };
    const Tensor a = random_tensor(random, dtype, dims(m, k, op.transpose_a, 0));
    const Tensor b = random_tensor(random, dtype, dims(k, n, op.transpose_b, random.integer(0, 2)));
    const Tensor y = run_op(op, {a, b})[0];
    const std::vector<double> x = a.to_doubles(), w = b.to_doubles();
    const auto batch_index = [](const Tensor& t, int64_t o, int64_t i) {
      const Dims& d = t.dims();
      const int64_t inner_size = d.size() > 2 ? d[d.size() - 3] : 1, outer_size = d.size() > 3 ? d[0] : 1;
      return (outer_size == 1 ? 0 : o) * inner_size + (inner_size == 1 ? 0 : i);
    };
    std::vector<double> want;
    for (int64_t o = 0; o < y.dims()[0]; ++o)
      for (int64_t i = 0; i < y.dims()[1]; ++i)
        for (int64_t r = 0; r < m; ++r)
          for (int64_t c = 0; c < n; ++c) {
            double sum = 0;
            for (int64_t p = 0; p < k; ++p)
              sum += x[static_cast<size_t>(batch_index(a, o, i) * m * k + (op.transpose_a ? p * m + r : r * k + p))] *
                     w[static_cast<size_t>(batch_index(b, o, i) * k * n + (op.transpose_b ? c * k + p : p * n + c))];
            if (dtype == DType::i8) sum = static_cast<int8_t>(static_cast<int64_t>(sum));
            if (dtype == DType::u8) sum = static_cast<uint8_t>(static_cast<int64_t>(sum));
            want.push_back(sum);
          }
    ASSERT_NO_FATAL_FAILURE(expect_close(y, want, to_string(a.dims()) + " x " + to_string(b.dims())));
  }
}

TEST(MatMul, SameBitsForAnyThreads) {
  Random random = test_random();
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {300, 500}),
                                   random_tensor(random, DType::f32, {500, 300})};
  const std::vector<TensorType> types{{DType::f32, {300, 300}}};
  ThreadPool one(1);
  const Tensor alone = MatMul{}.evaluate(EvalContext{inputs, types, {}, {}, one})[0];
  EXPECT_EQ(MatMul{}.evaluate(EvalContext{inputs, types, {}, {}, test_pool()})[0], alone);
}

TEST(Conv, ByHand) {
  const Tensor x = f32({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), w = f32({1, 1, 2, 2}, {1, 0, 0, 1});
  EXPECT_EQ(run_op(Conv{{1, 1}, {0, 0, 0, 0}, {1, 1}}, {x, w})[0], f32({1, 1, 2, 2}, {6, 8, 12, 14}));
  EXPECT_EQ(run_op(Conv{{2, 2}, {1, 1, 0, 0}, {1, 1}}, {x, w, f32({1}, {100})})[0],
            f32({1, 1, 2, 2}, {101, 103, 107, 114}));
}

TEST(ConvTranspose, ByHand) {
  const Tensor x = f32({1, 1, 2}, {1, 2}), w = f32({1, 1, 3}, {1, 10, 100});
  EXPECT_EQ(run_op(ConvTranspose{{2}, {0, 0}, {1}, {0}}, {x, w})[0], f32({1, 1, 5}, {1, 10, 102, 20, 200}));
  EXPECT_EQ(run_op(ConvTranspose{{2}, {1, 0}, {1}, {1}}, {x, w})[0], f32({1, 1, 5}, {10, 102, 20, 200, 0}));
}

// With 10^9 remainders of the stride, of which two have a place of the kernel, it took minutes.
TEST(ConvTranspose, OutputsBetweenWindowsAreTheBias) {
  const Tensor x = f32({1, 1, 3}, {1, 2, 3}), w = f32({1, 1, 2}, {1, 10});
  const Tensor y = run_op(ConvTranspose{{4'000'000}, {0, 0}, {1}, {0}}, {x, w, f32({1}, {0.5F})})[0];
  ASSERT_EQ(y.size(), 8'000'002);
  double sum = 0;
  for (int64_t i = 0; i < y.size(); ++i) sum += y.as<float>()[i];
  EXPECT_EQ(sum, 0.5 * 8'000'002 + 6 * 11);
  EXPECT_EQ(y.as<float>()[4'000'001], 20.5F);
}

// Random problems of 1 to 3 spatial axes, both layouts, groups, dilations and asymmetric pads; `transposed` scatters.
void compare_with_naive(bool transposed) {
  Random random = test_random();
  const DType dtypes[] = {DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16};
  for (int round = 0; round < 120; ++round) {
    const DType dtype = dtypes[random.integer(0, 4)];
    const size_t rank = static_cast<size_t>(random.integer(1, 3));
    const bool last = random.integer(0, 2) == 0;
    const int64_t groups = random.integer(1, 3), images = random.integer(1, 2);
    const int64_t in = random.integer(1, 9), out = random.integer(1, 9);  // channels of a group
    std::vector<int64_t> strides, dilations, begins, ends, kernel, size, extra;
    Dims x_dims{images}, w_dims{transposed ? in * groups : out * groups, transposed ? out : in};
    for (size_t i = 0; i < rank; ++i) {
      strides.push_back(random.integer(1, transposed ? 5 : 3));
      dilations.push_back(random.integer(1, 2));
      kernel.push_back(random.integer(1, 3));
      begins.push_back(random.integer(0, kernel[i] - 1));
      ends.push_back(random.integer(0, kernel[i] - 1));
      extra.push_back(transposed ? random.integer(0, strides[i] - 1) : 0);
      size.push_back(random.integer(5, rank == 1 ? 40 : 9));
      w_dims.push_back(kernel[i]);
    }
    if (!last) x_dims.push_back(in * groups);
    x_dims.insert(x_dims.end(), size.begin(), size.end());
    if (last) x_dims.push_back(in * groups);
    Shape pads(begins.begin(), begins.end());
    pads.insert(pads.end(), ends.begin(), ends.end());
    const Tensor x = random_tensor(random, dtype, x_dims), w = random_tensor(random, dtype, w_dims);
    const Tensor bias = random.integer(0, 1) ? random_tensor(random, dtype, {out * groups}) : Tensor();
    const Tensor y =
        transposed ? run_op(ConvTranspose{strides, pads, dilations, Shape(extra.begin(), extra.end()), groups, last},
                            {x, w, bias})[0]
                   : run_op(Conv{strides, pads, dilations, groups, last}, {x, w, bias})[0];
    const std::vector<double> xv = x.to_doubles(), wv = w.to_doubles();
    std::vector<double> want(static_cast<size_t>(y.size()));
    const auto spatial = [&](const Tensor& t) {
      return Dims(t.dims().begin() + (last ? 1 : 2), t.dims().end() - (last ? 1 : 0));
    };
    const Dims xs = spatial(x), ys = spatial(y);
    const auto index = [&](int64_t image, int64_t channel, int64_t channels, int64_t position, int64_t positions) {
      return static_cast<size_t>(last ? (image * positions + position) * channels + channel
                                      : (image * channels + channel) * positions + position);
    };
    const int64_t nx = element_count(xs), ny = element_count(ys),
                  taps = element_count(Dims(kernel.begin(), kernel.end()));
    const Tensor& large = transposed ? y : x;  // the side that the windows slide over
    const Dims ls = spatial(large), ss = transposed ? xs : ys;
    for (int64_t small = 0; small < element_count(ss); ++small)
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t rest_small = small, rest_tap = tap, at = 0, stride = 1;
        bool inside = true;
        for (size_t i = rank; i-- > 0;) {
          const int64_t position = rest_small % ss[i] * strides[i] + rest_tap % kernel[i] * dilations[i] - begins[i];
          rest_small /= ss[i];
          rest_tap /= kernel[i];
          inside = inside && position >= 0 && position < ls[i];
          at += position * stride;
          stride *= ls[i];
        }
        if (!inside) continue;
        for (int64_t image = 0; image < images; ++image)
          for (int64_t g = 0; g < groups; ++g)
            for (int64_t o = 0; o < out; ++o)
              for (int64_t c = 0; c < in; ++c) {
                const double weight = wv[static_cast<size_t>(
                    (transposed ? (g * in + c) * out + o : (g * out + o) * in + c) * taps + tap)];
                want[index(image, g * out + o, out * groups, transposed ? at : small, ny)] +=
                    weight * xv[index(image, g * in + c, in * groups, transposed ? small : at, nx)];
              }
      }
    if (bias.defined()) {
      const std::vector<double> b = bias.to_doubles();
      for (int64_t image = 0; image < images; ++image)
        for (int64_t c = 0; c < out * groups; ++c)
          for (int64_t p = 0; p < ny; ++p) want[index(image, c, out * groups, p, ny)] += b[static_cast<size_t>(c)];
    }
    ASSERT_NO_FATAL_FAILURE(expect_close(y, want, to_string(x.dims()) + " by " + to_string(w.dims())));
  }
}

TEST(Conv, LikeNaiveLoops) {
  compare_with_naive(false);
}
TEST(ConvTranspose, LikeNaiveLoops) {
  compare_with_naive(true);
}

}  // namespace
}  // namespace camshaft::ops::contract_test
