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
  const int64_t tiles = divide_up(s.m, s.tile_rows), panels = s.all_panels();
  for (int64_t parts = std::min<int64_t>(threads, std::max<int64_t>(1, panels)); parts >= 1;) {
    const int64_t others = threads / parts, of_part = divide_up(panels, parts);
    const int64_t rows = std::min(s.m, divide_up(tiles, others) * s.tile_rows);
    const int64_t whole = of_part / std::max<int64_t>(1, s.panels()), rest = of_part - whole * s.panels();
    const int64_t columns = whole * s.n + std::min(s.n, rest * s.panel_columns);
    const int64_t read_rows = divide_up(rows, s.taps) * (whole + (rest > 0 ? 1 : 0));
    const int64_t cost = rows * columns + kReadCost * (read_rows + columns);
    if (cost < best.cost) best = {others, parts, cost, rows * columns};
    // Fewer parts with as many others cost no less.
    parts = threads / (others + 1);
  }
  return best;
}

// Of all for one step of K: products, or the reading of few rows' B, whichever takes longer.
double step_cost(const ProductShape& s) {
  const double columns = static_cast<double>(s.n) * static_cast<double>(s.groups);
  return columns * static_cast<double>(std::max(s.m, std::min<int64_t>(s.m, 1) * kReadCost));
}

// What is cut: columns of the list where they stay whole, else elements of C.
int64_t list_units(const ProductShape& s, int64_t k_blocks) {
  return s.groups * k_blocks * (s.has_few_rows() ? s.panels() : s.m * s.n);
}

// Of the busiest thread of a list, whole: its products and its reading; the sums of blocks are written, and read again.
double list_cost(const ProductShape& s, int64_t k_blocks, int threads) {
  const int64_t columns = std::min(s.n, s.panel_columns), units = divide_up(list_units(s, k_blocks), threads);
  const int64_t elements = s.has_few_rows() ? units * s.m * columns : units;
  const int64_t rows = divide_up(elements, columns),
                touched = std::min(divide_up(rows, s.m) + 1, s.all_panels() * k_blocks);
  const int64_t read = s.has_few_rows() ? s.m + units * columns : divide_up(rows, s.taps) + touched * columns;
  const double step = static_cast<double>(elements + kReadCost * read);
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

ProductShares::ProductShares(const ProductShape& shape, int most) : shape_(shape), by_panel_(shape.has_few_rows()) {
  const double steps = static_cast<double>(shape.taps * shape.depth);
  threads_ = useful_threads(step_cost(shape) * steps / 32, most);
  const Grid grid = best_grid(shape, threads_);
  row_parts_ = grid.row_parts;
  panel_parts_ = grid.panel_parts;
  // With few threads a grid is never far from even.
  if (threads_ < 4 || shape.m == 0 || shape.n == 0 || shape.groups == 0) return;
  // A list reads more, which is hidden in part; it is worth that where it evens out much.
  const double even =
      static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.groups) / threads_;
  const bool is_even = even > least_balance * static_cast<double>(grid.elements);
  double best = (is_even ? 0.9 : 1.2) * static_cast<double>(grid.cost) * steps;
  for (const int64_t blocks : {int64_t{1}, shape.k_blocks}) {
    const double cost = list_cost(shape, blocks, threads_);
    if (cost >= best) continue;
    best = cost;
    is_list_ = true;
    k_blocks_ = blocks;
  }
  if (!is_list_ || !shape.has_few_rows()) return;
  // The least threads that have no more units each than so many would have.
  const int64_t units = list_units(shape, k_blocks_);
  threads_ = static_cast<int>(divide_up(units, divide_up(units, threads_)));
}

ProductShares::Position ProductShares::cut(int thread) const {
  const int64_t all = list_units(shape_, k_blocks_);
  // In two steps: the product of all units and the threads may be more than 64 bits hold.
  const int64_t at = all / threads_ * thread + all % threads_ * thread / threads_;
  if (shape_.has_few_rows()) return {at, 0};
  const int64_t of_group = shape_.m * shape_.n, group = at / of_group, inside = at - group * of_group;
  const int64_t panel = inside / (shape_.m * shape_.panel_columns);
  const int64_t columns = std::min(shape_.panel_columns, shape_.n - panel * shape_.panel_columns);
  return {group * shape_.panels() + panel,
          columns > 0 ? (inside - panel * shape_.m * shape_.panel_columns) / columns : 0};
}

Share grid_share(const ProductShape& shape, int64_t row_parts, int64_t panel_parts, int thread) {
  if (thread >= row_parts * panel_parts) return {0, 0, 0, 0};
  const int64_t pr = thread / panel_parts, pp = thread % panel_parts;
  const int64_t tiles = divide_up(shape.m, shape.tile_rows), panels = shape.all_panels();
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
