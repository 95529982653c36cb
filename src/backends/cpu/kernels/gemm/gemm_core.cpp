#include "backends/cpu/kernels/gemm/gemm_core.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/targets.h"
#include "base/cache_sizes.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/gemm_core.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/kernels/gemm/gemm_blocking.h"
#include "backends/cpu/kernels/gemm/gemm_dots-inl.h"
#include "backends/cpu/kernels/gemm/gemm_matrix-inl.h"
#include "backends/cpu/kernels/gemm/gemm_tile-inl.h"
#include "backends/cpu/kernels/gemm/gemm_tile_even-inl.h"
#include "backends/cpu/kernels/pointwise/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

template <class Word>
void run_tile(int64_t vectors, int64_t rows, const TileArgs& t) {
  if constexpr (kTileVectors == 4) {
    if (vectors == 4) return tile_of_rows<Word, 4>(rows, t);
    if (vectors == 3) return tile_of_rows<Word, 3>(rows, t);
  }
  if (vectors == 2) return tile_of_rows<Word, 2>(rows, t);
  tile_of_rows<Word, 1>(rows, t);
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

// One K block of one panel over all rows of the M block; `e` is of the panel. `first`: no panel has read these rows
// yet.
template <class Word>
void run_panel(TileArgs& t, const Epilogue& e, const float* const* pointers, int64_t row0, const int64_t* out_rows,
               int64_t rows, int64_t columns, uintptr_t next_b, int64_t next_floats, bool first) {
  constexpr int64_t lanes = tile_lanes();
  const int64_t vectors = divide_up(columns, lanes);
  t.tail_lanes = static_cast<int>(columns - (vectors - 1) * lanes);
  int64_t most = kTile.rows[vectors - 1];
#if CAMSHAFT_SHARES_VECTORS
  const bool even = t.row_step > 0 && has_even_tiles(vectors, t.tail_lanes);
  if (even) most = kEvenTile.rows[vectors - 1];
#else
  constexpr bool even = false;
#endif
  const int64_t tiles = divide_up(rows, most);
  const int64_t steps = std::max<int64_t>(1, t.taps * (t.depth / 4));
  // Spread the next panel's cache lines over this panel's tiles: the first pass over a panel would otherwise wait for
  // memory while the passes after it leave memory idle.
  t.prefetch = next_b;
  const int64_t next_lines = next_floats / 16;
  const int64_t per_tile = divide_up(next_lines, tiles);
  t.prefetch_lines = static_cast<int>(std::min<int64_t>(16, divide_up(per_tile, steps)));
  int64_t lines_left = next_lines;
  for (int64_t i = 0, row = 0; i < tiles; ++i) {
    // Tiles of even height: 49 rows are 4 tiles of 6 and 5 of 5, not 8 of 6 and a slow one of 1.
    const int64_t height = divide_up(rows - row, tiles - i);
    t.next_rows = first && i + 1 < tiles ? static_cast<int>(divide_up(rows - row - height, tiles - i - 1)) : 0;
    if (lines_left <= 0) t.prefetch_lines = 0;
    t.rows = pointers + row;
    t.row0 = row0 + row;
    t.out_rows = out_rows ? out_rows + row : nullptr;
    if (even) {
#if CAMSHAFT_SHARES_VECTORS
      even_tile<Word>(vectors, height, t);
#endif
    } else {
      run_tile<Word>(vectors, height, t);
    }
    if (t.last && e.activation) activate_tile(e, t, height, columns);
    t.prefetch += static_cast<uintptr_t>(steps * t.prefetch_lines * 64);
    lines_left -= steps * t.prefetch_lines;
    row += height;
  }
}

// copy_rows() of rows that have factors; `k` is their length. Fills up the last vector of each.
void copy_rows_times_factors(const RowSource& source, int64_t k, int64_t row0, int64_t rows, const KBlock& block,
                             int64_t stride, float* out) {
  const TileTag d;
  constexpr int64_t lanes = tile_lanes();
  const int64_t whole = block.depth / lanes * lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(block.depth - whole));
  const float* from = source.base + row0 * source.row_stride + block.depth0;
  const float* factors = source.factors + row0 / source.factor_rows * k + block.depth0;
  int64_t left = source.factor_rows - row0 % source.factor_rows;  // rows with these factors
  for (int64_t r = 0; r < rows; ++r, from += source.row_stride, out += stride, --left) {
    if (left == 0) {
      factors += k;
      left = source.factor_rows;
    }
    for (int64_t i = 0; i < whole; i += lanes)
      hn::StoreU(hn::Mul(hn::LoadU(d, from + i), hn::LoadU(d, factors + i)), d, out + i);
    if (whole == block.depth) continue;
    hn::StoreU(hn::Mul(masked_load(mask, d, from + whole), masked_load(mask, d, factors + whole)), d, out + whole);
  }
}

