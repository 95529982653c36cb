// Regions: what gets compiled as one kernel.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

enum class RegionKind : uint8_t { pointwise, reduce, contract, attention, move, opaque, chain };

/// A sub-graph (bodies[0]) to run as one step: body input i is input i, body output j is output j. Meaning and shape
/// are the body's. `tactic` is the backend's implementation, empty until chosen.
struct Region {
  static constexpr std::string_view name = "region";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::depends,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  RegionKind kind = RegionKind::opaque;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("kind", self.kind);
  }
  bool operator==(const Region&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  bool picks() const { return kind == RegionKind::move; }
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::RegionKind> {
  static constexpr std::string_view values[] = {"pointwise", "reduce", "contract", "attention",
                                                "move",      "opaque", "chain"};
};
}  // namespace camshaft
