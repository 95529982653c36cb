// Trees that are laid out when the kernel is compiled, against the reference, which lays none out for few rows.
#include "ir/ops/tree_ensemble.h"

#include "backends/cpu/run_node.h"
#include "reference/ml/random_forest.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::tree_ensemble_test {
namespace {

using ops::RandomForest;

std::vector<size_t> all_but_x(const std::vector<Tensor>& operands) {
  std::vector<size_t> known;
  for (size_t i = 1; i < operands.size(); ++i) known.push_back(i);
  return known;
}

TEST(TreeEnsembleTactic, RowsGoWhereTheReferenceSaysTheyGo) {
  Random random = test_random();
  for (int round = 0; round < 80; ++round) {
    const RandomForest forest(random, random.integer(0, 12), random.integer(0, 6));
    const Tensor x = forest.rows(random, random.integer(0, round % 2 ? 7 : 200));
    const std::vector<Tensor> operands = forest.operands(x);
    const ops::TreeEnsemble op = forest.op(static_cast<ops::TreeAggregate>(random.integer(0, 3)));
    NodeTest(op, operands, all_but_x(operands), "tree_ensemble").check(static_cast<int>(random.integer(1, 4)));
    if (testing::Test::HasFailure()) return;
  }
}

// Rows of other types are compared as they are: in double.
TEST(TreeEnsembleTactic, RowsOfOtherTypes) {
  Random random = test_random();
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16}) {
    const RandomForest forest(random, 5, 5);
    for (const int64_t rows : {1, 7, 90}) {
      const std::vector<Tensor> operands = forest.operands(random_tensor(random, dtype, {rows, forest.features}));
      NodeTest(forest.op(ops::TreeAggregate::sum), operands, all_but_x(operands), "tree_ensemble").check(2);
    }
  }
}

TEST(TreeEnsembleTactic, ClassesAndScores) {
  Random random = test_random();
  for (int round = 0; round < 30; ++round) {
    RandomForest forest(random, random.integer(1, 8), 4);
    ops::TreeEnsemble op = forest.op(ops::TreeAggregate::sum);
    op.task = forest.targets == 2 && round % 2 ? ops::TreeTask::binary_mixed : ops::TreeTask::classification;
    const std::vector<Tensor> operands = forest.operands(forest.rows(random, random.integer(1, 70)));
    NodeTest test(op, operands, all_but_x(operands), "tree_ensemble");
    test.outputs = 2;
    test.check(2);
  }
}

}  // namespace
}  // namespace camshaft::cpu::tree_ensemble_test
