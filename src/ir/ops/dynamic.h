// Operators whose parameters are data: axes, pads, sizes, repeats that only running tells.
//
// Each of them names its static form. It reads its parameters, makes that static operator and evaluates it: there is
// one reference of the computation, and only the reading of parameters is here. The importer takes the static form
// whenever the parameters are known. (Reshape and Expand take a shape that is data themselves; Range and
// DynamicSlice are in generate.h and move.h.)
#pragma once

#include "ir/graph.h"
#include "ir/ops/move.h"
#include "ir/ops/reduce.h"
#include "ir/ops/resize.h"

namespace camshaft::ops {

/// (x, axes) -> Reduce. Without axes everything is reduced, or nothing if `noop_with_empty_axes`. `rank` is the
/// result's; only `keep_dims` or that number tells it where the count of axes is not known.
struct DynamicReduce {
  static constexpr std::string_view name = "dynamic_reduce";
  static constexpr Traits traits{.kind = OpKind::reduction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  ReduceKind kind = ReduceKind::sum;
  bool keep_dims = true;
  bool noop_with_empty_axes = false;
  int64_t rank = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("kind", self.kind);
    visit("keep_dims", self.keep_dims);
    visit("noop_with_empty_axes", self.noop_with_empty_axes);
    visit("rank", self.rank);
  }
  bool operator==(const DynamicReduce&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  bool selects() const { return kind == ReduceKind::max || kind == ReduceKind::min; }
};

/// (x, axes) -> x without those axes, which have size 1. The result has `rank` axes.
struct DynamicSqueeze {
  static constexpr std::string_view name = "dynamic_squeeze";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t rank = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("rank", self.rank);
  }
  bool operator==(const DynamicSqueeze&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, axes) -> x with axes of size 1 at those places of the result, which has `rank` axes.
struct DynamicUnsqueeze {
  static constexpr std::string_view name = "dynamic_unsqueeze";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t rank = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("rank", self.rank);
  }
  bool operator==(const DynamicUnsqueeze&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, repeats) -> x repeated along every axis.
struct DynamicTile {
  static constexpr std::string_view name = "dynamic_tile";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const DynamicTile&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, sizes) -> as many parts of `axis` as there are outputs.
struct DynamicSplit {
  static constexpr std::string_view name = "dynamic_split";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t axis = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
  }
  bool operator==(const DynamicSplit&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, pads, value?, axes?) -> Pad. `pads` has all begins, then all ends, of the axes given or of all.
struct DynamicPad {
  static constexpr std::string_view name = "dynamic_pad";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  PadMode mode = PadMode::constant;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("mode", self.mode);
  }
  bool operator==(const DynamicPad&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  bool selects() const { return mode != PadMode::constant; }
};

/// (x, roi?, scales?, sizes?) -> Resize of `resize.axes` (in the order of the inputs' numbers, sorted or not); its
/// sizes, scales and roi are empty. An input without elements counts as left out.
struct DynamicResize {
  static constexpr std::string_view name = "dynamic_resize";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  Resize resize;
  ResizePolicy policy = ResizePolicy::stretch;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    Resize::reflect(self.resize, visit);
    visit("policy", self.policy);
  }
  bool operator==(const DynamicResize&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  bool selects() const { return resize.selects(); }
};

}  // namespace camshaft::ops