// Rows by which it is decided how sums are made: those of the whole product, so that they are the same whatever the
// threads.
int64_t whole_rows(const CoreProblem& p) {
  return p.whole_m > 0 ? p.whole_m : p.m;
}

#if HWY_TARGET != HWY_SCALAR
// All of p's columns of rows [m0, m1), as dot products (gemm_dots.h).
HWY_NOINLINE void run_dots(const CoreProblem& p, int64_t m0, int64_t m1, void* workspace) {
  constexpr int64_t lanes = tile_lanes();
  const Epilogue& e = p.epilogue;
  HWY_ALIGN float weights[kMostDotWeights];
  const dots::Columns w{weights, p.taps, p.depth};
  // The one panel has a whole number of vectors of columns.
  const int64_t stored = round_up(p.n, lanes);
  for (int64_t n = 0; n < p.n; ++n) {
    for (int64_t t = 0; t < p.taps; ++t) {
      float* to = weights + n * w.column_stride() + t * w.tap_stride();
      for (int64_t k = 0; k < p.depth; ++k) to[k] = p.packed_b[(t * p.depth + k) * stored + n];
      std::fill(to + p.depth, to + w.tap_stride(), 0.0f);
    }
  }
  constexpr int64_t most = dots::kMostRows;
  HWY_ALIGN float bias[most * kMostDotColumns + lanes] = {}, sums[most * kMostDotColumns + lanes];
  for (int64_t i = 0; e.bias && i < most * p.n; ++i) bias[i] = e.bias[i % p.n];
  TileArgs t{};  // where the rows of a block are, for the activation
  t.c = p.c;
  t.ldc = p.ldc;
  const int64_t block = std::max(most, most_block_rows(whole_rows(p), p.taps) / most * most);
  Scratch scratch(workspace, block, p.taps);
  const float* plain[most];
  for (int64_t row0 = m0; row0 < m1; row0 += block) {
    cancellation_point();
    const int64_t rows = std::min(block, m1 - row0);
    if (p.rows.fill) p.rows.fill(p.rows.context, row0, rows, scratch.pointers, block, scratch.out_rows);
    for (int64_t r = 0; r < rows; r += most) {
      const int64_t count = std::min(most, rows - r);
      const float** pointers = p.rows.fill ? scratch.pointers + r : plain;
      if (!p.rows.fill)
        for (int64_t i = 0; i < count; ++i) plain[i] = p.rows.base + (row0 + r + i) * p.rows.row_stride;
      // The last row again where there are fewer than a tile has.
      for (int64_t tap = 0; tap < p.taps; ++tap)
        for (int64_t i = count; i < most; ++i) pointers[tap * block + i] = pointers[tap * block + count - 1];
      dots::block_sums(w, p.n, pointers, block, sums);
      t.row0 = row0 + r;
      t.out_rows = p.rows.scatter ? scratch.out_rows + r : nullptr;
      dots::finish(e, t, p.n, count, e.bias ? bias : nullptr, sums);
      if (e.activation) activate_tile(e, t, count, p.n);
    }
    if (e.callback) e.callback(e.context, p.callback_row0 + row0, rows, p.callback_col0, p.n);
  }
}

#endif

// Whether a unit multiplies tiles. Of fewer rows these are mostly empty, and B takes as long to read.
bool runs_matrix(const CoreProblem& p) {
  constexpr int64_t least_rows = 8;
  return p.words == Words::bf16_pairs && pair_matrix_unit() != MatrixUnit::none && p.taps * p.depth > 0 &&
         (whole_rows(p) >= least_rows || !has_bf16_pairs());
}

