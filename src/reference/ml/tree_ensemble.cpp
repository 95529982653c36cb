// The evaluation of tree_ensemble.
#include "reference/ml/tree_ensemble.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/aligned_buffer.h"
#include "base/work_scope.h"
#include "ir/ops/shape_rules.h"
#include "reference/element_io.h"
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
  Forest(const TreeSizes& sizes, std::span<const std::byte* const> operands, int64_t targets)
      : sizes_(sizes),
        compare_(reinterpret_cast<const uint8_t*>(operands[compare_in])),
        feature_(reinterpret_cast<const int32_t*>(operands[feature_in])),
        threshold_(reinterpret_cast<const T*>(operands[threshold_in])),
        child_(reinterpret_cast<const int32_t*>(operands[child_in])),
        start_(reinterpret_cast<const int32_t*>(operands[start_in])),
        target_(reinterpret_cast<const int32_t*>(operands[target_in])),
        weight_(reinterpret_cast<const T*>(operands[weight_in])),
        targets_(targets) {
    if (operands.size() <= set_member_in || !operands[set_start_in]) return;
    set_start_ = reinterpret_cast<const int32_t*>(operands[set_start_in]);
    set_member_ = reinterpret_cast<const T*>(operands[set_member_in]);
  }

  /// Adds the weights of the leaf that the row ends at. X is wide enough for the values and the thresholds.
  template <class X>
  void walk(int32_t at, const X* row, TreeAggregate aggregate, Score<T>* scores) const {
    int32_t last = -1;
    while (at >= 0) {
      if (at >= sizes_.nodes || at <= last) fail_rule("tree_ensemble: node {} is not a node behind node {}", at, last);
      last = at;
      const int32_t feature = feature_[at];
      if (feature < 0 || feature >= sizes_.features)
        fail_rule("tree_ensemble: node {} reads feature {} of {}", at, feature, sizes_.features);
      at = child_[2 * int64_t{at} + (is_true(at, row[feature]) ? 0 : 1)];
    }
    add_leaf(at, aggregate, scores);
  }

  /// These trees for rows that go down together, or nothing: every node must order x and a threshold, and all that it
  /// names, and all roots, must exist. One pass over the nodes.
  template <class X>
  std::optional<PlainForest<X>> plain(const int32_t* roots) const {
    constexpr int64_t most = std::numeric_limits<int32_t>::max() / 2;
    if (2 * sizes_.nodes + sizes_.trees > most) return std::nullopt;
    for (int64_t t = 0; t < sizes_.trees; ++t)
      if (!is_behind(roots[t], -1)) return std::nullopt;
    PlainForest<X> result(sizes_.nodes, sizes_.trees);
    for (int64_t i = sizes_.nodes; i-- > 0;) {
      const int32_t way[2] = {child_[2 * i], child_[2 * i + 1]};
      const auto test = static_cast<TreeCompare>(compare_[i] & 0x7f);
      if (test > TreeCompare::gt || feature_[i] < 0 || feature_[i] >= most || !is_behind(way[0], i) ||
          !is_behind(way[1], i))
        return std::nullopt;
      // x > t where x <= t does not hold, and x < t where x is at most what comes before t; but for NaN.
      const bool is_turned = test == TreeCompare::gt || test == TreeCompare::gte;
      X threshold = static_cast<X>(threshold_[i]);
      if (test == TreeCompare::lt || test == TreeCompare::gte) {
        constexpr X lowest = -std::numeric_limits<X>::infinity();
        threshold = threshold > lowest ? std::nextafter(threshold, lowest) : std::numeric_limits<X>::quiet_NaN();
      }
      if (is_turned && threshold_[i] != threshold_[i]) return std::nullopt;  // nothing is > NaN, nor <= NaN
      const int32_t turned[2] = {way[1], way[0]};
      const bool takes_nan = ((compare_[i] & 0x80) != 0) != is_turned;
      result.set(i, threshold, feature_[i], is_turned ? turned : way, takes_nan);
    }
    for (int64_t t = 0; t < sizes_.trees; ++t) result.set_root(t, roots[t]);
    return result;
  }

  /// Whether each leaf has one weight, which is added to the one target: looking it up and checking it for each row
  /// took a third of 50 rows of 50 trees.
  bool has_one_weight_each(TreeAggregate aggregate) const {
    const bool adds = aggregate == TreeAggregate::sum || aggregate == TreeAggregate::average;
    if (!adds || targets_ != 1 || sizes_.weights != sizes_.leaves) return false;
    for (int64_t i = 0; i < sizes_.leaves; ++i)
      if (start_[i] != i || start_[i + 1] != i + 1 || target_[i] != 0) return false;
    return true;
  }

  /// walk() of all trees for rows [0, count) of x, which lie `features` apart.
  template <class X>
  void walk_rows(const PlainForest<X>& plain, bool one_weight, const X* rows, int64_t count, TreeAggregate aggregate,
                 Score<T>* scores) const {
    constexpr int64_t together = PlainForest<X>::rows_together;
    const X* row[together];
    int32_t leaves[together];
    int64_t at[together], trees[together];
    int64_t tree = 0, r = 0;
    for (int64_t left = sizes_.trees * count; left > 0; left -= together) {
      const int64_t lanes = std::min(together, left);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        at[lane] = r;
        row[lane] = rows + r * sizes_.features;
        trees[lane] = tree;
        if (++r == count) r = 0, ++tree;
      }
      for (int64_t lane = lanes; lane < together; ++lane) row[lane] = row[0], trees[lane] = trees[0];
      plain.walk(trees, row, leaves);
      if (one_weight) {
        for (int64_t lane = 0; lane < lanes; ++lane) {
          scores[at[lane]].value += weight_[leaves[lane]];
          scores[at[lane]].is_set = true;
        }
        continue;
      }
      for (int64_t lane = 0; lane < lanes; ++lane) add_leaf(~leaves[lane], aggregate, scores + at[lane] * targets_);
    }
  }

 private:
  // A leaf that exists, or a node behind this one.
  bool is_behind(int32_t child, int64_t node) const {
    return child < 0 ? ~int64_t{child} < sizes_.leaves : child > node && child < sizes_.nodes;
  }

  // `at` is the complement of the leaf's number.
  void add_leaf(int32_t at, TreeAggregate aggregate, Score<T>* scores) const {
    const int64_t leaf = ~at;
    if (leaf >= sizes_.leaves) fail_rule("tree_ensemble: leaf {} of {} does not exist", leaf, sizes_.leaves);
    const int32_t first = start_[leaf], end = start_[leaf + 1];
    if (first < 0 || end > sizes_.weights) fail_rule("tree_ensemble: leaf {} has weights that do not exist", leaf);
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
        if (first < 0 || end > sizes_.members) fail_rule("tree_ensemble: node {} has members that do not exist", node);
        for (int32_t m = first; m < end && !result; ++m) result = static_cast<X>(set_member_[m]) == x;
        break;
      }
    }
    return result || ((compare_[node] & 0x80) != 0 && x != x);
  }

  TreeSizes sizes_;
  const uint8_t* compare_;
  const int32_t* feature_;
  const T* threshold_;
  const int32_t* child_;
  const int32_t* start_;
  const int32_t* target_;
  const T* weight_;
  const int32_t* set_start_ = nullptr;
  const T* set_member_ = nullptr;
  int64_t targets_;
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

