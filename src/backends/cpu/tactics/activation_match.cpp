#include "backends/cpu/tactics/activation_match.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace camshaft::cpu {

namespace {

using Kind = ScalarInstruction::Kind;
constexpr double infinity = std::numeric_limits<double>::infinity();

// What an instruction's value is as a function of x.
struct Form {
  enum class Type : uint8_t {
    unknown,
    polynomial,  // p[0] + p[1] x + p[2] x^2 + p[3] x^3; a number is one of degree 0
    below_zero,  // x < 0 ...
    above_zero,  // ... and x > 0
    activation,
  };
  Type type = Type::unknown;
  double p[4] = {0, 0, 0, 0};  // of the polynomial, or the activation's z
  Activation::Core core = Activation::Core::clamp;
  bool gated = false;
  double lo = -infinity, hi = infinity, scale = 1, shift = 0, offset = 0;

  bool is_polynomial() const { return type == Type::polynomial; }
  bool is_number() const { return is_polynomial() && p[1] == 0 && p[2] == 0 && p[3] == 0; }
  bool is_number(double value) const { return is_number() && p[0] == value; }
  bool is_linear() const { return is_polynomial() && p[2] == 0 && p[3] == 0; }
  bool is_multiple_of_x() const { return is_linear() && p[0] == 0 && p[1] != 0; }
  bool is_activation() const { return type == Type::activation; }
  bool is_plain_clamp() const {
    return is_activation() && core == Activation::Core::clamp && !gated && scale == 1 && shift == 0;
  }

  static Form number(double value) {
    Form f;
    f.type = Type::polynomial;
    f.p[0] = value;
    return f;
  }
};

Form scaled(Form f, double factor) {
  if (f.is_polynomial()) {
    for (double& c : f.p) c *= factor;
    return f;
  }
  if (!f.is_activation()) return {};
  f.scale *= factor;
  f.shift *= factor;
  f.offset *= factor;
  return f;
}

Form sum(Form a, Form b) {
  if (a.is_polynomial() && b.is_polynomial()) {
    for (int i = 0; i < 4; ++i) a.p[i] += b.p[i];
    return a;
  }
  if (b.is_activation()) std::swap(a, b);
  if (!a.is_activation() || !b.is_linear()) return {};
  if (!a.gated) {
    if (!b.is_number()) return {};
    a.shift += b.p[0];
    return a;
  }
  a.shift += b.p[1];
  a.offset += b.p[0];
  return a;
}

Form product(const Form& a, const Form& b) {
  if (a.is_number()) return scaled(b, a.p[0]);
  if (b.is_number()) return scaled(a, b.p[0]);
  if (a.is_polynomial() && b.is_polynomial()) {
    Form result = Form::number(0);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const double term = a.p[i] * b.p[j];
        if (term == 0) continue;
        if (i + j > 3) return {};
        result.p[i + j] += term;
      }
    }
    return result;
  }
  const Form& gate = a.is_activation() ? a : b;
  const Form& x = a.is_activation() ? b : a;
  if (!gate.is_activation() || gate.gated || !x.is_multiple_of_x()) return {};
  Form result = scaled(gate, x.p[1]);
  result.gated = true;
  return result;
}

Form power(const Form& base, const Form& exponent) {
  if (!base.is_polynomial()) return {};
  if (exponent.is_number(2)) return product(base, base);
  if (exponent.is_number(3)) return product(product(base, base), base);
  return {};
}

// max(f, number) if `at_least`, else min(f, number).
Form clamped(Form f, double number, bool at_least) {
  if (f.is_linear() && !f.is_number()) f.type = Form::Type::activation;
  if (!f.is_plain_clamp() || std::isnan(number)) return {};
  f.lo = at_least ? std::max(f.lo, number) : std::min(f.lo, number);
  f.hi = at_least ? std::max(f.hi, number) : std::min(f.hi, number);
  return f;
}

Form function_of(Activation::Core core, Form z) {
  const bool cubic = z.is_polynomial() && z.p[3] != 0;
  if (!z.is_polynomial() || z.is_number() || z.p[2] != 0 || (cubic && core != Activation::Core::tanh)) return {};
  z.type = Form::Type::activation;
  z.core = core;
  return z;
}

Form comparison(const Form& a, const Form& b) {
  Form f;
  const bool x_first = a.is_multiple_of_x() && b.is_number(0), x_second = b.is_multiple_of_x() && a.is_number(0);
  if (!x_first && !x_second) return {};
  const double sign = x_first ? a.p[1] : -b.p[1];
  f.type = sign > 0 ? Form::Type::below_zero : Form::Type::above_zero;
  return f;
}

Form selection(const Form& condition, const Form& yes, const Form& no) {
  if (!yes.is_multiple_of_x() || !no.is_multiple_of_x()) return {};  // not 0, which infinity times 0 is not
  Form f = Form::number(0);
  f.type = Form::Type::activation;
  f.core = Activation::Core::slope;
  f.gated = true;
  f.p[1] = 1;
  if (condition.type == Form::Type::below_zero) {
    f.lo = yes.p[1];
    f.hi = no.p[1];
    return f;
  }
  // At zero both sides are zero; NaN, which is neither below nor above, takes `no`, and that is the slope's hi.
  if (condition.type != Form::Type::above_zero) return {};
  f.p[1] = -1;
  f.lo = yes.p[1];
  f.hi = no.p[1];
  return f;
}

