// The pointwise executor against an element-by-element evaluation in double.
#include "backends/cpu/kernels/pointwise/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/half.h"
#include "backends/cpu/kernels/move/fill.h"
#include "backends/cpu/random_data.h"
#include "base/error.h"

namespace camshaft::cpu::pointwise_test {
namespace {

using F = ScalarFunction;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// Builds programs line by line.
struct Writer {
  ScalarProgram program;
  int32_t add(ScalarInstruction instruction) {
    program.instructions.push_back(instruction);
    return static_cast<int32_t>(program.instructions.size()) - 1;
  }
  int32_t load(DType dtype = DType::f32) {
    ScalarInstruction i;
    i.dtype = dtype;
    i.a = program.inputs++;
    return add(i);
  }
  int32_t constant(double number, DType dtype = DType::f32) {
    ScalarInstruction i;
    i.kind = ScalarInstruction::Kind::constant;
    i.dtype = dtype;
    i.number = number;
    i.integer = is_floating(dtype) ? 0 : static_cast<int64_t>(number);
    return add(i);
  }
  int32_t apply(F function, int32_t a, int32_t b = -1, int32_t c = -1) {
    ScalarInstruction i;
    i.kind = ScalarInstruction::Kind::apply;
    i.function = function;
    i.a = a;
    i.b = b;
    i.c = c;
    const int32_t last = c >= 0 ? c : b >= 0 ? b : a;
    i.dtype = result_dtype(function, program.instructions[last].dtype);
    return add(i);
  }
  int32_t cast(int32_t a, DType dtype) {
    ScalarInstruction i;
    i.kind = ScalarInstruction::Kind::cast;
    i.dtype = dtype;
    i.a = a;
    return add(i);
  }
  ScalarProgram done(std::vector<int32_t> outputs) {
    program.outputs = std::move(outputs);
    return program;
  }
};

double evaluate(F function, double a, double b, double c) {
  switch (function) {
    case F::neg:
      return -a;
    case F::abs:
      return std::fabs(a);
    case F::sign:
      return a > 0 ? 1 : a < 0 ? -1 : a;
    case F::ceil:
      return std::ceil(a);
    case F::floor:
      return std::floor(a);
    case F::round:
      return std::nearbyint(a);
    case F::sqrt:
      return std::sqrt(a);
    case F::reciprocal:
      return 1 / a;
    case F::exp:
      return std::exp(a);
    case F::log:
      return std::log(a);
    case F::log1p:
      return std::log1p(a);
    case F::sin:
      return std::sin(a);
    case F::cos:
      return std::cos(a);
    case F::tan:
      return std::tan(a);
    case F::asin:
      return std::asin(a);
    case F::acos:
      return std::acos(a);
    case F::atan:
      return std::atan(a);
    case F::sinh:
      return std::sinh(a);
    case F::cosh:
      return std::cosh(a);
    case F::tanh:
      return std::tanh(a);
    case F::asinh:
      return std::asinh(a);
    case F::acosh:
      return std::acosh(a);
    case F::atanh:
      return std::atanh(a);
    case F::erf:
      return std::erf(a);
    case F::sigmoid:
      return 1 / (1 + std::exp(-a));
    case F::is_nan:
      return std::isnan(a);
    case F::is_inf_pos:
      return a == HUGE_VAL;
    case F::is_inf_neg:
      return a == -HUGE_VAL;
    case F::logical_not:
      return a == 0;
    case F::add:
      return a + b;
    case F::sub:
      return a - b;
    case F::mul:
      return a * b;
    case F::div:
      return a / b;
    case F::mod:
      return std::fmod(a, b) != 0 && (std::fmod(a, b) < 0) != (b < 0) ? std::fmod(a, b) + b : std::fmod(a, b);
    case F::fmod:
      return std::fmod(a, b);
    case F::pow:
      return std::pow(a, b);
    case F::min:
      return std::isnan(a) || std::isnan(b) ? nan_value : std::min(a, b);
    case F::max:
      return std::isnan(a) || std::isnan(b) ? nan_value : std::max(a, b);
    case F::equal:
      return a == b;
    case F::less:
      return a < b;
    case F::less_or_equal:
      return a <= b;
    case F::logical_and:
      return a != 0 && b != 0;
    case F::logical_or:
      return a != 0 || b != 0;
    case F::logical_xor:
      return (a != 0) != (b != 0);
    case F::select:
      return a != 0 ? b : c;
    default:
      ADD_FAILURE() << "no reference for " << to_string(function);
      return 0;
  }
}

// Floats only; every instruction rounded to its type.
std::vector<double> evaluate(const ScalarProgram& program, const std::vector<double>& inputs) {
  std::vector<double> values;
  for (const ScalarInstruction& i : program.instructions) {
    double v = 0;
    auto at = [&](int32_t k) { return k >= 0 ? values[k] : 0.0; };
    switch (i.kind) {
      case ScalarInstruction::Kind::load:
        v = inputs[i.a];
        break;
      case ScalarInstruction::Kind::constant:
        v = i.number;
        break;
      case ScalarInstruction::Kind::apply:
        v = evaluate(i.function, at(i.a), at(i.b), at(i.c));
        break;
      case ScalarInstruction::Kind::cast:
        v = at(i.a);
        break;
    }
    if (i.dtype == DType::f32) v = static_cast<float>(v);
    if (i.dtype == DType::f16 && i.kind == ScalarInstruction::Kind::cast) v = to_float(to_half(static_cast<float>(v)));
    values.push_back(v);
  }
  std::vector<double> outputs;
  for (int32_t o : program.outputs) outputs.push_back(values[o]);
  return outputs;
}

bool close(double expected, double actual, double relative) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (expected == actual) return true;
  return std::fabs(expected - actual) <= relative * std::fabs(expected) + 1e-37;
}

const std::vector<float> special = {0.0f,     -0.0f,     1.0f,      -1.0f,  0.5f,   -0.5f,   1.5f,  2.5f,
                                    infinity, -infinity, nan_value, 1e-40f, 3e38f,  -3e38f,  88.0f, -88.0f,
                                    104.0f,   -104.0f,   1e-7f,     20.0f,  -20.0f, 50000.0f};

TEST(Pointwise, EveryFloatFunctionWithSpecialValuesAndTails) {
  ThreadPool pool(1);
  for_each_target([&] {
    for (int f = 0; f < scalar_function_count; ++f) {
      const F function = static_cast<F>(f);
      if (function == F::bitwise_not || function == F::logical_not) continue;
      if (f >= static_cast<int>(F::logical_and)) continue;
      const bool binary = arity(function) == 2;
      std::vector<float> a, b;
      for (float x : special) {
        for (float y : special) {
          a.push_back(x);
          b.push_back(y);
          if (!binary) break;
        }
      }
      for (int n : {1, 3, 7, 16, 19, static_cast<int>(a.size())}) {
        if (n > static_cast<int>(a.size())) continue;
        Writer w;
        const int32_t x = w.load();
        const int32_t y = binary ? w.load() : -1;
        const ScalarProgram program = w.done({w.apply(function, x, y)});
        Pointwise pointwise(
            program, {n},
            binary ? std::vector<std::vector<int64_t>>{{1}, {1}} : std::vector<std::vector<int64_t>>{{1}});
        std::vector<float> out(n + 1);
        std::memset(out.data(), 0xa5, out.size() * sizeof(float));
        const void* in[] = {a.data(), b.data()};
        void* outs[] = {out.data()};
        pointwise.run(pool, in, outs);
        const int64_t end = n * bit_width(program.instructions.back().dtype) / 8;
        EXPECT_EQ(reinterpret_cast<const uint8_t*>(out.data())[end], 0xa5) << "written past the end";
        for (int i = 0; i < n; ++i) {
          const bool boolean = program.instructions.back().dtype == DType::boolean;
          const double got = boolean ? reinterpret_cast<uint8_t*>(out.data())[i] : out[i];
          const double expected = evaluate(program, {a[i], b[i]})[0];
          EXPECT_TRUE(close(expected, got, 1e-6))
              << to_string(function) << "(" << a[i] << ", " << b[i] << ") = " << expected << ", got " << got;
        }
      }
    }
  });
}

TEST(Pointwise, RandomSpacesWithBroadcastsAndStrides) {
  RandomData random;
  const auto pick = [&](int low, int high) { return static_cast<int>(random.integer(low, high)); };
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const int rank = pick(0, 6);
      std::vector<int64_t> dims;
      int64_t total = 1;
      for (int d = 0; d < rank; ++d) {
        int64_t size = pick(1, rank <= 2 ? 700 : 9);
        if (pick(0, 60) == 0) size = 0;
        if (total * size > 200000) size = 3;
        dims.push_back(size);
        total *= size;
      }
      // out0 = a * b + c, out1 = max(a, 0.25) (read again after out0 is complete)
      Writer w;
      const int32_t a = w.load(), b = w.load(), c = w.load();
      const int32_t product = w.apply(F::mul, a, b);
      const int32_t sum = w.apply(F::add, product, c);
      const int32_t top = w.apply(F::max, w.constant(0.25), a);
      const ScalarProgram program = w.done({sum, top});
      std::vector<std::vector<int64_t>> strides(3, std::vector<int64_t>(rank));
      std::vector<std::vector<float>> data(3);
      for (int k = 0; k < 3; ++k) {
        const int mode = pick(0, 3);
        int64_t step = 1;
        for (int d = rank; d-- > 0;) {
          const bool broadcast = mode == 1 ? pick(0, 1) != 0 : mode == 2;
          strides[k][d] = broadcast ? 0 : step;
          if (!broadcast) step *= dims[d];
        }
        if (mode == 3 && rank > 1) {  // transposed
          step = 1;
          for (int d = 0; d < rank; ++d) {
            strides[k][d] = step;
            step *= dims[d];
          }
        }
        data[k] = random.floats(std::max<int64_t>(step, 1));
      }
      std::vector<std::vector<int64_t>> out_strides;
      if (pick(0, 2) == 0 && rank > 1) {
        std::vector<int64_t> turned(rank);
        int64_t step = 1;
        for (int d = 0; d < rank; ++d) {
          turned[d] = step;
          step *= dims[d];
        }
        out_strides = {turned, contiguous_strides(dims)};
        if (pick(0, 1)) std::swap(out_strides[0], out_strides[1]);
      }
      Pointwise pointwise(program, dims, strides, out_strides);
      std::vector<float> out0(total + 1, 5.0f), out1(total + 1, 5.0f);
      const void* in[] = {data[0].data(), data[1].data(), data[2].data()};
      void* out[] = {out0.data(), out1.data()};
      ThreadPool pool(1 + round % 3);
      pointwise.run(pool, in, out);
      ASSERT_EQ(out0[total], 5.0f);
      ASSERT_EQ(out1[total], 5.0f);
      const auto dense = contiguous_strides(dims);
      for (int64_t i = 0; i < total; ++i) {
        int64_t offset[3] = {}, place[2] = {};
        for (int d = 0; d < rank; ++d) {
          const int64_t at = i / dense[d] % dims[d];
          for (int k = 0; k < 3; ++k) offset[k] += at * strides[k][d];
          for (int k = 0; k < 2; ++k) place[k] += at * (out_strides.empty() ? dense : out_strides[k])[d];
        }
        const float x = data[0][offset[0]];
        const double expected = static_cast<double>(x) * data[1][offset[1]] + data[2][offset[2]];
        ASSERT_NEAR(out0[place[0]], expected, 1e-5) << "round " << round;
        ASSERT_EQ(out1[place[1]], std::max(x, 0.25f)) << "round " << round;
      }
    }
  });
}

