// Forests whose nodes all test x <= threshold, which several rows go down together, against walks one by one.
#include "ir/ops/tree_ensemble.h"

#include <cmath>

#include "reference/single_op.h"
#include "test_random.h"

namespace camshaft::ops::tree_ensemble_test {
namespace {

struct RandomForest {
  int64_t features = 1, targets = 1;
  bool one_weight = false;  // of each leaf
  std::vector<uint8_t> compare;
  std::vector<int32_t> feature, child, root, start{0}, target;
  std::vector<float> threshold, weight;

  RandomForest(Random& random, int64_t trees, int64_t deepest)
      : features(random.integer(1, 6)), targets(random.integer(1, 3)), one_weight(random.integer(0, 1) == 1) {
    for (int64_t t = 0; t < trees; ++t) root.push_back(grow(random, deepest));
  }

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
    compare.push_back(static_cast<uint8_t>(TreeCompare::leq));
    feature.push_back(static_cast<int32_t>(random.integer(0, features - 1)));
    threshold.push_back(static_cast<float>(random.integer(-3, 3)));
    child.resize(child.size() + 2);
    for (size_t way = 0; way < 2; ++way) {
      const int32_t below = grow(random, deepest - 1);
      child[2 * static_cast<size_t>(node) + way] = below;
    }
    return node;
  }

  std::vector<Tensor> scores(const Tensor& x, TreeAggregate aggregate) const {
    const auto count = [](const auto& list) { return static_cast<int64_t>(list.size()); };
    TreeEnsemble op;
    op.targets = targets;
    op.aggregate = aggregate;
    return run_op(op, {x, Tensor::of<uint8_t>(DType::u8, {count(compare)}, compare),
                       Tensor::of<int32_t>(DType::i32, {count(feature)}, feature),
                       Tensor::of<float>(DType::f32, {count(threshold)}, threshold),
                       Tensor::of<int32_t>(DType::i32, {count(feature), 2}, child),
                       Tensor::of<int32_t>(DType::i32, {count(root)}, root),
                       Tensor::of<int32_t>(DType::i32, {count(start)}, start),
                       Tensor::of<int32_t>(DType::i32, {count(target)}, target),
                       Tensor::of<float>(DType::f32, {count(weight)}, weight), Tensor(DType::f32, {0})});
  }
};

TEST(TreeEnsemble, RowsTogetherGoWhereTheyGoAlone) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    RandomForest forest(random, random.integer(0, 5), random.integer(0, 6));
    const int64_t rows = random.integer(8, 150);
    Tensor x(DType::f32, {rows, forest.features});
    for (int64_t i = 0; i < x.size(); ++i)
      x.as_mutable<float>()[i] = random.integer(0, 9) == 0 ? NAN : static_cast<float>(random.integer(-4, 4));
    const auto aggregate = static_cast<TreeAggregate>(random.integer(0, 3));
    const Tensor together = forest.scores(x, aggregate)[0];
    for (int64_t r = 0; r < rows; ++r) {
      Tensor row(DType::f32, {1, forest.features});
      std::copy_n(x.as<float>() + r * forest.features, forest.features, row.as_mutable<float>());
      const Tensor alone = forest.scores(row, aggregate)[0];
      for (int64_t k = 0; k < forest.targets; ++k)
        ASSERT_EQ(together.as<float>()[r * forest.targets + k], alone.as<float>()[k]) << "row " << r << " target " << k;
    }
  }
}

// A node that does not exist is an error only for a row that comes there.
TEST(TreeEnsemble, ErrorsAreThoseOfRowsAlone) {
  Random random = test_random();
  RandomForest forest(random, 1, 0);
  forest.features = 1;
  forest.compare.assign(2, static_cast<uint8_t>(TreeCompare::leq));
  forest.feature = {0, 7};
  forest.threshold = {0, 0};
  forest.child = {1, -1, -1, -1};
  forest.root = {0};
  Tensor x(DType::f32, {20, 1});
  for (int64_t r = 0; r < 20; ++r) x.as_mutable<float>()[r] = 1;
  forest.scores(x, TreeAggregate::sum);
  x.as_mutable<float>()[17] = -1;
  EXPECT_NE(error_of([&] { forest.scores(x, TreeAggregate::sum); }).find("feature 7"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::tree_ensemble_test
