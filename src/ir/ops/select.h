// Operators that choose elements: how many they choose is often told only by running.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// (x, k) -> the k largest or smallest elements along `axis` in order, and their indices (i64). k is an i64 tensor of
/// one element. Of equal elements the lower index comes first; NaN counts as larger than any number, and all NaNs as
/// equal.
struct TopK {
  static constexpr std::string_view name = "top_k";
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
  int64_t axis = 0;  ///< not negative
  bool largest = true;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("largest", self.largest);
  }
  bool operator==(const TopK&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x) -> i64[rank, n], the coordinates of the elements that are not zero (strings: not empty), in row-major order. A
/// scalar gives [0, 1] or [0, 0].
struct NonZero {
  static constexpr std::string_view name = "non_zero";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const NonZero&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x) -> unique slices along `axis` (of the flattened tensor when -1), the index of the first occurrence of each, for
/// each slice of x which unique one it is, and how often each occurs. `sorted`: ascending (slices by their first
/// difference), else by first occurrence. NaNs are equal to each other and come last.
struct Unique {
  static constexpr std::string_view name = "unique";
  static constexpr Traits traits = opaque_traits;
  int64_t axis = -1;
  bool sorted = true;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("sorted", self.sorted);
  }
  bool operator==(const Unique&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (boxes f32[batch, n, 4], scores f32[batch, classes, n], most boxes a class?, IoU threshold?, score threshold?) ->
/// i64[selected, 3]: batch, class and box, by falling score within a class. Greedy: a box is dropped when its overlap
/// with a chosen one exceeds the threshold. As in ONNX no box is chosen when input 2 is absent. Boxes are two corners
/// (y, x, y, x), or centre and size when `center_point_box`. Boxes of five numbers are turned: centre and size (x, y),
/// and the angle in radians.
struct NonMaxSuppression {
  static constexpr std::string_view name = "non_max_suppression";
  static constexpr Traits traits = opaque_traits;
  bool center_point_box = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("center_point_box", self.center_point_box);
  }
  bool operator==(const NonMaxSuppression&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
