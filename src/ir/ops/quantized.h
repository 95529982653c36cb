// Products of 8-bit tensors with exact sums, and the quantisation of what goes into them.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (a[..., m, k], b[..., k, n], a_zero?, b_zero?) -> i32[..., m, n]: the matrix product of a - a_zero and b - b_zero,
/// with broadcast leading axes. a and b are i8 or u8, each with a zero point of its own dtype that broadcasts to it and
/// is the same all along k. Sums wrap.
struct IntegerMatMul {
  static constexpr std::string_view name = "integer_matmul";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::bytes,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const IntegerMatMul&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

/// (x, weights[out, in/groups, kernel...], x_zero?, weights_zero?, bias i32[out]?) -> i32: the convolution (Conv) of
/// x - x_zero, padded with zeros, with weights - weights_zero. x and weights are i8 or u8; x_zero is one number,
/// weights_zero one or [out], each of its operand's dtype. Sums wrap.
struct IntegerConv {
  static constexpr std::string_view name = "integer_conv";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::image,
                                 .layout_operands = 1,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::bytes,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  std::vector<int64_t> strides;
  Shape pads;
  std::vector<int64_t> dilations;
  int64_t groups = 1;
  bool channels_last = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("strides", self.strides);
    visit("pads", self.pads);
    visit("dilations", self.dilations);
    visit("groups", self.groups);
    visit("channels_last", self.channels_last);
  }
  bool operator==(const IntegerConv&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
  std::optional<IntegerConv> permuted(const std::vector<int64_t>& order) const;
};

/// (x f32) -> (y u8, scale f32[], zero u8[]): x in steps of a scale and from a zero point that put all of x, and 0, in
/// 0 … 255. The scale of zeros alone is 1 (ONNX's DynamicQuantizeLinear divides by zero there). A NaN makes the scale
/// NaN, and everything else 0.
struct DynamicQuantize {
  static constexpr std::string_view name = "dynamic_quantize";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const DynamicQuantize&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x[..., k]) -> x rounded: each `block` elements of f32 along the last axis, of which the last may be fewer, become
/// whole multiples of a 127th of the largest magnitude among them, or of 2^-100 where that is less; halves to even. An
/// infinity or a NaN makes all of its block NaN. It is what products of bytes take of a float, and as an operator of
/// its own says exactly what they compute.
struct RoundBlocks {
  static constexpr std::string_view name = "round_blocks";
  static constexpr Traits traits = opaque_traits;
  /// The smallest magnitude that a block's largest one counts as.
  static constexpr float least = 0x1p-100F;
  static constexpr int highest = 127;
  int64_t block = 1;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("block", self.block);
  }
  bool operator==(const RoundBlocks&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
