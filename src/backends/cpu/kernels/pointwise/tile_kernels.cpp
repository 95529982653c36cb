// The loops that are not vectorised by hand: integers, bool, f64, rare functions of f32. Written plainly,
// without branches where the compiler can then make vectors of them, and compiled for every instruction set.
#include "backends/cpu/kernels/pointwise/tile_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "backends/cpu/kernels/pointwise/tile_element.h"
#include "backends/cpu/kernels/targets.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/tile_kernels.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/pointwise/fill_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

using F = ScalarFunction;

// In which numbers of up to 32 bits are divided.
template <class T>
using QuotientOf = std::conditional_t<(sizeof(T) <= 2), float, double>;

// One element. Integers compute in their unsigned counterpart where C++ leaves overflow undefined.
template <F kFunction, class T>
struct Apply {
  static T run(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return floating(a, b);
    } else {
      return integer(a, b);
    }
  }

  static T floating(T a, [[maybe_unused]] T b) {
    if constexpr (kFunction == F::neg) return -a;
    if constexpr (kFunction == F::abs) return std::fabs(a);
    if constexpr (kFunction == F::sign) return a > 0 ? T(1) : a < 0 ? T(-1) : a;
    if constexpr (kFunction == F::ceil) return std::ceil(a);
    if constexpr (kFunction == F::floor) return std::floor(a);
    if constexpr (kFunction == F::round) return std::nearbyint(a);
    if constexpr (kFunction == F::sqrt) return std::sqrt(a);
    if constexpr (kFunction == F::reciprocal) return 1 / a;
    if constexpr (kFunction == F::exp) return std::exp(a);
    if constexpr (kFunction == F::log) return std::log(a);
    if constexpr (kFunction == F::log1p) return std::log1p(a);
    if constexpr (kFunction == F::sin) return std::sin(a);
    if constexpr (kFunction == F::cos) return std::cos(a);
    if constexpr (kFunction == F::tan) return std::tan(a);
    if constexpr (kFunction == F::asin) return std::asin(a);
    if constexpr (kFunction == F::acos) return std::acos(a);
    if constexpr (kFunction == F::atan) return std::atan(a);
    if constexpr (kFunction == F::sinh) return std::sinh(a);
    if constexpr (kFunction == F::cosh) return std::cosh(a);
    if constexpr (kFunction == F::tanh) return std::tanh(a);
    if constexpr (kFunction == F::asinh) return std::asinh(a);
    if constexpr (kFunction == F::acosh) return std::acosh(a);
    if constexpr (kFunction == F::atanh) return std::atanh(a);
    if constexpr (kFunction == F::erf) return std::erf(a);
    if constexpr (kFunction == F::sigmoid) return 1 / (1 + std::exp(-a));
    if constexpr (kFunction == F::add) return a + b;
    if constexpr (kFunction == F::sub) return a - b;
    if constexpr (kFunction == F::mul) return a * b;
    if constexpr (kFunction == F::div) return a / b;
    if constexpr (kFunction == F::mod) {
      const T r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    if constexpr (kFunction == F::fmod) return std::fmod(a, b);
    if constexpr (kFunction == F::pow) return std::pow(a, b);
    if constexpr (kFunction == F::min) return a != a || a < b ? a : b;
    if constexpr (kFunction == F::max) return a != a || a > b ? a : b;
    return a;
  }

  static T integer(T a, [[maybe_unused]] T b) {
    using U = std::make_unsigned_t<T>;
    // 8- and 16-bit operands promote to int; products of 16-bit values need the unsigned form of it.
    using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, U>;
    [[maybe_unused]] const Wide x = static_cast<Wide>(static_cast<U>(a));
    [[maybe_unused]] const Wide y = static_cast<Wide>(static_cast<U>(b));
    if constexpr (kFunction == F::neg) return static_cast<T>(Wide(0) - x);
    if constexpr (kFunction == F::abs) return a < T(0) ? static_cast<T>(Wide(0) - x) : a;
    if constexpr (kFunction == F::sign) return static_cast<T>((a > T(0)) - (a < T(0)));
    if constexpr (kFunction == F::bitwise_not) return static_cast<T>(~x);
    if constexpr (kFunction == F::add) return static_cast<T>(x + y);
    if constexpr (kFunction == F::sub) return static_cast<T>(x - y);
    if constexpr (kFunction == F::mul) return static_cast<T>(x * y);
    if constexpr (kFunction == F::div || kFunction == F::mod || kFunction == F::fmod) return divide(a, b);
    if constexpr (kFunction == F::pow) return power(a, b);
    if constexpr (kFunction == F::min) return a < b ? a : b;
    if constexpr (kFunction == F::max) return a > b ? a : b;
    if constexpr (kFunction == F::bitwise_and) return static_cast<T>(x & y);
    if constexpr (kFunction == F::bitwise_or) return static_cast<T>(x | y);
    if constexpr (kFunction == F::bitwise_xor) return static_cast<T>(x ^ y);
    if constexpr (kFunction == F::shift_left) return shift_is_inside(b) ? static_cast<T>(x << y) : T(0);
    if constexpr (kFunction == F::shift_right) {
      return shift_is_inside(b) ? static_cast<T>(a >> b) : a < T(0) ? static_cast<T>(-1) : T(0);
    }
    return a;  // ceil, floor, round
  }

  // Division by zero is undefined in ONNX and traps in hardware: 0 here. The most negative number divided by -1 wraps.
  static T divide(T a, T b) {
    if constexpr (sizeof(T) <= 4) return divide_as_float(a, b);
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1))
        return kFunction == F::div
                   ? static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a))
                   : T(0);
    }
    if constexpr (kFunction == F::div) return static_cast<T>(a / b);
    const T r = static_cast<T>(a % b);
    if constexpr (kFunction == F::mod) return r != T(0) && (r < T(0)) != (b < T(0)) ? static_cast<T>(r + b) : r;
    return r;
  }

  // Without branches, and in vectors: the quotient of numbers of 32 bits is exact in double, of 16 bits in f32, but for
  // a rounding that never reaches the next whole number. By the processor's integer division 10^5 took 157 us.
  static T divide_as_float(T a, T b) {
    using Float = QuotientOf<T>;
    const bool negates = std::is_signed_v<T> && b == static_cast<T>(-1);  // the lowest number has no counterpart
    const bool keeps = std::is_same_v<T, uint32_t> && b == T(1);          // as all other quotients fit 31 bits
    const T by = b == T(0) || negates || keeps ? T(2) : b;
    const auto whole = static_cast<T>(static_cast<int32_t>(static_cast<Float>(a) / static_cast<Float>(by)));
    const T q = keeps ? a : whole;
    const T minus = static_cast<T>(uint32_t{0} - static_cast<uint32_t>(a));
    if constexpr (kFunction == F::div) return b == T(0) ? T(0) : negates ? minus : q;
    const T r = static_cast<T>(static_cast<uint32_t>(a) - static_cast<uint32_t>(q) * static_cast<uint32_t>(by));
    const T rest = b == T(0) || negates || keeps ? T(0) : r;
    if constexpr (kFunction == F::mod) {
      const bool turns = (rest != T(0)) & ((rest < T(0)) != (b < T(0)));
      return static_cast<T>(static_cast<uint32_t>(rest) + (turns ? static_cast<uint32_t>(b) : 0u));
    }
    return rest;
  }

  static T power(T base, T exponent) {
    if constexpr (std::is_signed_v<T>) {
      if (exponent < 0) return base == T(1) ? T(1) : base == T(-1) ? ((exponent & 1) ? T(-1) : T(1)) : T(0);
    }
    uint64_t result = 1;
    uint64_t square = static_cast<std::make_unsigned_t<T>>(base);  // the bits above T's do not reach the result
    for (uint64_t e = static_cast<std::make_unsigned_t<T>>(exponent); e != 0; e >>= 1) {
      if (e & 1) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }

  static bool shift_is_inside(T b) { return b >= T(0) && static_cast<uint64_t>(b) < sizeof(T) * 8; }
};

