#include "compile/region/peel_scale.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compile/region/epilogue_parts.h"
#include "ir/ops/quantize.h"

namespace camshaft {

namespace {

using F = ScalarFunction;
using Kind = ScalarInstruction::Kind;

// What an instruction is, as far as it is of the form of StepsOfSum.
struct Form {
  enum State : uint8_t {
    none,
    bytes,    // of the addend
    real,     // clamp(own · q + other · addend + shift, lo, hi), a number alone without the first two
    rounded,  // that, rounded, and zero added
    steps,    // that, as 8 bits
  };
  State state = none;
  bool is_of_steps = false;  // q is rounded
  double own = 0, other = 0, shift = 0, lo = -INFINITY, hi = INFINITY;
  int32_t addend = -1;
  double zero = 0;

  bool is_number() const { return state == real && own == 0 && other == 0; }
  bool is_bounded() const { return lo != -INFINITY || hi != INFINITY; }
};

class StepsMatcher {
 public:
  StepsMatcher(const EpilogueView& view, int32_t scaled) : view_(view), forms_(view.program.instructions.size()) {
    forms_[static_cast<size_t>(scaled)] = {.state = Form::real, .own = 1};
    for (size_t i = 0; i < forms_.size(); ++i)
      if (static_cast<int32_t>(i) != scaled) forms_[i] = form_of(view.program.instructions[i]);
  }

  std::optional<StepsOfSum> result() const {
    const auto last = static_cast<size_t>(view_.program.outputs[0]);
    const Form& f = forms_[last];
    // A zero point is one of 8 bits; what is not one could be anything.
    if (f.state != Form::steps || !is_zero_point(f) || f.own == 0) return std::nullopt;
    for (const double number : {f.own, f.other, f.shift, f.zero})
      if (!std::isfinite(static_cast<float>(number))) return std::nullopt;
    StepsOfSum found = own_;
    found.type = view_.program.instructions[last].dtype;
    found.zero = static_cast<int32_t>(f.zero);
    found.rounds = f.is_of_steps;
    if (!f.is_of_steps) found = {.type = found.type, .zero = found.zero};
    found.own = static_cast<float>(f.own), found.shift = static_cast<float>(f.shift);
    found.addend = f.addend, found.other = static_cast<float>(f.other);
    found.lo = static_cast<float>(f.lo), found.hi = static_cast<float>(f.hi);
    return found;
  }

 private:
  const Form& at(int32_t i) const { return forms_[static_cast<size_t>(i)]; }
  static bool is_zero_point(const Form& f) {
    constexpr double most = 255;
    return f.zero == std::trunc(f.zero) && std::abs(f.zero) <= most;
  }

  Form form_of(const ScalarInstruction& i) {
    switch (i.kind) {
      case Kind::load: {
        const auto load = static_cast<size_t>(i.a) - 1;
        const bool is_addend = i.a > 0 && is_byte(i.dtype) && view_.layouts[load] == EpilogueView::Layout::dense;
        return is_addend ? Form{.state = Form::bytes, .addend = i.a - 1} : Form{};
      }
      case Kind::constant:
        return i.dtype == DType::f32 && std::isfinite(i.number) ? Form{.state = Form::real, .shift = i.number} : Form{};
      case Kind::cast:
        return cast(at(i.a), i.dtype, view_.program.instructions[static_cast<size_t>(i.a)].dtype);
      case Kind::apply:
        return i.dtype == DType::f32 ? apply(i) : Form{};
    }
    return {};
  }

  Form cast(const Form& f, DType to, DType from) {
    if (f.state == Form::rounded && is_byte(to)) {
      Form steps = f;
      steps.state = Form::steps;
      return steps;
    }
    if (to != DType::f32) return {};
    if (f.state == Form::bytes) return {.state = Form::real, .other = 1, .addend = f.addend};
    if (f.state != Form::steps || f.is_of_steps || f.own != 1 || f.other != 0 || f.shift != 0 || !is_zero_point(f))
      return {};
    // The product's own steps, which are moved by their zero point again.
    const ops::StepRange range = ops::step_range(from);
    own_.own_lo = static_cast<float>(std::max(f.lo, range.lowest - f.zero));
    own_.own_hi = static_cast<float>(std::min(f.hi, range.highest - f.zero));
    own_.own_nan = static_cast<float>(-f.zero);
    return {.state = Form::real, .is_of_steps = true, .own = 1, .shift = f.zero};
  }

