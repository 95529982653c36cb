// Operators over windows of images, besides convolution and pooling, and determinants.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x[n, c, spatial...]) -> where the maximum of each window of a max pooling (Pool) lies, as i64 positions in the
/// whole flattened input; of equal maxima the first, NaN before any number. `column_major`: the spatial axes count from
/// the first. Windows that lie in the padding alone give the first element of their plane.
struct MaxPoolIndices {
  static constexpr std::string_view name = "max_pool_indices";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  std::vector<int64_t> kernel, strides;
  Shape pads;
  std::vector<int64_t> dilations;
  bool ceil_mode = false;
  bool column_major = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("kernel", self.kernel);
    visit("strides", self.strides);
    visit("pads", self.pads);
    visit("dilations", self.dilations);
    visit("ceil_mode", self.ceil_mode);
    visit("column_major", self.column_major);
  }
  bool operator==(const MaxPoolIndices&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (columns[n, c·∏kernel, windows], image shape, kernel shape) -> [n, c, image...]: every window's elements added up
/// where they lie in the image.
struct Col2Im {
  static constexpr std::string_view name = "col2im";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  std::vector<int64_t> strides;
  Shape pads;
  std::vector<int64_t> dilations;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("strides", self.strides);
    visit("pads", self.pads);
    visit("dilations", self.dilations);
  }
  bool operator==(const Col2Im&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x[..., n, n]) -> [...]: determinants, by elimination with pivots in f64.
struct Determinant {
  static constexpr std::string_view name = "determinant";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const Determinant&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
