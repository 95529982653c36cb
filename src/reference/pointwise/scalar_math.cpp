#include "reference/pointwise/scalar_math.h"

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "base/error.h"

namespace camshaft::ops {

namespace {

using F = ScalarFunction;

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
T divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a / b;
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(a));
    return a / b;
  }
}

// With the sign of the dividend.
template <class T>
T remainder_c(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return a % b;
  }
}

// With the sign of the divisor.
template <class T>
T remainder_floor(T a, T b) {
  const T r = remainder_c(a, b);
  if constexpr (std::is_signed_v<T> || std::is_floating_point_v<T>)
    if (r != 0 && (r < 0) != (b < 0)) return r + b;
  return r;
}

template <class T>
T power(T base, T exponent) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(base, exponent);
  } else {
    if constexpr (std::is_signed_v<T>)
      if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    uint64_t result = 1, factor = static_cast<uint64_t>(base);
    for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1, factor *= factor)
      if (e & 1) result *= factor;
    return static_cast<T>(result);
  }
}

template <class T>
T shift_left(T a, T b) {
  return b < 0 || b >= 64 ? 0 : static_cast<T>(static_cast<uint64_t>(a) << b);
}
template <class T>
T shift_right(T a, T b) {
  return b < 0 || b >= 64 ? (a < 0 ? static_cast<T>(-1) : T{0}) : static_cast<T>(a >> b);
}

template <class T>
T smaller(T a, T b) {
  if (a != a) return a;
  return b != b || b < a ? b : a;
}
template <class T>
T larger(T a, T b) {
  if (a != a) return a;
  return b != b || b > a ? b : a;
}

template <class T>
bool apply_common(F function, const T* a, const T* b, const T* c, T* out, int64_t count) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(f(i));
    return true;
  };
  switch (function) {
    case F::neg:
      return each([&](int64_t i) {
        if constexpr (std::is_floating_point_v<T>) return -a[i];
        return T(uint64_t{0} - wrap(a[i]));
      });
    case F::abs:
      return each([&](int64_t i) {
        if constexpr (std::is_floating_point_v<T>) return std::fabs(a[i]);
        return a[i] < 0 ? T(uint64_t{0} - wrap(a[i])) : a[i];
      });
    case F::sign:
      return each([&](int64_t i) { return a[i] > 0 ? T(1) : a[i] < 0 ? T(-1) : a[i]; });  // NaN and -0 stay
    case F::logical_not:
      return each([&](int64_t i) { return a[i] == 0; });
    case F::add:
      return each([&](int64_t i) { return wrap(a[i]) + wrap(b[i]); });
    case F::sub:
      return each([&](int64_t i) { return wrap(a[i]) - wrap(b[i]); });
    case F::mul:
      return each([&](int64_t i) { return wrap(a[i]) * wrap(b[i]); });
    case F::div:
      return each([&](int64_t i) { return divide(a[i], b[i]); });
    case F::mod:
      return each([&](int64_t i) { return remainder_floor(a[i], b[i]); });
    case F::fmod:
      return each([&](int64_t i) { return remainder_c(a[i], b[i]); });
    case F::pow:
      return each([&](int64_t i) { return power(a[i], b[i]); });
    case F::min:
      return each([&](int64_t i) { return smaller(a[i], b[i]); });
    case F::max:
      return each([&](int64_t i) { return larger(a[i], b[i]); });
    case F::equal:
      return each([&](int64_t i) { return a[i] == b[i]; });
    case F::less:
      return each([&](int64_t i) { return a[i] < b[i]; });
    case F::less_or_equal:
      return each([&](int64_t i) { return a[i] <= b[i]; });
    case F::logical_and:
      return each([&](int64_t i) { return a[i] != 0 && b[i] != 0; });
    case F::logical_or:
      return each([&](int64_t i) { return a[i] != 0 || b[i] != 0; });
    case F::logical_xor:
      return each([&](int64_t i) { return (a[i] != 0) != (b[i] != 0); });
    case F::select:
      return each([&](int64_t i) { return a[i] != 0 ? b[i] : c[i]; });
    default:
      return false;
  }
}

