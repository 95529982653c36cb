// Decision trees: ai.onnx.ml's tree ensembles, all versions, as one operator over flat arrays.
#pragma once

#include "ir/graph.h"
#include "ir/ops/score_transform.h"

namespace camshaft::ops {

enum class TreeAggregate : uint8_t { sum, average, min, max };
/// How a node compares x with its threshold; `member` asks whether x is in the node's set.
enum class TreeCompare : uint8_t { leq, lt, gte, gt, eq, neq, member };
/// Classifiers of two classes with weights for one only say so, and whether no weight is negative: the decision's
/// threshold and the second score follow from it.
enum class TreeTask : uint8_t { regression, classification, binary_positive, binary_mixed };

/// (x [rows, features], compare u8 [n], features i32 [n], thresholds T [n], children i32 [n, 2], roots i32 [trees],
///  leaf_starts i32 [leaves + 1], leaf_targets i32 [w], leaf_weights T [w], base T [0, 1 or targets],
///  set_starts? i32 [n + 1], set_members? T [m])
/// -> scores T [rows, targets], and for classifications the class of each row before it, i64 [rows].
///
/// T is f32 or f64; x may be any floating-point dtype, and is compared as it is: a value of f64 with a threshold of
/// f32 without rounding the value. Bit 7 of `compare` sends NaN to the true branch. children has (true, false): a node,
/// or ~leaf; a node's children stand behind it, so that every walk ends. A leaf has weights [starts[i], starts[i+1]).
/// Trees are summed in T, in their order. Throws Error(invalid_argument) for indices out of range, when they are met.
struct TreeEnsemble {
  static constexpr std::string_view name = "tree_ensemble";
  static constexpr Traits traits = opaque_traits;
  enum Input : size_t {
    x_in,
    compare_in,
    feature_in,
    threshold_in,
    child_in,
    root_in,
    start_in,
    target_in,
    weight_in,
    base_in,
    set_start_in,
    set_member_in
  };
  int64_t targets = 1;
  TreeTask task = TreeTask::regression;
  TreeAggregate aggregate = TreeAggregate::sum;
  PostTransform post_transform = PostTransform::none;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("targets", self.targets);
    visit("task", self.task);
    visit("aggregate", self.aggregate);
    visit("post_transform", self.post_transform);
  }
  bool operator==(const TreeEnsemble&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::TreeAggregate> {
  static constexpr std::string_view values[] = {"sum", "average", "min", "max"};
};
template <>
struct EnumNames<ops::TreeTask> {
  static constexpr std::string_view values[] = {"regression", "classification", "binary_positive", "binary_mixed"};
};
}  // namespace camshaft
