// Contractions: matrix multiplication and convolution.
#pragma once

#include "graph/graph.h"

namespace camshaft::ops {

/// (a[..., m, k], b[..., k, n]) -> [..., m, n] with broadcast leading axes; transpose_* swaps the last two axes of an
/// operand as stored. 1-D operands are not taken (the importer reshapes).
struct MatMul {
  static constexpr std::string_view name = "matmul";
  bool transpose_a = false;
  bool transpose_b = false;
  bool tf32 = false;  ///< operands of f32 may be rounded to TF32's 11 significant bits, see optimize/allow_tf32.h
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
    visit("tf32", self.tf32);
  }
  bool operator==(const MatMul&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, weights[out, in/groups, kernel...], bias[out]?) -> y. x is [n, c, spatial...], or [n, spatial..., c] when
/// channels_last (the weights stay [out, in/groups, kernel...]). `pads` has the begins of every spatial axis, then the
/// ends; they are explicit (the importer resolves auto_pad into dims).
struct Conv {
  static constexpr std::string_view name = "conv";
  std::vector<int64_t> strides;
  Shape pads;
  std::vector<int64_t> dilations;
  int64_t groups = 1;
  bool channels_last = false;
  bool tf32 = false;  ///< as MatMul has it
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("strides", self.strides);
    visit("pads", self.pads);
    visit("dilations", self.dilations);
    visit("groups", self.groups);
    visit("channels_last", self.channels_last);
    visit("tf32", self.tf32);
  }
  bool operator==(const Conv&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// The transpose of a convolution: (x, weights[in, out/groups, kernel...], bias[out]?) -> y, each spatial size
/// stride·(in−1) + output_padding + (kernel−1)·dilation + 1 − pad_begin − pad_end.
struct ConvTranspose {
  static constexpr std::string_view name = "conv_transpose";
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
};

}  // namespace camshaft::ops