// Squares and cubes of integers, in vectors: one by one they took 1 ns each.
template <class T>
void small_power(const T* a, int exponent, int64_t n, T* o) {
  using Multiply = Apply<F::mul, T>;
  if (exponent < 2) {
    for (int64_t i = 0; i < n; ++i) o[i] = exponent == 0 ? T(1) : a[i];
  } else if (exponent == 2) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = Multiply::run(a[i], a[i]);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = Multiply::run(Multiply::run(a[i], a[i]), a[i]);
  }
}

// Operands may be the output: `ivdep` states what the contract says, that they are then the same element.
template <F kFunction, class T>
void apply(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const T*>(in[0]);
  auto* o = static_cast<T*>(out);
  const bool fixed_a = (uniform & 1) != 0;
  if constexpr (static_cast<int>(kFunction) < static_cast<int>(F::add)) {
    if (fixed_a) return std::fill_n(o, n, Apply<kFunction, T>::run(*a, T(0))), void();
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = Apply<kFunction, T>::run(a[i], T(0));
  } else {
    const auto* b = static_cast<const T*>(in[1]);
    const bool fixed_b = (uniform & 2) != 0;
    if (fixed_a && fixed_b) return std::fill_n(o, n, Apply<kFunction, T>::run(*a, *b)), void();
    if constexpr (sizeof(T) <= 2 && kFunction != F::pow) {
      if (fixed_b)
        return fill_vectors(o, n, o == a, a,
                            [=, y = *b](int64_t i) HWY_ATTR { return Apply<kFunction, T>::run(a[i], y); });
      if (fixed_a)
        return fill_vectors(o, n, o == b, b,
                            [=, x = *a](int64_t i) HWY_ATTR { return Apply<kFunction, T>::run(x, b[i]); });
    }
    if (!fixed_a && !fixed_b) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) o[i] = Apply<kFunction, T>::run(a[i], b[i]);
    } else if (fixed_b) {
      const T y = *b;
      if constexpr (kFunction == F::pow && std::is_integral_v<T>) {
        if (y >= T(0) && y <= T(3)) return small_power(a, static_cast<int>(y), n, o);
      }
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) o[i] = Apply<kFunction, T>::run(a[i], y);
    } else {
      const T x = *a;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) o[i] = Apply<kFunction, T>::run(x, b[i]);
    }
  }
}

