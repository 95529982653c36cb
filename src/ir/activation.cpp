#include "ir/activation.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace camshaft {

namespace {

using Core = ActivationFunction::Core;
using F = ScalarFunction;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double root_of_half = 0.70710678118654752;
constexpr double root_of_two_over_pi = 0.79788456080286536;

// By KnownActivation.
constexpr ActivationFunction functions[] = {
    {.core = Core::clamp, .lo = 0},
    {.core = Core::sigmoid},
    {.core = Core::sigmoid, .gated = true},
    {.core = Core::erf, .gated = true, .a = root_of_half, .scale = 0.5, .shift = 0.5},
    // Hendrycks & Gimpel, "Gaussian Error Linear Units", 2016
    {.core = Core::tanh,
     .gated = true,
     .a = root_of_two_over_pi,
     .cubic = 0.044715 * root_of_two_over_pi,
     .scale = 0.5,
     .shift = 0.5},
    {.core = Core::tanh_of_softplus},
};

// One way to write functions that have several: cores of rising arguments, and a sigmoid as such.
ActivationFunction canonical(ActivationFunction f) {
  const bool is_odd = f.core == Core::tanh || f.core == Core::erf;
  if (f.core == Core::tanh && f.cubic == 0) {  // tanh(z) = 2 sigmoid(2 z) - 1
    f.core = Core::sigmoid;
    f.a *= 2;
    f.b *= 2;
    f.shift -= f.scale;
    f.scale *= 2;
  }
  if (f.a < 0 && (is_odd || f.core == Core::sigmoid)) {
    if (f.core == Core::sigmoid) f.shift += f.scale;  // sigmoid(-z) = 1 - sigmoid(z)
    f.scale = -f.scale;
    f.a = -f.a;
    f.b = -f.b;
    f.cubic = -f.cubic;
  }
  return f;
}

// To what is left of numbers that f32 holds after a few steps with them.
bool is_near(double value, double wanted) {
  constexpr double part = 1e-6, least = 1e-2;
  return value == wanted ||
         (std::isfinite(wanted) && std::fabs(value - wanted) <= part * std::max(std::fabs(wanted), least));
}

}  // namespace

ActivationFunction activation_function(KnownActivation activation) {
  return functions[static_cast<size_t>(activation)];
}

std::optional<KnownActivation> known_activation(const ActivationFunction& function) {
  const ActivationFunction f = canonical(function);
  for (size_t i = 0; i < std::size(functions); ++i) {
    const ActivationFunction& known = functions[i];
    if (f.core == known.core && f.gated == known.gated && is_near(f.a, known.a) && is_near(f.b, known.b) &&
        is_near(f.cubic, known.cubic) && is_near(f.lo, known.lo) && is_near(f.hi, known.hi) &&
        is_near(f.scale, known.scale) && is_near(f.shift, known.shift) && is_near(f.offset, known.offset))
      return static_cast<KnownActivation>(i);
  }
  return std::nullopt;
}

FunctionOfX FunctionOfX::identity() {
  FunctionOfX f = number(0);
  f.p_[1] = 1;
  return f;
}

FunctionOfX FunctionOfX::number(double value) {
  FunctionOfX f;
  f.type_ = Type::polynomial;
  f.p_[0] = value;
  return f;
}

bool FunctionOfX::is_exponential(double scale, double shift) const {
  return type_ == Type::exponential && f_.scale == scale && f_.shift == shift;
}

bool FunctionOfX::is_relu_of_x() const {
  return is_plain() && f_.core == Core::clamp && f_.lo == 0 && f_.hi == infinity && p_[0] == 0 && p_[1] == 1;
}

FunctionOfX FunctionOfX::scaled(FunctionOfX f, double factor) {
  if (f.is_polynomial() || f.type_ == Type::magnitude) {
    for (double& c : f.p_) c *= factor;
    return f;
  }
  if (!f.is_activation() && f.type_ != Type::exponential) return {};
  f.f_.scale *= factor;
  f.f_.shift *= factor;
  f.f_.offset *= factor;
  return f;
}

