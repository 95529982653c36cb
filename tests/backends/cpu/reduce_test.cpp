#include "backends/cpu/kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/move/strided.h"
#include "backends/cpu/kernels/reduce/arg_extreme.h"
#include "backends/cpu/random_data.h"
#include "base/error.h"

namespace camshaft::cpu::reduce_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

double start(ReduceKind kind) {
  return kind == ReduceKind::max ? -infinity : kind == ReduceKind::min ? infinity : kind == ReduceKind::prod ? 1 : 0;
}

double step(ReduceKind kind, double a, double x) {
  switch (kind) {
    case ReduceKind::max:
      return std::isnan(x) || x > a ? x : a;
    case ReduceKind::min:
      return std::isnan(x) || x < a ? x : a;
    case ReduceKind::prod:
      return a * x;
    case ReduceKind::sum_square:
      return a + x * x;
    case ReduceKind::sum_abs:
      return a + std::fabs(x);
    default:
      return a + x;
  }
}

void run(const Reduce& reduce, ThreadPool& pool, const void* in, void* out) {
  std::vector<std::byte> workspace(reduce.workspace_bytes());
  ReduceOperands operands;
  operands.in = in;
  operands.out = out;
  operands.workspace = workspace.data();
  reduce.run(pool, operands);
}

template <class T>
void check(DType dtype, ReduceKind kind, const std::vector<int64_t>& dims, const std::vector<int>& axes,
           const std::vector<T>& x, int threads, double tolerance) {
  std::vector<bool> goes(dims.size());
  for (int a : axes) goes[static_cast<size_t>(a)] = true;
  int64_t outputs = 1, count = 1;
  for (size_t d = 0; d < dims.size(); ++d) (goes[d] ? count : outputs) *= dims[d];
  std::vector<double> expected(static_cast<size_t>(outputs), start(kind));
  std::vector<double> magnitude(static_cast<size_t>(outputs), 0);
  const auto strides = contiguous_strides(dims);
  for (int64_t i = 0; i < outputs * count; ++i) {
    int64_t o = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!goes[d]) o = o * dims[d] + i / strides[d] % dims[d];
    }
    expected[o] = step(kind, expected[o], static_cast<double>(x[i]));
    magnitude[o] += std::fabs(static_cast<double>(x[i]));
  }
  if (kind == ReduceKind::mean) {
    for (double& e : expected) e /= static_cast<double>(count);
    for (double& m : magnitude) m /= static_cast<double>(count);
  }
  std::vector<T> y(static_cast<size_t>(outputs) + 1, T(77));
  ThreadPool pool(threads);
  run(Reduce(kind, dtype, dims, axes), pool, x.data(), y.data());
  ASSERT_EQ(y.back(), T(77));
  for (int64_t o = 0; o < outputs; ++o) {
    const double got = static_cast<double>(y[o]);
    if (std::isnan(expected[o]) || std::isinf(expected[o])) {
      ASSERT_TRUE(std::isnan(expected[o]) ? std::isnan(got) : got == expected[o]) << got << " for " << expected[o];
    } else if (tolerance == 0) {
      ASSERT_EQ(got, std::trunc(expected[o]));
    } else {
      ASSERT_NEAR(got, expected[o], tolerance * (std::fabs(expected[o]) + magnitude[o]))
          << "kind " << static_cast<int>(kind);
    }
  }
}

constexpr ReduceKind kinds[] = {ReduceKind::sum,  ReduceKind::mean,       ReduceKind::max,    ReduceKind::min,
                                ReduceKind::prod, ReduceKind::sum_square, ReduceKind::sum_abs};

