#include "compile/region/peel_epilogue.h"

#include <cmath>

#include "compile/region/linear_forms.h"

namespace camshaft {

namespace {

using Kind = ScalarInstruction::Kind;

const ScalarInstruction& at(const ScalarProgram& program, int32_t i) {
  return program.instructions[static_cast<size_t>(i)];
}

// The one instruction that reads i, and once, if i is not the result; or -1.
int32_t sole_reader(const ScalarProgram& program, int32_t i) {
  int32_t found = -1;
  for (size_t n = 0; n < program.instructions.size(); ++n) {
    const ScalarInstruction& instruction = program.instructions[n];
    if (instruction.kind == Kind::load || instruction.kind == Kind::constant) continue;
    for (const int32_t operand : {instruction.a, instruction.b, instruction.c}) {
      if (operand != i) continue;
      if (found >= 0) return -1;
      found = static_cast<int32_t>(n);
    }
  }
  return program.outputs[0] == i ? -1 : found;
}

// The other operand of a function of two that i's sole reader applies; null where it does not apply that one, in f32.
const ScalarInstruction* beside(const ScalarProgram& program, int32_t reader, int32_t i, ScalarFunction function) {
  if (reader < 0) return nullptr;
  const ScalarInstruction& instruction = at(program, reader);
  if (instruction.kind != Kind::apply || instruction.function != function || instruction.dtype != DType::f32)
    return nullptr;
  return &at(program, instruction.a == i ? instruction.b : instruction.a);
}

// The rest of an epilogue once `done` is what the kernel gives, in `type`.
EpilogueView rest_of(const EpilogueView& view, int32_t done, DType type) {
  const ScalarProgram& program = view.program;
  std::vector<bool> needed(program.instructions.size(), false);
  needed[static_cast<size_t>(program.outputs[0])] = true;
  for (auto i = static_cast<int32_t>(needed.size()); i-- > 0;) {
    const ScalarInstruction& instruction = at(program, i);
    if (!needed[static_cast<size_t>(i)] || i == done || instruction.kind == Kind::load ||
        instruction.kind == Kind::constant)
      continue;
    for (const int32_t operand : {instruction.a, instruction.b, instruction.c})
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
  }
  EpilogueView rest;
  rest.result = view.result;
  rest.norm = view.norm;
  rest.gives_moments = view.gives_moments;
  rest.program.instructions.push_back({.kind = Kind::load, .dtype = type, .a = 0});
  std::vector<int32_t> renumbered(needed.size(), -1), inputs(view.loads.size(), -1);
  renumbered[static_cast<size_t>(done)] = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i] || static_cast<int32_t>(i) == done) continue;
    ScalarInstruction instruction = program.instructions[i];
    if (instruction.kind == Kind::load && instruction.a > 0) {
      const auto load = static_cast<size_t>(instruction.a) - 1;
      if (inputs[load] < 0) {
        rest.loads.push_back(view.loads[load]);
        rest.types.push_back(view.types[load]);
        rest.layouts.push_back(view.layouts[load]);
        rest.constant.push_back(view.constant[load]);
        inputs[load] = static_cast<int32_t>(rest.loads.size());
      }
      instruction.a = inputs[load];
    } else if (instruction.kind == Kind::apply || instruction.kind == Kind::cast) {
      for (int32_t* operand : {&instruction.a, &instruction.b, &instruction.c})
        if (*operand >= 0) *operand = renumbered[static_cast<size_t>(*operand)];
    }
    renumbered[i] = static_cast<int32_t>(rest.program.instructions.size());
    rest.program.instructions.push_back(instruction);
  }
  rest.program.inputs = static_cast<int>(rest.loads.size()) + 1;
  rest.program.outputs = {renumbered[static_cast<size_t>(program.outputs[0])]};
  return rest;
}

class Peeler {
 public:
  Peeler(const EpilogueView& view, const EpilogueTakes& takes)
      : view_(view),
        program_(view.program),
        takes_(takes),
        forms_(linear_forms(view.program, takes.wanted.narrow_types)) {}

