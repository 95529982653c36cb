// Trees whose nodes all test x <= threshold, laid out for many rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace camshaft::ops {

/// Nodes of one array, so that a step of a walk reads one place of it, and leaves behind them that lead to themselves:
/// rows go down together, as many steps as the tree is deep, without a branch on what they find. One by one each second
/// test was guessed wrong, and took 8 ns.
template <class X>
class PlainForest {
 public:
  static constexpr int64_t rows_together = 8;

  PlainForest(int64_t nodes, int64_t leaves)
      : count_(static_cast<int32_t>(nodes)),
        nodes_(static_cast<size_t>(nodes + leaves)),
        height_(static_cast<size_t>(nodes)) {
    for (size_t i = static_cast<size_t>(nodes); i < nodes_.size(); ++i) {
      const auto self = static_cast<int32_t>(i);
      nodes_[i] = {X{0}, 0, {self, self}};
    }
  }

  /// Nodes are set from the last one to the first; `children` (for a test that holds, and one that does not) are nodes
  /// behind this one, or complements of leaves.
  void set(int64_t node, X threshold, int32_t feature, const int32_t* children) {
    Node& at = nodes_[static_cast<size_t>(node)];
    at = {threshold, feature, {place_of(children[0]), place_of(children[1])}};
    height_[static_cast<size_t>(node)] = 1 + std::max(height_of(at.child[0]), height_of(at.child[1]));
  }

  /// The leaves at which `count` rows end, up to rows_together of them, that go down from `root`, a node or the
  /// complement of a leaf.
  void walk(int32_t root, const X* rows, int64_t features, int64_t count, int32_t* leaves) const {
    int32_t at[rows_together];
    std::fill_n(at, rows_together, place_of(root));
    const X* row[rows_together];
    for (int64_t r = 0; r < rows_together; ++r) row[r] = rows + std::min(r, count - 1) * features;
    constexpr int32_t steps = 4;  // between looks at whether all have arrived
    for (int32_t left = height_of(at[0]); left > 0; left -= steps) {
      for (int32_t step = std::min(steps, left); step > 0; --step) {
#pragma GCC unroll 8
        for (int64_t r = 0; r < rows_together; ++r) {
          const Node& node = nodes_[static_cast<size_t>(at[r])];
          at[r] = node.child[row[r][node.feature] <= node.threshold ? 0 : 1];
        }
      }
      if (std::all_of(at, at + rows_together, [&](int32_t place) { return place >= count_; })) break;
    }
    for (int64_t r = 0; r < count; ++r) leaves[r] = at[r] - count_;
  }

 private:
  struct Node {
    X threshold;
    int32_t feature;
    int32_t child[2];
  };

  int32_t place_of(int32_t child) const {
    return child < 0 ? count_ + ~child : child;
  }
  int32_t height_of(int32_t place) const {
    return place < count_ ? height_[static_cast<size_t>(place)] : 0;
  }

  int32_t count_;
  std::vector<Node> nodes_;
  std::vector<int32_t> height_;
};

}  // namespace camshaft::ops
