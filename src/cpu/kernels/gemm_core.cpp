#include "cpu/kernels/gemm_core.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/gemm_core.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "cpu/kernels/activation-inl.h"
#include "cpu/kernels/gemm_blocking.h"
#include "cpu/kernels/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

void run_tile(int64_t vectors, int64_t rows, const TileArgs& t) {
#if HWY_TARGET <= HWY_AVX3
  if (vectors == 4) return tile_of_rows<4>(rows, t);
  if (vectors == 3) return tile_of_rows<3>(rows, t);
#endif
  if (vectors == 2) return tile_of_rows<2>(rows, t);
  tile_of_rows<1>(rows, t);
}

// The activation of a tile that was just stored. `e.addend` is at the panel's first column.
void activate_tile(const Epilogue& e, const TileArgs& t, int64_t rows, int64_t columns) {
  ActivationBlock block{t.c + t.row0 * t.ldc, t.ldc, rows, columns, nullptr, e.addend_ld};
  if (!t.out_rows) {
    if (e.addend) block.addend = e.addend + t.row0 * e.addend_ld;
    return activate(*e.activation, block);
  }
  block.rows = 1;
  for (int64_t r = 0; r < rows; ++r) {
    block.c = t.c + t.out_rows[r] * t.ldc;
    if (e.addend) block.addend = e.addend + t.out_rows[r] * e.addend_ld;
    activate(*e.activation, block);
  }
}

// One K block of one panel over all rows of the M block; `e` is of the panel.
void run_panel(TileArgs& t, const Epilogue& e, const float* const* pointers, int64_t row0, const int64_t* out_rows,
               int64_t rows, int64_t columns, const float* next_b, int64_t next_floats) {
  constexpr int64_t lanes = tile_lanes();
  const int64_t vectors = (columns + lanes - 1) / lanes;
  t.tail_lanes = static_cast<int>(columns - (vectors - 1) * lanes);
  const int64_t tiles = (rows + kTileRows[vectors - 1] - 1) / kTileRows[vectors - 1];
  const int64_t steps = std::max<int64_t>(1, t.taps * (t.depth / 4));
  // Spread the next panel's cache lines over this panel's tiles: the first pass over a panel would otherwise wait for
  // memory while the passes after it leave memory idle.
  t.prefetch = reinterpret_cast<const char*>(next_b);
  const int64_t next_lines = next_floats / 16;
  const int64_t per_tile = (next_lines + tiles - 1) / tiles;
  t.prefetch_lines = static_cast<int>(std::min<int64_t>(16, (per_tile + steps - 1) / steps));
  int64_t lines_left = next_lines;
  for (int64_t i = 0, row = 0; i < tiles; ++i) {
    // Tiles of even height: 49 rows are 4 tiles of 6 and 5 of 5, not 8 of 6 and a slow one of 1.
    const int64_t height = (rows - row + tiles - i - 1) / (tiles - i);
    if (lines_left <= 0) t.prefetch_lines = 0;
    t.rows = pointers + row;
    t.row0 = row0 + row;
    t.out_rows = out_rows ? out_rows + row : nullptr;
    run_tile(vectors, height, t);
    if (t.last && e.activation) activate_tile(e, t, height, columns);
    t.prefetch += steps * t.prefetch_lines * 64;
    lines_left -= steps * t.prefetch_lines;
    row += height;
  }
}

