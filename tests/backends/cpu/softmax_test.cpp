#include "backends/cpu/kernels/reduce/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"

namespace camshaft::cpu::softmax_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Two roundings more a result than exp has, and those of a sum of f32, which is of at most 256 terms.
template <class T>
double allowed(const Softmax& softmax, double expected) {
  const double digits = sizeof(T) == 4 ? 1 : 0x1p-29;  // of f64 as many bits more
  const double relative = (1e-6 + 0x1p-24 * static_cast<double>(std::min<int64_t>(softmax.axis, 256))) * digits;
  if (softmax.logarithm) return relative + 1e-6 * digits * (1 + std::fabs(expected));
  return relative * expected + 1e-9 * digits;
}

template <class T>
void check(const Softmax& softmax, const std::vector<T>& x, int threads) {
  ThreadPool pool(threads);
  std::vector<T> y(x.size() + 1, T(9));
  softmax.run(pool, x.data(), y.data());
  ASSERT_EQ(y.back(), T(9));
  std::vector<T> in_place = x;
  softmax.run(pool, in_place.data(), in_place.data());
  for (int64_t o = 0; o < softmax.outer; ++o) {
    for (int64_t i = 0; i < softmax.inner; ++i) {
      const auto at = [&](int64_t a) { return static_cast<size_t>((o * softmax.axis + a) * softmax.inner + i); };
      long double top = -infinity, sum = 0;  // doubles are held to their own digits
      for (int64_t a = 0; a < softmax.axis; ++a) top = std::max<long double>(top, x[at(a)]);
      for (int64_t a = 0; a < softmax.axis; ++a) sum += std::exp(x[at(a)] - top);
      for (int64_t a = 0; a < softmax.axis; ++a) {
        const long double log = x[at(a)] - top - std::log(sum);
        const auto expected = static_cast<double>(softmax.logarithm ? log : std::exp(log));
        const T got = y[at(a)];
        if (std::isnan(expected) || std::isinf(expected)) {
          ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected) << got << " for " << expected;
        } else {
          ASSERT_NEAR(got, expected, allowed<T>(softmax, expected));
        }
        ASSERT_TRUE(in_place[at(a)] == got || std::isnan(got));
      }
    }
  }
}

TEST(Softmax, RandomShapes) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t inner = round % 2 ? 1 : data.integer(1, 300);
      Softmax softmax{data.integer(0, 9), data.integer(1, inner > 1 ? 40 : 1500), inner, round % 3 == 0};
      const std::vector<float> x = data.floats(softmax.outer * softmax.axis * softmax.inner, 5);
      check(softmax, x, 1 + round % 3);
      check(softmax, std::vector<double>(x.begin(), x.end()), 1 + round % 3);
    }
  });
}