// Of integers: limits as one loop, tails, rows of which a tile holds several, and results over an operand.
template <class T>
void check_integer_rows(DType dtype) {
  RandomData random;
  const auto numbers = [&](int64_t n) {
    std::vector<T> made(static_cast<size_t>(n));
    for (T& x : made) x = static_cast<T>(random.integer(-120, 120));
    return made;
  };
  const T low = std::is_signed_v<T> ? static_cast<T>(-3) : T(3), high = static_cast<T>(40);
  ThreadPool pool(2);
  for (const int64_t row : {1, 15, 63, 64, 100, 129, 1000, 1001}) {
    const int64_t rows = 21, n = rows * row;
    const std::vector<T> x = numbers(n), y = numbers(n), of_row = numbers(row), of_column = numbers(rows);
    const auto run = [&](const ScalarProgram& program, std::vector<std::vector<int64_t>> strides,
                         std::vector<const void*> in, const auto& expected) {
      for (const bool over : {false, true}) {
        std::vector<T> out(static_cast<size_t>(n) + 1, T(77));
        if (over) std::copy(x.begin(), x.end(), out.begin());
        if (over) in[0] = out.data();
        void* outs[] = {out.data()};
        Pointwise(program, {rows, row}, strides).run(pool, in.data(), outs);
        for (int64_t i = 0; i < n; ++i)
          ASSERT_EQ(out[static_cast<size_t>(i)], expected(x[static_cast<size_t>(i)], i)) << i << " of rows of " << row;
        ASSERT_EQ(out.back(), T(77)) << "written past the end";
      }
    };
    for (const bool min_first : {false, true})
      for (const bool crossed : {false, true}) {
        Writer w;
        const int32_t v = w.load(dtype);
        const int32_t a = w.constant(static_cast<double>(crossed ? high : low), dtype);
        const int32_t b = w.constant(static_cast<double>(crossed ? low : high), dtype);
        const int32_t limited =
            min_first ? w.apply(F::max, a, w.apply(F::min, v, b)) : w.apply(F::min, w.apply(F::max, v, a), b);
        const T least = crossed ? high : low, most = crossed ? low : high;
        run(w.done({limited}), {{row, 1}}, {x.data()}, [&](T t, int64_t) {
          return min_first ? std::max(std::min(t, most), least) : std::min(std::max(t, least), most);
        });
      }
    Writer greatest;
    const int32_t a = greatest.load(dtype), b = greatest.load(dtype), c = greatest.load(dtype);
    run(greatest.done({greatest.apply(F::max, greatest.apply(F::max, a, b), c)}), {{row, 1}, {row, 1}, {0, 1}},
        {x.data(), y.data(), of_row.data()}, [&](T t, int64_t i) {
          return std::max({t, y[static_cast<size_t>(i)], of_row[static_cast<size_t>(i % row)]});
        });
    for (const bool turned : {false, true}) {
      Writer difference;
      const int32_t d = difference.load(dtype), e = difference.load(dtype);
      run(difference.done({turned ? difference.apply(F::sub, e, d) : difference.apply(F::sub, d, e)}),
          {{row, 1}, {1, 0}}, {x.data(), of_column.data()}, [&](T t, int64_t i) {
            const T column = of_column[static_cast<size_t>(i / row)];
            return static_cast<T>(turned ? column - t : t - column);
          });
    }
  }
}

TEST(Pointwise, IntegersInRows) {
  for_each_target([&] {
    check_integer_rows<int8_t>(DType::i8);
    check_integer_rows<uint8_t>(DType::u8);
    check_integer_rows<int16_t>(DType::i16);
    check_integer_rows<uint16_t>(DType::u16);
    check_integer_rows<int32_t>(DType::i32);
    check_integer_rows<uint32_t>(DType::u32);
    check_integer_rows<int64_t>(DType::i64);
    check_integer_rows<uint64_t>(DType::u64);
  });
}