// Of a product whose rows fit in one register tile: the parts of K; else 0.
int64_t few_row_parts(const CoreProblem& p) {
  constexpr int64_t width = kTileVectors * tile_lanes();
  if (whole_rows(p) > kTile.rows[kTileVectors - 1] || runs_matrix(p)) return 0;
  return row_product_parts(p.taps * p.depth, divide_up(p.n, width), width);
}

// How `rows` rows of a product are cut.
Blocking blocking_of(const CoreProblem& p, int64_t rows, bool copy) {
  if (runs_matrix(p)) return matrix_blocking(rows, p.taps, p.depth);
  return core_blocking(rows, p.taps, p.depth, copy, p.batch_invariant ? 0 : few_row_parts(p));
}

template <class Word>
void run_words(const CoreProblem& p, int64_t m0, int64_t m1, int64_t p0, int64_t p1, void* workspace) {
  const PackedLayout layout{p.taps * p.depth, p.n, kTileVectors * tile_lanes(), tile_lanes()};
  const bool copy = p.rows.fill == nullptr && copies_rows(p.rows, p.taps * p.depth);
  const bool single_pass = few_row_parts(p) > 0;
  const Blocking blocking = blocking_of(p, m1 - m0, copy);
  KBlock first = first_block(blocking, p.taps, p.depth);
  for (int64_t i = 0; i < p.k_block; ++i) first = next_block(blocking, p.taps, p.depth, first);
  const auto after = [&](const KBlock& block) {
    if (p.k_block < 0) return next_block(blocking, p.taps, p.depth, block);
    KBlock end;
    end.done = true;
    return end;
  };
  const Epilogue& epilogue = p.epilogue;
  // A residual that is C itself is what C holds before the first K block, not after the last.
  const bool in_place = epilogue.residual == p.c && p.c != nullptr;
  Scratch scratch(workspace, blocking.rows, p.taps);
  // Where the epilogue stores, sums of an M block and a group of panels stay in scratch memory until they are finished.
  const bool stores = epilogue.store != nullptr;
  [[maybe_unused]] MatrixRows matrix_rows(scratch);
  [[maybe_unused]] MatrixTiles matrix(pair_matrix_unit());

  TileArgs t{};
  t.tap_stride = blocking.rows;
  if (!p.rows.fill) t.row_step = copy ? blocking.copy_stride : p.rows.row_stride;
  // With a few floats a tap, looking costs more than multiplying.
  t.zeros = p.depth >= 16 ? p.rows.zeros : nullptr;
  // What a single pass asks for it needs a moment later: two rows by 13 MB of weights in L3 at 98 GB/s, and at 72 with
  // L2 as the aim.
  t.prefetch_near = single_pass;
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
    const int64_t c_row0 = stores ? row0 : 0;  // the row of C that lies at `c`
    for (int64_t g0 = p0; g0 < p1; g0 += group) {
      const int64_t g1 = std::min(g0 + group, p1);
      const int64_t c_col0 = stores ? g0 * layout.width : 0;
      float* const c = stores ? scratch.sums : p.c;
      t.ldc = stores ? (g1 - g0) * layout.width : p.ldc;
      int64_t callback_panel = g0;
      const auto multiply = [&](int64_t panel, const KBlock& kb) HWY_ATTR {
        cancellation_point();
        const int64_t k0 = kb.tap0 * p.depth + kb.depth0;
        const KBlock following = after(kb);
        t.taps = kb.taps;
        t.depth = kb.depth;
        t.k_offset = copy ? 0 : kb.depth0;
        t.accumulate = p.k_block < 0 && (in_place || !kb.first);
        t.last = p.k_block < 0 && following.done;
        const int64_t col0 = panel * layout.width;
        const int64_t columns = std::min<int64_t>(layout.width, p.n - col0);
        t.b = p.packed_b + layout.offset(panel) + k0 * layout.columns(panel);
        t.c = c + (col0 - c_col0);
        t.bias = epilogue.bias ? epilogue.bias + col0 : nullptr;
        t.residual_count = 0;
        const auto add_residual = [&](const float* data, int64_t ld) {
          t.residuals[t.residual_count++] = {data + c_row0 * ld + col0, ld};
        };
        if (epilogue.residual && !in_place) add_residual(epilogue.residual, epilogue.residual_ld);
        for (const Residual& more : epilogue.more_residuals)
          if (more.data) add_residual(more.data, more.ld);
        // The part of B that is read next: this block of the group's next panel, the group's next block, or the first
        // block of the next group (whose wait for memory was 2 % of 128 x 768 x 50257), or of the first one again.
        const bool same_block = panel + 1 < g1, same_group = same_block || !following.done;
        const int64_t next_panel = same_block ? panel + 1 : same_group ? g0 : g1 < p1 ? g1 : p0;
        const KBlock& next = same_block ? kb : same_group ? following : first;
        uintptr_t next_b = address_of(p.packed_b + layout.offset(next_panel) +
                                      (next.tap0 * p.depth + next.depth0) * layout.columns(next_panel));
        int64_t next_floats = next.taps * next.depth * layout.columns(next_panel);
        if (single_pass) {
          // One pass over B: run ahead in the same stream.
          next_b = address_of(t.b) + kStreamAhead * sizeof(float);
          next_floats = kb.taps * kb.depth * layout.columns(panel);
        } else if (next_b == address_of(t.b) || (!same_group && g1 == p1 && row0 + rows >= m1)) {
          next_floats = 0;
        }
        Epilogue of_panel = epilogue;
        if (epilogue.addend) of_panel.addend += c_row0 * epilogue.addend_ld + col0;
        if constexpr (std::is_same_v<Word, MatrixWords>) {
          run_matrix_panel(t, matrix_rows, matrix, row0 - c_row0, out_rows, rows, columns, next_b, next_floats,
                           [&](int64_t height) {
                             if (t.last && epilogue.activation) activate_tile(of_panel, t, height, columns);
                           });
        } else {
          run_panel<Word>(t, of_panel, scratch.pointers + kb.tap0 * blocking.rows, row0 - c_row0, out_rows, rows,
                          columns, next_b, next_floats, panel == p0);
        }
        // Small blocks are handed over together: the callback's overhead is per call.
        if (t.last && (epilogue.callback || stores) &&
            (panel + 1 == g1 || rows * (col0 + columns - callback_panel * layout.width) >= kCallbackElements)) {
          const int64_t callback_col0 = callback_panel * layout.width;
          const int64_t row = p.callback_row0 + row0, column = p.callback_col0 + callback_col0;
          const int64_t count = col0 + columns - callback_col0;
          if (epilogue.callback) epilogue.callback(epilogue.context, row, rows, column, count);
          if (stores) epilogue.store(epilogue.context, c + (callback_col0 - c_col0), t.ldc, row, rows, column, count);
          callback_panel = panel + 1;
        }
      };
      if (single_pass && !copy) {
        // All of a panel, as it lies in memory; its sums stay in L1.
        for (int64_t panel = g0; panel < g1; ++panel)
          for (KBlock kb = first; !kb.done; kb = after(kb)) multiply(panel, kb);
        continue;
      }
      for (KBlock kb = first; !kb.done; kb = after(kb)) {
        if (copy && p.rows.factors) {
          copy_rows_times_factors(p.rows, p.depth, row0, rows, kb, blocking.copy_stride, scratch.copy);
        } else if (copy) {
          copy_rows(p.rows, row0, rows, kb, blocking.copy_stride, scratch.copy);
        }
        if constexpr (std::is_same_v<Word, MatrixWords>)
          matrix_rows.set(scratch.pointers + kb.tap0 * blocking.rows, blocking.rows, kb, kb.depth0, rows);
        for (int64_t panel = g0; panel < g1; ++panel) multiply(panel, kb);
      }
    }
  }
}

