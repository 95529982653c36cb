// Activations: the functions of one element that models have behind contractions, described once for all who recognise
// them, whatever exporters spell them with. (Passes recognise them in graphs and backends in scalar programs; both may
// include this folder.)
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "ir/ops/scalar_function.h"

namespace camshaft {

/// y = (scale · core(z) + shift) · (gated ? x : 1) + offset, with z = a · x + b + cubic · x³.
///
/// Hard-swish is a gated clamp, hard-sigmoid a plain one, SiLU a gated sigmoid, GELU a gated erf or, in its other form,
/// a gated tanh with a cubic, leaky ReLU a gated slope.
struct ActivationFunction {
  enum class Core : uint8_t {
    clamp,  ///< z clamped to [lo, hi]; NaN stays NaN
    sigmoid,
    tanh,
    erf,
    slope,             ///< lo where z < 0, else hi
    softplus,          ///< log(1 + exp(z))
    tanh_of_softplus,  ///< Mish is that, gated
  };
  Core core = Core::clamp;
  bool gated = false;
  double a = 1, b = 0, cubic = 0;
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
  double scale = 1, shift = 0, offset = 0;

  bool operator==(const ActivationFunction&) const = default;
};

/// Those that operators, kernels and libraries have without parameters.
enum class KnownActivation : uint8_t { relu, sigmoid, silu, gelu, gelu_by_tanh, tanh_of_softplus };

ActivationFunction activation_function(KnownActivation activation);
/// Which one it is, to six digits of each parameter; nullopt: another.
std::optional<KnownActivation> known_activation(const ActivationFunction& function);

/// What a value is as a function of another one, x, as far as activations are made of it.
class FunctionOfX {
 public:
  FunctionOfX() = default;  ///< an unknown one
  static FunctionOfX identity();
  static FunctionOfX number(double value);
  /// What a function of such values is; operands that it does not take are ignored. Numbers are folded in double
  /// precision.
  static FunctionOfX apply(ScalarFunction function, const FunctionOfX& a, const FunctionOfX& b, const FunctionOfX& c);

  bool is_known() const { return type_ != Type::unknown; }
  /// Itself as an activation; nullopt for what is none, such as a number.
  std::optional<ActivationFunction> activation() const;

 private:
  enum class Type : uint8_t {
    unknown,
    polynomial,                // p[0] + p[1] x + p[2] x² + p[3] x³; a number is one of degree 0
    below_zero,                // x < 0 …
    above_zero,                // … and x > 0
    magnitude,                 // p[1] |x|
    exponential,               // scale exp(p) + shift
    exponential_of_magnitude,  // exp(p[1] |x|)
    softplus_of_magnitude,     // log(1 + exp(p[1] |x|))
    activation,                // with p as its z
  };
  bool is_polynomial() const { return type_ == Type::polynomial; }
  bool is_number() const { return is_polynomial() && p_[1] == 0 && p_[2] == 0 && p_[3] == 0; }
  bool is_number(double value) const { return is_number() && p_[0] == value; }
  bool is_linear() const { return is_polynomial() && p_[2] == 0 && p_[3] == 0; }
  bool is_multiple_of_x() const { return is_linear() && p_[0] == 0 && p_[1] != 0; }
  bool is_activation() const { return type_ == Type::activation; }
  bool is_plain() const { return is_activation() && !f_.gated && f_.scale == 1 && f_.shift == 0 && f_.offset == 0; }
  bool is_exponential(double scale, double shift) const;
  bool is_relu_of_x() const;

  static FunctionOfX scaled(FunctionOfX f, double factor);
  static FunctionOfX sum(FunctionOfX a, FunctionOfX b);
  static FunctionOfX product(const FunctionOfX& a, const FunctionOfX& b);
  static FunctionOfX quotient(const FunctionOfX& a, const FunctionOfX& b);
  static FunctionOfX power(const FunctionOfX& base, const FunctionOfX& exponent);
  static FunctionOfX clamped(FunctionOfX f, double number, bool at_least);
  static FunctionOfX core_of(ActivationFunction::Core core, FunctionOfX z);
  static FunctionOfX logarithm(FunctionOfX f, double added);
  static FunctionOfX comparison(const FunctionOfX& a, const FunctionOfX& b);
  static FunctionOfX selection(const FunctionOfX& condition, const FunctionOfX& yes, const FunctionOfX& no);

  Type type_ = Type::unknown;
  double p_[4] = {0, 0, 0, 0};  // of the polynomial; of an activation, its z
  ActivationFunction f_;        // of an activation but for z; of an exponential, scale and shift
};

}  // namespace camshaft
