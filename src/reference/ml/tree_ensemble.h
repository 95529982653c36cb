// Walks through decision trees, for the reference and for kernels.
#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/thread_pool.h"
#include "ir/ops/tree_ensemble.h"
#include "reference/ml/plain_forest.h"

namespace camshaft::ops {

/// Sizes and types of a TreeEnsemble's operands.
struct TreeSizes {
  DType x = DType::f32, threshold = DType::f32;
  int64_t rows = 0, features = 0, nodes = 0, leaves = 0, weights = 0, members = 0, trees = 0, bases = 0;
};

/// `dims`: of all operands in their order; of x they may be missing where rows are not counted yet.
TreeSizes tree_sizes(DType x, DType threshold, const std::vector<Dims>& dims);

/// What depends on the trees alone, made once for many runs. Empty for trees that rows must go down one by one.
struct TreeLayout {
  std::variant<std::monostate, PlainForest<float>, PlainForest<double>> forest;
  bool one_weight = false;  ///< each leaf has its own, of the one target

  /// Null where there is none, or it reads features that rows do not have.
  template <class X>
  const PlainForest<X>* plain(int64_t features) const {
    const auto* plain = std::get_if<PlainForest<X>>(&forest);
    return plain && plain->features() <= features ? plain : nullptr;
  }
};

/// `operands`: of the operator, null for what is left out; x is not looked at.
TreeLayout lay_out_trees(const TreeEnsemble& op, const TreeSizes& sizes, std::span<const std::byte* const> operands);

struct TreeResults {
  int64_t* classes = nullptr;  ///< null for regressions
  std::byte* scores = nullptr;
};

/// `workspace`: tree_workspace_bytes() for at least as many threads as the pool has, aligned to 64 bytes. Errors as
/// those of the operator.
void run_trees(const TreeEnsemble& op, const TreeSizes& sizes, const TreeLayout& layout,
               std::span<const std::byte* const> operands, const TreeResults& results, ThreadPool& pool,
               std::byte* workspace);
size_t tree_workspace_bytes(const TreeEnsemble& op, const TreeSizes& sizes, int threads);

}  // namespace camshaft::ops
