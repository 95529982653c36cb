// How the threads share a product: pure functions of shapes, so that the balance for any number of cores can be told
// without them.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// A product of m rows and n columns as the kernels cut it.
struct ProductShape {
  int64_t m = 0, n = 0;
  int64_t taps = 1;      ///< neighbouring rows share most of what they read where there are several
  int64_t depth = 0;     ///< floats of a tap
  int64_t k_blocks = 1;  ///< of K, each of which can be summed alone (core_k_blocks)
  int64_t tile_rows = 1, panel_columns = 1;
  int64_t groups = 1;  ///< products of these sizes with operands of their own, which are cut together

  int64_t panels() const { return (n + panel_columns - 1) / panel_columns; }  ///< of one group
  int64_t all_panels() const { return groups * panels(); }
  /// Whether one register tile holds all rows. Such a product takes as long as reading B does.
  bool has_few_rows() const { return m <= tile_rows; }
};

/// Rows [m0, m1) of panels [p0, p1).
struct Share {
  int64_t m0, m1, p0, p1;
};

/// What a thread computes in one go.
struct ProductPiece {
  int64_t k_block;  ///< -1: the whole of K
  int64_t group;
  Share share;  ///< of the group's panels
};

/// The part of thread `thread` in a grid of row_parts x panel_parts, possibly none; panels count through the groups.
Share grid_share(const ProductShape& shape, int64_t row_parts, int64_t panel_parts, int thread);
/// In the best grid for `threads` threads.
Share grid_share(const ProductShape& shape, int threads, int thread);

/// A static division of a product, or of several of the same sizes, among threads, in one of two ways: a grid of row
/// parts by panel parts; or, where that leaves threads idle, one list of the rows of all panels (of all blocks of K,
/// where also that is too coarse), cut into equal parts wherever that may be. Few rows are not cut apart, as each part
/// would read all of its panel. The blocks of K are summed in order at the end: results depend neither on the way nor
/// on the number of threads.
class ProductShares {
 public:
  /// On at most `most` threads: no more than there is work for.
  ProductShares(const ProductShape& shape, int most);

  int threads() const { return threads_; }
  /// 1: each share is complete. Otherwise the sums of as many blocks of K wait to be added up.
  int64_t k_blocks() const { return k_blocks_; }
  /// Calls piece(ProductPiece) for everything that thread `thread` does.
  template <class Piece>
  void for_each(int thread, const Piece& piece) const {
    const int64_t panels = shape_.panels();
    if (!is_list_) {
      const Share all = grid_share(shape_, row_parts_, panel_parts_, thread);
      for (int64_t p0 = all.p0; all.m0 < all.m1 && p0 < all.p1;) {
        const int64_t group = p0 / panels, first = group * panels, past = first + panels;
        const int64_t p1 = past < all.p1 ? past : all.p1;
        piece(ProductPiece{-1, group, {all.m0, all.m1, p0 - first, p1 - first}});
        p0 = p1;
      }
      return;
    }
    const Position end = cut(thread + 1);
    for (Position at = cut(thread); at.column <= end.column; at = {at.column + 1, 0}) {
      const int64_t m1 = at.column < end.column ? shape_.m : end.row;
      if (at.row >= m1) continue;
      // The blocks of a panel of few rows follow each other, as they do in memory.
      const int64_t block = by_panel_ ? at.column % k_blocks_ : at.column / shape_.all_panels();
      const int64_t of_all = by_panel_ ? at.column / k_blocks_ : at.column - block * shape_.all_panels();
      const int64_t group = of_all / panels, panel = of_all - group * panels;
      piece(ProductPiece{k_blocks_ > 1 ? block : int64_t{-1}, group, {at.row, m1, panel, panel + 1}});
    }
  }

 private:
  /// In the list: a row of one of the panels of all groups and blocks.
  struct Position {
    int64_t column = 0, row = 0;
  };
  /// Where thread `thread` begins, by the elements of C before it.
  Position cut(int thread) const;

  ProductShape shape_;
  int threads_ = 1;
  bool is_list_ = false;
  bool by_panel_ = false;  // the list: the blocks of each panel, not the panels of each block
  int64_t k_blocks_ = 1;
  int64_t row_parts_ = 1, panel_parts_ = 1;
};

/// Threads that are worth waking for so much work (cycles of one core), of `most`: each further one costs a barrier
/// some cycles, so that time is least at the square root of their ratio. A few are always worth it.
int useful_threads(double cycles, int most);

/// K parts of a product of one row, or of few, each of which is summed alone: as many as it takes for 64 threads where
/// panels are few. The sums depend on them, so they depend on the shape alone.
int64_t row_product_parts(int64_t k, int64_t panels, int64_t panel_columns);

/// The share of a thread of a list of units, of which each of `groups` (the last one of fewer) has `group` x `parts`:
/// calls piece(part, first, end) for the panels [first, end) of a group, in the order in which they lie in memory.
template <class Piece>
void for_each_row_part(int64_t panels, int64_t group, int64_t parts, int threads, int thread, const Piece& piece) {
  const int64_t units = panels * parts, end = units * (thread + 1) / threads;
  for (int64_t unit = units * thread / threads; unit < end;) {
    const int64_t first = unit / (group * parts) * group;  // of the group
    const int64_t count = group < panels - first ? group : panels - first;
    const int64_t inside = unit - first * parts, part = inside / count, at = inside - part * count;
    const int64_t panels_here = count - at < end - unit ? count - at : end - unit;
    piece(part, first + at, first + at + panels_here);
    unit += panels_here;
  }
}

}  // namespace camshaft::cpu