template <F kFunction, class T>
bool test(T a, [[maybe_unused]] T b) {
  if constexpr (kFunction == F::equal) return a == b;
  if constexpr (kFunction == F::less) return a < b;
  if constexpr (kFunction == F::less_or_equal) return a <= b;
  if constexpr (kFunction == F::logical_and) return a != T(0) && b != T(0);
  if constexpr (kFunction == F::logical_or) return a != T(0) || b != T(0);
  if constexpr (kFunction == F::logical_xor) return (a != T(0)) != (b != T(0));
  if constexpr (kFunction == F::logical_not) return a == T(0);
  if constexpr (kFunction == F::is_nan) return a != a;
  if constexpr (kFunction == F::is_inf_pos) return a == std::numeric_limits<T>::infinity();
  if constexpr (kFunction == F::is_inf_neg) return a == -std::numeric_limits<T>::infinity();
  return false;
}

template <F kFunction, class T>
void predicate(const void* const* in, void* out, int64_t n, unsigned uniform) {
  constexpr bool unary = static_cast<int>(kFunction) < static_cast<int>(F::add);
  const auto* a = static_cast<const T*>(in[0]);
  const auto* b = static_cast<const T*>(unary ? in[0] : in[1]);
  const bool fixed_a = (uniform & 1) != 0, fixed_b = unary ? fixed_a : (uniform & 2) != 0;
  auto* o = static_cast<uint8_t*>(out);
  // One operand may say it all: a scalar that is true, of "or".
  constexpr bool is_or = kFunction == F::logical_or, is_and = kFunction == F::logical_and;
  const bool one_is_true = (fixed_a && *a != T(0)) || (fixed_b && *b != T(0));
  const bool one_is_false = (fixed_a && *a == T(0)) || (fixed_b && *b == T(0));
  if ((is_or && one_is_true) || (is_and && one_is_false)) {
    std::memset(o, is_or, static_cast<size_t>(n));
  } else if (fixed_a && fixed_b) {
    std::memset(o, test<kFunction, T>(*a, *b), static_cast<size_t>(n));
  } else if (fixed_a) {
    fill_vectors(o, n, out == in[1], b, [=, x = *a](int64_t i) HWY_ATTR { return test<kFunction, T>(x, b[i]); });
  } else if (fixed_b) {
    fill_vectors(o, n, out == in[0], a, [=, y = *b](int64_t i) HWY_ATTR { return test<kFunction, T>(a[i], y); });
  } else {
    fill_vectors(o, n, out == in[0] || out == b, a, [=](int64_t i) HWY_ATTR { return test<kFunction, T>(a[i], b[i]); });
  }
}

