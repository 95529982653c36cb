#include "compile/region/peel_epilogue.h"

#include <cmath>

#include "compile/region/epilogue_parts.h"
#include "compile/region/linear_forms.h"

namespace camshaft {

namespace {

using Kind = ScalarInstruction::Kind;

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
    if (program_.outputs[0] != most) best.rest = rest_of(view_, most, instruction_at(program_, 0).dtype);
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
      if (next < 0 || instruction_at(program_, next).kind != Kind::cast || !forms_real(next)) break;
      i = next;
    }
    return i;
  }

  bool forms_real(int32_t i) const {
    const DType dtype = instruction_at(program_, i).dtype;
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

}  // namespace camshaft
