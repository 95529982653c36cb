// Random decision trees.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "ir/ops/tree_ensemble.h"
#include "test_random.h"

namespace camshaft::ops {

struct RandomForest {
  int64_t features = 1, targets = 1;
  bool one_weight = false;  ///< of each leaf
  std::vector<uint8_t> compare;
  std::vector<int32_t> feature, child, root, start{0}, target;
  std::vector<float> threshold, weight;

  RandomForest(Random& random, int64_t trees, int64_t deepest)
      : features(random.integer(1, 6)), targets(random.integer(1, 3)), one_weight(random.integer(0, 1) == 1) {
    kinds_ = random.integer(0, 2);
    for (int64_t t = 0; t < trees; ++t) root.push_back(grow(random, deepest));
  }

  TreeEnsemble op(TreeAggregate aggregate) const {
    TreeEnsemble op;
    op.targets = targets;
    op.aggregate = aggregate;
    return op;
  }

  /// Among its thresholds, beside them, and no numbers.
  Tensor rows(Random& random, int64_t count) const {
    Tensor x(DType::f32, {count, features});
    for (int64_t i = 0; i < x.size(); ++i) {
      float value = static_cast<float>(random.integer(-4, 4));
      const int64_t kind = random.integer(0, 19);
      if (kind < 2) value = NAN;
      if (kind == 2) value = std::numeric_limits<float>::infinity();
      if (kind == 3) value = -std::numeric_limits<float>::infinity();
      if (kind == 4) value = std::nextafter(value, -10.0F);
      if (kind == 5) value = std::nextafter(value, 10.0F);
      x.as_mutable<float>()[i] = value;
    }
    return x;
  }

  std::vector<Tensor> operands(const Tensor& x) const {
    const auto count = [](const auto& list) { return static_cast<int64_t>(list.size()); };
    return {x,
            Tensor::of<uint8_t>(DType::u8, {count(compare)}, compare),
            Tensor::of<int32_t>(DType::i32, {count(feature)}, feature),
            Tensor::of<float>(DType::f32, {count(threshold)}, threshold),
            Tensor::of<int32_t>(DType::i32, {count(feature), 2}, child),
            Tensor::of<int32_t>(DType::i32, {count(root)}, root),
            Tensor::of<int32_t>(DType::i32, {count(start)}, start),
            Tensor::of<int32_t>(DType::i32, {count(target)}, target),
            Tensor::of<float>(DType::f32, {count(weight)}, weight),
            Tensor(DType::f32, {0})};
  }

 private:
  // A node with all below it, or a leaf.
  int32_t grow(Random& random, int64_t deepest) {
    if (deepest == 0 || random.integer(0, 4) == 0) {
      for (int64_t k = one_weight ? 1 : random.integer(0, 2); k-- > 0;) {
        target.push_back(static_cast<int32_t>(random.integer(0, targets - 1)));
        weight.push_back(static_cast<float>(random.integer(-8, 8)));
      }
      start.push_back(static_cast<int32_t>(weight.size()));
      return ~static_cast<int32_t>(start.size() - 2);
    }
    const auto node = static_cast<int32_t>(compare.size());
    compare.push_back(random_test(random));
    feature.push_back(static_cast<int32_t>(random.integer(0, features - 1)));
    threshold.push_back(random_threshold(random));
    child.resize(child.size() + 2);
    for (size_t way = 0; way < 2; ++way) {
      const int32_t below = grow(random, deepest - 1);
      child[2 * static_cast<size_t>(node) + way] = below;
    }
    return node;
  }

  // Only x <= threshold, all orders with NaN to either side, or any test but membership.
  uint8_t random_test(Random& random) const {
    if (kinds_ == 0) return static_cast<uint8_t>(TreeCompare::leq);
    const auto last = kinds_ == 1 ? TreeCompare::gt : TreeCompare::neq;
    return static_cast<uint8_t>(random.integer(0, static_cast<int64_t>(last)) | (random.integer(0, 1) << 7));
  }

  float random_threshold(Random& random) const {
    const int64_t kind = kinds_ == 0 ? 99 : random.integer(0, 99);
    if (kind == 0) return std::numeric_limits<float>::infinity();
    if (kind == 1) return -std::numeric_limits<float>::infinity();
    if (kind == 2 && kinds_ == 2) return NAN;
    return static_cast<float>(random.integer(-3, 3));
  }

  int64_t kinds_ = 0;
};

}  // namespace camshaft::ops