// min(max(x, low), high), or with the limits taken the other way round, which is the same where low <= high. Clip of
// 10^7 bytes took 0.36 ms as two loops.
template <class T>
void clamp(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* x = static_cast<const T*>(in[0]);
  const T low = *static_cast<const T*>(in[1]), high = *static_cast<const T*>(in[2]);
  auto* o = static_cast<T*>(out);
  const auto limited = [=](T v) HWY_ATTR {
    const T above = v < low ? low : v;
    return above > high ? high : above;
  };
  if (uniform & 1) return std::fill_n(o, n, limited(*x)), void();
  fill_vectors(o, n, o == x, x, [=](int64_t i) HWY_ATTR { return limited(x[i]); });
}

// Both values are read before one is chosen: then no branch is needed.
template <class T>
void select(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* condition = static_cast<const uint8_t*>(in[0]);
  const auto* b = static_cast<const T*>(in[1]);
  const auto* c = static_cast<const T*>(in[2]);
  auto* o = static_cast<T*>(out);
  if (uniform & 1) {  // all of one operand
    const T* chosen = *condition ? b : c;
    if (uniform & (*condition ? 2u : 4u)) {
      std::fill_n(o, n, *chosen);
    } else if (o != chosen) {
      std::memcpy(o, chosen, static_cast<size_t>(n) * sizeof(T));
    }
  } else if (uniform == 0) {
    fill_vectors(o, n, o == b || o == c || out == in[0], b, [=](int64_t i) HWY_ATTR {
      const T x = b[i], y = c[i];
      return condition[i] ? x : y;
    });
  } else if (uniform == 2) {
    fill_vectors(o, n, o == c || out == in[0], c, [=, x = *b](int64_t i) HWY_ATTR {
      const T y = c[i];
      return condition[i] ? x : y;
    });
  } else if (uniform == 4) {
    fill_vectors(o, n, o == b || out == in[0], b, [=, y = *c](int64_t i) HWY_ATTR {
      const T x = b[i];
      return condition[i] ? x : y;
    });
  } else {
    fill_vectors(o, n, out == in[0], condition,
                 [=, x = *b, y = *c](int64_t i) HWY_ATTR { return condition[i] ? x : y; });
  }
}

template <class T>
TileKernel predicate_kernel(F function) {
  switch (function) {
    case F::equal:
      return predicate<F::equal, T>;
    case F::less:
      return predicate<F::less, T>;
    case F::less_or_equal:
      return predicate<F::less_or_equal, T>;
    default:
      return nullptr;
  }
}

