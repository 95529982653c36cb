// Trees whose nodes all order x and a threshold, laid out for rows that go down together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace camshaft::ops {

/// A node's two children lie side by side, and leaves lead to themselves: rows go down together, as many steps as the
/// deepest tree among theirs has, without a branch on what they find. One by one each second test was guessed wrong,
/// and took 8 ns. Eight at once wait for what they read: 50 rows went through 50 trees of 5 levels in 17 us, 16
/// take 11.
template <class X>
class PlainForest {
 public:
  static constexpr int64_t rows_together = 16;

  PlainForest(int64_t nodes, int64_t trees)
      : trees_(2 * nodes),
        nodes_(static_cast<size_t>(nodes)),
        height_(static_cast<size_t>(nodes)),
        places_(static_cast<size_t>(2 * nodes + trees)),
        leaf_(places_.size(), -1) {}

  /// The features that rows must have.
  int64_t features() const { return features_; }

  /// Nodes are set from the last one to the first; `children` (for x <= threshold, and for what is not) are nodes
  /// behind this one, or complements of leaves. `takes_nan`: NaN goes to the first one.
  void set(int64_t node, X threshold, int32_t feature, const int32_t* children, bool takes_nan) {
    const auto first = static_cast<int32_t>(2 * node);
    for (int32_t k = 0; k < 2; ++k) put(first + k, children[k]);
    nodes_[static_cast<size_t>(node)] = {threshold, 2 * feature + (takes_nan ? 1 : 0), first};
    height_[static_cast<size_t>(node)] = 1 + std::max(height_of(children[0]), height_of(children[1]));
    takes_nan_ |= takes_nan;
    features_ = std::max(features_, int64_t{feature} + 1);
  }

  /// The root of a tree, once all nodes are set: a node, or the complement of a leaf.
  void set_root(int64_t tree, int32_t root) {
    put(static_cast<int32_t>(trees_ + tree), root);
    deepest_ = std::max(deepest_, height_of(root));
  }

  /// leaves[r]: where row r ends that goes down the tree trees[r]. rows_together of each.
  void walk(const int64_t* trees, const X* const* rows, int32_t* leaves) const {
    return takes_nan_ ? walk_all<true>(trees, rows, leaves) : walk_all<false>(trees, rows, leaves);
  }

 private:
  struct Node {
    X threshold;
    int32_t feature;  // doubled, and 1 more where NaN goes to the first child
    int32_t first;    // child, the other one behind it
  };

  void put(int32_t place, int32_t child) {
    // Nothing is <= NaN: a leaf's second child is itself.
    constexpr X none = std::numeric_limits<X>::quiet_NaN();
    places_[static_cast<size_t>(place)] = child < 0 ? Node{none, 0, place - 1} : nodes_[static_cast<size_t>(child)];
    if (child < 0) leaf_[static_cast<size_t>(place)] = ~child;
  }

  template <bool kTakesNan>
  void walk_all(const int64_t* trees, const X* const* rows, int32_t* leaves) const {
    int32_t at[rows_together];
    const X* row[rows_together];
    for (int64_t r = 0; r < rows_together; ++r) {
      at[r] = static_cast<int32_t>(trees_ + trees[r]);
      row[r] = rows[r];
    }
    const auto is_leaf = [&](int32_t place) { return leaf_[static_cast<size_t>(place)] >= 0; };
    constexpr int32_t steps = 6;  // between looks at whether all have arrived
    for (int32_t left = deepest_; left > 0; left -= steps) {
      for (int32_t step = std::min(steps, left); step > 0; --step) {
#pragma GCC unroll 16
        for (int64_t r = 0; r < rows_together; ++r) {
          const Node& node = places_[static_cast<size_t>(at[r])];
          const X x = row[r][node.feature >> 1];
          bool is_first = x <= node.threshold;
          if constexpr (kTakesNan) is_first |= (x != x) & ((node.feature & 1) != 0);
          at[r] = node.first + static_cast<int32_t>(!is_first);
        }
      }
      if (left > steps && std::all_of(at, at + rows_together, is_leaf)) break;
    }
    for (int64_t r = 0; r < rows_together; ++r) leaves[r] = leaf_[static_cast<size_t>(at[r])];
  }

  int32_t height_of(int32_t child) const {
    return child < 0 ? 0 : height_[static_cast<size_t>(child)];
  }

  int64_t trees_;  // the place of the first tree's root
  int64_t features_ = 0;
  int32_t deepest_ = 0;
  bool takes_nan_ = false;
  std::vector<Node> nodes_;  // as they are copied to where parents find them
  std::vector<int32_t> height_;
  std::vector<Node> places_;   // of children and roots
  std::vector<int32_t> leaf_;  // at a place, or -1
};

}  // namespace camshaft::ops