// Factors of few channels of small images are the same in each tile, and are copied for the first one alone.
TEST(Pointwise, FactorsThatRepeatInEveryTile) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const int64_t batch = random.integer(1, round % 4 ? 900 : 9000), channels = random.integer(2, 9),
                    pixels = random.integer(2, 30), total = batch * channels * pixels;
      Writer w;
      const int32_t x = w.load(), by = w.load(), add = w.load(), other = w.load();
      const int32_t sum = w.apply(F::add, w.apply(F::mul, x, by), add);
      const ScalarProgram program = w.done({round % 3 ? sum : w.apply(F::mul, w.apply(F::abs, sum), other)});
      // By channels, by pixels, and of the batch.
      const std::vector<std::vector<int64_t>> strides = {
          {channels * pixels, pixels, 1}, {0, 1, 0}, {0, round % 2, round % 2 ? 0 : 1}, {1, 0, 0}};
      std::vector<std::vector<float>> data;
      for (const int64_t size : {total, channels, channels + pixels, batch}) data.push_back(random.floats(size));
      Pointwise pointwise(program, {batch, channels, pixels}, strides);
      std::vector<float> out(static_cast<size_t>(total) + 1, 5.0f);
      const void* in[] = {data[0].data(), data[1].data(), data[2].data(), data[3].data()};
      void* outs[] = {out.data()};
      ThreadPool pool(1 + round % 3);
      pointwise.run(pool, in, outs);
      ASSERT_EQ(out.back(), 5.0f);
      for (int64_t i = 0; i < total; ++i) {
        const int64_t b = i / (channels * pixels), c = i / pixels % channels, p = i % pixels;
        const auto at = [&](size_t k) {
          return data[k][static_cast<size_t>(b * strides[k][0] + c * strides[k][1] + p * strides[k][2])];
        };
        const float expected = at(0) * at(1) + at(2);
        ASSERT_NEAR(out[static_cast<size_t>(i)], round % 3 ? expected : std::fabs(expected) * at(3), 1e-5) << i;
      }
    }
  });
}

TEST(Pointwise, ManyAxesThatCannotBeMerged) {
  Writer w;
  const int32_t a = w.load(), b = w.load();
  const ScalarProgram program = w.done({w.apply(F::add, a, b)});
  constexpr int rank = 12;
  const std::vector<int64_t> dims(rank, 2);
  const std::vector<int64_t> dense = contiguous_strides(dims);
  const std::vector<int64_t> reversed(dense.rbegin(), dense.rend());
  std::vector<float> x(size_t{1} << rank), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const void* in[] = {x.data(), x.data()};
  void* out[] = {y.data()};
  ThreadPool pool(2);
  Pointwise(program, dims, {dense, reversed}).run(pool, in, out);
  for (size_t i = 0; i < y.size(); ++i) {
    size_t mirrored = 0;
    for (int bit = 0; bit < rank; ++bit) mirrored |= (i >> bit & 1) << (rank - 1 - bit);
    ASSERT_EQ(y[i], static_cast<float>(i + mirrored));
  }
}

// Runs a one-input f32 program over typical values and compares with the reference; returns the loops used.
int check_activation(const ScalarProgram& program, double absolute) {
  std::vector<float> x;
  for (int i = -3000; i <= 3000; ++i) x.push_back(static_cast<float>(i) * 0.004f);
  x.insert(x.end(), {nan_value, infinity, -infinity});
  if (program.inputs == 2) x.back() = 0;
  std::vector<float> y(x.size());
  ThreadPool pool(2);
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> other(x.rbegin(), x.rend());
  Pointwise pointwise(program, {n}, std::vector<std::vector<int64_t>>(program.inputs, {1}));
  const void* in[] = {x.data(), other.data()};
  void* out[] = {y.data()};
  pointwise.run(pool, in, out);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = evaluate(program, {x[i], other[i]})[0];
    if (std::isnan(expected) || std::isinf(expected)) {
      EXPECT_TRUE(close(expected, y[i], 0)) << x[i] << " gives " << y[i] << ", expected " << expected;
    } else {
      EXPECT_NEAR(y[i], expected, absolute + 4e-7 * std::fabs(expected)) << x[i];
    }
  }
  return pointwise.steps();
}

TEST(Pointwise, CommonGroupsRunAsOneLoop) {
  for_each_target([&] {
    {
      Writer w;  // silu
      const int32_t x = w.load();
      EXPECT_EQ(check_activation(w.done({w.apply(F::mul, x, w.apply(F::sigmoid, x))}), 1e-6), 1);
    }
    for (int form = 0; form < 3; ++form) {  // gelu
      Writer w;
      const int32_t x = w.load(), half = w.constant(0.5), one = w.constant(1);
      const int32_t scaled = form == 1 ? w.apply(F::mul, x, w.constant(0.7071067811865476))
                                       : w.apply(F::div, x, w.constant(1.4142135623730951));
      const int32_t e = w.apply(F::add, w.apply(F::erf, scaled), one);
      int32_t y = 0;
      if (form == 0) y = w.apply(F::mul, w.apply(F::mul, x, e), half);
      if (form == 1) y = w.apply(F::mul, w.apply(F::mul, x, half), e);
      if (form == 2) y = w.apply(F::mul, x, w.apply(F::mul, half, e));
      EXPECT_EQ(check_activation(w.done({y}), 2e-6), 1) << form;
    }
    for (int form = 0; form < 2; ++form) {  // gelu by tanh, as exporters and as ONNX's function spell it
      Writer w;
      const int32_t x = w.load(), half = w.constant(0.5), one = w.constant(1);
      const int32_t cube = form == 0 ? w.apply(F::mul, w.apply(F::mul, x, x), x) : w.apply(F::pow, x, w.constant(3));
      const int32_t sum = w.apply(F::add, x, w.apply(F::mul, cube, w.constant(0.044715)));
      const int32_t t = w.apply(F::tanh, w.apply(F::mul, sum, w.constant(0.7978845608028654)));
      const int32_t y = w.apply(F::mul, w.apply(F::mul, x, half), w.apply(F::add, t, one));
      EXPECT_EQ(check_activation(w.done({y}), 2e-6), 1) << form;
    }
    for (int form = 0; form < 4; ++form) {  // leaky relu: a constant slope or one an element, before or behind x
      Writer w;
      const int32_t x = w.load(), slope = form < 2 ? w.constant(0.01) : w.load();
      const int32_t product = form % 2 ? w.apply(F::mul, slope, x) : w.apply(F::mul, x, slope);
      const int32_t y = w.apply(F::select, w.apply(F::less, x, w.constant(0)), product, x);
      EXPECT_EQ(check_activation(w.done({y}), 0), 1) << form;
    }
    {
      Writer w;  // softsign
      const int32_t x = w.load();
      const int32_t y = w.apply(F::div, x, w.apply(F::add, w.apply(F::abs, x), w.constant(1)));
      EXPECT_EQ(check_activation(w.done({y}), 0), 1);
    }
    {
      Writer w;  // below another bound than 0 it is no leaky relu
      const int32_t x = w.load();
      const int32_t y = w.apply(F::select, w.apply(F::less, x, w.constant(1)), w.apply(F::mul, x, w.constant(2)), x);
      EXPECT_EQ(check_activation(w.done({y}), 0), 3);
    }
    {
      Writer w;  // hard-swish: x * clamp(x / 6 + 0.5, 0, 1)
      const int32_t x = w.load();
      const int32_t line = w.apply(F::add, w.apply(F::mul, x, w.constant(1.0 / 6)), w.constant(0.5));
      const int32_t inside = w.apply(F::min, w.apply(F::max, line, w.constant(0)), w.constant(1));
      EXPECT_EQ(check_activation(w.done({w.apply(F::mul, x, inside)}), 1e-6), 2);
    }
    for (int form = 0; form < 4; ++form) {  // hard sigmoid, whose scale and offset may come first or last
      Writer w;
      const int32_t x = w.load(), scale = w.constant(0.2), offset = w.constant(0.5);
      const int32_t product = form % 2 ? w.apply(F::mul, scale, x) : w.apply(F::mul, x, scale);
      const int32_t line = form < 2 ? w.apply(F::add, product, offset) : w.apply(F::add, offset, product);
      const int32_t inside = w.apply(F::min, w.apply(F::max, line, w.constant(0)), w.constant(1));
      EXPECT_EQ(check_activation(w.done({inside}), 1e-6), 1) << form;
    }
    for (const double threshold : {1.0, 0.0, -0.5}) {  // a threshold below which all is 0
      Writer w;
      const int32_t x = w.load();
      const int32_t y = w.apply(F::select, w.apply(F::less, w.constant(threshold), x), x, w.constant(0));
      EXPECT_EQ(check_activation(w.done({y}), 0), 1) << threshold;
    }
    {
      Writer w;  // add + relu
      const int32_t x = w.load(), y = w.load();
      EXPECT_EQ(check_activation(w.done({w.apply(F::max, w.apply(F::add, x, y), w.constant(0))}), 1e-6), 1);
    }
    {
      Writer w;  // x^2, shared sub-expression kept
      const int32_t x = w.load();
      const int32_t s = w.apply(F::sigmoid, x);
      const int32_t y = w.apply(F::mul, x, s);
      EXPECT_EQ(check_activation(w.done({w.apply(F::add, w.apply(F::pow, y, w.constant(2)), s)}), 1e-5), 4);
    }
  });
}