bool runs_dots([[maybe_unused]] const CoreProblem& p) {
#if HWY_TARGET != HWY_SCALAR
  return p.words == Words::f32 && p.n <= kTileVectors * tile_lanes() &&
         (whole_rows(p) >= dots::kMostRows || p.batch_invariant) && (p.rows.fill || p.rows.k_stride == 1) &&
         !p.rows.factors && !p.epilogue.more_residuals[0].data && !p.epilogue.store &&
         prefers_dots(p.n, p.taps, p.depth, tile_lanes());
#else
  return false;
#endif
}

void core_run_target(const CoreProblem& p, int64_t m0, int64_t m1, int64_t p0, int64_t p1, void* workspace) {
  if (runs_matrix(p)) return run_words<MatrixWords>(p, m0, m1, p0, p1, workspace);
#if CAMSHAFT_HAS_BF16_PAIRS
  if (p.words == Words::bf16_pairs) return run_words<PairWords>(p, m0, m1, p0, p1, workspace);
#endif
#if HWY_TARGET != HWY_SCALAR
  if (runs_dots(p)) return run_dots(p, m0, m1, workspace);
#endif
  run_words<FloatWords>(p, m0, m1, p0, p1, workspace);
}

// As run_words and run_dots cut it.
int64_t k_blocks_target(const CoreProblem& p) {
  if (runs_dots(p)) return 1;
  const bool copy = p.rows.fill == nullptr && copies_rows(p.rows, p.taps * p.depth);
  const Blocking blocking = blocking_of(p, p.m, copy);
  int64_t blocks = 0;
  for (KBlock b = first_block(blocking, p.taps, p.depth); !b.done; b = next_block(blocking, p.taps, p.depth, b))
    ++blocks;
  return blocks;
}