template <class X>
constexpr DType type_of = sizeof(X) == sizeof(double) ? DType::f64 : DType::f32;

// Few rows where they are wide, so that what is kept of a block stays small.
int64_t rows_of_block(const TreeSizes& sizes, int64_t targets) {
  return std::clamp<int64_t>((1 << 20) / std::max({sizes.features, targets, int64_t{1}}), 1, 64);
}

template <class T, class X>
struct Scratch {
  static constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  Scratch(const TreeSizes& sizes, int64_t targets, bool is_as_it_is)
      : block(rows_of_block(sizes, targets)),
        sums(aligned(block * targets * static_cast<int64_t>(sizeof(Score<T>)))),
        values(is_as_it_is ? 0 : aligned(block * sizes.features * static_cast<int64_t>(sizeof(X)))) {}

  int64_t block, sums, values;  // rows, and bytes for their scores and, where they are converted, their elements
};

template <class T, class X>
void run(const TreeEnsemble& op, const TreeSizes& sizes, const TreeLayout& layout,
         std::span<const std::byte* const> operands, const TreeResults& results, ThreadPool& pool,
         std::byte* workspace) {
  const Forest<T> forest(sizes, operands, op.targets);
  const PlainForest<X>* plain = layout.plain<X>(sizes.features);
  const auto* roots = reinterpret_cast<const int32_t*>(operands[root_in]);
  const std::span<const T> base(reinterpret_cast<const T*>(operands[base_in]), static_cast<size_t>(sizes.bases));
  T* out = reinterpret_cast<T*>(results.scores);
  const bool is_as_it_is = sizes.x == type_of<X>;
  const Scratch<T, X> scratch(sizes, op.targets, is_as_it_is);
  const int64_t grain = std::max<int64_t>(1, 2000 / std::max<int64_t>(sizes.trees, 1));
  const auto grains = (sizes.rows + grain - 1) / grain;
  const int threads = static_cast<int>(std::clamp<int64_t>(grains, 1, pool.size()));
  pool.run(threads, [&](int thread) {
    auto* sums = reinterpret_cast<Score<T>*>(workspace + thread * (scratch.sums + scratch.values));
    auto* values = reinterpret_cast<X*>(workspace + thread * (scratch.sums + scratch.values) + scratch.sums);
    const int64_t begin = grains * thread / threads * grain;
    const int64_t end = std::min(sizes.rows, grains * (thread + 1) / threads * grain);
    // Blocks of rows go through one tree after the other: a tree's nodes then stay in cache.
    for (int64_t first = begin; first < end; first += scratch.block) {
      cancellation_point();
      const int64_t count = std::min(scratch.block, end - first), offset = first * sizes.features;
      if (!is_as_it_is) load_elements(sizes.x, operands[x_in], offset, 1, count * sizes.features, values);
      const X* rows = is_as_it_is ? reinterpret_cast<const X*>(operands[x_in]) + offset : values;
      std::fill_n(sums, count * op.targets, Score<T>{});
      if (plain) {
        forest.walk_rows(*plain, layout.one_weight, rows, count, op.aggregate, sums);
      } else {
        for (int64_t tree = 0; tree < sizes.trees; ++tree)
          for (int64_t r = 0; r < count; ++r)
            forest.walk(roots[tree], rows + r * sizes.features, op.aggregate, sums + r * op.targets);
      }
      for (int64_t r = 0; r < count; ++r) {
        T* row = out + (first + r) * op.targets;
        if (results.classes) {
          results.classes[first + r] = finish_classes(op, sums + r * op.targets, base, row);
        } else {
          finish_targets(op, sizes.trees, sums + r * op.targets, base, row);
        }
      }
    }
  });
}

