// Support vector machines and the distances that their kernels and nearest neighbours need.
#pragma once

#include "ir/graph.h"
#include "ir/ops/score_transform.h"

namespace camshaft::ops {

/// (x [n, f], y [m, f]) -> [n, m]: the squared Euclidean distances of all rows, of f32 or f64, by differences (not
/// through products, which lose near rows).
struct PairwiseDistance {
  static constexpr std::string_view name = "pairwise_distance";
  static constexpr Traits traits = opaque_traits;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const PairwiseDistance&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (kernel f32 [rows, vectors], coefficients f32 [classes - 1, vectors], rho f32 [pairs], prob_a? and prob_b? f32
/// [pairs])
/// -> class i64 [rows], scores f32 [rows, pairs, or classes with probabilities].
///
/// Each pair of classes i < j, in that order, votes as in libsvm; a tie goes to the first class. With prob_a and prob_b
/// the decisions become Platt's pairwise probabilities, coupled by the second method of Wu, Lin and Weng (2004),
/// "Probability Estimates for Multi-class Classification by Pairwise Coupling", with libsvm's iteration.
struct SupportVectorVote {
  static constexpr std::string_view name = "support_vector_vote";
  static constexpr Traits traits = opaque_traits;
  std::vector<int64_t> vectors_per_class;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("vectors_per_class", self.vectors_per_class);
  }
  bool operator==(const SupportVectorVote&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// One of the transforms of ai.onnx.ml along the last axis of an f32 tensor.
struct ScoreTransform {
  static constexpr std::string_view name = "score_transform";
  static constexpr Traits traits = opaque_traits;
  PostTransform transform = PostTransform::none;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("transform", self.transform);
  }
  bool operator==(const ScoreTransform&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops
