#include "backends/cuda/tactics/linear_epilogue.h"

#include <algorithm>
#include <cmath>

namespace camshaft::cuda {

namespace {

using Kind = ScalarInstruction::Kind;

/// factors[0] · sum + Σ factors[i] · input i + constant
struct Linear {
  std::vector<double> factors;
  double constant = 0;

  bool is_constant() const {
    return std::all_of(factors.begin(), factors.end(), [](double f) { return f == 0; });
  }
};

bool is_real(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

Linear combine(const Linear& a, double by_a, const Linear& b, double by_b) {
  Linear made{a.factors, a.constant * by_a + b.constant * by_b};
  for (size_t i = 0; i < made.factors.size(); ++i) made.factors[i] = a.factors[i] * by_a + b.factors[i] * by_b;
  return made;
}

/// What each instruction is as a linear form; nullopt where it is none.
std::vector<std::optional<Linear>> linear_forms(const ScalarProgram& program) {
  const std::vector<double> zeros(static_cast<size_t>(program.inputs));
  std::vector<std::optional<Linear>> forms;
  const auto form = [&](int32_t i) -> const std::optional<Linear>& { return forms[static_cast<size_t>(i)]; };
  for (const ScalarInstruction& i : program.instructions) {
    std::optional<Linear> made;
    if (!is_real(i.dtype)) {
      forms.push_back(made);
      continue;
    }
    switch (i.kind) {
      case Kind::load:
        made = Linear{zeros};
        made->factors[static_cast<size_t>(i.a)] = 1;
        break;
      case Kind::constant:
        made = Linear{zeros, i.number};
        break;
      case Kind::cast:
        made = form(i.a);
        break;
      case Kind::apply: {
        if (!form(i.a)) break;
        if (i.function == ScalarFunction::neg) made = combine(*form(i.a), -1, *form(i.a), 0);
        if (i.b < 0 || !form(i.b)) break;
        const Linear a = *form(i.a), b = *form(i.b);
        if (i.function == ScalarFunction::add) made = combine(a, 1, b, 1);
        if (i.function == ScalarFunction::sub) made = combine(a, 1, b, -1);
        if (i.function == ScalarFunction::mul && b.is_constant()) made = combine(a, b.constant, b, 0);
        if (i.function == ScalarFunction::mul && a.is_constant()) made = combine(b, a.constant, a, 0);
        if (i.function == ScalarFunction::div && b.is_constant() && b.constant != 0)
          made = combine(a, 1 / b.constant, b, 0);
        break;
      }
    }
    forms.push_back(std::move(made));
  }
  return forms;
}

using F = ScalarFunction;
constexpr F known_functions[] = {F::neg, F::add, F::sub,  F::mul, F::div,    F::reciprocal,
                                 F::pow, F::exp, F::tanh, F::erf, F::sigmoid};

double apply(F function, double a, double b) {
  switch (function) {
    case F::neg:
      return -a;
    case F::add:
      return a + b;
    case F::sub:
      return a - b;
    case F::mul:
      return a * b;
    case F::div:
      return a / b;
    case F::reciprocal:
      return 1 / a;
    case F::pow:
      return std::pow(a, b);
    case F::exp:
      return std::exp(a);
    case F::tanh:
      return std::tanh(a);
    case F::erf:
      return std::erf(a);
    default:
      return 1 / (1 + std::exp(-a));
  }
}

/// The values of instructions `core`, which is x, to `at`. Only of smooth functions, those that activations are spelled
/// with: between these, agreement at many points is identity. False when it needs others, or more than x and constants.
bool evaluate_from(const ScalarProgram& program, int32_t core, int32_t at, double x, std::vector<double>& values) {
  values.assign(program.instructions.size(), 0);
  std::vector<bool> is_known(values.size());
  for (int32_t j = 0; j <= at; ++j) {
    const auto here = static_cast<size_t>(j);
    const ScalarInstruction& i = program.instructions[here];
    const auto has = [&](int32_t operand) { return operand < 0 || is_known[static_cast<size_t>(operand)]; };
    const auto value = [&](int32_t operand) { return operand < 0 ? 0 : values[static_cast<size_t>(operand)]; };
    is_known[here] = j == core || (is_real(i.dtype) && i.kind == Kind::constant);
    if (j == core) {
      values[here] = x;
    } else if (i.kind == Kind::constant) {
      values[here] = i.number;
    } else if (i.kind != Kind::load && is_real(i.dtype) && has(i.a) && has(i.b) && i.c < 0) {
      is_known[here] = i.kind == Kind::cast || std::find(std::begin(known_functions), std::end(known_functions),
                                                         i.function) != std::end(known_functions);
      values[here] = i.kind == Kind::cast ? value(i.a) : apply(i.function, value(i.a), value(i.b));
    }
  }
  return is_known[static_cast<size_t>(at)];
}

using Activation = LinearEpilogue::Activation;

double activate(Activation activation, double x) {
  constexpr double root = 0.7978845608028654;  // √(2/π)
  switch (activation) {
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case Activation::gelu_by_tanh:  // Hendrycks & Gimpel, "Gaussian Error Linear Units", 2016
      return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    default:
      return 1 / (1 + std::exp(-x));
  }
}

/// Whether instruction `at` is that function of `core`.
bool is_activation(const ScalarProgram& program, int32_t core, int32_t at, Activation activation) {
  std::vector<double> values;
  for (double x = -8; x <= 8; x += 1.0 / 16) {
    if (!evaluate_from(program, core, at, x, values)) return false;
    const double off = std::fabs(values[static_cast<size_t>(at)] - activate(activation, x));
    if (!(off <= 1e-6 * std::max(1.0, std::fabs(x)))) return false;
  }
  return true;
}

}  // namespace

std::optional<LinearEpilogue> linear_epilogue(const EpilogueView& view) {
  if (view.norm || view.gives_moments) return std::nullopt;
  const ScalarProgram& program = view.program;
  const auto forms = linear_forms(program);
  const auto instruction = [&](int32_t at) -> const ScalarInstruction& {
    return program.instructions[static_cast<size_t>(at)];
  };
  const auto form = [&](int32_t at) -> const std::optional<Linear>& { return forms[static_cast<size_t>(at)]; };
  int32_t at = program.outputs.at(0);
  while (instruction(at).kind == Kind::cast && is_real(instruction(at).dtype)) at = instruction(at).a;

  LinearEpilogue made;
  int32_t core = at;
  const ScalarInstruction& last = instruction(at);
  if (!form(at) && last.kind == Kind::apply && last.function == ScalarFunction::max) {
    const auto is_zero = [&](int32_t i) { return form(i) && form(i)->is_constant() && form(i)->constant == 0; };
    if (!is_zero(last.a) && !is_zero(last.b)) return std::nullopt;
    core = is_zero(last.b) ? last.a : last.b;
    made.activation = Activation::relu;
  } else if (!form(at)) {
    constexpr Activation smooth[] = {Activation::gelu, Activation::gelu_by_tanh, Activation::silu, Activation::sigmoid};
    for (core = 0; core < at && made.activation == Activation::none; ++core) {
      if (!form(core) || form(core)->is_constant()) continue;
      for (const Activation one : smooth)
        if (is_activation(program, core, at, one)) made.activation = one;
    }
    if (made.activation == Activation::none) return std::nullopt;
    --core;
  }
  if (!form(core)) return std::nullopt;

  const Linear& linear = *form(core);
  made.alpha = linear.factors[0];
  if (made.alpha == 0 || linear.constant != 0) return std::nullopt;
  for (size_t i = 1; i < linear.factors.size(); ++i) {
    const double factor = linear.factors[i];
    if (factor == 0) return std::nullopt;  // of an infinity, 0 times it is not nothing
    const auto load = static_cast<int32_t>(i) - 1;
    if (!is_real(view.types[i - 1])) return std::nullopt;
    switch (view.layouts[i - 1]) {
      case EpilogueView::Layout::columns:
        if (made.bias >= 0 || factor != 1) return std::nullopt;
        made.bias = load;
        break;
      case EpilogueView::Layout::dense:
        if (made.residual >= 0) return std::nullopt;
        made.residual = load;
        made.beta = factor;
        break;
      default:
        return std::nullopt;
    }
  }
  return made;
}

}  // namespace camshaft::cuda