void scale_packed_target(const PackedLayout& layout, int64_t panel, const float* packed, const float* factors,
                         float* out) {
  const TileTag d;
  const int64_t columns = layout.columns(panel), begin = layout.offset(panel);
  const float* HWY_RESTRICT from = packed + begin;
  float* HWY_RESTRICT to = out + begin;
  for (int64_t k = 0; k < layout.k; ++k) {
    const TileVec factor = hn::Set(d, factors[k]);
    for (int64_t c = 0; c < columns; c += tile_lanes(), from += tile_lanes(), to += tile_lanes())
      hn::StoreU(hn::Mul(hn::LoadU(d, from), factor), d, to);
  }
}

void activate_target(const Activation& activation, const ActivationBlock& block) {
  activate(activation, block);
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(core_run_target);
HWY_EXPORT(k_blocks_target);
HWY_EXPORT(runs_dots);
HWY_EXPORT(activate_target);
HWY_EXPORT(scale_packed_target);

PackedLayout packed_layout(int64_t k, int64_t n) {
  const TileTraits& target = tile_traits();
  return {k, n, target.tiles.product.vectors * target.lanes(), target.lanes()};
}
int64_t packed_b_bytes(int64_t k, int64_t n) {
  return packed_layout(k, n).floats() * 4;
}
void scale_packed_rows(const PackedLayout& layout, const float* packed, const float* factors, float* out,
                       ThreadPool& pool) {
  const int64_t grain = (int64_t{1} << 14) / (std::max<int64_t>(1, layout.k) * layout.width) + 1;  // 64 KiB
  pool.parallel_for(layout.panels(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel)
      HWY_DYNAMIC_DISPATCH(scale_packed_target)(layout, panel, packed, factors, out);
  });
}

int64_t core_tile_rows() {
  const TileShape& shape = tile_traits().tiles.product;
  return shape.rows[shape.vectors - 1];
}

int64_t block_k(int64_t k) {
  static const int64_t unit = [] {
    const int64_t l2 = level2_cache_bytes() > 0 ? level2_cache_bytes() : 256 << 10;
    return std::clamp<int64_t>(l2 / 16 / (64 * 4), 64, 256);
  }();
  return k <= 3 * unit ? 3 * unit : 2 * unit;
}

int64_t core_block_depth(int64_t k) {
  return piece_depth(k, block_k(k));
}

int64_t core_k_blocks(const CoreProblem& problem) {
  return HWY_DYNAMIC_DISPATCH(k_blocks_target)(problem);
}

bool core_runs_dots(const CoreProblem& problem) {
  return HWY_DYNAMIC_DISPATCH(runs_dots)(problem);
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

ProductShape core_product_shape(int64_t m, int64_t n, int64_t taps, int64_t depth) {
  return {m, n, taps, depth, 1, core_tile_rows(), packed_layout(1, n).width};
}

Share core_share(int64_t m, int64_t n, int64_t taps, int threads, int thread) {
  return grid_share(core_product_shape(m, n, taps, 1), threads, thread);
}

}  // namespace camshaft::cpu
#endif