  PeeledEpilogue run() const {
    const std::vector<bool> of_sum = made_of(program_, 0);
    PeeledEpilogue best;
    int32_t most = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(forms_.size()); ++i) {
      if (!of_sum[static_cast<size_t>(i)] || !is_alone(program_, of_sum, 0, i)) continue;
      std::optional<PeeledEpilogue> peeled = linear_part(i);
      if (!peeled) continue;
      const int32_t done = behind_linear(i, *peeled);
      if (i > 0 && done <= most) continue;
      most = done;
      best = std::move(*peeled);
    }
    if (program_.outputs[0] != most) best.rest = rest_of(view_, most, at(program_, 0).dtype);
    return best;
  }

 private:
  // alpha · sum + bias + Σ beta · residual, if instruction i is that, and no more than the kernel takes.
  std::optional<PeeledEpilogue> linear_part(int32_t i) const {
    const std::optional<LinearForm>& form = forms_[static_cast<size_t>(i)];
    if (!form || form->constant != 0) return std::nullopt;
    PeeledEpilogue peeled;
    peeled.alpha = form->factors[0];
    if (peeled.alpha == 0 || (peeled.alpha != 1 && !takes_.factors)) return std::nullopt;
    for (size_t k = 1; k < form->factors.size(); ++k) {
      if (!form->reads[k]) continue;
      const double factor = form->factors[k];
      const auto load = static_cast<int32_t>(k) - 1;
      const EpilogueView::Layout layout = view_.layouts[k - 1];
      if (layout == EpilogueView::Layout::columns && takes_.bias && peeled.bias < 0 && factor == 1) {
        peeled.bias = load;
      } else if (layout == EpilogueView::Layout::dense && peeled.residuals.size() < takes_.residuals &&
                 (factor == 1 || (takes_.factors && factor != 0))) {  // of an infinity, 0 times it is not nothing
        peeled.residuals.push_back({load, factor});
      } else {
        return std::nullopt;
      }
    }
    return peeled;
  }

  // What the kernel does with instruction i as the linear part; returns how far that goes.
  int32_t behind_linear(int32_t i, PeeledEpilogue& peeled) const {
    while (takes_.clamp && clamp(i, peeled)) {
    }
    if (const auto match = match_activation(program_, i, takes_.wanted)) {
      peeled.activation = match->function;
      i = match->result;
      add(i, peeled);
    }
    while (takes_.wanted.narrow_types) {  // casts count as nothing
      const int32_t next = sole_reader(program_, i);
      if (next < 0 || at(program_, next).kind != Kind::cast || !forms_real(next)) break;
      i = next;
    }
    return i;
  }

  bool forms_real(int32_t i) const {
    const DType dtype = at(program_, i).dtype;
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  }

  bool clamp(int32_t& i, PeeledEpilogue& peeled) const {
    const int32_t next = sole_reader(program_, i);
    for (const ScalarFunction function : {ScalarFunction::max, ScalarFunction::min}) {
      const ScalarInstruction* other = beside(program_, next, i, function);
      // A NaN is no bound: all becomes NaN.
      if (!other || other->kind != Kind::constant || std::isnan(other->number)) continue;
      const auto bound = static_cast<float>(other->number);
      const bool at_least = function == ScalarFunction::max;
      peeled.lo = at_least ? std::max(peeled.lo, bound) : std::min(peeled.lo, bound);
      peeled.hi = at_least ? std::max(peeled.hi, bound) : std::min(peeled.hi, bound);
      i = next;
      return true;
    }
    return false;
  }

  // A residual behind the activation (x + silu(conv(x))).
  void add(int32_t& i, PeeledEpilogue& peeled) const {
    const int32_t next = sole_reader(program_, i);
    const ScalarInstruction* other = takes_.addend ? beside(program_, next, i, ScalarFunction::add) : nullptr;
    if (!other || other->kind != Kind::load || other->dtype != DType::f32 || other->a == 0) return;
    if (view_.layouts[static_cast<size_t>(other->a) - 1] != EpilogueView::Layout::dense) return;
    peeled.addend = other->a - 1;
    i = next;
  }

  const EpilogueView& view_;
  const ScalarProgram& program_;
  const EpilogueTakes& takes_;
  const std::vector<std::optional<LinearForm>> forms_;
};

}  // namespace

PeeledEpilogue peel_epilogue(const EpilogueView& view, const EpilogueTakes& takes) {
  return Peeler(view, takes).run();
}

std::optional<ScaledSums> peel_scale(const EpilogueView& view) {
  const ScalarProgram& program = view.program;
  const int32_t number = sole_reader(program, 0);
  if (at(program, 0).dtype != DType::i32 || number < 0 || at(program, number).kind != Kind::cast ||
      at(program, number).dtype != DType::f32)
    return std::nullopt;
  const int32_t scaled = sole_reader(program, number);
  const ScalarInstruction* scale = beside(program, scaled, number, ScalarFunction::mul);
  if (!scale) return std::nullopt;
  ScaledSums sums;
  if (scale->kind == Kind::constant) {
    sums.number = static_cast<float>(scale->number);
  } else if (scale->kind == Kind::load && scale->dtype == DType::f32 && scale->a > 0) {
    sums.load = scale->a - 1;
    const EpilogueView::Layout layout = view.layouts[static_cast<size_t>(sums.load)];
    if (layout != EpilogueView::Layout::one && layout != EpilogueView::Layout::columns) return std::nullopt;
  } else {
    return std::nullopt;
  }

  const int32_t rounded = sole_reader(program, scaled);
  if (rounded < 0 || at(program, rounded).kind != Kind::apply || at(program, rounded).dtype != DType::f32 ||
      at(program, rounded).function != ScalarFunction::round) {
    sums.behind = rest_of(view, scaled, DType::f32);
    return sums;
  }
  int32_t step = rounded, next = sole_reader(program, rounded);
  if (const ScalarInstruction* zero = beside(program, next, step, ScalarFunction::add)) {
    constexpr double most = 1024;  // beyond all that 8 bits hold; no zero point is
    if (zero->kind != Kind::constant || std::abs(zero->number) > most || zero->number != std::trunc(zero->number))
      return std::nullopt;
    sums.zero = static_cast<int32_t>(zero->number);
    step = next;
    next = sole_reader(program, step);
  }
  const DType type = next < 0 ? DType::f32 : at(program, next).dtype;
  if (next != program.outputs[0] || at(program, next).kind != Kind::cast || (type != DType::u8 && type != DType::i8))
    return std::nullopt;
  sums.steps = type;
  return sums;
}

}  // namespace camshaft