// QuantizeLinear and DequantizeLinear as they are spelled out: one loop each, with parameters for all elements or each.
TEST(Pointwise, QuantisationRunsAsOneLoop) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const DType bytes = round % 2 ? DType::u8 : DType::i8;
      const std::vector<RowForm> forms{RowForm::vector, round % 4 < 2 ? RowForm::uniform : RowForm::vector,
                                       round % 8 < 4 ? RowForm::uniform : RowForm::vector};
      Writer q;
      const int32_t x = q.load(), scale = q.load(), zero = q.load();
      // A zero point of 0 is not there at all.
      const bool has_zero = round % 5 != 0;
      const int32_t rounded = q.apply(F::round, q.apply(F::div, x, scale));
      const int32_t steps = has_zero ? q.apply(F::add, rounded, zero) : rounded;
      const TileProgram there(q.done({q.cast(steps, bytes)}), forms);
      EXPECT_EQ(there.steps(), 1);
      Writer d;
      const int32_t b = d.load(bytes), s = d.load(), z = d.load();
      const TileProgram back(d.done({d.apply(F::mul, d.apply(F::sub, d.cast(b, DType::f32), z), s)}), forms);
      EXPECT_EQ(back.steps(), 1);

      const int64_t n = random.integer(1, 100);
      auto values = random.floats(n), scales = random.floats(n), zeros = random.floats(n);
      for (int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<size_t>(i);
        values[k] *= 40;
        scales[k] = 0.1f + std::fabs(scales[k]);
        zeros[k] = has_zero ? std::nearbyint(20 * zeros[k]) : 0;
        if (random.integer(0, 20) == 0) values[k] = i % 3 == 0 ? nan_value : i % 3 == 1 ? INFINITY : -INFINITY;
      }
      std::vector<uint8_t> whole(static_cast<size_t>(n));
      std::vector<float> again(whole.size());
      const void* inputs[] = {values.data(), scales.data(), zeros.data()};
      void* quantized[] = {whole.data()};
      there.run_row(n, inputs, quantized);
      const void* narrow[] = {whole.data(), scales.data(), zeros.data()};
      void* wide[] = {again.data()};
      back.run_row(n, narrow, wide);
      for (size_t k = 0; k < whole.size(); ++k) {
        const float by = scales[forms[1] == RowForm::uniform ? 0 : k], of = zeros[forms[2] == RowForm::uniform ? 0 : k];
        const float exact = std::nearbyint(values[k] / by) + of;
        const float low = bytes == DType::u8 ? 0 : -128, high = low + 255;
        const float expected = std::isnan(exact) ? 0 : std::clamp(exact, low, high);
        const float got = bytes == DType::u8 ? whole[k] : static_cast<int8_t>(whole[k]);
        ASSERT_EQ(got, std::trunc(expected)) << values[k] << " by " << by << " of " << of;
        ASSERT_EQ(again[k], (got - of) * by);
      }
    }
  });
}

// DequantizeLinear without a zero point, of all types: one loop; of 32 bits also in place.
template <class T>
void check_scaled(RandomData& random, DType dtype) {
  for (const RowForm form : {RowForm::uniform, RowForm::vector}) {
    Writer w;
    const int32_t x = w.load(dtype), scale = w.load();
    const TileProgram program(w.done({w.apply(F::mul, w.cast(x, DType::f32), scale)}), {RowForm::vector, form});
    EXPECT_EQ(program.steps(), 1);
    const int64_t n = random.integer(1, 100);
    std::vector<T> values(static_cast<size_t>(n));
    for (T& v : values)
      v = static_cast<T>(random.integer(std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()));
    const auto scales = random.floats(n);
    std::vector<float> out(values.size() + 1, 5);
    const void* inputs[] = {values.data(), scales.data()};
    void* outputs[] = {out.data()};
    program.run_row(n, inputs, outputs);
    ASSERT_EQ(out.back(), 5);
    std::vector<float> want;
    for (size_t k = 0; k < values.size(); ++k)
      want.push_back(static_cast<float>(values[k]) * scales[form == RowForm::uniform ? 0 : k]);
    out.pop_back();
    ASSERT_EQ(out, want);
    if (sizeof(T) < 4) continue;
    outputs[0] = values.data();
    program.run_row(n, inputs, outputs);
    ASSERT_EQ(std::memcmp(values.data(), want.data(), want.size() * 4), 0);
  }
}

TEST(Pointwise, ScaledIntegersRunAsOneLoop) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 20; ++round) {
      check_scaled<uint8_t>(random, DType::u8);
      check_scaled<int8_t>(random, DType::i8);
      check_scaled<uint16_t>(random, DType::u16);
      check_scaled<int16_t>(random, DType::i16);
      check_scaled<int32_t>(random, DType::i32);
    }
  });
}