TEST(Reduce, RandomShapesAndAxes) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 300; ++round) {
      const int64_t rank = data.integer(0, 6);
      std::vector<int64_t> dims;
      std::vector<int> axes;
      int64_t total = 1;
      for (int64_t d = 0; d < rank; ++d) {
        dims.push_back(data.integer(1, rank < 3 ? 900 : rank < 4 ? 40 : 7));
        if (data.integer(0, 40) == 0) dims.back() = 0;
        total *= dims.back();
        if (data.integer(0, 1)) axes.push_back(static_cast<int>(d));
      }
      const ReduceKind kind = kinds[round % 7];
      auto x = data.floats(total);
      if (kind == ReduceKind::prod) {
        for (float& v : x) v = 1 + v * 0.01f;
      }
      if (round % 11 == 0 && total > 3) {
        x[static_cast<size_t>(total / 2)] = round % 22 ? std::nanf("") : infinity;
        x[static_cast<size_t>(total - 1)] = -infinity;
      }
      check(DType::f32, kind, dims, axes, x, 1 + round % 3, 1e-6);
      if (HasFatalFailure()) return;
    }
  });
}

TEST(Reduce, ALongSumKeepsItsDigits) {
  for_each_target([&] {
    const int64_t n = 2'000'003;
    const std::vector<float> x(static_cast<size_t>(n), 0.1f);
    std::vector<float> y(1);
    ThreadPool pool(1);
    run(Reduce(ReduceKind::sum, DType::f32, {n}, {0}), pool, x.data(), y.data());
    EXPECT_NEAR(y[0], static_cast<double>(n) * 0.1f, 5);  // one accumulator would be off by thousands
    run(Reduce(ReduceKind::mean, DType::f32, {n / 3, 3}, {0}), pool, x.data(), std::vector<float>(3).data());
  });
}

// In f32 each order of some of these overflows or vanishes on the way.
TEST(Reduce, AProductMayLeaveTheRangeOfFloatsOnItsWay) {
  for_each_target([&] {
    for (const int64_t n : {9, 64, 200, 1003}) {
      std::vector<float> x(static_cast<size_t>(n), 1.0f), y(1);
      for (size_t i = 0, pairs = std::min<size_t>(x.size() / 2, 8); i < pairs; ++i) {
        x[i] = 1e30f;
        x[x.size() - 1 - i] = 2e-30f;
      }
      x[x.size() / 2] = 3;
      ThreadPool pool(1);
      run(Reduce(ReduceKind::prod, DType::f32, {n}, {0}), pool, x.data(), y.data());
      const double expected = 3 * std::pow(2, std::min<double>(static_cast<double>(n / 2), 8));
      EXPECT_NEAR(y[0], expected, 1e-5 * expected) << n;
    }
  });
}

TEST(Reduce, WhoeverComputesTheSumIsTheSame) {
  RandomData random;
  for (const auto& [dims, axes] : std::vector<std::pair<std::vector<int64_t>, std::vector<int>>>{
           {{300'000}, {0}}, {{3, 70'001}, {1}}, {{4000, 37}, {0}}, {{2, 900, 1500}, {1}}, {{30, 7, 400}, {0, 2}}}) {
    int64_t total = 1;
    for (const int64_t d : dims) total *= d;
    const std::vector<float> x = random.vector(total);
    const Reduce reduce(ReduceKind::sum, DType::f32, dims, axes);
    std::vector<float> alone(static_cast<size_t>(reduce.outputs())), shared = alone;
    ThreadPool one(1), three(3);
    run(reduce, one, x.data(), alone.data());
    run(reduce, three, x.data(), shared.data());
    EXPECT_EQ(alone, shared);
  }
}

// SqueezeNet with equal weights: its softmax magnifies the last bit of its means.
TEST(Reduce, EqualColumnsHaveEqualSumsWhereverTheyStand) {
  RandomData random;
  for_each_target([&] {
    // Rows in cache and beyond, in one block of columns and in several.
    for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1000}, {3, 1000}, {7, 1000}, {169, 1000}, {300, 1000}, {300, 77}, {300, 1111}, {5, 3001}}) {
      const std::vector<float> of_rows = random.vector(rows);
      std::vector<float> x, y(static_cast<size_t>(columns));
      for (const float of_row : of_rows) x.insert(x.end(), static_cast<size_t>(columns), of_row);
      for (const int threads : {1, 3}) {
        ThreadPool pool(threads);
        for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::mean, ReduceKind::sum_square, ReduceKind::sum_abs}) {
          run(Reduce(kind, DType::f32, {rows, columns}, {0}), pool, x.data(), y.data());
          EXPECT_EQ(std::count(y.begin(), y.end(), y[0]), columns)
              << rows << " rows of " << columns << ", " << threads << " threads";
        }
      }
    }
  });
}