// The type of thresholds, and that of comparisons, which is wide enough for both sides.
template <class Use>
auto with_types(const TreeSizes& sizes, const Use& use) {
  if (sizes.threshold == DType::f64) return use(double{}, double{});
  return sizes.x == DType::f32 ? use(float{}, float{}) : use(float{}, double{});
}

}  // namespace

TreeSizes tree_sizes(DType x, DType threshold, const std::vector<Dims>& dims) {
  const auto length = [&](size_t i) { return i < dims.size() && !dims[i].empty() ? dims[i][0] : 0; };
  TreeSizes sizes{x, threshold};
  sizes.rows = length(x_in);
  sizes.features = dims[x_in].size() == 2 ? dims[x_in][1] : 0;
  sizes.nodes = length(compare_in);
  sizes.leaves = length(start_in) - 1;
  sizes.weights = length(weight_in);
  sizes.members = length(set_member_in);
  sizes.trees = length(root_in);
  sizes.bases = length(base_in);
  return sizes;
}

TreeLayout lay_out_trees(const TreeEnsemble& op, const TreeSizes& sizes, std::span<const std::byte* const> operands) {
  TreeLayout layout;
  with_types(sizes, [&]<class T, class X>(T, X) {
    const Forest<T> forest(sizes, operands, op.targets);
    std::optional<PlainForest<X>> plain = forest.template plain<X>(reinterpret_cast<const int32_t*>(operands[root_in]));
    if (plain) layout.forest = *std::move(plain);
    layout.one_weight = forest.has_one_weight_each(op.aggregate);
  });
  return layout;
}

size_t tree_workspace_bytes(const TreeEnsemble& op, const TreeSizes& sizes, int threads) {
  return with_types(sizes, [&]<class T, class X>(T, X) {
    const Scratch<T, X> scratch(sizes, op.targets, sizes.x == type_of<X>);
    return static_cast<size_t>(scratch.sums + scratch.values) * static_cast<size_t>(threads);
  });
}

void run_trees(const TreeEnsemble& op, const TreeSizes& sizes, const TreeLayout& layout,
               std::span<const std::byte* const> operands, const TreeResults& results, ThreadPool& pool,
               std::byte* workspace) {
  with_types(sizes, [&]<class T, class X>(T, X) { run<T, X>(op, sizes, layout, operands, results, pool, workspace); });
}

std::vector<Tensor> TreeEnsemble::evaluate(const EvalContext& context) const {
  std::vector<Dims> dims;
  std::vector<const std::byte*> operands;
  for (const Tensor& input : context.inputs) {
    dims.push_back(input.dims());
    operands.push_back(input.defined() ? input.data() : nullptr);
  }
  const DType dtype = context.input(threshold_in).dtype();
  const TreeSizes sizes = tree_sizes(context.input(x_in).dtype(), dtype, dims);
  Tensor scores(dtype, {sizes.rows, targets});
  std::vector<Tensor> outputs;
  if (task != TreeTask::regression) outputs.emplace_back(DType::i64, Dims{sizes.rows});
  AlignedBuffer workspace(tree_workspace_bytes(*this, sizes, context.pool.most()), "decision trees");
  // As the operands are: kernels, which are held to this, go by what lay_out_trees() makes of them.
  run_trees(*this, sizes, TreeLayout{}, operands,
            {outputs.empty() ? nullptr : outputs[0].as_mutable<int64_t>(), scores.mutable_data()}, context.pool,
            workspace.data());
  outputs.push_back(std::move(scores));
  return outputs;
}

}  // namespace camshaft::ops
