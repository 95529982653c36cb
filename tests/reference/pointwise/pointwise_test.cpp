#include "ir/ops/pointwise.h"

#include <cmath>
#include <limits>

#include "ir/ops/move.h"
#include "reference/pointwise/scalar_math.h"
#include "reference/random_tensor.h"
#include "reference/single_op.h"

namespace camshaft::ops::pointwise_test {
namespace {

using F = ScalarFunction;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<double> run_floats(F function, const std::vector<std::vector<float>>& operands) {
  std::vector<Tensor> inputs;
  for (const auto& o : operands) inputs.push_back(f32({static_cast<int64_t>(o.size())}, o));
  return run_op(Pointwise{function}, inputs)[0].to_doubles();
}

std::vector<int64_t> run_ints(F function, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return run_op(Pointwise{function},
                {i64({static_cast<int64_t>(a.size())}, a), i64({static_cast<int64_t>(b.size())}, b)})[0]
      .to_ints();
}

TEST(Pointwise, Unary) {
  EXPECT_EQ(run_floats(F::round, {{0.5f, 1.5f, 2.5f, -0.5f, -1.5f}}), (std::vector<double>{0, 2, 2, 0, -2}));
  EXPECT_EQ(run_floats(F::ceil, {{1.2f, -1.2f}}), (std::vector<double>{2, -1}));
  EXPECT_EQ(run_floats(F::floor, {{1.2f, -1.2f}}), (std::vector<double>{1, -2}));
  EXPECT_EQ(run_floats(F::sign, {{3, 0, -2}}), (std::vector<double>{1, 0, -1}));
  EXPECT_EQ(run_floats(F::abs, {{-3, infinity, -infinity}}), (std::vector<double>{3, infinity, infinity}));
  EXPECT_EQ(run_floats(F::exp, {{0, -infinity, 200}}), (std::vector<double>{1, 0, infinity}));
  EXPECT_EQ(run_floats(F::sigmoid, {{0, infinity, -infinity, -1000}}), (std::vector<double>{0.5, 1, 0, 0}));
  EXPECT_EQ(run_floats(F::erf, {{0, infinity, -infinity}}), (std::vector<double>{0, 1, -1}));
  EXPECT_EQ(run_floats(F::reciprocal, {{4, infinity}}), (std::vector<double>{0.25, 0}));
  EXPECT_EQ(run_floats(F::is_nan, {{1, nan, infinity}}), (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(run_floats(F::is_inf_pos, {{1, nan, infinity, -infinity}}), (std::vector<double>{0, 0, 1, 0}));
  EXPECT_EQ(run_floats(F::is_inf_neg, {{1, nan, infinity, -infinity}}), (std::vector<double>{0, 0, 0, 1}));
  EXPECT_TRUE(std::isnan(run_floats(F::sign, {{nan}})[0]));
  EXPECT_TRUE(std::isnan(run_floats(F::sqrt, {{-1}})[0]));
  EXPECT_EQ(run_floats(F::log, {{0}})[0], -infinity);
}

TEST(Pointwise, MinAndMaxKeepNan) {
  for (const F f : {F::min, F::max}) {
    const auto out = run_floats(f, {{1, nan, nan, -infinity}, {nan, 1, nan, infinity}});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(out[static_cast<size_t>(i)])) << i;
    EXPECT_EQ(out[3], f == F::min ? -infinity : infinity);
  }
  EXPECT_EQ(run_floats(F::less, {{nan, 1}, {1, 2}}), (std::vector<double>{0, 1}));
  EXPECT_EQ(run_floats(F::equal, {{nan, infinity}, {nan, infinity}}), (std::vector<double>{0, 1}));
}

TEST(Pointwise, IntegersNeverTrap) {
  constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(run_ints(F::div, {7, -7, 5, lowest}, {2, 2, 0, -1}), (std::vector<int64_t>{3, -3, 0, lowest}));
  EXPECT_EQ(run_ints(F::mod, {7, -7, 7, -7, 5, lowest}, {3, 3, -3, -3, 0, -1}),
            (std::vector<int64_t>{1, 2, -2, -1, 0, 0}));
  EXPECT_EQ(run_ints(F::fmod, {7, -7, 7, -7, 5, lowest}, {3, 3, -3, -3, 0, -1}),
            (std::vector<int64_t>{1, -1, 1, -1, 0, 0}));
  EXPECT_EQ(run_ints(F::pow, {2, -1, -1, 2, 0, 3}, {10, -3, -2, -1, 0, 2}),
            (std::vector<int64_t>{1024, -1, 1, 0, 1, 9}));
  EXPECT_EQ(run_ints(F::add, {std::numeric_limits<int64_t>::max()}, {1}), (std::vector<int64_t>{lowest}));
  EXPECT_EQ(run_ints(F::shift_left, {1, 1, 1}, {3, 64, -1}), (std::vector<int64_t>{8, 0, 0}));
  EXPECT_EQ(run_ints(F::shift_right, {-8, 8, -8}, {1, 70, 70}), (std::vector<int64_t>{-4, 0, -1}));
  const Tensor low = Tensor::of<int32_t>(DType::i32, {1}, {std::numeric_limits<int32_t>::min()});
  const Tensor minus = Tensor::of<int32_t>(DType::i32, {1}, {-1});
  EXPECT_EQ(run_op(Pointwise{F::div}, {low, minus})[0], low);
  const auto u8 = [](uint8_t v) { return Tensor::of<uint8_t>(DType::u8, {1}, {v}); };
  EXPECT_EQ(run_op(Pointwise{F::sub}, {u8(3), u8(5)})[0], u8(254));
  EXPECT_EQ(run_op(Pointwise{F::bitwise_not}, {u8(1)})[0], u8(254));
}

TEST(Pointwise, FloatRemainders) {
  EXPECT_EQ(run_floats(F::fmod, {{5.5f, -5.5f}, {2, 2}}), (std::vector<double>{1.5, -1.5}));
  EXPECT_EQ(run_floats(F::mod, {{5.5f, -5.5f, 5.5f}, {2, 2, -2}}), (std::vector<double>{1.5, 0.5, -0.5}));
}

// One rounding, from the exact result: 1 + 2^-11 is half-way for f16 and must go to even.
TEST(Pointwise, NarrowFloatsRoundOnce) {
  const Tensor a = Tensor::scalar(DType::f16, 1), b = Tensor::scalar(DType::f16, std::ldexp(1, -11));
  EXPECT_EQ(run_op(Pointwise{F::add}, {a, b})[0], a);
  const Tensor c = Tensor::scalar(DType::bf16, 256), d = Tensor::scalar(DType::bf16, 3);
  EXPECT_EQ(run_op(Pointwise{F::add}, {c, d})[0].to_doubles()[0], 260);
}

// Every dtype and random broadcasts, against indices worked out one by one.
TEST(Pointwise, BroadcastsLikeNaiveLoops) {
  Random random = test_random();
  const DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,   DType::i16,
                          DType::i8,  DType::u64, DType::u32, DType::u16,  DType::u8,  DType::f8e5m2};
  const F functions[] = {F::add, F::mul, F::sub, F::max, F::less, F::select};
  for (int round = 0; round < 300; ++round) {
    const DType dtype = dtypes[random.integer(0, 12)];
    const F function = functions[random.integer(0, 5)];
    const auto operands = static_cast<size_t>(arity(function));
    Dims out;
    for (int64_t i = random.integer(0, 4); i > 0; --i)
      out.push_back(round % 50 == 7 && i == 1 ? 0 : random.integer(1, 9));
    std::vector<Tensor> inputs;
    for (size_t o = 0; o < operands; ++o) {
      Dims dims(out.begin() + random.integer(0, static_cast<int64_t>(out.size())), out.end());
      for (int64_t& d : dims)
        if (random.integer(0, 2) == 0) d = 1;
      inputs.push_back(random_tensor(random, function == F::select && o == 0 ? DType::boolean : dtype, dims));
    }
    inputs[0] = random_tensor(random, inputs[0].dtype(), out);  // so that the result has the shape `out`
    const Tensor result = run_op(Pointwise{function}, inputs)[0];
    ASSERT_EQ(result.dims(), out);
    ASSERT_EQ(result.dtype(), result_dtype(function, dtype));
    std::vector<std::vector<double>> numbers;
    for (const Tensor& t : inputs) numbers.push_back(t.to_doubles());
    const std::vector<double> got = result.to_doubles();
    for (int64_t i = 0; i < result.size(); ++i) {
      std::vector<double> v;
      for (size_t o = 0; o < operands; ++o) {
        const Dims& dims = inputs[o].dims();
        int64_t rest = i, index = 0, stride = 1;
        for (size_t axis = out.size(); axis-- > 0;) {
          const int64_t at = rest % out[axis];
          rest /= out[axis];
          if (axis + dims.size() < out.size()) continue;
          const int64_t size = dims[axis + dims.size() - out.size()];
          index += (size == 1 ? 0 : at) * stride;
          stride *= size;
        }
        v.push_back(numbers[o][static_cast<size_t>(index)]);
      }
      double want = 0;
      if (function == F::select) {
        want = v[0] != 0 ? v[1] : v[2];
      } else {
        apply(function, &v[0], &v[1], &v[1], &want, 1);
      }
      if (is_integer(result.dtype()) && !is_signed(dtype) && want < 0)
        want = dtype == DType::u64 ? std::ldexp(1, 64) : want + std::ldexp(1, bit_width(dtype));
      ASSERT_EQ(got[static_cast<size_t>(i)], rounded(result.dtype(), want))
          << to_string(function) << " of " << to_string(dtype) << to_string(out) << " at " << i;
    }
  }
}

TEST(Pointwise, Strings) {
  const Tensor a = Tensor::of<std::string>(DType::string, {2, 1}, {"x", "y"});
  const Tensor b = Tensor::of<std::string>(DType::string, {2}, {"y", "z"});
  EXPECT_EQ(run_op(Pointwise{F::equal}, {a, b})[0], Tensor::of<uint8_t>(DType::boolean, {2, 2}, {0, 0, 1, 0}));
  const Tensor condition = Tensor::of<uint8_t>(DType::boolean, {2}, {1, 0});
  EXPECT_EQ(run_op(Pointwise{F::select}, {condition, b, Tensor::of<std::string>(DType::string, {}, {"-"})})[0],
            Tensor::of<std::string>(DType::string, {2}, {"y", "-"}));
}

TEST(Cast, BetweenNumbers) {
  const auto cast = [](const Tensor& t, DType to) { return run_op(Cast{to}, {t})[0]; };
  const Tensor floats = f32({7}, {1.9f, -1.9f, 300, -5, nan, infinity, 0});
  EXPECT_EQ(cast(floats, DType::i32).to_ints(),
            (std::vector<int64_t>{1, -1, 300, -5, 0, std::numeric_limits<int32_t>::max(), 0}));
  EXPECT_EQ(cast(floats, DType::u8).to_ints(), (std::vector<int64_t>{1, 0, 255, 0, 0, 255, 0}));
  EXPECT_EQ(cast(floats, DType::boolean).to_ints(), (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(cast(floats, DType::i64).to_ints()[5], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(cast(i64({3}, {257, -1, 5}), DType::u8).to_ints(), (std::vector<int64_t>{1, 255, 5}));
  EXPECT_EQ(cast(i64({1}, {(int64_t{1} << 53) + 1}), DType::u64).to_ints()[0], (int64_t{1} << 53) + 1);
  EXPECT_EQ(cast(f32({3}, {-9, 3.7f, 100}), DType::i4).to_ints(), (std::vector<int64_t>{7, 3, 4}));
  EXPECT_EQ(cast(cast(i64({3}, {-8, 3, 7}), DType::i4), DType::f32), f32({3}, {-8, 3, 7}));
  EXPECT_EQ(run_op(Cast{DType::f8e4m3, true}, {f32({1}, {1000})})[0].to_doubles()[0], 448);
  EXPECT_TRUE(std::isnan(run_op(Cast{DType::f8e4m3, false}, {f32({1}, {1000})})[0].to_doubles()[0]));
  EXPECT_EQ(cast(Tensor::scalar(DType::f64, 1 + std::ldexp(1, -11) + std::ldexp(1, -40)), DType::f16).to_doubles()[0],
            1 + std::ldexp(1, -10));  // through float it would round down
}

// Every type to every other and back, on numbers that all of them hold.
TEST(Cast, HasOneInput) {
  EXPECT_THROW(run_op(Cast{DType::i64}, {f32({1}, {1}), Tensor()}), Error);
}

TEST(Cast, EveryTypeToEveryOther) {
  for (int f = 0; f < dtype_count; ++f)
    for (int t = 0; t < dtype_count; ++t) {
      const auto from = static_cast<DType>(f), to = static_cast<DType>(t);
      if (is_container(from) || is_container(to)) continue;
      const bool powers = from == DType::f8e8m0 || to == DType::f8e8m0;  // no zero
      const Tensor x = f32({5}, {1, powers ? 1.F : 0.F, 1, 1, 1});
      const Tensor source = run_op(Cast{from}, {x})[0];
      const Tensor target = run_op(Cast{to}, {source})[0];
      EXPECT_EQ(run_op(Cast{DType::f32}, {target})[0], x) << to_string(from) << " to " << to_string(to);
    }
}

TEST(Cast, TwoBitIntegersAndPowersOfTwo) {
  const auto cast = [](const Tensor& t, DType to) { return run_op(Cast{to}, {t})[0]; };
  const Tensor i2 = cast(f32({5}, {-2, -1, 0, 1, 5.5f}), DType::i2);
  EXPECT_EQ(i2, Tensor::of<uint8_t>(DType::i2, {5}, {0x4e, 0x01}));
  EXPECT_EQ(i2.to_ints(), (std::vector<int64_t>{-2, -1, 0, 1, 1}));
  EXPECT_EQ(cast(i64({5}, {-2, -1, 2, 5, 4}), DType::u2).to_ints(), (std::vector<int64_t>{2, 3, 2, 1, 0}));
  EXPECT_EQ(cast(i2, DType::i8).to_ints(), (std::vector<int64_t>{-2, -1, 0, 1, 1}));
  const Tensor x = f32({4}, {1.1f, 1.5f, 3, 0});
  EXPECT_EQ(cast(x, DType::f8e8m0).to_doubles(), (std::vector<double>{2, 2, 4, std::ldexp(1, -127)}));
  EXPECT_EQ(run_op(Cast{DType::f8e8m0, true, PowerRounding::down}, {x})[0].to_doubles(),
            (std::vector<double>{1, 1, 2, std::ldexp(1, -127)}));
  const auto nearest = run_op(Cast{DType::f8e8m0, false, PowerRounding::nearest}, {x})[0].to_doubles();
  EXPECT_EQ(nearest[0], 1);
  EXPECT_EQ(nearest[1], 2);
  EXPECT_TRUE(std::isnan(nearest[3]));
}

TEST(BitCast, KeepsBits) {
  EXPECT_EQ(run_op(BitCast{DType::i32}, {f32({2}, {1, -0.0f})})[0].to_ints(),
            (std::vector<int64_t>{0x3f800000, std::numeric_limits<int32_t>::min()}));
  const Tensor u4 = Tensor::of<uint8_t>(DType::u4, {3}, {0x8f, 0x07});
  EXPECT_EQ(run_op(BitCast{DType::i4}, {u4})[0].to_ints(), (std::vector<int64_t>{-1, -8, 7}));
  EXPECT_EQ(run_op(BitCast{DType::boolean}, {Tensor::of<uint8_t>(DType::u8, {3}, {0, 1, 200})})[0],
            Tensor::of<uint8_t>(DType::boolean, {3}, {0, 1, 1}));
  EXPECT_NE(error_of([&] { run_op(BitCast{DType::i64}, {f32({1}, {1})}); }).find("64"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(BitCast{DType::string}, {f32({1}, {1})}); }).find("strings"), std::string::npos);
}

TEST(Cast, Strings) {
  const auto texts = [](const std::vector<std::string>& v) {
    return Tensor::of<std::string>(DType::string, {static_cast<int64_t>(v.size())}, v);
  };
  EXPECT_EQ(run_op(Cast{DType::string}, {f32({4}, {0.1f, nan, infinity, -infinity})})[0],
            texts({"0.1", "NaN", "INF", "-INF"}));
  EXPECT_EQ(run_op(Cast{DType::string}, {i64({2}, {-3, 1LL << 60})})[0], texts({"-3", "1152921504606846976"}));
  EXPECT_EQ(run_op(Cast{DType::f32}, {texts({"0.5", "1e3", "+INF", "-INF"})})[0],
            f32({4}, {0.5f, 1000, infinity, -infinity}));
  EXPECT_EQ(run_op(Cast{DType::i64}, {texts({"1152921504606846977", "-2"})})[0], i64({2}, {(1LL << 60) + 1, -2}));
  EXPECT_EQ(run_op(Cast{DType::u64}, {texts({"18446744073709551615"})})[0].as<uint64_t>()[0], ~uint64_t{0});
  EXPECT_EQ(run_op(Cast{DType::boolean}, {texts({"0", "-0.0", "1", "0.5", "NaN"})})[0].to_ints(),
            (std::vector<int64_t>{0, 0, 1, 1, 1}));
  EXPECT_NE(error_of([&] { run_op(Cast{DType::f32}, {texts({"cat"})}); }).find("'cat'"), std::string::npos);
}

// The shortest that give the number back in its own type, as NumPy writes them.
TEST(Cast, StringsOfNarrowFloats) {
  const Tensor x = f32({9}, {0.1F, 65504, -1 / 3.0F, 0x1p-24F, 2049, 1, 0, infinity, nan});
  const auto texts_of = [&](DType dtype) {
    const Tensor texts = run_op(Cast{DType::string}, {run_op(Cast{dtype}, {x})[0]})[0];
    return std::vector<std::string>(texts.as<std::string>(), texts.as<std::string>() + texts.size());
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of(DType::f16), (Texts{"0.1", "65500", "-0.3333", "6e-08", "2048", "1", "0", "INF", "NaN"}));
  EXPECT_EQ(texts_of(DType::bf16), (Texts{"0.1", "65500", "-0.334", "5.96e-08", "2050", "1", "0", "INF", "NaN"}));
  EXPECT_EQ(texts_of(DType::f8e4m3), (Texts{"0.1", "450", "-0.34", "0", "450", "1", "0", "450", "NaN"}));
  for (const DType dtype :
       {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::f8e8m0})
    for (int code = 0; code < 1 << bit_width(dtype); ++code) {
      const Tensor number = bit_width(dtype) == 8 ? Tensor::of<uint8_t>(dtype, {1}, {static_cast<uint8_t>(code)})
                                                  : Tensor::of<uint16_t>(dtype, {1}, {static_cast<uint16_t>(code)});
      if (!std::isfinite(number.to_doubles()[0])) continue;
      EXPECT_EQ(run_op(Cast{dtype}, run_op(Cast{DType::string}, {number}))[0], number) << to_string(dtype) << code;
    }
}

}  // namespace
}  // namespace camshaft::ops::pointwise_test