FunctionOfX FunctionOfX::sum(FunctionOfX a, FunctionOfX b) {
  if (a.is_polynomial() && b.is_polynomial()) {
    for (int i = 0; i < 4; ++i) a.p_[i] += b.p_[i];
    return a;
  }
  if (b.is_activation() || b.type_ == Type::exponential) std::swap(a, b);
  // max(x, 0) + log(1 + exp(-|x|)) is log(1 + exp(x)), without its overflow.
  if (b.type_ == Type::softplus_of_magnitude && a.is_relu_of_x() && b.p_[1] == -1)
    return core_of(Core::softplus, identity());
  if ((!a.is_activation() && a.type_ != Type::exponential) || !b.is_linear()) return {};
  if (a.type_ == Type::exponential || !a.f_.gated) {
    if (!b.is_number()) return {};
    a.f_.shift += b.p_[0];
    return a;
  }
  a.f_.shift += b.p_[1];
  a.f_.offset += b.p_[0];
  return a;
}

FunctionOfX FunctionOfX::product(const FunctionOfX& a, const FunctionOfX& b) {
  if (a.is_number()) return scaled(b, a.p_[0]);
  if (b.is_number()) return scaled(a, b.p_[0]);
  if (a.is_polynomial() && b.is_polynomial()) {
    FunctionOfX result = number(0);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const double term = a.p_[i] * b.p_[j];
        if (term == 0) continue;
        if (i + j > 3) return {};
        result.p_[i + j] += term;
      }
    }
    return result;
  }
  const FunctionOfX& gate = a.is_activation() ? a : b;
  const FunctionOfX& x = a.is_activation() ? b : a;
  if (!gate.is_activation() || gate.f_.gated || !x.is_multiple_of_x()) return {};
  FunctionOfX result = scaled(gate, x.p_[1]);
  result.f_.gated = true;
  return result;
}

// Of 1 + exp(z) a sigmoid of -z is made, and of exp(z) over it one of z.
FunctionOfX FunctionOfX::quotient(const FunctionOfX& a, const FunctionOfX& b) {
  if (b.is_number()) return b.p_[0] != 0 ? scaled(a, 1 / b.p_[0]) : FunctionOfX();
  if (!b.is_exponential(1, 1)) return {};
  FunctionOfX z = number(0);
  std::copy_n(b.p_, 4, z.p_);
  if (a.is_exponential(1, 0)) return std::equal(a.p_, a.p_ + 4, b.p_) ? core_of(Core::sigmoid, z) : FunctionOfX();
  return a.is_polynomial() ? product(a, core_of(Core::sigmoid, scaled(z, -1))) : FunctionOfX();
}

FunctionOfX FunctionOfX::power(const FunctionOfX& base, const FunctionOfX& exponent) {
  if (!base.is_polynomial()) return {};
  if (exponent.is_number(2)) return product(base, base);
  if (exponent.is_number(3)) return product(product(base, base), base);
  return {};
}

// max(f, number) if `at_least`, else min(f, number).
FunctionOfX FunctionOfX::clamped(FunctionOfX f, double number, bool at_least) {
  if (f.is_linear() && !f.is_number()) f.type_ = Type::activation;
  const bool is_plain_clamp =
      f.is_activation() && f.f_.core == Core::clamp && !f.f_.gated && f.f_.scale == 1 && f.f_.shift == 0;
  if (!is_plain_clamp || std::isnan(number)) return {};
  f.f_.lo = at_least ? std::max(f.f_.lo, number) : std::min(f.f_.lo, number);
  f.f_.hi = at_least ? std::max(f.f_.hi, number) : std::min(f.f_.hi, number);
  return f;
}

FunctionOfX FunctionOfX::core_of(Core core, FunctionOfX z) {
  if (core == Core::tanh && z.is_plain() && z.f_.core == Core::softplus) {
    z.f_.core = Core::tanh_of_softplus;
    return z;
  }
  const bool cubic = z.is_polynomial() && z.p_[3] != 0;
  if (!z.is_polynomial() || z.is_number() || z.p_[2] != 0 || (cubic && core != Core::tanh)) return {};
  z.type_ = Type::activation;
  z.f_.core = core;
  return z;
}