// Sums and products of quantised bytes: one loop, with the bits of the steps one after the other; also in place.
template <class T>
void check_bytes(RandomData& random, DType dtype, int round) {
  const bool adds = round % 2 == 0, has_zero = round % 3 != 0;
  // What can be divided by, what cannot, and what overflows.
  const auto scale = [&] {
    const float special[] = {0.0f, -0.25f, INFINITY, nan_value, 3e38f, 1e-40f};
    return random.integer(0, 9) == 0 ? special[random.integer(0, 5)] : 0.01f + std::fabs(random.floats(1)[0]);
  };
  const auto zero = [&] {
    const float special[] = {1e9f, 0.5f, -2000.0f, nan_value};
    return random.integer(0, 9) == 0 ? special[random.integer(0, 3)] : static_cast<float>(random.integer(-128, 255));
  };
  const float p[] = {zero(), scale(), zero(), scale(), scale(), has_zero ? zero() : 0};
  Writer w;
  const int32_t a = w.load(dtype), b = w.load(dtype);
  int32_t loads[6];
  for (int32_t& load : loads) load = w.load();
  const auto number = [&](int32_t x, int32_t z, int32_t s) {
    return w.apply(F::mul, w.apply(F::sub, w.cast(x, DType::f32), z), s);
  };
  const int32_t left = number(a, loads[0], loads[1]), right = number(b, loads[2], loads[3]);
  const int32_t rounded = w.apply(F::round, w.apply(F::div, w.apply(adds ? F::add : F::mul, left, right), loads[4]));
  const int32_t steps = has_zero ? w.apply(F::add, rounded, loads[5]) : rounded;
  std::vector<RowForm> forms(8, RowForm::uniform);
  forms[0] = forms[1] = RowForm::vector;
  const TileProgram program(w.done({w.cast(steps, dtype)}), forms);
  EXPECT_EQ(program.steps(), 1);

  const int64_t n = random.integer(1, 150);
  std::vector<T> x(static_cast<size_t>(n)), y(x.size()), out(x.size() + 1, T(77));
  for (size_t k = 0; k < x.size(); ++k) {
    x[k] = static_cast<T>(random.integer(0, 255));
    y[k] = static_cast<T>(random.integer(0, 255));
  }
  const void* inputs[] = {x.data(), y.data(), &p[0], &p[1], &p[2], &p[3], &p[4], &p[5]};
  void* outputs[] = {out.data()};
  program.run_row(n, inputs, outputs);
  ASSERT_EQ(out.back(), T(77));
  std::vector<T> in_place = round % 4 < 2 ? x : y;
  const void* own[] = {round % 4 < 2 ? in_place.data() : x.data(),
                       round % 4 < 2 ? y.data() : in_place.data(),
                       &p[0],
                       &p[1],
                       &p[2],
                       &p[3],
                       &p[4],
                       &p[5]};
  outputs[0] = in_place.data();
  program.run_row(n, own, outputs);
  for (size_t k = 0; k < x.size(); ++k) {
    const float u = (static_cast<float>(x[k]) - p[0]) * p[1], v = (static_cast<float>(y[k]) - p[2]) * p[3];
    const float exact = std::nearbyint((adds ? u + v : u * v) / p[4]) + p[5];
    const float low = std::numeric_limits<T>::lowest(), high = std::numeric_limits<T>::max();
    const float expected = std::isnan(exact) ? 0 : std::trunc(std::clamp(exact, low, high));
    ASSERT_EQ(static_cast<float>(out[k]), expected) << +x[k] << ", " << +y[k] << " of " << testing::PrintToString(p);
    ASSERT_EQ(in_place[k], out[k]);
  }
}

TEST(Pointwise, QuantisedBytesAreCombinedInOneLoop) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 100; ++round) {
      check_bytes<uint8_t>(random, DType::u8, round);
      check_bytes<int8_t>(random, DType::i8, round);
    }
  });
}

TEST(Pointwise, QuantisationTo16BitsRunsAsOneLoop) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const DType words = round % 2 ? DType::u16 : DType::i16;
      const std::vector<RowForm> forms{RowForm::vector, round % 4 < 2 ? RowForm::uniform : RowForm::vector,
                                       round % 8 < 4 ? RowForm::uniform : RowForm::vector};
      Writer q;
      const int32_t x = q.load(), scale = q.load(), zero = q.load();
      // A zero point of 0 is not there at all.
      const bool has_zero = round % 5 != 0;
      const int32_t rounded = q.apply(F::round, q.apply(F::div, x, scale));
      const int32_t steps = has_zero ? q.apply(F::add, rounded, zero) : rounded;
      const TileProgram program(q.done({q.cast(steps, words)}), forms);
      EXPECT_EQ(program.steps(), 1);
      const int64_t n = random.integer(1, 100);
      auto values = random.floats(n), scales = random.floats(n), zeros = random.floats(n);
      for (size_t k = 0; k < values.size(); ++k) {
        values[k] *= 10000;
        scales[k] = 0.1f + std::fabs(scales[k]);
        zeros[k] = has_zero ? std::nearbyint((round % 3 ? 500 : 5000) * zeros[k]) : 0;
        if (random.integer(0, 20) == 0) values[k] = k % 3 == 0 ? nan_value : k % 3 == 1 ? INFINITY : -INFINITY;
      }
      std::vector<uint16_t> whole(values.size());
      const void* inputs[] = {values.data(), scales.data(), zeros.data()};
      void* quantized[] = {whole.data()};
      program.run_row(n, inputs, quantized);
      for (size_t k = 0; k < whole.size(); ++k) {
        const float by = scales[forms[1] == RowForm::uniform ? 0 : k], of = zeros[forms[2] == RowForm::uniform ? 0 : k];
        const float exact = std::nearbyint(values[k] / by) + of;
        const float low = words == DType::u16 ? 0 : -32768, high = low + 65535;
        const float expected = std::isnan(exact) ? 0 : std::clamp(exact, low, high);
        const float got = words == DType::u16 ? whole[k] : static_cast<int16_t>(whole[k]);
        ASSERT_EQ(got, std::trunc(expected)) << values[k] << " by " << by << " of " << of;
      }
      Writer d;
      const int32_t b = d.load(words), s = d.load(), z = d.load();
      const TileProgram back(d.done({d.apply(F::mul, d.apply(F::sub, d.cast(b, DType::f32), z), s)}), forms);
      EXPECT_EQ(back.steps(), 1);
      std::vector<float> again(whole.size());
      const void* narrow[] = {whole.data(), scales.data(), zeros.data()};
      void* wide[] = {again.data()};
      back.run_row(n, narrow, wide);
      for (size_t k = 0; k < whole.size(); ++k) {
        const float by = scales[forms[1] == RowForm::uniform ? 0 : k], of = zeros[forms[2] == RowForm::uniform ? 0 : k];
        const float number = words == DType::u16 ? whole[k] : static_cast<int16_t>(whole[k]);
        ASSERT_EQ(again[k], (number - of) * by);
      }
    }
  });
}

TEST(Pointwise, InPlaceWhileAnotherOutputIsWrittenEarly) {
  // out0 takes the memory of b, which is still read after out0's value is known.
  Writer w;
  const int32_t a = w.load(), b = w.load();
  const int32_t sum = w.apply(F::add, a, b);
  const int32_t difference = w.apply(F::sub, b, w.apply(F::abs, sum));
  const ScalarProgram program = w.done({sum, difference, b});
  const int64_t n = 5000;
  Pointwise pointwise(program, {n}, {{1}, {1}});
  std::vector<float> x(n), y(n), second(n), third(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(i % 17) - 8;
    y[i] = static_cast<float>(i % 23) * 0.5f;
  }
  const std::vector<float> original = y;
  const void* in[] = {x.data(), y.data()};
  void* out[] = {y.data(), second.data(), third.data()};
  ThreadPool pool(2);
  pointwise.run(pool, in, out);
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(y[i], x[i] + original[i]);
    ASSERT_EQ(second[i], original[i] - std::fabs(x[i] + original[i]));
    ASSERT_EQ(third[i], original[i]);
  }
}

