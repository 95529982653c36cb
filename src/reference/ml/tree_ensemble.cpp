// The reference evaluation of tree_ensemble.
#include "ir/ops/tree_ensemble.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/thread_pool.h"
#include "base/work_scope.h"
#include "ir/ops/shape_rules.h"
#include "reference/element_io.h"
#include "reference/ml/plain_forest.h"
#include "reference/ml/score_transform.h"

namespace camshaft::ops {

namespace {

using enum TreeEnsemble::Input;

template <class T>
struct Score {
  T value = 0;
  bool is_set = false;
};

template <class T>
void combine(TreeAggregate aggregate, Score<T>& score, T value) {
  switch (aggregate) {
    case TreeAggregate::sum:
    case TreeAggregate::average:
      score.value += value;
      break;
    case TreeAggregate::min:
      if (!score.is_set || value < score.value) score.value = value;
      break;
    case TreeAggregate::max:
      if (!score.is_set || value > score.value) score.value = value;
      break;
  }
  score.is_set = true;
}

template <class T>
class Forest {
 public:
  Forest(const EvalContext& context, int64_t features, int64_t targets)
      : compare_(context.input(compare_in).as<uint8_t>()),
        feature_(context.input(feature_in).as<int32_t>()),
        threshold_(context.input(threshold_in).as<T>()),
        child_(context.input(child_in).as<int32_t>()),
        start_(context.input(start_in).as<int32_t>()),
        target_(context.input(target_in).as<int32_t>()),
        weight_(context.input(weight_in).as<T>()),
        nodes_(context.input(compare_in).size()),
        leaves_(context.input(start_in).size() - 1),
        weights_(context.input(weight_in).size()),
        features_(features),
        targets_(targets) {
    if (!context.has(set_start_in)) return;
    set_start_ = context.input(set_start_in).as<int32_t>();
    set_member_ = context.input(set_member_in).as<T>();
    members_ = context.input(set_member_in).size();
  }

  /// Adds the weights of the leaf that the row ends at. X is wide enough for the values and the thresholds.
  template <class X>
  void walk(int32_t at, const X* row, TreeAggregate aggregate, Score<T>* scores) const {
    int32_t last = -1;
    while (at >= 0) {
      if (at >= nodes_ || at <= last) fail_rule("tree_ensemble: node {} is not a node behind node {}", at, last);
      last = at;
      const int32_t feature = feature_[at];
      if (feature < 0 || feature >= features_)
        fail_rule("tree_ensemble: node {} reads feature {} of {}", at, feature, features_);
      at = child_[2 * int64_t{at} + (is_true(at, row[feature]) ? 0 : 1)];
    }
    add_leaf(at, aggregate, scores);
  }

  /// These trees for many rows, or nothing: every node must test x <= threshold, false for NaN, and all that it names
  /// must exist. One pass over the nodes.
  template <class X>
  std::optional<PlainForest<X>> plain(TreeAggregate aggregate) {
    if (nodes_ + leaves_ > std::numeric_limits<int32_t>::max()) return std::nullopt;
    PlainForest<X> result(nodes_, leaves_);
    for (int64_t i = nodes_; i-- > 0;) {
      const bool leads_on = is_behind(child_[2 * i], i) && is_behind(child_[2 * i + 1], i);
      if (compare_[i] != static_cast<uint8_t>(TreeCompare::leq) || feature_[i] < 0 || feature_[i] >= features_ ||
          !leads_on)
        return std::nullopt;
      result.set(i, static_cast<X>(threshold_[i]), feature_[i], child_ + 2 * i);
    }
    const bool adds = aggregate == TreeAggregate::sum || aggregate == TreeAggregate::average;
    one_weight_ = adds && targets_ == 1 && weights_ == leaves_;
    for (int64_t i = 0; one_weight_ && i < leaves_; ++i)
      one_weight_ = start_[i] == i && start_[i + 1] == i + 1 && target_[i] == 0;
    return result;
  }

  /// walk() for rows [0, count) of `features` values.
  template <class X>
  void walk_rows(const PlainForest<X>& plain, int32_t root, const X* rows, int64_t count, TreeAggregate aggregate,
                 Score<T>* scores) const {
    if (root >= nodes_) fail_rule("tree_ensemble: node {} is not a node behind node {}", root, -1);
    if (~int64_t{root} >= leaves_) return walk(root, rows, aggregate, scores);  // which says so
    constexpr int64_t most = PlainForest<X>::rows_together;
    int32_t leaves[most];
    for (int64_t first = 0; first < count; first += most) {
      const int64_t together = std::min(most, count - first);
      plain.walk(root, rows + first * features_, features_, together, leaves);
      if (one_weight_) {
        for (int64_t r = 0; r < together; ++r) combine(TreeAggregate::sum, scores[first + r], weight_[leaves[r]]);
        continue;
      }
      for (int64_t r = 0; r < together; ++r) add_leaf(~leaves[r], aggregate, scores + (first + r) * targets_);
    }
  }