TEST(Reduce, OtherTypes) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 70; ++round) {
      // Rows shorter and longer than what is kept side by side.
      const int64_t longest = round % 5 == 0 ? 700 : 30;
      const std::vector<int64_t> dims = {data.integer(1, 9), data.integer(1, longest),
                                         data.integer(1, round % 10 == 0 ? 300 : 9)};
      const int64_t total = dims[0] * dims[1] * dims[2];
      const std::vector<int> axes = round % 3 == 0   ? std::vector<int>{1}
                                    : round % 3 == 1 ? std::vector<int>{0, 2}
                                                     : std::vector<int>{2};
      const ReduceKind kind = kinds[round % 7];
      const bool multiplies = kind == ReduceKind::prod, picks = kind == ReduceKind::max || kind == ReduceKind::min;
      std::vector<double> f(static_cast<size_t>(total));
      std::vector<int64_t> l(f.size());
      std::vector<int32_t> i(f.size());
      std::vector<uint8_t> u(f.size());
      for (size_t k = 0; k < f.size(); ++k) {
        l[k] = multiplies ? 1 - 2 * data.integer(0, 1) : data.integer(-1000000, 1000000);
        f[k] = multiplies ? 1 + 1e-4 * static_cast<double>(data.integer(-9, 9)) : static_cast<double>(l[k]) / 7;
        i[k] = static_cast<int32_t>(l[k] % 1000);
        u[k] = static_cast<uint8_t>(picks ? l[k] & 255 : 0);
      }
      if (picks && round % 2 == 0) f[f.size() / 2] = std::nan("");
      check(DType::f64, kind, dims, axes, f, 1, 1e-12);
      check(DType::i64, kind, dims, axes, l, 2, 0);
      check(DType::i32, kind, dims, axes, i, 1, 0);
      check(DType::u8, kind, dims, axes, u, 1, 0);
      if (HasFatalFailure()) return;
    }
  });
}

// Several rows of few columns are taken for one.
TEST(Reduce, FewColumnsOfManyRows) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 84; ++round) {
      const std::vector<int64_t> dims = {data.integer(1, 3), data.integer(50, round % 6 ? 900 : 20000),
                                         data.integer(2, 17)};
      const int64_t total = dims[0] * dims[1] * dims[2];
      const ReduceKind kind = kinds[round % 7];
      const bool multiplies = kind == ReduceKind::prod;
      std::vector<float> f = data.floats(total);
      std::vector<int64_t> l(f.size());
      std::vector<int32_t> i(f.size());
      for (size_t k = 0; k < f.size(); ++k) {
        if (multiplies) f[k] = 1 + f[k] * 1e-3f;
        l[k] = multiplies ? 1 - 2 * data.integer(0, 1) : data.integer(-100000, 100000);
        i[k] = static_cast<int32_t>(l[k] % 100);
      }
      if (round % 5 == 0) f[f.size() / 2] = std::nanf("");
      const std::vector<int> axes = round % 2 ? std::vector<int>{1} : std::vector<int>{0, 1};
      check(DType::f32, kind, dims, axes, f, 1 + round % 3, 1e-6);
      check(DType::i64, kind, dims, axes, l, 1 + round % 3, 0);
      check(DType::i32, kind, dims, axes, i, 1 + round % 3, 0);
      if (HasFatalFailure()) return;
    }
  });
}