TEST(Pointwise, HalfTypesComputeInF32AndRoundWhereStored) {
  for_each_target([&] {
    const int64_t n = 1000;
    std::vector<Half> h(n), h_out(n);
    std::vector<BFloat> b(n), b_out(n);
    for (int64_t i = 0; i < n; ++i) {
      h[i] = to_half(std::ldexp(static_cast<float>(i * 37 % 2048 - 1000), static_cast<int>(i % 30) - 24));
      b[i] = to_bfloat(static_cast<float>(i - 500) * 1.37f);
    }
    h[0] = to_half(infinity);
    h[1] = to_half(nan_value);
    Writer w;
    const int32_t x = w.load(DType::f16), y = w.load(DType::bf16);
    const int32_t third = w.constant(1.0 / 3, DType::f16);
    const int32_t scaled = w.apply(F::mul, x, third);
    const int32_t sum = w.apply(F::add, w.cast(scaled, DType::f32), w.cast(y, DType::f32));
    const ScalarProgram program = w.done({scaled, w.cast(sum, DType::bf16)});
    Pointwise pointwise(program, {n}, {{1}, {1}});
    const void* in[] = {h.data(), b.data()};
    void* out[] = {h_out.data(), b_out.data()};
    ThreadPool pool(1);
    pointwise.run(pool, in, out);
    const float third_value = to_float(to_half(1.0f / 3));
    for (int64_t i = 0; i < n; ++i) {
      const float expected = to_float(h[i]) * third_value;
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(to_float(h_out[i])));
        EXPECT_TRUE(std::isnan(to_float(b_out[i])));
        continue;
      }
      EXPECT_EQ(h_out[i], to_half(expected)) << to_float(h[i]);
      // The sum may be fused into one rounding.
      EXPECT_TRUE(close(expected + to_float(b[i]), to_float(b_out[i]), 1.0 / 128));
    }
  });
}

template <class T>
void check_integers(DType dtype) {
  std::vector<T> a, b;
  using Limits = std::numeric_limits<T>;
  for (int64_t x :
       {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{-1}, int64_t{-7}, int64_t(Limits::max()), int64_t(Limits::min())}) {
    for (int64_t y :
         {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{-3}, int64_t{-1}, int64_t(Limits::max())}) {
      a.push_back(static_cast<T>(x));
      b.push_back(static_cast<T>(y));
    }
  }
  const auto wrap = [](auto value) { return static_cast<T>(value); };
  ThreadPool pool(1);
  const auto run = [&](F function, auto expected) {
    Writer w;
    const int32_t x = w.load(dtype), y = w.load(dtype);
    const bool unary = arity(function) == 1;
    const ScalarProgram program = w.done({unary ? w.apply(function, x) : w.apply(function, x, y)});
    const int64_t n = static_cast<int64_t>(a.size());
    std::vector<T> out(n);
    Pointwise pointwise(program, {n}, {{1}, {1}});
    const void* in[] = {a.data(), b.data()};
    void* outs[] = {out.data()};
    pointwise.run(pool, in, outs);
    for (int64_t i = 0; i < n; ++i) {
      const bool boolean = program.instructions.back().dtype == DType::boolean;
      const T got = boolean ? static_cast<T>(reinterpret_cast<uint8_t*>(out.data())[i]) : out[i];
      ASSERT_EQ(+got, +expected(a[i], b[i]))
          << to_string(function) << " of " << to_string(dtype) << ' ' << +a[i] << ", " << +b[i];
    }
  };
  using Wide = __int128;
  run(F::add, [&](T x, T y) { return wrap(Wide(x) + y); });
  run(F::sub, [&](T x, T y) { return wrap(Wide(x) - y); });
  run(F::mul, [&](T x, T y) { return wrap(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y)); });
  run(F::neg, [&](T x, T) { return wrap(-Wide(x)); });
  run(F::abs, [&](T x, T) { return wrap(x < 0 ? -Wide(x) : Wide(x)); });
  run(F::div, [&](T x, T y) { return y == 0 ? T(0) : wrap(Wide(x) / y); });
  run(F::fmod, [&](T x, T y) { return y == 0 ? T(0) : wrap(Wide(x) % y); });
  run(F::mod, [&](T x, T y) { return y == 0 ? T(0) : wrap((Wide(x) % y + y) % y); });
  run(F::min, [&](T x, T y) { return std::min(x, y); });
  run(F::max, [&](T x, T y) { return std::max(x, y); });
  run(F::less, [&](T x, T y) { return T(x < y); });
  run(F::equal, [&](T x, T y) { return T(x == y); });
  run(F::bitwise_xor, [&](T x, T y) { return wrap(x ^ y); });
  run(F::shift_left, [&](T x, T y) {
    return y >= 0 && static_cast<uint64_t>(y) < sizeof(T) * 8 ? wrap(static_cast<unsigned __int128>(x) << y) : T(0);
  });
}

TEST(Pointwise, Integers) {
  check_integers<int64_t>(DType::i64);
  check_integers<int32_t>(DType::i32);
  check_integers<int16_t>(DType::i16);
  check_integers<int8_t>(DType::i8);
  check_integers<uint64_t>(DType::u64);
  check_integers<uint32_t>(DType::u32);
  check_integers<uint16_t>(DType::u16);
  check_integers<uint8_t>(DType::u8);
}

// Whole numbers of divisors, one off them and the ends of the range, by vectors of divisors and by one for all.
template <class T>
void check_quotients(Random& random, DType dtype) {
  using Limits = std::numeric_limits<T>;
  constexpr int64_t n = 259;
  int fewer_bits = 0;
  const auto any = [&] {
    return static_cast<T>(random.integer(Limits::min(), Limits::max()) >> random.integer(fewer_bits, 31));
  };
  const auto dividend = [&](T y) {
    T near = static_cast<T>(static_cast<uint64_t>(y) * static_cast<uint64_t>(any()) +
                            static_cast<uint64_t>(random.integer(-1, 1)));
    if (fewer_bits) {
      const int64_t most = (1 << 23) / std::max<int64_t>(1, std::abs(static_cast<int64_t>(y)));
      near = static_cast<T>(std::max<int64_t>(static_cast<int64_t>(y) * random.integer(0, most), 1) +
                            random.integer(-1, 1));
    }
    const T choices[] = {any(), near, Limits::min(), Limits::max()};
    return choices[random.integer(0, fewer_bits ? 1 : 3)];
  };
  for (int round = 0; round < 80; ++round) {
    const bool is_one = round % 2 == 1;
    // Numbers of up to 24 bits alone are divided in f32, about where their quotients are whole; others in double.
    fewer_bits = sizeof(T) == 4 && round % 4 < 2 ? 8 : 0;
    const T least = static_cast<T>(Limits::min() >> fewer_bits), most = static_cast<T>(Limits::max() >> fewer_bits);
    const T minus = std::is_signed_v<T> || fewer_bits == 0 ? static_cast<T>(-1) : T(3);
    const T fixed[] = {T(0), T(1), minus, least, most, T(2), any(), any()};
    std::vector<T> x(n), y(n, fixed[random.integer(0, 7)]), out(n);
    for (size_t i = 0; i < x.size(); ++i) {
      if (!is_one) y[i] = fixed[random.integer(0, 7)];
      x[i] = dividend(y[i]);
    }
    for (const F function : {F::div, F::mod, F::fmod}) {
      Writer w;
      const int32_t a = w.load(dtype), b = w.load(dtype);
      Pointwise pointwise(w.done({w.apply(function, a, b)}), {n}, {{1}, {is_one ? 0 : 1}});
      const void* in[] = {x.data(), y.data()};
      void* outs[] = {out.data()};
      ThreadPool pool(1);
      pointwise.run(pool, in, outs);
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t p = x[i], q = y[i], rest = q == 0 ? 0 : p % q;
        const int64_t want = q == 0 ? 0 : function == F::div ? p / q : function == F::fmod ? rest : (rest + q) % q;
        ASSERT_EQ(+out[i], +static_cast<T>(want))
            << to_string(function) << ' ' << to_string(dtype) << ' ' << p << ", " << q;
      }
    }
  }
}