 private:
  // A leaf that exists, or a node behind this one.
  bool is_behind(int32_t child, int64_t node) const {
    return child < 0 ? ~int64_t{child} < leaves_ : child > node && child < nodes_;
  }

  // `at` is the complement of the leaf's number.
  void add_leaf(int32_t at, TreeAggregate aggregate, Score<T>* scores) const {
    const int64_t leaf = ~at;
    if (leaf >= leaves_) fail_rule("tree_ensemble: leaf {} of {} does not exist", leaf, leaves_);
    const int32_t first = start_[leaf], end = start_[leaf + 1];
    if (first < 0 || end > weights_) fail_rule("tree_ensemble: leaf {} has weights that do not exist", leaf);
    for (int32_t w = first; w < end; ++w) {
      if (target_[w] < 0 || target_[w] >= targets_)
        fail_rule("tree_ensemble: a leaf has a weight for target {} of {}", target_[w], targets_);
      combine(aggregate, scores[target_[w]], weight_[w]);
    }
  }

  template <class X>
  bool is_true(int32_t node, X x) const {
    const X threshold = static_cast<X>(threshold_[node]);
    bool result = false;
    switch (static_cast<TreeCompare>(compare_[node] & 0x7f)) {
      case TreeCompare::leq:
        result = x <= threshold;
        break;
      case TreeCompare::lt:
        result = x < threshold;
        break;
      case TreeCompare::gte:
        result = x >= threshold;
        break;
      case TreeCompare::gt:
        result = x > threshold;
        break;
      case TreeCompare::eq:
        result = x == threshold;
        break;
      case TreeCompare::neq:
        result = x != threshold;
        break;
      case TreeCompare::member: {
        const int32_t first = set_start_ ? set_start_[node] : 0, end = set_start_ ? set_start_[node + 1] : 0;
        if (first < 0 || end > members_) fail_rule("tree_ensemble: node {} has members that do not exist", node);
        for (int32_t m = first; m < end && !result; ++m) result = static_cast<X>(set_member_[m]) == x;
        break;
      }
    }
    return result || ((compare_[node] & 0x80) != 0 && x != x);
  }