template <class T>
void check_layers(RandomData& data, DType dtype) {
  using Shape = std::pair<std::vector<int64_t>, std::vector<int>>;
  // More columns than are kept at once, layers of layers that parts end within, the longest rows and one longer.
  for (const auto& [dims, axes] : std::vector<Shape>{{{4, 3, 2}, {0, 2}},
                                                     {{70, 40, 40}, {0, 2}},
                                                     {{3, 2, 45, 60, 19}, {0, 2, 4}},
                                                     {{40, 7, 128}, {0, 2}},
                                                     {{40, 7, 129}, {0, 2}},
                                                     {{2, 300, 3, 7}, {1, 3}}}) {
    int64_t total = 1;
    for (const int64_t d : dims) total *= d;
    for (const ReduceKind kind : {ReduceKind::max, ReduceKind::min}) {
      std::vector<T> x(static_cast<size_t>(total));
      for (T& v : x) v = static_cast<T>(data.integer(-1'000'000, 1'000'000));
      if constexpr (std::is_floating_point_v<T>) {
        x[x.size() / 3] = std::numeric_limits<T>::quiet_NaN();
        x[x.size() - 1] = -std::numeric_limits<T>::infinity();
      }
      check(dtype, kind, dims, axes, x, static_cast<int>(data.integer(1, 3)), 0);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Reduce, ExtremesOfLayersOfShortRows) {
  RandomData data;
  for_each_target([&] {
    check_layers<float>(data, DType::f32);
    check_layers<double>(data, DType::f64);
    check_layers<int64_t>(data, DType::i64);
    check_layers<int32_t>(data, DType::i32);
    check_layers<int16_t>(data, DType::i16);
    check_layers<uint8_t>(data, DType::u8);
  });
}

// All kinds over axes apart, whose small matrices lie over each other; over one axis with few columns, few rows of
// many, and short rows, of numbers that sums and products have exactly.
template <class T>
void check_small_matrices(RandomData& data, DType dtype) {
  for (int round = 0; round < 84; ++round) {
    std::vector<int64_t> dims;
    std::vector<int> axes;
    if (round % 3 == 0) {
      dims = {data.integer(1, 3), data.integer(2, 70), data.integer(1, 40), data.integer(1, 12), data.integer(1, 11)};
      axes = {1, 3};
      if (round % 2) dims.push_back(data.integer(2, 5)), axes.push_back(5);
    } else if (round % 3 == 1) {
      dims = {data.integer(1, 40), data.integer(1, round % 4 ? 10 : 70), data.integer(1, round % 2 ? 9 : 300)};
      axes = {1};
      if (round % 5 == 0) dims.insert(dims.begin(), data.integer(2, 3)), axes = {0, 2};  // in several pieces
    } else if (round % 2) {  // many blocks of which two axes apart go
      dims = {data.integer(60, 300), data.integer(2, 5), data.integer(2, 4), data.integer(2, 6), data.integer(1, 4)};
      axes = {1, 3};
    } else {
      dims = {data.integer(1, 50), data.integer(1, 140)};
      axes = {1};
    }
    const ReduceKind kind = kinds[round % 7];
    int64_t total = 1;
    for (const int64_t d : dims) total *= d;
    std::vector<T> x(static_cast<size_t>(total));
    for (T& v : x)
      v = static_cast<T>(kind == ReduceKind::prod ? data.integer(0, 30) ? 1 : -(T(-1) < T(0)) | 1
                                                  : data.integer(0, 7) - (T(-1) < T(0)));
    if (std::is_floating_point_v<T> && round % 5 == 0) x[x.size() / 2] = std::numeric_limits<T>::quiet_NaN();
    check(dtype, kind, dims, axes, x, static_cast<int>(data.integer(1, 3)), std::is_integral_v<T> ? 0 : 1e-6);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Reduce, SmallMatricesOfAllKinds) {
  RandomData data;
  for_each_target([&] {
    check_small_matrices<float>(data, DType::f32);
    check_small_matrices<double>(data, DType::f64);
    check_small_matrices<int64_t>(data, DType::i64);
    check_small_matrices<uint64_t>(data, DType::u64);
    check_small_matrices<int32_t>(data, DType::i32);
    check_small_matrices<uint32_t>(data, DType::u32);
  });
}

// Sums of small matrices and rows have the same bits on any number of threads.
TEST(Reduce, ThreadsDoNotChangeSumsOfSmallMatrices) {
  RandomData data;
  for_each_target([&] {
    for (const auto& [dims, axes] :
         std::vector<std::pair<std::vector<int64_t>, std::vector<int>>>{{{9268, 3, 2, 2}, {1, 3}},
                                                                        {{9268, 2, 3, 4}, {1, 3}},
                                                                        {{5000, 7, 3}, {1}},
                                                                        {{20011, 3}, {1}},
                                                                        {{3001, 5, 2, 7, 3}, {1, 3}}}) {
      const Reduce reduce(ReduceKind::sum, DType::f32, dims, axes);
      int64_t inputs = 1, outputs = 1;
      for (size_t d = 0; d < dims.size(); ++d) {
        inputs *= dims[d];
        if (std::find(axes.begin(), axes.end(), static_cast<int>(d)) == axes.end()) outputs *= dims[d];
      }
      std::vector<float> x(static_cast<size_t>(inputs));
      for (float& v : x) v = static_cast<float>(data.integer(-1000000, 1000000)) * 0x1.234567p-9F;
      std::vector<float> expected;
      for (const int threads : {1, 2, 3, 5}) {
        ThreadPool pool(threads);
        std::vector<float> y(static_cast<size_t>(outputs));
        run(reduce, pool, x.data(), y.data());
        if (threads == 1) expected = y;
        ASSERT_EQ(y, expected) << dims.size() << " axes, " << threads << " threads";
      }
    }
  });
}

// Beside whole numbers, where a rounded quotient would be one too many, and of totals that doubles do not hold.
// Of all lengths that share a vector with others, and some beyond; the ends of the range among the elements.
template <class T>
void check_short_rows(RandomData& data, DType dtype) {
  using Limits = std::numeric_limits<T>;
  for (const ReduceKind kind : {ReduceKind::max, ReduceKind::min}) {
    for (const int64_t length : {1, 2, 3, 4, 5, 7, 8, 9, 16}) {
      const int64_t rows = data.integer(1, 3000);
      std::vector<T> x(static_cast<size_t>(rows * length));
      for (T& v : x) {
        const T any = static_cast<T>(data.integer(Limits::min(), Limits::max()));
        const T choices[] = {any, any, any, Limits::min(), Limits::max(), T(0), static_cast<T>(-1)};
        v = choices[data.integer(0, 6)];
      }
      check(dtype, kind, {rows, length}, {1}, x, static_cast<int>(data.integer(1, 3)), 0);
    }
  }
}

TEST(Reduce, ExtremesOfShortRowsOfIntegers) {
  RandomData data;
  for_each_target([&] {
    check_short_rows<int8_t>(data, DType::i8);
    check_short_rows<uint8_t>(data, DType::u8);
    check_short_rows<int16_t>(data, DType::i16);
    check_short_rows<uint16_t>(data, DType::u16);
    check_short_rows<int32_t>(data, DType::i32);
    check_short_rows<uint32_t>(data, DType::u32);
  });
}

// Of narrow types, in units of few rows of few elements.
template <class T>
void check_small_units(RandomData& data, DType dtype) {
  using Limits = std::numeric_limits<T>;
  for (const ReduceKind kind : {ReduceKind::max, ReduceKind::min})
    for (const int64_t columns : {2, 3, 8, 13, 16, 24, 32})
      for (const int64_t length : {1, 2, 5, 8, 30, 33}) {
        std::vector<T> x(static_cast<size_t>(data.integer(1, 60) * length * columns));
        for (T& v : x) v = static_cast<T>(data.integer(Limits::min(), Limits::max()));
        const int64_t units = std::ssize(x) / (length * columns);
        check(dtype, kind, {units, length, columns}, {1}, x, static_cast<int>(data.integer(1, 3)), 0);
      }
}

TEST(Reduce, ExtremesOfSmallUnitsOfNarrowIntegers) {
  RandomData data;
  for_each_target([&] {
    check_small_units<int8_t>(data, DType::i8);
    check_small_units<uint8_t>(data, DType::u8);
    check_small_units<int16_t>(data, DType::i16);
    check_small_units<uint16_t>(data, DType::u16);
  });
}

// Of any numbers, so that most sums are beyond 32 bits.
template <class T>
void check_short_rows_that_wrap(RandomData& data, DType is_signed, DType is_unsigned) {
  for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::sum_square, ReduceKind::prod})
    for (const int64_t length : {1, 2, 3, 4, 5, 7, 8, 40}) {
      const int64_t rows = data.integer(1, 300);
      const T start = kind == ReduceKind::prod ? 1 : 0;
      std::vector<T> x(static_cast<size_t>(rows * length)), y(static_cast<size_t>(rows)), expected(y.size(), start);
      for (T& v : x) v = static_cast<T>(data.integer(0, int64_t{0xffffffff}) * data.integer(1, int64_t{0x7fffffff}));
      for (size_t i = 0; i < x.size(); ++i) {
        T& total = expected[i / static_cast<size_t>(length)];
        total = kind == ReduceKind::prod ? total * x[i] : total + (kind == ReduceKind::sum ? x[i] : x[i] * x[i]);
      }
      ThreadPool pool(static_cast<int>(data.integer(1, 3)));
      for (const DType dtype : {is_signed, is_unsigned}) {
        run(Reduce(kind, dtype, {rows, length}, {1}), pool, x.data(), y.data());
        EXPECT_EQ(y, expected) << rows << " rows of " << length << " of " << to_string(dtype);
      }
    }
}

// The magnitude of the lowest number is beyond its type, and wraps to that number.
template <class T>
void check_magnitudes_that_wrap(RandomData& data, DType dtype) {
  using Unsigned = std::make_unsigned_t<T>;
  for (const int64_t length : {2, 4, 5, 8, 20, 64, 70, 200})
    for (const int64_t columns : {1, 3, 12, 70}) {
      const int64_t units = data.integer(1, 40);
      std::vector<T> x(static_cast<size_t>(units * length * columns)), y(static_cast<size_t>(units * columns));
      std::vector<Unsigned> expected(y.size(), 0);
      for (T& v : x) v = static_cast<T>(data.integer(0, 5) ? data.integer(-9, 9) : std::numeric_limits<T>::min());
      for (size_t i = 0; i < x.size(); ++i) {
        const auto k = static_cast<int64_t>(i);
        const auto magnitude = static_cast<Unsigned>(x[i] < 0 ? Unsigned(0) - static_cast<Unsigned>(x[i]) : x[i]);
        Unsigned& total = expected[static_cast<size_t>(k / (length * columns) * columns + k % columns)];
        total = static_cast<Unsigned>(total + magnitude);
      }
      ThreadPool pool(static_cast<int>(data.integer(1, 3)));
      run(Reduce(ReduceKind::sum_abs, dtype, {units, length, columns}, {1}), pool, x.data(), y.data());
      for (size_t o = 0; o < y.size(); ++o)
        ASSERT_EQ(static_cast<Unsigned>(y[o]), expected[o]) << length << " rows of " << columns;
    }
}

TEST(Reduce, MagnitudesOfTheLowestIntegersWrap) {
  RandomData data;
  for_each_target([&] {
    check_magnitudes_that_wrap<int32_t>(data, DType::i32);
    check_magnitudes_that_wrap<int64_t>(data, DType::i64);
  });
}

TEST(Reduce, TotalsOfShortRowsOfIntegersWrap) {
  RandomData data;
  for_each_target([&] {
    check_short_rows_that_wrap<uint32_t>(data, DType::i32, DType::u32);
    check_short_rows_that_wrap<uint64_t>(data, DType::i64, DType::u64);
  });
}

// Rows of f64 shorter than a vector, as long as a few, and longer; with what is no number now and then.
TEST(Reduce, RowsOfDoubles) {
  RandomData data;
  for_each_target([&] {
    for (const ReduceKind kind : kinds)
      for (const int64_t length : {1, 3, 7, 8, 9, 31, 64, 67, 500}) {
        const int64_t rows = data.integer(1, 30);
        std::vector<double> x(static_cast<size_t>(rows * length));
        for (double& v : x)
          v = kind == ReduceKind::prod ? 1 + 1e-3 * static_cast<double>(data.integer(-9, 9))
                                       : static_cast<double>(data.integer(-1000000, 1000000)) / 7;
        if (data.integer(0, 3) == 0) x[x.size() / 2] = data.integer(0, 1) ? std::nan("") : infinity;
        check(DType::f64, kind, {rows, length}, {1}, x, static_cast<int>(data.integer(1, 3)), 1e-12);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

TEST(Reduce, MeansOfIntegersAreTruncatedQuotients) {
  RandomData data;
  ThreadPool pool(1);
  for (int round = 0; round < 300; ++round) {
    const int64_t count = data.integer(1, 9), most = (int64_t{1} << data.integer(3, 62)) / count;
    const int64_t total = data.integer(-most, most) * count + data.integer(-1, 1);
    std::vector<int64_t> x(static_cast<size_t>(count), 0);
    x.front() = total;
    int64_t mean = 77;
    run(Reduce(ReduceKind::mean, DType::i64, {count}, {0}), pool, x.data(), &mean);
    ASSERT_EQ(mean, total / count) << total << " / " << count;
    std::vector<uint64_t> u(x.begin(), x.end());
    uint64_t positive = 77;
    run(Reduce(ReduceKind::mean, DType::u64, {count}, {0}), pool, u.data(), &positive);
    ASSERT_EQ(positive, static_cast<uint64_t>(total) / static_cast<uint64_t>(count)) << total << " / " << count;
  }
}

// Many rows at once, of lengths that share vectors and others, with totals about multiples of the length, some of which
// doubles do not hold.
template <class T>
void check_means_of_rows(RandomData& data, DType dtype) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  using Limits = std::numeric_limits<T>;
  for (const int64_t length : {1, 2, 3, 4, 5, 7, 8, 9, 64}) {
    const int64_t rows = data.integer(1, 300);
    std::vector<T> x(static_cast<size_t>(rows * length)), y(static_cast<size_t>(rows)), expected(y.size());
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t bits = data.integer(1, 61);
      Wide total = 0;
      for (int64_t i = 0; i < length; ++i) {
        T& v = x[static_cast<size_t>(r * length + i)];
        v = static_cast<T>(std::is_signed_v<T>
                               ? data.integer(-(int64_t{1} << bits) / length, (int64_t{1} << bits) / length)
                               : data.integer(0, (int64_t{1} << bits) / length));
        if (sizeof(T) < 8 && data.integer(0, 9) == 0) v = data.integer(0, 1) ? Limits::max() : Limits::min();
        total += static_cast<Wide>(v);
      }
      expected[static_cast<size_t>(r)] = static_cast<T>(total / static_cast<Wide>(length));
    }
    ThreadPool pool(static_cast<int>(data.integer(1, 3)));
    run(Reduce(ReduceKind::mean, dtype, {rows, length}, {1}), pool, x.data(), y.data());
    ASSERT_EQ(y, expected) << rows << " rows of " << length;
  }
}

TEST(Reduce, MeansOfRowsOfIntegers) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 5; ++round) {
      check_means_of_rows<int8_t>(data, DType::i8);
      check_means_of_rows<uint8_t>(data, DType::u8);
      check_means_of_rows<int16_t>(data, DType::i16);
      check_means_of_rows<uint16_t>(data, DType::u16);
      check_means_of_rows<int32_t>(data, DType::i32);
      check_means_of_rows<uint32_t>(data, DType::u32);
      check_means_of_rows<int64_t>(data, DType::i64);
      check_means_of_rows<uint64_t>(data, DType::u64);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// As many as do not come from a cache, read row by row; NaN at any place, and infinities.
TEST(Reduce, ExtremesOfLongColumns) {
  RandomData data;
  for_each_target([&] {
    for (const ReduceKind kind : {ReduceKind::max, ReduceKind::min})
      for (const int64_t columns : {600, 1000, 1037, 2100}) {
        const std::vector<int64_t> dims = {data.integer(1, 2), data.integer(250, 400), columns};
        std::vector<float> x = data.floats(dims[0] * dims[1] * columns);
        for (int i = 0; i < 50; ++i) {
          const float odd[] = {std::nanf(""), infinity, -infinity, 0.0f};
          x[static_cast<size_t>(data.integer(0, static_cast<int64_t>(x.size()) - 1))] = odd[data.integer(0, 3)];
        }
        check(DType::f32, kind, dims, {1}, x, static_cast<int>(data.integer(1, 3)), 1e-6);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

TEST(Reduce, EmptyReductionsGiveTheIdentity) {
  ThreadPool pool(1);
  std::vector<float> y(2);
  for (const ReduceKind kind : kinds) {
    run(Reduce(kind, DType::f32, {2, 0}, {1}), pool, nullptr, y.data());
    if (kind == ReduceKind::mean) {
      EXPECT_TRUE(std::isnan(y[0]));
    } else {
      EXPECT_EQ(y[1], start(kind));
    }
  }
  int32_t lowest = 0;
  run(Reduce(ReduceKind::max, DType::i32, {0}, {0}), pool, nullptr, &lowest);
  EXPECT_EQ(lowest, std::numeric_limits<int32_t>::lowest());
  EXPECT_THROW(Reduce(ReduceKind::sum, DType::f16, {2}, {0}), Error);
}

TEST(ArgExtreme, AgainstAPlainSearch) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 160; ++round) {
      const bool many_rows = round % 9 == 0;
      ArgExtreme arg{data.integer(1, many_rows ? 1200 : 5), data.integer(1, round % 7 ? 200 : 12),
                     many_rows || round % 2 ? 1 : data.integer(1, round % 4 ? 700 : 16), round % 3 == 0,
                     round % 5 == 0};
      if (round % 8 == 0) arg.axis = data.integer(60, 900);  // of few neighbours several rows are one
      std::vector<float> x(static_cast<size_t>(arg.outer * arg.axis * arg.inner));
      for (float& v : x) v = static_cast<float>(data.integer(-20, 20));  // with equals
      if (round % 4 == 0)
        for (int64_t i = data.integer(1, 5); i > 0; --i)
          x[static_cast<size_t>(data.integer(0, static_cast<int64_t>(x.size()) - 1))] = std::nanf("");
      std::vector<int64_t> y(static_cast<size_t>(arg.outer * arg.inner));
      ThreadPool pool(1 + round % 3);
      arg.run(pool, DType::f32, x.data(), y.data());
      // The other types give the same.
      const auto expect_as = [&](auto element, DType dtype) {
        using T = decltype(element);
        std::vector<T> other;
        for (const float v : x) other.push_back(static_cast<T>(v + 20));
        std::vector<int64_t> found(y.size());
        arg.run(pool, dtype, other.data(), found.data());
        EXPECT_EQ(found, y) << to_string(dtype) << " " << round;
      };
      expect_as(double(), DType::f64);
      if (round % 4 != 0) {  // without NaN
        expect_as(int64_t(), DType::i64);
        expect_as(int32_t(), DType::i32);
        expect_as(uint16_t(), DType::u16);
        expect_as(int8_t(), DType::i8);
      }
      for (int64_t o = 0; o < arg.outer; ++o) {
        for (int64_t i = 0; i < arg.inner; ++i) {
          int64_t best = 0;
          const auto at = [&](int64_t a) { return x[static_cast<size_t>((o * arg.axis + a) * arg.inner + i)]; };
          for (int64_t a = 1; a < arg.axis; ++a) {
            const bool better = arg.largest ? at(a) > at(best) : at(a) < at(best);
            if (std::isnan(at(best))) break;
            if (better || std::isnan(at(a)) || (arg.last_of_equals && at(a) == at(best))) best = a;
          }
          ASSERT_EQ(y[static_cast<size_t>(o * arg.inner + i)], best) << round;
        }
      }
    }
  });
  ThreadPool pool(1);
  EXPECT_THROW((ArgExtreme{1, 0, 1}.run(pool, DType::f32, nullptr, nullptr)), Error);
}

}  // namespace
}  // namespace camshaft::cpu::reduce_test