void core_run_target(const CoreProblem& p, int64_t m0, int64_t m1, int64_t p0, int64_t p1, void* workspace) {
  const PackedLayout layout{p.taps * p.depth, p.n, kTileVectors * tile_lanes(), tile_lanes()};
  const bool copy = p.rows.fill == nullptr && copies_rows(p.rows, p.taps * p.depth, p1 - p0);
  const bool single_pass = m1 - m0 <= kTileRows[kTileVectors - 1];
  const Blocking blocking = core_blocking(m1 - m0, p.taps, p.depth, single_pass && !copy);
  const Epilogue& epilogue = p.epilogue;
  // A residual that is C itself is what C holds before the first K block, not after the last.
  const bool in_place = epilogue.residual == p.c && p.c != nullptr;
  Scratch scratch(workspace, blocking.rows, p.taps);

  TileArgs t{};
  t.tap_stride = blocking.rows;
  // With a few floats a tap, looking costs more than multiplying.
  t.zeros = p.depth >= 16 ? p.rows.zeros : nullptr;
  t.ldc = p.ldc;
  t.residual_ld = epilogue.residual_ld;
  t.lo = epilogue.lo;
  t.hi = epilogue.hi;
  t.clamp =
      epilogue.lo != -std::numeric_limits<float>::infinity() || epilogue.hi != std::numeric_limits<float>::infinity();

  for (int64_t row0 = m0; row0 < m1; row0 += blocking.rows) {
    const int64_t rows = std::min(blocking.rows, m1 - row0);
    const int64_t* out_rows = nullptr;
    if (p.rows.fill) {
      p.rows.fill(p.rows.context, row0, rows, scratch.pointers, blocking.rows, scratch.out_rows);
      if (p.rows.scatter) out_rows = scratch.out_rows;
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        scratch.pointers[r] =
            copy ? scratch.copy + r * blocking.copy_stride : p.rows.base + (row0 + r) * p.rows.row_stride;
      }
    }
    const int64_t group = std::max<int64_t>(1, kBlockC / (rows * layout.width));
    for (int64_t g0 = p0; g0 < p1; g0 += group) {
      const int64_t g1 = std::min(g0 + group, p1);
      int64_t callback_panel = g0;
      for (KBlock kb = first_block(blocking, p.taps, p.depth); !kb.done;
           kb = next_block(blocking, p.taps, p.depth, kb)) {
        if (copy) copy_rows(p.rows, row0, rows, kb, blocking.copy_stride, scratch.copy);
        const int64_t k0 = kb.tap0 * p.depth + kb.depth0;
        const int64_t k_count = kb.taps * kb.depth;
        const KBlock following = next_block(blocking, p.taps, p.depth, kb);
        t.taps = kb.taps;
        t.depth = kb.depth;
        t.k_offset = copy ? 0 : kb.depth0;
        t.accumulate = in_place || !kb.first;
        t.last = following.done;
        for (int64_t panel = g0; panel < g1; ++panel) {
          const int64_t col0 = panel * layout.width;
          const int64_t columns = std::min<int64_t>(layout.width, p.n - col0);
          t.b = p.packed_b + layout.offset(panel) + k0 * layout.columns(panel);
          t.c = p.c + col0;
          t.bias = epilogue.bias ? epilogue.bias + col0 : nullptr;
          t.residual = epilogue.residual && !in_place ? epilogue.residual + col0 : nullptr;
          const float* next_b = t.b;
          int64_t next_floats = 0;
          if (single_pass) {
            // One pass over B: run ahead in the same stream.
            next_b = t.b + kStreamAhead;
            next_floats = k_count * layout.columns(panel);
          } else if (panel + 1 < g1) {
            next_b = p.packed_b + layout.offset(panel + 1) + k0 * layout.columns(panel + 1);
            next_floats = k_count * layout.columns(panel + 1);
          } else if (!following.done) {
            next_b =
                p.packed_b + layout.offset(g0) + (following.tap0 * p.depth + following.depth0) * layout.columns(g0);
            next_floats = following.taps * following.depth * layout.columns(g0);
          }
          Epilogue of_panel = epilogue;
          if (epilogue.addend) of_panel.addend += col0;
          run_panel(t, of_panel, scratch.pointers + kb.tap0 * blocking.rows, row0, out_rows, rows, columns, next_b,
                    next_floats);
          // Small blocks are handed over together: the callback's overhead is per call.
          if (t.last && epilogue.callback &&
              (panel + 1 == g1 || rows * (col0 + columns - callback_panel * layout.width) >= kCallbackElements)) {
            const int64_t first = callback_panel * layout.width;
            epilogue.callback(epilogue.context, p.callback_row0 + row0, rows, p.callback_col0 + first,
                              col0 + columns - first);
            callback_panel = panel + 1;
          }
        }
      }
    }
  }
}

void activate_target(const Activation& activation, const ActivationBlock& block) {
  activate(activation, block);
}

int64_t tile_rows_target() {
  return kTileRows[kTileVectors - 1];
}
PackedLayout layout_target(int64_t k, int64_t n) {
  return {k, n, kTileVectors * tile_lanes(), tile_lanes()};
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(core_run_target);
HWY_EXPORT(tile_rows_target);
HWY_EXPORT(layout_target);
HWY_EXPORT(activate_target);

PackedLayout packed_layout(int64_t k, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(layout_target)(k, n);
}
int64_t packed_b_bytes(int64_t k, int64_t n) {
  return packed_layout(k, n).floats() * 4;
}
int64_t core_tile_rows() {
  return HWY_DYNAMIC_DISPATCH(tile_rows_target)();
}

int64_t block_k() {
  static const int64_t steps = [] {
    const int64_t reported = sysconf(_SC_LEVEL1_DCACHE_SIZE);  // 0 in some virtual machines
    const int64_t l1 = reported > 0 ? reported : 32 << 10;
    return std::clamp<int64_t>(l1 * 3 / 4 / (64 * 4) / 32 * 32, 64, 256);
  }();
  return steps;
}

void core_activate(const Activation& activation, const ActivationBlock& block) {
  HWY_DYNAMIC_DISPATCH(activate_target)(activation, block);
}

void core_run(const CoreProblem& problem, int64_t m0, int64_t m1, int64_t p0, int64_t p1, void* workspace) {
  if (m0 >= m1 || p0 >= p1) return;
  HWY_DYNAMIC_DISPATCH(core_run_target)(problem, m0, m1, p0, p1, workspace);
}

int64_t core_workspace_bytes(int64_t m, int64_t taps) {
  return Scratch::bytes(most_block_rows(m, taps), taps);
}

Share core_share(int64_t m, int64_t n, int threads, int thread) {
  const PackedLayout layout = packed_layout(1, n);
  const int64_t tile = core_tile_rows();
  const int64_t tiles = (m + tile - 1) / tile;
  const int64_t panels = layout.panels();
  // The cut with the least work for the busiest thread; B is cut rather than A where that ties, because then each
  // thread reads only its own weights.
  int64_t best_cost = std::numeric_limits<int64_t>::max();
  int64_t rows_parts = 1, panel_parts = 1;
  for (int64_t parts = std::min<int64_t>(threads, std::max<int64_t>(1, panels)); parts >= 1; --parts) {
    const int64_t others = threads / parts;
    const int64_t cost = ((panels + parts - 1) / parts) * ((tiles + others - 1) / others);
    if (cost < best_cost) {
      best_cost = cost;
      panel_parts = parts;
      rows_parts = others;
    }
  }
  if (thread >= rows_parts * panel_parts) return {0, 0, 0, 0};
  const int64_t pr = thread / panel_parts, pp = thread % panel_parts;
  Share share;
  share.m0 = std::min(m, tiles * pr / rows_parts * tile);
  share.m1 = std::min(m, tiles * (pr + 1) / rows_parts * tile);
  share.p0 = panels * pp / panel_parts;
  share.p1 = panels * (pp + 1) / panel_parts;
  return share;
}

}  // namespace camshaft::cpu
#endif
