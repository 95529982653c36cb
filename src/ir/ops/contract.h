// Contractions: matrix multiplication and convolution.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// What a product may round its operands of f32 to, or to anything between that and f32: TF32 has 11 significant bits,
/// bf16 has 8, both have f32's range. See optimize/precision/allow_rounding.h.
enum class Rounding : uint8_t { none, tf32, bf16 };

/// Whether a product of `rounding` takes a first operand of this type beside a second one of f32: bf16, where it would
/// round f32 to that. The result is f32, as of two operands of f32.
constexpr bool takes_rounded(Rounding rounding, DType first, DType second) {
  return rounding == Rounding::bf16 && first == DType::bf16 && second == DType::f32;
}

/// (a[..., m, k], b[..., k, n]) -> [..., m, n] with broadcast leading axes; transpose_* swaps the last two axes of an
/// operand as stored. 1-D operands are not taken (the importer reshapes).
struct MatMul {
  static constexpr std::string_view name = "matmul";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::floats,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::depends,
                                 .strided_operands = 0};
  bool transpose_a = false;
  bool transpose_b = false;
  Rounding rounding = Rounding::none;  ///< that its operands allow
  bool batch_invariant = false;        ///< a row has the same bits, whatever rows are beside it and however many
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
    visit("rounding", self.rounding);
    visit("batch_invariant", self.batch_invariant);
  }
  bool operator==(const MatMul&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
  size_t sliced_operands(const std::vector<size_t>& ranks) const { return !transpose_a && ranks[1] == 2 ? 1 : 0; }
};

/// (x, weights[out, in/groups, kernel...], bias[out]?) -> y. x is [n, c, spatial...], or [n, spatial..., c] when
/// channels_last (the weights stay [out, in/groups, kernel...]). `pads` has the begins of every spatial axis, then the
/// ends; they are explicit (the importer resolves auto_pad into dims).
struct Conv {
  static constexpr std::string_view name = "conv";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::image,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::floats,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::depends,
                                 .strided_operands = 0};
  std::vector<int64_t> strides;
  Shape pads;
  std::vector<int64_t> dilations;
  int64_t groups = 1;
  bool channels_last = false;
  Rounding rounding = Rounding::none;  ///< that x and the weights allow
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("strides", self.strides);
    visit("pads", self.pads);
    visit("dilations", self.dilations);
    visit("groups", self.groups);
    visit("channels_last", self.channels_last);
    visit("rounding", self.rounding);
  }
  bool operator==(const Conv&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
  std::optional<Conv> permuted(const std::vector<int64_t>& order) const;
  // Depthwise convolutions would otherwise be one kernel with what comes before (chain_convolutions).
  size_t sliced_operands(const std::vector<size_t>& /*ranks*/) const { return channels_last && groups == 1 ? 1 : 0; }
};

/// The transpose of a convolution: (x, weights[in, out/groups, kernel...], bias[out]?) -> y, each spatial size
/// stride·(in−1) + output_padding + (kernel−1)·dilation + 1 − pad_begin − pad_end.
struct ConvTranspose {
  static constexpr std::string_view name = "conv_transpose";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::image,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::floats,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  std::vector<int64_t> strides;
  Shape pads;
  std::vector<int64_t> dilations;
  Shape output_padding;
  int64_t groups = 1;
  bool channels_last = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("strides", self.strides);
    visit("pads", self.pads);
    visit("dilations", self.dilations);
    visit("output_padding", self.output_padding);
    visit("groups", self.groups);
    visit("channels_last", self.channels_last);
  }
  bool operator==(const ConvTranspose&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
  std::optional<ConvTranspose> permuted(const std::vector<int64_t>& order) const;
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::Rounding> {
  static constexpr std::string_view values[] = {"none", "tf32", "bf16"};
};
}  // namespace camshaft