TEST(Pointwise, QuotientsOfIntegers) {
  RandomData random;
  for_each_target([&] {
    check_quotients<int32_t>(random, DType::i32);
    check_quotients<uint32_t>(random, DType::u32);
    check_quotients<int16_t>(random, DType::i16);
    check_quotients<uint16_t>(random, DType::u16);
    check_quotients<int8_t>(random, DType::i8);
    check_quotients<uint8_t>(random, DType::u8);
  });
}

TEST(Pointwise, MixedTypesMaskAndSelect) {
  for_each_target([&] {
    for (int64_t n : {1, 5, 40, 3000}) {
      // select(i64 ids < bool-free limit, x, -inf) as f64, with the condition kept as an output
      Writer w;
      const int32_t ids = w.load(DType::i64), x = w.load();
      const int32_t keep = w.apply(F::less, ids, w.constant(10, DType::i64));
      const int32_t masked = w.apply(F::select, keep, x, w.constant(-HUGE_VAL));
      const ScalarProgram program = w.done({keep, masked, w.cast(masked, DType::f64), w.constant(3, DType::i32)});
      Pointwise pointwise(program, {n}, {{1}, {1}});
      std::vector<int64_t> id(n);
      std::vector<float> value(n), out(n);
      std::vector<double> wide(n);
      std::vector<uint8_t> kept(n);
      std::vector<int32_t> threes(n);
      for (int64_t i = 0; i < n; ++i) {
        id[i] = i * 7 % 20;
        value[i] = static_cast<float>(i);
      }
      const void* in[] = {id.data(), value.data()};
      void* outs[] = {kept.data(), out.data(), wide.data(), threes.data()};
      ThreadPool pool(3);
      pointwise.run(pool, in, outs);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(kept[i], id[i] < 10);
        ASSERT_EQ(out[i], id[i] < 10 ? value[i] : -infinity);
        ASSERT_EQ(wide[i], static_cast<double>(out[i]));
        ASSERT_EQ(threes[i], 3);
      }
    }
  });
}

TEST(Pointwise, RowSegmentAsEpilogue) {
  for_each_target([&] {
    // y = relu(accumulator * scale + bias + residual), in place over the accumulator
    Writer w;
    const int32_t accumulator = w.load(), scale = w.load(), bias = w.load(), residual = w.load();
    const int32_t sum = w.apply(F::add, w.apply(F::add, w.apply(F::mul, accumulator, scale), bias), residual);
    const ScalarProgram program = w.done({w.apply(F::max, sum, w.constant(0))});
    const TileProgram row(program, {RowForm::vector, RowForm::uniform, RowForm::vector, RowForm::vector});
    EXPECT_EQ(row.steps(), 2);
    for (int64_t n : {1, 2, 15, 16, 17, 64, 100, 2500}) {
      std::vector<float> x(n), b(n), r(n);
      for (int64_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(i % 13) - 6;
        b[i] = static_cast<float>(i % 5) * 0.25f;
        r[i] = static_cast<float>(i % 3) - 1;
      }
      const std::vector<float> before = x;
      const float s = 1.5f;
      const void* in[] = {x.data(), &s, b.data(), r.data()};
      void* out[] = {x.data()};
      row.run_row(n, in, out);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], std::max(0.0f, before[i] * s + b[i] + r[i])) << n;
    }
  });
}

TEST(Pointwise, RangesArePartsOfTheWhole) {
  RandomData random;
  Writer w;
  const int32_t x = w.load(), y = w.load(DType::i32);
  const ScalarProgram program = w.done({w.apply(F::mul, x, w.cast(y, DType::f32)), w.cast(x, DType::f64)});
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const int64_t rows = random.integer(1, 9), columns = random.integer(1, round % 2 ? 20 : 600);
      const int64_t total = rows * columns;
      const std::vector<float> a = random.vector(total);
      std::vector<int32_t> b(static_cast<size_t>(std::max(rows, columns)));
      for (int32_t& i : b) i = static_cast<int32_t>(random.integer(-9, 9));
      const std::vector<int64_t> of_b = random.coin() ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 1};
      const Pointwise pointwise(program, {rows, columns}, {{columns, 1}, of_b});
      std::vector<float> all(a.size()), part(a.size() + 1, 77);
      std::vector<double> wide(a.size()), wide_part(a.size() + 1, 77);
      const void* in[] = {a.data(), b.data()};
      void *whole[] = {all.data(), wide.data()}, *parts[] = {part.data(), wide_part.data()};
      ThreadPool pool(1);
      pointwise.run(pool, in, whole);
      const int64_t begin = random.integer(0, total - 1), count = random.integer(0, total - begin);
      pointwise.run_range(begin, count, in, parts);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(part[static_cast<size_t>(i)], all[static_cast<size_t>(begin + i)]);
        ASSERT_EQ(wide_part[static_cast<size_t>(i)], wide[static_cast<size_t>(begin + i)]);
      }
      ASSERT_EQ(part[static_cast<size_t>(count)], 77);
      ASSERT_EQ(wide_part[static_cast<size_t>(count)], 77);
    }
  });
}

TEST(Pointwise, ManyIntermediatesAtATime) {
  // Sums in an order that keeps all terms alive.
  Writer w;
  const int32_t x = w.load();
  std::vector<int32_t> terms;
  for (int i = 0; i < 300; ++i) terms.push_back(w.apply(F::sub, x, w.constant(i)));
  int32_t sum = terms[0];
  for (int i = 1; i < 300; ++i) sum = w.apply(F::add, terms[i], sum);
  const ScalarProgram program = w.done({sum});
  Pointwise pointwise(program, {1000}, {{1}});
  std::vector<float> in_data(1000), out_data(1000);
  for (int i = 0; i < 1000; ++i) in_data[i] = static_cast<float>(i);
  const void* in[] = {in_data.data()};
  void* out[] = {out_data.data()};
  ThreadPool pool(1);
  pointwise.run(pool, in, out);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(out_data[i], static_cast<float>(300 * i - 299 * 150));
}

// One loop each: limits of f64 on either side and in either order, by which NaN stays NaN, and cubes.
TEST(Pointwise, LimitsAndCubesOfF64AreOneLoop) {
  const auto program_of = [](bool min_first, double low, double high) {
    Writer w;
    const int32_t x = w.load(DType::f64), a = w.constant(low, DType::f64), b = w.constant(high, DType::f64);
    return w.done({min_first ? w.apply(F::max, w.apply(F::min, x, b), a) : w.apply(F::min, w.apply(F::max, x, a), b)});
  };
  const std::vector<double> in{nan_value, -infinity, infinity, -3.5, -1, -0.0, 0.25, 2, 2.5,
                               1e300,     7,         -7,       1,    2,  3,    4,    5};
  const auto n = std::ssize(in);
  for_each_target([&] {
    for (int64_t count = 1; count <= n; ++count) {
      std::vector<double> got(in.size(), -9);
      const void* inputs[] = {in.data()};
      void* outputs[] = {got.data()};
      for (const bool min_first : {false, true}) {
        const TileProgram tile(program_of(min_first, -1, 2), {RowForm::vector});
        EXPECT_EQ(tile.steps(), 1);
        tile.run_row(count, inputs, outputs);
        for (int64_t i = 0; i < count; ++i) {
          const double x = in[static_cast<size_t>(i)], y = got[static_cast<size_t>(i)];
          ASSERT_TRUE(std::isnan(x) ? std::isnan(y) : y == std::clamp(x, -1.0, 2.0)) << x << ' ' << y;
        }
      }
      Writer w;
      const int32_t x = w.load(DType::f64);
      const TileProgram cube(w.done({w.apply(F::mul, w.apply(F::mul, x, x), x)}), {RowForm::vector});
      EXPECT_EQ(cube.steps(), 1);
      cube.run_row(count, inputs, outputs);
      for (int64_t i = 1; i < count; ++i) {
        const double v = in[static_cast<size_t>(i)];
        ASSERT_EQ(got[static_cast<size_t>(i)], v * v * v);
      }
    }
    // Limits that are the wrong way round, or NaN, are taken as they are written.
    EXPECT_EQ(TileProgram(program_of(false, 2, -1), {RowForm::vector}).steps(), 2);
    EXPECT_EQ(TileProgram(program_of(false, nan_value, 2), {RowForm::vector}).steps(), 2);
  });
}

