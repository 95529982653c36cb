// Exponentials of differences of integers, as one loop of a pointwise program, against double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "backends/cpu/random_data.h"

namespace camshaft::cpu::exp_distance_test {
namespace {

using Kind = ScalarInstruction::Kind;

// e^-(a - b), as ReduceLogSumExp of integers is imported.
ScalarProgram exponentials_of(DType dtype, DType wide) {
  const std::vector<ScalarInstruction> loads = {{.kind = Kind::load, .dtype = dtype, .a = 0},
                                                {.kind = Kind::load, .dtype = dtype, .a = 1}};
  ScalarProgram program{2, loads, {}};
  const auto then = [&](ScalarInstruction instruction) {
    program.instructions.push_back(instruction);
    return static_cast<int32_t>(program.instructions.size()) - 1;
  };
  const auto apply = [&](ScalarFunction function, DType type, int32_t a, int32_t b) {
    return then({.kind = Kind::apply, .function = function, .dtype = type, .a = a, .b = b});
  };
  int32_t last = apply(ScalarFunction::sub, dtype, 0, 1);
  if (wide != dtype) last = then({.kind = Kind::cast, .dtype = wide, .a = last});
  last = then({.kind = Kind::cast, .dtype = DType::f32, .a = last});
  program.outputs = {apply(ScalarFunction::exp, DType::f32, apply(ScalarFunction::neg, DType::f32, last, -1), -1)};
  return program;
}

template <class T>
void expect_exponentials(DType dtype, DType wide) {
  RandomData random;
  using Wide = std::make_unsigned_t<T>;
  for (int round = 0; round < 90; ++round) {
    const auto n = static_cast<size_t>(random.integer(1, 150));
    const bool one_a = round % 3 == 1, one_b = round % 3 == 2;
    std::vector<T> a(one_a ? 1 : n), b(one_b ? 1 : n);
    for (T& x : b) x = static_cast<T>(random.integer(0, 1 << 30));
    // Exponentials of all sizes, denormal ones too, and differences that only an unsigned number has.
    const T middle = static_cast<T>(random.integer(0, 1 << 30));
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>((one_b ? b[0] : middle) + random.integer(0, 130));
    if (!one_b)
      for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(a[one_a ? 0 : i] - random.integer(0, 130));
    if (round % 5 == 0) a[0] = std::numeric_limits<T>::max(), b[0] = std::numeric_limits<T>::lowest();
    const TileProgram tile(exponentials_of(dtype, wide),
                           {one_a ? RowForm::uniform : RowForm::vector, one_b ? RowForm::uniform : RowForm::vector});
    EXPECT_EQ(tile.steps(), 1);
    std::vector<float> y(n + 1, -9);
    const void* inputs[] = {a.data(), b.data()};
    void* outputs[] = {y.data()};
    tile.run_row(static_cast<int64_t>(n), inputs, outputs);
    for (size_t i = 0; i < n; ++i) {
      const Wide distance =
          static_cast<Wide>(static_cast<Wide>(a[one_a ? 0 : i]) - static_cast<Wide>(b[one_b ? 0 : i]));
      const double expected = std::exp(-static_cast<double>(distance));
      ASSERT_NEAR(y[i], expected, 2e-7 * expected + 1.5e-45) << distance;
    }
    EXPECT_EQ(y[n], -9);
  }
}

TEST(ExpDistance, OfAllIntegersIsOneLoop) {
  for_each_target([&] {
    expect_exponentials<int32_t>(DType::i32, DType::u32);
    expect_exponentials<uint32_t>(DType::u32, DType::u32);
    expect_exponentials<int64_t>(DType::i64, DType::u64);
    expect_exponentials<uint64_t>(DType::u64, DType::u64);
  });
}

// 16 results at once are denormal, some, or none.
TEST(ExpDistance, DenormalResultsAmongOthers) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 300; ++round) {
      const auto n = static_cast<size_t>(random.integer(1, 150));
      std::vector<float> x(n), y(n);
      for (float& v : x) v = static_cast<float>(random.integer(round % 2 == 0 ? -106 : -90, round % 3 == 0 ? -86 : 90));
      if (round % 7 == 0) x[n / 2] = std::numeric_limits<float>::quiet_NaN();
      const void* inputs[] = {x.data()};
      find_kernel(ScalarFunction::exp, DType::f32)(inputs, y.data(), static_cast<int64_t>(n), 0);
      for (size_t i = 0; i < n; ++i) {
        const double expected = std::exp(static_cast<double>(x[i]));
        if (std::isnan(x[i])) {
          ASSERT_TRUE(std::isnan(y[i]));
        } else if (static_cast<float>(expected) > 3.4e38f) {
          ASSERT_EQ(y[i], static_cast<float>(expected));
        } else {
          ASSERT_NEAR(y[i], expected, 2e-7 * expected + 1.5e-45) << x[i];
        }
      }
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::exp_distance_test
