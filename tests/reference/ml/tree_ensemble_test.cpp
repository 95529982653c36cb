// Forests whose nodes all order x and a threshold, which several rows go down together, against walks one by one.
#include "ir/ops/tree_ensemble.h"

#include "reference/ml/random_forest.h"
#include "reference/single_op.h"
#include "test_random.h"

namespace camshaft::ops::tree_ensemble_test {
namespace {

std::vector<Tensor> scores(const RandomForest& forest, const Tensor& x, TreeAggregate aggregate) {
  return run_op(forest.op(aggregate), forest.operands(x));
}

TEST(TreeEnsemble, RowsTogetherGoWhereTheyGoAlone) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    RandomForest forest(random, random.integer(0, 12), random.integer(0, 6));
    const int64_t rows = random.integer(8, 150);
    const Tensor x = forest.rows(random, rows);
    const auto aggregate = static_cast<TreeAggregate>(random.integer(0, 3));
    const Tensor together = scores(forest, x, aggregate)[0];
    for (int64_t r = 0; r < rows; ++r) {
      Tensor row(DType::f32, {1, forest.features});
      std::copy_n(x.as<float>() + r * forest.features, forest.features, row.as_mutable<float>());
      const Tensor alone = scores(forest, row, aggregate)[0];
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
  scores(forest, x, TreeAggregate::sum);
  x.as_mutable<float>()[17] = -1;
  EXPECT_NE(error_of([&] { scores(forest, x, TreeAggregate::sum); }).find("feature 7"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::tree_ensemble_test