template <class T>
TileKernel integer_kernel(F function) {
  switch (function) {
    case F::neg:
      return apply<F::neg, T>;
    case F::abs:
      return apply<F::abs, T>;
    case F::sign:
      return apply<F::sign, T>;
    case F::ceil:
    case F::floor:
    case F::round:
      return apply<F::ceil, T>;
    case F::bitwise_not:
      return apply<F::bitwise_not, T>;
    case F::add:
      return apply<F::add, T>;
    case F::sub:
      return apply<F::sub, T>;
    case F::mul:
      return apply<F::mul, T>;
    case F::div:
      return apply<F::div, T>;
    case F::mod:
      return apply<F::mod, T>;
    case F::fmod:
      return apply<F::fmod, T>;
    case F::pow:
      return apply<F::pow, T>;
    case F::min:
      return apply<F::min, T>;
    case F::max:
      return apply<F::max, T>;
    case F::bitwise_and:
      return apply<F::bitwise_and, T>;
    case F::bitwise_or:
      return apply<F::bitwise_or, T>;
    case F::bitwise_xor:
      return apply<F::bitwise_xor, T>;
    case F::shift_left:
      return apply<F::shift_left, T>;
    case F::shift_right:
      return apply<F::shift_right, T>;
    case F::select:
      return select<T>;
    default:
      return predicate_kernel<T>(function);
  }
}

template <class T>
TileKernel floating_kernel(F function) {
  switch (function) {
#define CAMSHAFT_CASE(name) \
  case F::name:             \
    return apply<F::name, T>;
    CAMSHAFT_CASE(neg)
    CAMSHAFT_CASE(abs)
    CAMSHAFT_CASE(sign)
    CAMSHAFT_CASE(ceil)
    CAMSHAFT_CASE(floor)
    CAMSHAFT_CASE(round)
    CAMSHAFT_CASE(sqrt)
    CAMSHAFT_CASE(reciprocal)
    CAMSHAFT_CASE(exp)
    CAMSHAFT_CASE(log)
    CAMSHAFT_CASE(log1p)
    CAMSHAFT_CASE(sin)
    CAMSHAFT_CASE(cos)
    CAMSHAFT_CASE(tan)
    CAMSHAFT_CASE(asin)
    CAMSHAFT_CASE(acos)
    CAMSHAFT_CASE(atan)
    CAMSHAFT_CASE(sinh)
    CAMSHAFT_CASE(cosh)
    CAMSHAFT_CASE(tanh)
    CAMSHAFT_CASE(asinh)
    CAMSHAFT_CASE(acosh)
    CAMSHAFT_CASE(atanh)
    CAMSHAFT_CASE(erf)
    CAMSHAFT_CASE(sigmoid)
    CAMSHAFT_CASE(add)
    CAMSHAFT_CASE(sub)
    CAMSHAFT_CASE(mul)
    CAMSHAFT_CASE(div)
    CAMSHAFT_CASE(mod)
    CAMSHAFT_CASE(fmod)
    CAMSHAFT_CASE(pow)
    CAMSHAFT_CASE(min)
    CAMSHAFT_CASE(max)
#undef CAMSHAFT_CASE
    case F::is_nan:
      return predicate<F::is_nan, T>;
    case F::is_inf_pos:
      return predicate<F::is_inf_pos, T>;
    case F::is_inf_neg:
      return predicate<F::is_inf_neg, T>;
    case F::select:
      return select<T>;
    default:
      return predicate_kernel<T>(function);
  }
}

TileKernel boolean_kernel(F function) {
  switch (function) {
    case F::logical_not:
      return predicate<F::logical_not, uint8_t>;
    case F::logical_and:
    case F::bitwise_and:
    case F::mul:
    case F::min:
      return predicate<F::logical_and, uint8_t>;
    case F::logical_or:
    case F::bitwise_or:
    case F::add:
    case F::max:
      return predicate<F::logical_or, uint8_t>;
    case F::logical_xor:
    case F::bitwise_xor:
      return predicate<F::logical_xor, uint8_t>;
    case F::select:
      return select<uint8_t>;
    default:
      return predicate_kernel<uint8_t>(function);
  }
}

