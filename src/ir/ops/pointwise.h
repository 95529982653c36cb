// Elementwise operators with NumPy broadcasting.
#pragma once

#include "base/float_types.h"
#include "ir/graph.h"
#include "ir/ops/scalar_function.h"

namespace camshaft {
template <>
struct EnumNames<PowerRounding> {
  static constexpr std::string_view values[] = {"up", "down", "nearest"};
};
}  // namespace camshaft

namespace camshaft::ops {

/// function(x0[, x1[, x2]]): any ScalarFunction. All operands have one dtype, except select's condition (bool).
struct Pointwise {
  static constexpr std::string_view name = "pointwise";
  static constexpr Traits traits{.kind = OpKind::pointwise,
                                 .layout = Layout::carries,
                                 .layout_operands = all_operands,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::yes,
                                 .strided_operands = 0};
  ScalarFunction function = ScalarFunction::add;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("function", self.function);
  }
  bool operator==(const Pointwise&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Pointwise> permuted(const std::vector<int64_t>& /*order*/) const { return *this; }
  bool selects() const {
    return function == ScalarFunction::min || function == ScalarFunction::max || function == ScalarFunction::select;
  }
};

/// Converts to another dtype as ONNX's Cast: floats truncate to integers, `saturate` is for f8, `rounding` for f8e8m0.
struct Cast {
  static constexpr std::string_view name = "cast";
  static constexpr Traits traits{.kind = OpKind::pointwise,
                                 .layout = Layout::carries,
                                 .layout_operands = all_operands,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  DType to = DType::f32;
  bool saturate = true;
  PowerRounding rounding = PowerRounding::up;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("to", self.to);
    visit("saturate", self.saturate);
    visit("rounding", self.rounding);
  }
  bool operator==(const Cast&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Cast> permuted(const std::vector<int64_t>& /*order*/) const { return *this; }
};

}  // namespace camshaft::ops
