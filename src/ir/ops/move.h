// Operators that move elements and compute nothing.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x) -> x with another shape of the same element count. Every dim is an expression: the importer has resolved 0 and
/// -1. With a second input the shape is data: that i64 tensor holds it, and `shape` is what is known of it (a fresh
/// symbol where nothing is); a 0 in it copies the input's size unless `allow_zero`.
struct Reshape {
  static constexpr std::string_view name = "reshape";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::regroups,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  Shape shape;
  bool allow_zero = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("shape", self.shape);
    visit("allow_zero", self.allow_zero);
  }
  bool operator==(const Reshape&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// Output axis i is input axis permutation[i].
struct Transpose {
  static constexpr std::string_view name = "transpose";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::permutes,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::yes,
                                 .strided_operands = 0};
  std::vector<int64_t> permutation;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("permutation", self.permutation);
  }
  bool operator==(const Transpose&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// The same bits read as another dtype of the same width; neither is string. What becomes bool is normalised to 0 or 1.
struct BitCast {
  static constexpr std::string_view name = "bit_cast";
  static constexpr Traits traits{.kind = OpKind::pointwise,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  DType to = DType::f32;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("to", self.to);
  }
  bool operator==(const BitCast&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// Broadcasts to `shape` (NumPy rules, both ways as ONNX's Expand: the result may be larger than `shape`). A second
/// input makes the shape data, as in Reshape.
struct Expand {
  static constexpr std::string_view name = "expand";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::follows,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  Shape shape;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("shape", self.shape);
  }
  bool operator==(const Expand&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Expand> permuted(const std::vector<int64_t>& order) const;
};

/// Any number of tensors, joined along `axis` (not negative).
struct Concat {
  static constexpr std::string_view name = "concat";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::carries,
                                 .layout_operands = all_operands,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::depends,
                                 .strided_operands = 0};
  int64_t axis = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
  }
  bool operator==(const Concat&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Concat> permuted(const std::vector<int64_t>& order) const;
  size_t sliced_operands(const std::vector<size_t>& ranks) const;
};

/// One range per listed axis: start + i·step for i in [0, count), all in range: the importer has resolved negative and
/// clamped bounds into `starts` and `counts`. Steps may be negative.
struct Slice {
  static constexpr std::string_view name = "slice";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::carries,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::yes,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  std::vector<int64_t> axes;
  Shape starts;
  Shape counts;
  std::vector<int64_t> steps;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axes", self.axes);
    visit("starts", self.starts);
    visit("counts", self.counts);
    visit("steps", self.steps);
  }
  bool operator==(const Slice&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Slice> permuted(const std::vector<int64_t>& order) const;
};

/// ONNX's Slice with bounds that are data: inputs x, starts, ends, axes?, steps? (i64 or i32).
struct DynamicSlice {
  static constexpr std::string_view name = "dynamic_slice";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::yes,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const DynamicSlice&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

enum class PadMode : uint8_t { constant, reflect, edge, wrap };

/// Pads every axis: `pads` has all begins, then all ends (negative ones crop). Input 1 (optional, a scalar) is the
/// value of constant mode.
struct Pad {
  static constexpr std::string_view name = "pad";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::carries,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  PadMode mode = PadMode::constant;
  Shape pads;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("mode", self.mode);
    visit("pads", self.pads);
  }
  bool operator==(const Pad&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Pad> permuted(const std::vector<int64_t>& order) const;
  bool selects() const { return mode != PadMode::constant; }
};

/// The value of one of Pad's pads. Throws Error(invalid_argument) beyond 2^60: sums with sizes stay in range.
int64_t pad_amount(const Dim& pad, const SymbolBindings& symbols);

/// (x, indices) -> x with `axis` replaced by the axes of indices; negative indices count from the end.
struct Gather {
  static constexpr std::string_view name = "gather";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::yes,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t axis = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
  }
  bool operator==(const Gather&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// out[i][j][k] = x[index[i][j][k]][j][k] for axis 0, and likewise for others.
struct GatherElements {
  static constexpr std::string_view name = "gather_elements";
  static constexpr Traits traits{.kind = OpKind::move,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::yes,
                                 .selects = Answer::yes,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t axis = 0;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
  }
  bool operator==(const GatherElements&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

enum class ScatterKind : uint8_t { assign, add, mul, max, min };
/// Whether elements of the result are elements of x or of the updates (Traits::selects).
constexpr bool selects(ScatterKind kind) {
  return kind == ScatterKind::assign || kind == ScatterKind::max || kind == ScatterKind::min;
}

/// (x, indices[..., q], updates) -> x with slices replaced or combined, as ONNX's ScatterND.
struct ScatterND {
  static constexpr std::string_view name = "scatter_nd";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::moves,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  ScatterKind kind = ScatterKind::assign;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("kind", self.kind);
  }
  bool operator==(const ScatterND&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  bool selects() const { return ops::selects(kind); }
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::PadMode> {
  static constexpr std::string_view values[] = {"constant", "reflect", "edge", "wrap"};
};
template <>
struct EnumNames<ops::ScatterKind> {
  static constexpr std::string_view values[] = {"assign", "add", "mul", "max", "min"};
};
}  // namespace camshaft