TileKernel plain_kernel(ScalarFunction function, DType lanes) {
  TileKernel found = nullptr;
  if (lanes == DType::f32 || lanes == DType::f16 || lanes == DType::bf16) {
    found = floating_kernel<float>(function);
  } else if (lanes == DType::boolean) {
    found = boolean_kernel(function);
  } else {
    with_element_type(lanes, [&](auto element) {
      using T = decltype(element);
      if constexpr (std::is_floating_point_v<T>) {
        found = floating_kernel<T>(function);
      } else if constexpr (std::is_integral_v<T>) {
        found = integer_kernel<T>(function);
      }
    });
  }
  return found;
}

TileKernel clamp_kernel(DType lanes) {
  TileKernel found = nullptr;
  with_element_type(lanes, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) found = clamp<T>;
  });
  return found;
}

void cube(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const double*>(in[0]);
  auto* o = static_cast<double*>(out);
  if (uniform & 1) return std::fill_n(o, n, *a * *a * *a), void();
  fill_vectors(o, n, o == a, a, [=](int64_t i) HWY_ATTR { return a[i] * a[i] * a[i]; });
}

TileKernel cube_kernel() {
  return cube;
}

void multiply_add_f64(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto *a = static_cast<const double*>(in[0]), *b = static_cast<const double*>(in[1]),
             *c = static_cast<const double*>(in[2]);
  auto* o = static_cast<double*>(out);
  const bool overwrites = o == a || o == b || o == c;
  switch (uniform >> 1) {
    case 0:
      return fill_vectors(o, n, overwrites, a, [=](int64_t i) HWY_ATTR { return a[i] * b[i] + c[i]; });
    case 1:
      return fill_vectors(o, n, overwrites, a, [=, y = *b](int64_t i) HWY_ATTR { return a[i] * y + c[i]; });
    case 2:
      return fill_vectors(o, n, overwrites, a, [=, z = *c](int64_t i) HWY_ATTR { return a[i] * b[i] + z; });
    default:
      return fill_vectors(o, n, overwrites, a, [=, y = *b, z = *c](int64_t i) HWY_ATTR { return a[i] * y + z; });
  }
}

TileKernel multiply_add_f64_kernel() {
  return multiply_add_f64;
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(plain_kernel);
HWY_EXPORT(clamp_kernel);
HWY_EXPORT(cube_kernel);
HWY_EXPORT(multiply_add_f64_kernel);

TileKernel find_clamp(DType lanes) {
  return HWY_DYNAMIC_DISPATCH(clamp_kernel)(lanes);
}

TileKernel find_multiply_add_f64() {
  return HWY_DYNAMIC_DISPATCH(multiply_add_f64_kernel)();
}

TileKernel find_kernel(ScalarFunction function, DType lanes) {
  TileKernel found = nullptr;
  if (lanes == DType::f32 || lanes == DType::f16 || lanes == DType::bf16) found = find_f32_kernel(function);
  if (lanes == DType::f64) found = find_f64_kernel(function);
  if (lanes == DType::i32 || lanes == DType::u32) found = find_division(function, lanes);
  if (!found) found = HWY_DYNAMIC_DISPATCH(plain_kernel)(function, lanes);
  if (!found) {
    throw Error(ErrorCode::unsupported, "there is no vector loop for the function '" +
                                            std::string(to_string(function)) + "' on " + std::string(to_string(lanes)) +
                                            "; evaluate the operator by reference");
  }
  return found;
}

TileKernel find_kernel(FusedFunction function) {
  if (function == FusedFunction::cube) return HWY_DYNAMIC_DISPATCH(cube_kernel)();
  for (const auto find : {find_fused_conversion, find_half_kernel, find_distance_kernel})
    if (const TileKernel found = find(function)) return found;
  return find_f32_fused(function);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