Form apply(ScalarFunction function, const Form& a, const Form& b, const Form& c) {
  using F = ScalarFunction;
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
      return b.is_number() && b.p[0] != 0 ? scaled(a, 1 / b.p[0]) : Form{};
    case F::pow:
      return power(a, b);
    case F::max:
    case F::min:
      if (a.is_number()) return clamped(b, a.p[0], function == F::max);
      return b.is_number() ? clamped(a, b.p[0], function == F::max) : Form{};
    case F::sigmoid:
      return function_of(Activation::Core::sigmoid, a);
    case F::tanh:
      return function_of(Activation::Core::tanh, a);
    case F::erf:
      return function_of(Activation::Core::erf, a);
    case F::less:
      return comparison(a, b);
    case F::select:
      return selection(a, b, c);
    default:
      return {};
  }
}

std::optional<Activation> activation_of(Form f) {
  if (f.is_linear() && !f.is_number()) f.type = Form::Type::activation;
  if (!f.is_activation()) return std::nullopt;
  for (const double number : {f.p[0], f.p[1], f.p[3], f.scale, f.shift, f.offset})
    if (!(std::fabs(number) < 1e30)) return std::nullopt;
  Activation result;
  result.core = f.p[3] != 0 ? Activation::Core::tanh_cubic : f.core;
  result.gated = f.gated;
  result.a = static_cast<float>(f.p[1]);
  result.b = static_cast<float>(f.p[0]);
  result.cubic = static_cast<float>(f.p[3]);
  result.lo = static_cast<float>(f.lo);
  result.hi = static_cast<float>(f.hi);
  result.scale = static_cast<float>(f.scale);
  result.shift = static_cast<float>(f.shift);
  result.offset = static_cast<float>(f.offset);
  return result;
}

}  // namespace

std::optional<ActivationMatch> match_activation(const ScalarProgram& program, int32_t x,
                                                const std::function<std::optional<float>(int32_t)>& number_of) {
  const auto size = static_cast<int32_t>(program.instructions.size());
  std::vector<Form> forms(program.instructions.size());
  std::vector<bool> of_x(program.instructions.size(), false);
  const auto at = [&](int32_t i) { return static_cast<size_t>(i); };
  for (int32_t i = 0; i < size; ++i) {
    const ScalarInstruction& instruction = program.instructions[at(i)];
    if (i == x) {
      forms[at(i)] = Form::number(0);
      forms[at(i)].p[1] = 1;
      of_x[at(i)] = true;
    } else if (instruction.kind == Kind::constant && instruction.dtype == DType::f32) {
      forms[at(i)] = Form::number(instruction.number);
    } else if (instruction.kind == Kind::load && instruction.dtype == DType::f32) {
      if (const auto number = number_of(instruction.a)) forms[at(i)] = Form::number(*number);
    } else if (instruction.kind == Kind::apply) {
      Form operands[3];
      bool f32 = instruction.dtype == DType::f32 || instruction.dtype == DType::boolean;
      const int32_t ids[3] = {instruction.a, instruction.b, instruction.c};
      for (int k = 0; k < 3; ++k) {
        if (ids[k] < 0) continue;
        operands[k] = forms[at(ids[k])];
        of_x[at(i)] = of_x[at(i)] || of_x[at(ids[k])];
        f32 = f32 && operands[k].type != Form::Type::unknown;
      }
      if (f32) forms[at(i)] = apply(instruction.function, operands[0], operands[1], operands[2]);
    }
  }

  // The last instruction that is an activation, and that alone hands x on.
  for (int32_t result = size - 1; result > x; --result) {
    if (!of_x[at(result)] || program.instructions[at(result)].dtype != DType::f32) continue;
    const std::optional<Activation> activation = activation_of(forms[at(result)]);
    if (!activation) continue;
    std::vector<bool> inside(program.instructions.size(), false);
    inside[at(result)] = true;
    for (int32_t i = result; i >= 0; --i) {
      const ScalarInstruction& instruction = program.instructions[at(i)];
      if (!inside[at(i)] || i == x || instruction.kind == Kind::load || instruction.kind == Kind::constant) continue;
      for (const int32_t operand : {instruction.a, instruction.b, instruction.c})
        if (operand >= 0 && of_x[at(operand)]) inside[at(operand)] = true;
    }
    bool alone = true;
    for (int32_t i = 0; i < size && alone; ++i) {
      const ScalarInstruction& instruction = program.instructions[at(i)];
      if (inside[at(i)] || instruction.kind == Kind::load || instruction.kind == Kind::constant) continue;
      for (const int32_t operand : {instruction.a, instruction.b, instruction.c})
        if (operand >= 0 && operand != result && inside[at(operand)]) alone = false;
    }
    for (const int32_t output : program.outputs)
      if (output != result && inside[at(output)]) alone = false;
    if (alone) return ActivationMatch{*activation, result};
  }
  return std::nullopt;
}

}  // namespace camshaft::cpu
