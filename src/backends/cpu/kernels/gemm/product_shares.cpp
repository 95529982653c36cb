#include "backends/cpu/kernels/gemm/product_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/divide_up.h"

namespace camshaft::cpu {
namespace {

// In units of a multiplication and addition, which takes 1/32 of a cycle with AVX-512: reading a float from beyond L2
// takes half a cycle.
constexpr int64_t kReadCost = 16;
// A barrier of many threads takes two microseconds or so.
constexpr int64_t kBarrierCost = 200'000;
// A grid whose busiest thread has more than its part by this is looked at critically.
constexpr double least_balance = 0.87;

struct Grid {
  int64_t row_parts = 1, panel_parts = 1;
  int64_t cost = std::numeric_limits<int64_t>::max();  // of the busiest thread, for one step of K
  int64_t elements = 0;                                // of C, that it computes
};

// The grid with the least time for the busiest thread: its products, and its reading of A and B. Cutting many rows (B
// is read by all) also leaves the next layer of the kind what it reads in its own cache; Swin on two threads gained 2 %
// over always cutting B.
Grid best_grid(const ProductShape& s, int threads) {
  Grid best;
  const int64_t tiles = divide_up(s.m, s.tile_rows), panels = s.panels();
  for (int64_t parts = std::min<int64_t>(threads, std::max<int64_t>(1, panels)); parts >= 1;) {
    const int64_t others = threads / parts;
    const int64_t rows = std::min(s.m, divide_up(tiles, others) * s.tile_rows);
    const int64_t columns = std::min(s.n, divide_up(panels, parts) * s.panel_columns);
    const int64_t cost = rows * columns + kReadCost * (divide_up(rows, s.taps) + columns);
    if (cost < best.cost) best = {others, parts, cost, rows * columns};
    // Fewer parts with as many others cost no less.
    parts = threads / (others + 1);
  }
  return best;
}

// Of the busiest thread of a list, whole: its products and its reading; the sums of blocks are written, and read again.
double list_cost(const ProductShape& s, int64_t k_blocks, int threads) {
  const int64_t elements = divide_up(s.m * s.n * k_blocks, threads), columns = std::min(s.n, s.panel_columns);
  const int64_t rows = divide_up(elements, columns), touched = std::min(divide_up(rows, s.m) + 1, s.panels());
  const double step = static_cast<double>(elements + kReadCost * (divide_up(rows, s.taps) + touched * columns));
  const double own = step * static_cast<double>(s.taps * s.depth) / static_cast<double>(k_blocks);
  if (k_blocks == 1) return own;
  return own + static_cast<double>(kBarrierCost) + 2.0 * kReadCost * static_cast<double>(elements);
}

}  // namespace

int useful_threads(double cycles, int most) {
  constexpr int always = 4;
  constexpr double cycles_of_a_thread = 128;
  if (most <= always) return most;
  return std::clamp(static_cast<int>(std::min(std::sqrt(cycles / cycles_of_a_thread), 1e6)), always, most);
}

ProductShares::ProductShares(const ProductShape& shape, int most) : shape_(shape) {
  const double steps = static_cast<double>(shape.taps * shape.depth);
  threads_ = useful_threads(static_cast<double>(shape.m) * static_cast<double>(shape.n) * steps / 32, most);
  const Grid grid = best_grid(shape, threads_);
  row_parts_ = grid.row_parts;
  panel_parts_ = grid.panel_parts;
  // With few threads a grid is never far from even.
  if (threads_ < 4 || shape.m == 0 || shape.n == 0) return;
  // A list reads more, which is hidden in part; it is worth that where it evens out much.
  const double even = static_cast<double>(shape.m) * static_cast<double>(shape.n) / threads_;
  const bool is_even = even > least_balance * static_cast<double>(grid.elements);
  double best = (is_even ? 0.9 : 1.2) * static_cast<double>(grid.cost) * steps;
  for (const int64_t blocks : {int64_t{1}, shape.k_blocks}) {
    const double cost = list_cost(shape, blocks, threads_);
    if (cost >= best) continue;
    best = cost;
    is_list_ = true;
    k_blocks_ = blocks;
  }
}

ProductShares::Position ProductShares::cut(int thread) const {
  const int64_t of_block = shape_.m * shape_.n, all = of_block * k_blocks_;
  // In two steps: the product of all elements and the threads may be more than 64 bits hold.
  const int64_t at = all / threads_ * thread + all % threads_ * thread / threads_;
  const int64_t block = at / of_block, inside = at - block * of_block;
  const int64_t panel = inside / (shape_.m * shape_.panel_columns);
  const int64_t columns = std::min(shape_.panel_columns, shape_.n - panel * shape_.panel_columns);
  return {block * shape_.panels() + panel,
          columns > 0 ? (inside - panel * shape_.m * shape_.panel_columns) / columns : 0};
}

Share grid_share(const ProductShape& shape, int64_t row_parts, int64_t panel_parts, int thread) {
  if (thread >= row_parts * panel_parts) return {0, 0, 0, 0};
  const int64_t pr = thread / panel_parts, pp = thread % panel_parts;
  const int64_t tiles = divide_up(shape.m, shape.tile_rows), panels = shape.panels();
  return {std::min(shape.m, tiles * pr / row_parts * shape.tile_rows),
          std::min(shape.m, tiles * (pr + 1) / row_parts * shape.tile_rows), panels * pp / panel_parts,
          panels * (pp + 1) / panel_parts};
}

Share grid_share(const ProductShape& shape, int threads, int thread) {
  const Grid grid = best_grid(shape, threads);
  return grid_share(shape, grid.row_parts, grid.panel_parts, thread);
}

int64_t row_product_parts(int64_t k, int64_t panels, int64_t panel_columns) {
  // Below 256 KiB there is nothing for many threads; a unit of less than 16 KiB is not worth starting.
  constexpr int64_t least_floats = 64 * 1024, units = 256, unit_floats = 4096;
  if (2 * panels > units || k * panels * panel_columns < least_floats) return 1;
  return std::clamp<int64_t>(units / panels, 1, std::max<int64_t>(1, k * panel_columns / unit_floats));
}

}  // namespace camshaft::cpu