// Fewer neighbours than a vector has lanes: over one and many groups of them, with ends anywhere.
TEST(Softmax, FewNeighbours) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 80; ++round) {
      const int64_t inner = data.integer(2, 15), axis = data.integer(1, round % 5 ? 90 : 9000);
      Softmax softmax{data.integer(1, round % 5 ? 9 : 2), axis, inner, round % 3 == 0};
      std::vector<float> x = data.floats(softmax.outer * axis * inner, 5);
      for (int64_t special = round % 4; special > 0; --special)
        x[static_cast<size_t>(data.integer(0, static_cast<int64_t>(x.size()) - 1))] =
            special % 2 ? -infinity : infinity;
      if (round % 7 == 0)
        for (int64_t a = 0; a < axis; ++a) x[static_cast<size_t>(a * inner + 1)] = -infinity;  // a whole column
      check(softmax, x, 1 + round % 3);
      check(softmax, std::vector<double>(x.begin(), x.end()), 1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Of every length up to some vectors, which are kept in registers.
TEST(Softmax, ShortRows) {
  RandomData data;
  for_each_target([&] {
    for (int64_t n = 1; n <= 70; ++n) {
      const Softmax softmax{data.integer(1, 9), n, 1, n % 2 == 0};
      std::vector<float> x = data.floats(softmax.outer * n, 5);
      x[static_cast<size_t>(data.integer(0, std::ssize(x) - 1))] = -infinity;
      if (n == 1) x.assign(x.size(), 2);
      check(softmax, x, 1);
      check(softmax, std::vector<double>(x.begin(), x.end()), 2);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

template <class T>
void check_infinities(bool logarithm, int64_t n) {
  std::vector<T> masked(static_cast<size_t>(n), -infinity);
  check({1, n, 1, logarithm}, masked, 1);
  check({1, n, 1, logarithm}, std::vector<T>(static_cast<size_t>(n), -200), 1);
  masked[1] = 2;
  check({1, n, 1, logarithm}, masked, 1);
  check({1, 1, n, logarithm}, std::vector<T>(static_cast<size_t>(n), 3), 1);
  masked[2] = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> y(masked.size());
  ThreadPool pool(1);
  Softmax{1, n, 1, logarithm}.run(pool, masked.data(), y.data());
  for (T v : y) EXPECT_TRUE(std::isnan(v)) << n;
}

TEST(Softmax, InfinitiesAndNan) {
  for_each_target([] {
    for (const bool logarithm : {false, true}) {
      for (const int64_t n : {3, 8, 16, 21, 40, 100}) {
        check_infinities<float>(logarithm, n);
        check_infinities<double>(logarithm, n);
      }
    }
  });
}

// Of one element each, which says nothing but whether it is a number.
template <class T>
void check_single_elements(bool logarithm) {
  constexpr T inf = std::numeric_limits<T>::infinity();
  for (const int64_t inner : {1, 5}) {
    std::vector<T> x{1, -200, inf, 0, std::numeric_limits<T>::quiet_NaN(), -inf, T(3e38), 7, 8, 9};
    ThreadPool pool(2);
    std::vector<T> y(x.size());
    Softmax{10 / inner, 1, inner, logarithm}.run(pool, x.data(), y.data());
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(std::isfinite(x[i]) ? y[i] == (logarithm ? 0 : 1) : std::isnan(y[i])) << x[i] << " gave " << y[i];
  }
}
TEST(Softmax, RowsOfOneElement) {
  for (const bool logarithm : {false, true}) {
    check_single_elements<float>(logarithm);
    check_single_elements<double>(logarithm);
  }
}

// Rows in blocks: the largest element in any of them, blocks of -inf before and behind numbers, rows of nothing else,
// and what is no number.
template <class T>
void check_long_rows(RandomData& data, int round) {
  constexpr T inf = std::numeric_limits<T>::infinity();
  const int64_t rows = data.integer(1, 3), axis = data.integer(4000, round % 12 ? 15000 : 1100000);
  std::vector<T> x;
  for (const float v : data.floats(rows * axis, 5)) x.push_back(v);
  for (int64_t r = 0; r < rows; ++r) {
    T* row = x.data() + r * axis;
    const int64_t kind = data.integer(0, 7), place = data.integer(0, axis - 1);
    if (kind == 1) row[place] = 1000;
    if (kind == 2) std::fill_n(row, axis, -inf);
    if (kind == 3) std::fill_n(row, place, -inf);
    if (kind == 4) std::fill(row + place, row + axis, -inf);
    if (kind == 5) row[place] = inf;
    if (kind == 6) std::fill_n(row, place, -inf), row[place / 2] = std::numeric_limits<T>::quiet_NaN();
    if (kind == 7)  // each block has the largest of all before
      for (int64_t i = 0; i < axis; ++i) row[i] = static_cast<T>(i) / static_cast<T>(64);
  }
  const bool logarithm = round % 2 == 1;
  for (int64_t r = 0; r < rows; ++r) {  // std::max() in check() passes over a NaN that is not the first
    const T* row = x.data() + r * axis;
    if (!std::any_of(row, row + axis, [](T v) { return std::isnan(v); })) continue;
    std::vector<T> y(x.size());
    ThreadPool pool(1);
    Softmax{rows, axis, 1, logarithm}.run(pool, x.data(), y.data());
    ASSERT_TRUE(std::all_of(y.begin() + r * axis, y.begin() + (r + 1) * axis, [](T v) { return std::isnan(v); }));
    return;
  }
  check({rows, axis, 1, logarithm}, x, 1 + round % 3);
}

TEST(Softmax, LongRows) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 24; ++round) {
      check_long_rows<float>(data, round);
      check_long_rows<double>(data, round);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Columns that leave L2 between passes; some of -inf alone, or but for their last rows, or with what is no number.
template <class T>
void check_long_columns(RandomData& data, int round) {
  const int64_t axis = data.integer(520, 2600), inner = data.integer(1, 150);
  std::vector<T> x;
  for (const float v : data.floats(axis * inner, 5)) x.push_back(v);
  const auto at = [&](int64_t a, int64_t i) -> T& { return x[static_cast<size_t>(a * inner + i)]; };
  for (int64_t i = 0; round % 2 == 0 && i < inner; ++i) {
    const int64_t kind = data.integer(0, 5), finite = kind == 0 ? 0 : kind == 1 ? data.integer(1, axis) : axis;
    for (int64_t a = 0; a < axis - finite; ++a) at(a, i) = -std::numeric_limits<T>::infinity();
    if (kind == 2) at(data.integer(0, axis - 1), i) = std::numeric_limits<T>::infinity();
    if (kind == 3) at(data.integer(0, axis - 1), i) = 1000;  // above all before it
  }
  check({1, axis, inner, round % 3 == 0}, x, 1 + round % 3);
}

TEST(Softmax, LongColumns) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 8; ++round) {
      check_long_columns<float>(data, round);
      check_long_columns<double>(data, round);
      if (testing::Test::HasFatalFailure()) return;
    }
    for (const int64_t at : {0, 700, 1999}) {  // NaN
      std::vector<float> x(2000 * 70, 1), y(x.size());
      x[static_cast<size_t>(at * 70 + 33)] = std::numeric_limits<float>::quiet_NaN();
      ThreadPool pool(2);
      Softmax{1, 2000, 70}.run(pool, x.data(), y.data());
      for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i % 70 == 33) << i;
    }
  });
}

// Where numbers vanish, and where their logarithms do not.
TEST(Softmax, DoublesFarApart) {
  for_each_target([] {
    for (const bool logarithm : {false, true})
      for (const double low : {-30.0, -700.0, -708.0, -709.0, -745.0, -1e5, -1e300})
        for (const int64_t inner : {1, 5}) {
          std::vector<double> x(static_cast<size_t>(7 * inner), 0.0);
          for (size_t i = 0; i < x.size(); i += 2) x[i] = low;
          check({1, 7, inner, logarithm}, x, 1);
        }
  });
}

}  // namespace
}  // namespace camshaft::cpu::softmax_test