  Form apply(const ScalarInstruction& i) const {
    const Form& a = at(i.a);
    if (i.function == F::round && a.state == Form::real) {
      Form rounded = a;
      rounded.state = Form::rounded;
      return rounded;
    }
    if (i.b < 0 || i.c >= 0) return {};
    const Form& b = at(i.b);
    switch (i.function) {
      case F::add:
        return sum(a, b, 1);
      case F::sub:
        return sum(a, b, -1);
      case F::mul:
        return a.is_number() ? scaled(b, a.shift) : b.is_number() ? scaled(a, b.shift) : Form{};
      case F::div:
        return b.is_number() && b.shift != 0 ? scaled(a, 1 / b.shift) : Form{};
      case F::max:
      case F::min:
        return a.is_number()   ? bounded(b, i.function, a.shift)
               : b.is_number() ? bounded(a, i.function, b.shift)
                               : Form{};
      default:
        return {};
    }
  }

  static Form sum(const Form& a, const Form& b, double sign) {
    if (a.state == Form::rounded && b.is_number()) {
      Form moved = a;
      moved.zero += sign * b.shift;
      return moved;
    }
    if (a.is_number() && b.state == Form::rounded && sign > 0) return sum(b, a, sign);
    if (a.state != Form::real || b.state != Form::real) return {};
    if (a.is_bounded() || b.is_bounded()) {
      if (b.is_bounded() && (!a.is_number() || sign < 0)) return {};
      if (a.is_bounded() && !b.is_number()) return {};
      Form moved = a.is_bounded() ? a : b;
      const double by = a.is_bounded() ? sign * b.shift : a.shift;
      moved.shift += by, moved.lo += by, moved.hi += by;
      return moved;
    }
    if (a.own != 0 && b.own != 0 && a.is_of_steps != b.is_of_steps) return {};
    if (a.addend >= 0 && b.addend >= 0 && a.addend != b.addend) return {};
    return {.state = Form::real,
            .is_of_steps = a.is_of_steps || b.is_of_steps,
            .own = a.own + sign * b.own,
            .other = a.other + sign * b.other,
            .shift = a.shift + sign * b.shift,
            .addend = std::max(a.addend, b.addend)};
  }

  static Form scaled(const Form& f, double factor) {
    if (f.state != Form::real || (f.is_bounded() && !(factor > 0))) return {};
    Form result = f;
    result.own *= factor, result.other *= factor, result.shift *= factor;
    if (f.is_bounded()) result.lo *= factor, result.hi *= factor;
    return result;
  }

  static Form bounded(const Form& f, F function, double bound) {
    if (f.state != Form::real) return {};
    Form result = f;
    const bool at_least = function == F::max;
    result.lo = at_least ? std::max(f.lo, bound) : std::min(f.lo, bound);
    result.hi = at_least ? std::max(f.hi, bound) : std::min(f.hi, bound);
    return result;
  }

  const EpilogueView& view_;
  std::vector<Form> forms_;
  StepsOfSum own_;  // with the bounds of the product's own steps
};

}  // namespace

std::vector<StepsOfReal> peel_steps(const EpilogueView& view) {
  const ScalarProgram& program = view.program;
  const int32_t last = program.outputs[0];
  std::vector<StepsOfReal> all;
  if (!is_byte(instruction_at(program, last).dtype)) return all;
  for (int32_t i = 1; i < last; ++i) {
    const ScalarInstruction& real = instruction_at(program, i);
    if (real.kind != Kind::apply || real.dtype != DType::f32) continue;
    const std::optional<StepsOfSum> steps = StepsMatcher(view, i).result();
    if (!steps || steps->rounds || steps->addend >= 0) continue;
    StepsOfReal found{view, *steps};
    found.real.program.instructions.resize(static_cast<size_t>(i) + 1);
    found.real.program.outputs = {i};
    found.real.result = DType::f32;
    all.push_back(std::move(found));
  }
  return all;
}

std::optional<ScaledSums> peel_scale(const EpilogueView& view) {
  const ScalarProgram& program = view.program;
  const int32_t number = sole_reader(program, 0);
  if (instruction_at(program, 0).dtype != DType::i32 || number < 0 ||
      instruction_at(program, number).kind != Kind::cast || instruction_at(program, number).dtype != DType::f32)
    return std::nullopt;
  const int32_t scaled = sole_reader(program, number);
  const ScalarInstruction* scale = beside(program, scaled, number, F::mul);
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
  sums.steps = StepsMatcher(view, scaled).result();
  if (!sums.steps) sums.behind = rest_of(view, scaled, DType::f32);
  return sums;
}

}  // namespace camshaft