  const uint8_t* compare_;
  const int32_t* feature_;
  const T* threshold_;
  const int32_t* child_;
  const int32_t* start_;
  const int32_t* target_;
  const T* weight_;
  const int32_t* set_start_ = nullptr;
  const T* set_member_ = nullptr;
  int64_t nodes_, leaves_, weights_, features_, targets_, members_ = 0;
  /// Whether each leaf has one weight that is added, of the one target: looking it up and checking it for each row took
  /// a third of 50 rows of 50 trees.
  bool one_weight_ = false;
};

/// The class, and the scores of two classes of which only one has weights or both have. What one score says of two
/// classes is ONNX Runtime's rule: the standard leaves it open. With two scores the larger wins, as the standard says.
template <class T>
int64_t finish_two_classes(const TreeEnsemble& op, Score<T>* scores, std::span<const T> base, T* out) {
  const bool has_second = scores[1].is_set;
  if (base.size() == 2) {
    if (has_second) {
      scores[1].value = base[1] + scores[0].value;
      scores[0].value = -scores[1].value;
    } else {
      scores[0].value += base[0];  // and the second stays 0
    }
  } else if (base.size() == 1) {
    scores[0].value += base[0];
  }
  const bool is_binary = op.task != TreeTask::classification;
  const T decisive = has_second ? scores[1].value : scores[0].value;
  bool is_positive = decisive > (op.task == TreeTask::binary_positive ? static_cast<T>(0.5) : T{0});
  if (!is_binary && has_second) is_positive = scores[1].value > scores[0].value;
  out[0] = scores[0].value;
  out[1] = scores[1].value;
  if (has_second || base.size() == 2) {
    transform_scores(op.post_transform, out, 2);
  } else if (op.post_transform == PostTransform::probit) {
    out[0] = probit_of(out[0]);
    out[1] = 0;
  } else if (op.post_transform == PostTransform::logistic) {
    out[1] = logistic_of(out[0]);
    out[0] = logistic_of(-out[0]);
  } else if (op.task == TreeTask::binary_positive) {
    out[1] = out[0];
    out[0] = 1 - out[0];
  } else {
    out[1] = out[0];
    out[0] = -out[0];
  }
  return is_positive ? 1 : 0;
}

template <class T>
int64_t finish_classes(const TreeEnsemble& op, Score<T>* scores, std::span<const T> base, T* out) {
  if (op.targets == 2) return finish_two_classes(op, scores, base, out);
  int64_t best = -1;
  for (int64_t k = 0; k < op.targets; ++k) {
    if (k < static_cast<int64_t>(base.size())) combine(TreeAggregate::sum, scores[k], base[static_cast<size_t>(k)]);
    if (scores[k].is_set && (best < 0 || scores[k].value > scores[best].value)) best = k;
    out[k] = scores[k].value;
  }
  if (op.targets > 1 || op.post_transform == PostTransform::probit)
    transform_scores(op.post_transform, out, op.targets);
  if (op.targets == 1) return scores[0].value > 0 ? 1 : 0;
  return std::max<int64_t>(best, 0);
}

template <class T>
void finish_targets(const TreeEnsemble& op, int64_t trees, Score<T>* scores, std::span<const T> base, T* out) {
  for (int64_t k = 0; k < op.targets; ++k) {
    T value = scores[k].is_set ? scores[k].value : T{0};
    if (op.aggregate == TreeAggregate::average && trees > 0) value /= static_cast<T>(trees);
    if (static_cast<int64_t>(base.size()) == op.targets) value += base[static_cast<size_t>(k)];
    out[k] = value;
  }
  // One score has no softmax, and ONNX Runtime leaves it alone.
  if (op.targets > 1 || op.post_transform == PostTransform::probit)
    transform_scores(op.post_transform, out, op.targets);
}

template <class T, class X>
void run(const TreeEnsemble& op, const EvalContext& context, Tensor* classes, Tensor& scores) {
  const Tensor& x = context.input(x_in);
  const int64_t rows = x.dims()[0], features = x.dims()[1], trees = context.input(root_in).size();
  Forest<T> forest(context, features, op.targets);
  // Where the walks are more than the nodes that are laid out for them, at some levels a walk.
  constexpr int64_t least_levels = 4;
  const bool is_worth_it =
      rows >= PlainForest<X>::rows_together && rows * trees >= context.input(compare_in).size() / least_levels;
  const std::optional<PlainForest<X>> plain = is_worth_it ? forest.template plain<X>(op.aggregate) : std::nullopt;
  const int32_t* roots = context.input(root_in).as<int32_t>();
  const Tensor& base = context.input(base_in);
  const std::span<const T> base_values(base.as<T>(), static_cast<size_t>(base.size()));
  T* out = scores.as_mutable<T>();
  int64_t* chosen = classes ? classes->as_mutable<int64_t>() : nullptr;
  const int64_t grain = std::max<int64_t>(1, 2000 / std::max<int64_t>(trees, 1));
  context.pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    // Blocks of rows go through one tree after the other: a tree's nodes then stay in cache. Few rows where they are
    // wide, so that what is kept of a block stays small.
    const int64_t block = std::clamp<int64_t>((1 << 20) / std::max(features, op.targets), 1, 64);
    std::vector<X> values(static_cast<size_t>(block * features));
    std::vector<Score<T>> sums(static_cast<size_t>(block * op.targets));
    for (int64_t first = begin; first < end; first += block) {
      cancellation_point();
      const int64_t count = std::min(block, end - first);
      if constexpr (std::is_same_v<X, float>) {
        std::copy_n(x.as<float>() + first * features, count * features, values.data());
      } else {
        load_elements(x.dtype(), x.data(), first * features, 1, count * features, values.data());
      }
      std::fill(sums.begin(), sums.end(), Score<T>{});
      for (int64_t tree = 0; tree < trees; ++tree) {
        if (plain) {
          forest.walk_rows(*plain, roots[tree], values.data(), count, op.aggregate, sums.data());
          continue;
        }
        for (int64_t r = 0; r < count; ++r)
          forest.walk(roots[tree], values.data() + r * features, op.aggregate, sums.data() + r * op.targets);
      }
      for (int64_t r = 0; r < count; ++r) {
        T* row = out + (first + r) * op.targets;
        if (chosen) {
          chosen[first + r] = finish_classes(op, sums.data() + r * op.targets, base_values, row);
        } else {
          finish_targets(op, trees, sums.data() + r * op.targets, base_values, row);
        }
      }
    }
  });
}

template <class T>
void run_wide(const TreeEnsemble& op, const EvalContext& context, Tensor* classes, Tensor& scores) {
  const DType x = context.input(x_in).dtype();
  if (std::is_same_v<T, float> && x == DType::f32) return run<T, float>(op, context, classes, scores);
  run<T, double>(op, context, classes, scores);
}

}  // namespace

std::vector<Tensor> TreeEnsemble::evaluate(const EvalContext& context) const {
  const int64_t rows = context.input(x_in).dims().at(0);
  const DType dtype = context.input(threshold_in).dtype();
  Tensor scores(dtype, {rows, targets});
  std::vector<Tensor> outputs;
  if (task != TreeTask::regression) outputs.emplace_back(DType::i64, Dims{rows});
  Tensor* classes = outputs.empty() ? nullptr : &outputs[0];
  if (dtype == DType::f64) {
    run_wide<double>(*this, context, classes, scores);
  } else {
    run_wide<float>(*this, context, classes, scores);
  }
  outputs.push_back(std::move(scores));
  return outputs;
}

}  // namespace camshaft::ops