// Products and sums of f64 have the bits of two loops, whichever operands are one element, in place too.
TEST(Pointwise, SumsOfProductsOfF64AreOneLoop) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 160; ++round) {
      const auto n = static_cast<size_t>(random.integer(1, 200));
      std::vector<double> operands[3];
      std::vector<RowForm> forms;
      for (int k = 0; k < 3; ++k) {
        const bool uniform = (round >> k & 1) != 0;
        forms.push_back(uniform ? RowForm::uniform : RowForm::vector);
        operands[k].resize(uniform ? 1 : n);
        for (double& v : operands[k]) v = static_cast<double>(random.integer(-1'000'000, 1'000'000)) / 999'983;
      }
      if (round % 5 == 0) operands[round % 3].front() = round % 2 ? nan_value : infinity;
      Writer w;
      const int32_t a = w.load(DType::f64), b = w.load(DType::f64), c = w.load(DType::f64);
      const int32_t product = w.apply(F::mul, a, b);
      const bool first = random.integer(0, 1) == 1;
      const TileProgram program(w.done({first ? w.apply(F::add, product, c) : w.apply(F::add, c, product)}), forms);
      if (round % 4 < 3) {
        EXPECT_EQ(program.steps(), 1);
      }
      std::vector<double> got(n), expected(n);
      const auto at = [&](int k, size_t i) { return operands[k][operands[k].size() == 1 ? 0 : i]; };
      for (size_t i = 0; i < n; ++i) {
        const volatile double rounded = at(0, i) * at(1, i);
        expected[i] = rounded + at(2, i);
      }
      const int same = round / 8 % 4;
      const bool in_place = same < 3 && forms[static_cast<size_t>(same)] == RowForm::vector;
      const void* inputs[] = {operands[0].data(), operands[1].data(), operands[2].data()};
      void* outputs[] = {in_place ? operands[same].data() : got.data()};
      program.run_row(static_cast<int64_t>(n), inputs, outputs);
      const auto* result = static_cast<const double*>(outputs[0]);
      for (size_t i = 0; i < n; ++i)
        ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(result[i]) : result[i] == expected[i]) << i << " of " << n;
    }
  });
}

// One of two elements for each condition, over which it may be written.
TEST(Pointwise, SelectsOneOfTwoBytes) {
  RandomData random;
  for_each_target([&] {
    for (int64_t n = 1; n < 200; n += random.integer(1, 5)) {
      std::vector<uint8_t> condition(static_cast<size_t>(n)), expected(condition.size()), got(condition.size());
      for (size_t i = 0; i < condition.size(); ++i) {
        condition[i] = static_cast<uint8_t>(random.integer(0, 1));
        expected[i] = condition[i] ? 7 : 200;
      }
      Writer w;
      const int32_t c = w.load(DType::boolean), a = w.load(DType::u8), b = w.load(DType::u8);
      const TileProgram program(w.done({w.apply(F::select, c, a, b)}),
                                {RowForm::vector, RowForm::uniform, RowForm::uniform});
      const uint8_t x = 7, y = 200;
      const void* inputs[] = {condition.data(), &x, &y};
      for (const bool in_place : {false, true}) {
        void* outputs[] = {in_place ? condition.data() : got.data()};
        program.run_row(n, inputs, outputs);
        ASSERT_EQ(in_place ? condition : got, expected);
      }
    }
  });
}

// Outputs beyond the caches, of which far less is read, are computed in L1 and written past them, whatever the
// alignment and the threads.
TEST(Pointwise, WritesPastTheCachesWhatIsMadeOfLess) {
  Writer w;
  const int32_t x = w.cast(w.load(DType::u8), DType::f64), y = w.cast(w.load(DType::u8), DType::f64);
  const ScalarProgram program = w.done({w.apply(F::add, x, y)});
  const int64_t n = least_streamed_bytes / 8 + 1237;
  std::vector<uint8_t> in(static_cast<size_t>(n));
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i % 251);
  const uint8_t added = 7;
  for_each_target([&] {
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      for (const size_t before : {0, 1, 5}) {
        std::vector<double> got(in.size() + 8, -9);
        const void* inputs[] = {in.data(), &added};
        void* outputs[] = {got.data() + before};
        Pointwise(program, {n}, {{1}, {0}}).run(pool, inputs, outputs);
        size_t equal = 0;
        while (equal < in.size() && got[before + equal] == in[equal] + 7.0) ++equal;
        ASSERT_EQ(equal, in.size()) << threads << " threads, " << before << " behind a line";
        for (size_t i = 0; i < got.size(); ++i) {
          if (i < before || i >= before + in.size()) {
            ASSERT_EQ(got[i], -9) << i;
          }
        }
      }
    }
  });
}

// Rows that begin anywhere in a line, operands that are staged, shares of threads, and what is written over an input.
TEST(Pointwise, LargeOutputs) {
  Writer w;
  const int32_t x = w.load(DType::f64), r = w.load(DType::f64);
  const ScalarProgram program = w.done({w.apply(F::sub, x, r)});
  ThreadPool pool(3);
  for_each_target([&] {
    for (const int64_t row : {1031, 37}) {  // one by one, and staged
      const int64_t rows = least_streamed_bytes / 8 / row + 3;
      Pointwise pointwise(program, {rows, row}, {{row, 1}, {0, 1}});
      std::vector<double> in(static_cast<size_t>(rows * row)), by_row(static_cast<size_t>(row)), got(in.size() + 2, -9);
      for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<double>(i);
      for (size_t i = 0; i < by_row.size(); ++i) by_row[i] = static_cast<double>(i * i);
      const void* inputs[] = {in.data(), by_row.data()};
      void* outputs[] = {got.data() + 1};
      const auto check = [&](const double* results) {
        size_t equal = 0;
        while (equal < in.size() &&
               results[equal] == static_cast<double>(equal) - by_row[equal % static_cast<size_t>(row)])
          ++equal;
        ASSERT_EQ(equal, in.size());
      };
      pointwise.run(pool, inputs, outputs);
      check(got.data() + 1);
      EXPECT_EQ(got.front(), -9);
      EXPECT_EQ(got.back(), -9);
      outputs[0] = in.data();
      pointwise.run(pool, inputs, outputs);
      check(in.data());
    }
  });
}

TEST(Pointwise, UnsupportedTypesAndFunctionsAreNamed) {
  Writer w;
  const int32_t x = w.load(DType::i32);
  const ScalarProgram program = w.done({w.apply(F::tan, x)});
  try {
    Pointwise(program, {3}, {{1}});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("tan"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("i32"), std::string::npos);
  }
  Writer nibbles;
  const int32_t y = nibbles.load(DType::i4);
  EXPECT_THROW(Pointwise(nibbles.done({y}), {3}, {{1}}), Error);
}

}  // namespace
}  // namespace camshaft::cpu::pointwise_test