// log(f + added)
FunctionOfX FunctionOfX::logarithm(FunctionOfX f, double added) {
  if (f.type_ == Type::exponential_of_magnitude && added == 1) {
    f.type_ = Type::softplus_of_magnitude;
    return f;
  }
  if (!f.is_exponential(1, 1 - added)) return {};
  FunctionOfX z = number(0);
  std::copy_n(f.p_, 4, z.p_);
  return core_of(Core::softplus, z);
}

FunctionOfX FunctionOfX::comparison(const FunctionOfX& a, const FunctionOfX& b) {
  FunctionOfX f;
  const bool x_first = a.is_multiple_of_x() && b.is_number(0), x_second = b.is_multiple_of_x() && a.is_number(0);
  if (!x_first && !x_second) return {};
  const double sign = x_first ? a.p_[1] : -b.p_[1];
  f.type_ = sign > 0 ? Type::below_zero : Type::above_zero;
  return f;
}

FunctionOfX FunctionOfX::selection(const FunctionOfX& condition, const FunctionOfX& yes, const FunctionOfX& no) {
  if (!yes.is_multiple_of_x() || !no.is_multiple_of_x()) return {};  // not 0, which infinity times 0 is not
  // At zero both sides are zero; NaN, which is neither below nor above, takes `no`, and that is the slope's hi.
  if (condition.type_ != Type::below_zero && condition.type_ != Type::above_zero) return {};
  FunctionOfX f = number(0);
  f.type_ = Type::activation;
  f.f_.core = Core::slope;
  f.f_.gated = true;
  f.p_[1] = condition.type_ == Type::below_zero ? 1 : -1;
  f.f_.lo = yes.p_[1];
  f.f_.hi = no.p_[1];
  return f;
}

FunctionOfX FunctionOfX::apply(ScalarFunction function, const FunctionOfX& a, const FunctionOfX& b,
                               const FunctionOfX& c) {
  switch (function) {
    case F::neg:
      return scaled(a, -1);
    case F::add:
      return sum(a, b);
    case F::sub:
      return sum(a, scaled(b, -1));
    case F::mul:
      return product(a, b);
    case F::div:
      return quotient(a, b);
    case F::reciprocal:
      return quotient(number(1), a);
    case F::pow:
      return power(a, b);
    case F::max:
    case F::min:
      if (a.is_number()) return clamped(b, a.p_[0], function == F::max);
      return b.is_number() ? clamped(a, b.p_[0], function == F::max) : FunctionOfX();
    case F::abs: {
      if (!a.is_multiple_of_x()) return {};
      FunctionOfX f;
      f.type_ = Type::magnitude;
      f.p_[1] = std::fabs(a.p_[1]);
      return f;
    }
    case F::exp: {
      FunctionOfX f = a;
      f.type_ = a.is_linear() && !a.is_number() ? Type::exponential
                : a.type_ == Type::magnitude    ? Type::exponential_of_magnitude
                                                : Type::unknown;
      return f;
    }
    case F::log:
      return logarithm(a, 0);
    case F::log1p:
      return logarithm(a, 1);
    case F::sigmoid:
      return core_of(Core::sigmoid, a);
    case F::tanh:
      return core_of(Core::tanh, a);
    case F::erf:
      return core_of(Core::erf, a);
    case F::less:
      return comparison(a, b);
    case F::select:
      return selection(a, b, c);
    default:
      return {};
  }
}

std::optional<ActivationFunction> FunctionOfX::activation() const {
  if (!is_activation() && (!is_linear() || is_number())) return std::nullopt;
  ActivationFunction result = f_;
  result.a = p_[1];
  result.b = p_[0];
  result.cubic = p_[3];
  for (const double number : {result.a, result.b, result.cubic, result.scale, result.shift, result.offset})
    if (!(std::fabs(number) < 1e30)) return std::nullopt;
  return result;
}

}  // namespace camshaft