bool apply_real(F function, const double* a, double* out, int64_t count) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < count; ++i) out[i] = f(a[i]);
    return true;
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (function) {
    case F::ceil:
      return each([](double x) { return std::ceil(x); });
    case F::floor:
      return each([](double x) { return std::floor(x); });
    case F::round:
      return each([](double x) { return std::nearbyint(x); });  // the default rounding mode is half to even
    case F::sqrt:
      return each([](double x) { return std::sqrt(x); });
    case F::reciprocal:
      return each([](double x) { return 1 / x; });
    case F::exp:
      return each([](double x) { return std::exp(x); });
    case F::log:
      return each([](double x) { return std::log(x); });
    case F::log1p:
      return each([](double x) { return std::log1p(x); });
    case F::sin:
      return each([](double x) { return std::sin(x); });
    case F::cos:
      return each([](double x) { return std::cos(x); });
    case F::tan:
      return each([](double x) { return std::tan(x); });
    case F::asin:
      return each([](double x) { return std::asin(x); });
    case F::acos:
      return each([](double x) { return std::acos(x); });
    case F::atan:
      return each([](double x) { return std::atan(x); });
    case F::sinh:
      return each([](double x) { return std::sinh(x); });
    case F::cosh:
      return each([](double x) { return std::cosh(x); });
    case F::tanh:
      return each([](double x) { return std::tanh(x); });
    case F::asinh:
      return each([](double x) { return std::asinh(x); });
    case F::acosh:
      return each([](double x) { return std::acosh(x); });
    case F::atanh:
      return each([](double x) { return std::atanh(x); });
    case F::erf:
      return each([](double x) { return std::erf(x); });
    case F::sigmoid:
      return each([](double x) { return 1 / (1 + std::exp(-x)); });
    case F::is_nan:
      return each([](double x) { return x != x ? 1.0 : 0.0; });
    case F::is_inf_pos:
      return each([](double x) { return x == infinity ? 1.0 : 0.0; });
    case F::is_inf_neg:
      return each([](double x) { return x == -infinity ? 1.0 : 0.0; });
    default:
      return false;
  }
}

template <class T>
bool apply_bits(F function, const T* a, const T* b, T* out, int64_t count) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(f(i));
    return true;
  };
  switch (function) {
    case F::bitwise_not:
      return each([&](int64_t i) { return ~a[i]; });
    case F::bitwise_and:
      return each([&](int64_t i) { return a[i] & b[i]; });
    case F::bitwise_or:
      return each([&](int64_t i) { return a[i] | b[i]; });
    case F::bitwise_xor:
      return each([&](int64_t i) { return a[i] ^ b[i]; });
    case F::shift_left:
      return each([&](int64_t i) { return shift_left(a[i], b[i]); });
    case F::shift_right:
      return each([&](int64_t i) { return shift_right(a[i], b[i]); });
    default:
      return false;
  }
}

}  // namespace

template <class T>
void apply(ScalarFunction function, const T* a, const T* b, const T* c, T* out, int64_t count) {
  if (apply_common(function, a, b, c, out, count)) return;
  if constexpr (std::is_floating_point_v<T>) {
    if (apply_real(function, a, out, count)) return;
  } else {
    if (apply_bits(function, a, b, out, count)) return;
  }
  throw Error(ErrorCode::internal, "the scalar function '" + std::string(to_string(function)) + "' has no form for " +
                                       (std::is_floating_point_v<T> ? "reals" : "integers"));
}

template void apply(ScalarFunction, const double*, const double*, const double*, double*, int64_t);
template void apply(ScalarFunction, const int64_t*, const int64_t*, const int64_t*, int64_t*, int64_t);
template void apply(ScalarFunction, const uint64_t*, const uint64_t*, const uint64_t*, uint64_t*, int64_t);

}  // namespace camshaft::ops
