#include "compile/region/linear_forms.h"

#include <algorithm>

namespace camshaft {

namespace {

using F = ScalarFunction;
using Kind = ScalarInstruction::Kind;

LinearForm combine(const LinearForm& a, double by_a, const LinearForm& b, double by_b) {
  LinearForm made{a.factors, a.reads, a.constant * by_a + b.constant * by_b};
  for (size_t i = 0; i < made.factors.size(); ++i) {
    made.factors[i] = a.factors[i] * by_a + b.factors[i] * by_b;
    made.reads[i] = a.reads[i] || b.reads[i];
  }
  return made;
}

std::optional<LinearForm> applied(F function, const std::optional<LinearForm>& a, const std::optional<LinearForm>& b) {
  if (!a) return std::nullopt;
  if (function == F::neg) return combine(*a, -1, *a, 0);
  if (!b) return std::nullopt;
  switch (function) {
    case F::add:
      return combine(*a, 1, *b, 1);
    case F::sub:
      return combine(*a, 1, *b, -1);
    case F::mul:
      if (a->is_constant()) return combine(*b, a->constant, *a, 0);
      return b->is_constant() ? std::optional(combine(*a, b->constant, *b, 0)) : std::nullopt;
    case F::div:
      return b->is_constant() && b->constant != 0 ? std::optional(combine(*a, 1 / b->constant, *b, 0)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool LinearForm::is_constant() const {
  return std::all_of(factors.begin(), factors.end(), [](double f) { return f == 0; });
}

std::vector<std::optional<LinearForm>> linear_forms(const ScalarProgram& program, bool narrow_types) {
  const auto inputs = static_cast<size_t>(program.inputs);
  const LinearForm zero{std::vector<double>(inputs), std::vector<bool>(inputs), 0};
  std::vector<std::optional<LinearForm>> forms;
  const auto form = [&](int32_t i) { return i < 0 ? std::nullopt : forms[static_cast<size_t>(i)]; };
  for (const ScalarInstruction& i : program.instructions) {
    std::optional<LinearForm>& made = forms.emplace_back();
    const bool is_narrow = i.dtype == DType::f16 || i.dtype == DType::bf16;
    if (i.dtype != DType::f32 && !(is_narrow && narrow_types)) continue;
    switch (i.kind) {
      case Kind::load:
        made = zero;
        made->factors[static_cast<size_t>(i.a)] = 1;
        made->reads[static_cast<size_t>(i.a)] = true;
        break;
      case Kind::constant:
        made = zero;
        made->constant = i.number;
        break;
      case Kind::cast:
        if (narrow_types) made = forms[static_cast<size_t>(i.a)];
        break;
      case Kind::apply:
        made = applied(i.function, form(i.a), form(i.b));
        break;
    }
  }
  return forms;
}

}  // namespace camshaft
