// Several moves as one: where each element of the result lies in the operand, axis by axis.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x, value?) -> result[i0, i1, …] = x[j0, j1, …], where j of axis d of x is starts[d] + Σ steps[a] · i_a over the
/// axes `a` of the result that go along it (along[a] = d). An axis that goes along none (-1) repeats. An index beyond
/// its axis gives `value`, a scalar (0 without one), or is taken modulo the axis' size where it `wraps`.
///
/// Transposes, slices, paddings, expansions, rolls, and gathers of evenly spaced indices (windows: two axes along the
/// same one) are such maps, and most of their chains are one.
struct IndexMap {
  static constexpr std::string_view name = "index_map";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::yes,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  Shape shape;  ///< of the result
  std::vector<int64_t> along;
  std::vector<int64_t> steps;
  Shape starts;
  bool wraps = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("shape", self.shape);
    visit("along", self.along);
    visit("steps", self.steps);
    visit("starts", self.starts);
    visit("wraps", self.wraps);
  }
  bool operator==(const IndexMap&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  bool selects() const { return wraps; }
};

/// An index map of known sizes, whose every index is a number of at most 2^61.
struct BoundIndexMap {
  struct Axis {
    int64_t size = 1, along = -1, step = 0;
  };
  struct Source {
    int64_t start = 0, length = 1;
    bool leaves = false;  ///< some of its indices are beyond the axis
  };
  std::vector<Axis> axes;       ///< of the result
  std::vector<Source> sources;  ///< axes of x; nothing is said of them where the result is empty
  bool is_empty = false, wraps = false;
};

/// Throws Error(invalid_argument) for indices that are no numbers, or that wrap along an axis of no elements.
BoundIndexMap bind_index_map(const IndexMap& op, const Dims& x, const Dims& result, const SymbolBindings& symbols);

}  // namespace camshaft::ops
