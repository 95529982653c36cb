// Products of 8-bit floats, which tensor cores add up in f32.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// Of the 8-bit floats, those that machines multiply.
inline bool is_float8(DType dtype) {
  return dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}

/// (a[..., m, k], b[..., k, n]) -> f32[..., m, n]: the matrix product, with broadcast leading axes. a and b are both
/// f8e4m3 or both f8e5m2. Products of two are exact in f32; how sums of them are rounded is the kernel's business.
struct Float8MatMul {
  static constexpr std::string_view name = "float8_matmul";
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
  bool operator==(const Float8MatMul&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

/// (x, weights[out, in/groups, kernel...]) -> f32: the convolution (Conv) of x, padded with zeros, with weights; types
/// as of Float8MatMul.
struct Float8Conv {
  static constexpr std::string_view name = "float8_conv";
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
  bool operator==(const Float8Conv&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
  std::optional<Float8Conv> permuted(const std::vector<int64_t>& order) const;
};

}  // namespace camshaft::ops
