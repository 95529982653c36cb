// A layer norm in two halves, for those who compute its rows and those who read them.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// x[..., n] -> f32 [..., n / width, 2]: of each run of `width` neighbours the mean, and the sum of the squared
/// distances from it. `width` divides n.
struct RowMoments {
  static constexpr std::string_view name = "row_moments";
  static constexpr Traits traits = opaque_traits;
  int64_t width = 32;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("width", self.width);
  }
  bool operator==(const RowMoments&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// The moments of rows in parts of `width`, f32 [..., parts, 2] -> f32 [..., 1] twice: the mean of each row and
/// 1 / sqrt(variance + epsilon), with which a layer norm is (x - mean) · factor · scale + bias. `root_mean_square`: the
/// mean is taken for 0.
struct RowNorm {
  static constexpr std::string_view name = "row_norm";
  static constexpr Traits traits = opaque_traits;
  int64_t width = 32;
  double epsilon = 1e-5;
  bool root_mean_square = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("width", self.width);
    visit("epsilon", self.epsilon);
    visit("root_mean_square", self.root_mean_square);
  }
  bool operator==(const RowNorm&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
