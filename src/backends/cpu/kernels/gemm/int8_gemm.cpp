#include "backends/cpu/kernels/gemm/int8_gemm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/int8_tiles.h"
#include "backends/cpu/kernels/gemm/matrix_tiles.h"
#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/int8_gemm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/int8_finish-inl.h"
#include "backends/cpu/kernels/gemm/int8_rows-inl.h"
#include "backends/cpu/kernels/gemm/int8_tile-inl.h"

#ifndef CAMSHAFT_CPU_INT8_SCRATCH
#define CAMSHAFT_CPU_INT8_SCRATCH
namespace camshaft::cpu {
namespace {

// Bytes of A in a block of rows, which every panel passes over: they stay in L2 beside a panel.
constexpr int64_t kBlockBytes = 256 * 1024;
constexpr int64_t kRowGrain = 12;
constexpr int64_t kMostRows = 204;  // as in gemm_blocking.h
// Sums that are handed to `finish` at once, at most, but for one register tile of rows.
constexpr int64_t kBlockSums = 64 * 1024;
// Sums of one tile: 10 rows of 64 columns at most.
constexpr int64_t kTileSums = 10 * 64;

// Bytes that widening may write too much.
constexpr int64_t kMostVector = 64;

// One thread's scratch memory: row pointers, rows in copy, sums of rows, sums of a block.
struct Int8Scratch {
  int64_t rows;         // of a block
  int64_t copy_stride;  // an odd number of cache lines, so that rows never share a set of L1
  int64_t pointers = 0, copies = 0, bytes_of_row = 0, row_sums = 0, sums = 0, bytes = 0;

  Int8Scratch(const Int8Weights& w, int64_t m, int64_t taps, bool blocks, bool words) {
    const int64_t depth = std::max<int64_t>(1, w.layout.k * 4), row = words ? 2 * depth : depth;
    copy_stride = (divide_up(row, 64) | 1) * 64;
    rows = std::clamp(kBlockBytes / row / kRowGrain * kRowGrain, kRowGrain, kMostRows);
    rows = std::max<int64_t>(1, std::min(rows, m));
    const auto take = [this](int64_t size) { return std::exchange(bytes, bytes + round_up(size, 64)); };
    pointers = take(rows * std::max<int64_t>(1, taps) * 8);
    copies = take(rows * copy_stride + (words ? kMostVector : Int8Rows::kRoom));
    bytes_of_row = take(words ? depth + Int8Rows::kRoom : 0);
    row_sums = take(rows * 4);
    sums = take(blocks ? std::max(kBlockSums, kRowGrain * w.padded_columns()) * 4 : 0);
  }
};

// What a register tile begins with in all blocks of K but the first.
constexpr int64_t kMostWidth = 64;
alignas(64) constexpr int32_t kNoSums[kMostWidth] = {};

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool kDots>
void int8_tile(int64_t vectors, int64_t rows, const Int8TileArgs& t, int32_t* sums) {
  if constexpr (int8::kTile.vectors == 4) {
    if (vectors == 4) return int8::tile_of_rows<kDots, 4>(rows, t, sums);
    if (vectors == 3) return int8::tile_of_rows<kDots, 3>(rows, t, sums);
  }
  if (vectors == 2) return int8::tile_of_rows<kDots, 2>(rows, t, sums);
  int8::tile_of_rows<kDots, 1>(rows, t, sums);
}

#if CAMSHAFT_HAS_BYTE_PRODUCT
template <bool kDots>
void int8_steps_tile(int64_t vectors, int64_t rows, const Int8TileArgs& t, const int8::StepsPlace& place) {
  if constexpr (int8::kTile.vectors == 4) {
    if (vectors == 4) return int8::steps_tile_of_rows<kDots, 4>(rows, t, place);
    if (vectors == 3) return int8::steps_tile_of_rows<kDots, 3>(rows, t, place);
  }
  if (vectors == 2) return int8::steps_tile_of_rows<kDots, 2>(rows, t, place);
  int8::steps_tile_of_rows<kDots, 1>(rows, t, place);
}
#endif

#if CAMSHAFT_HAS_BYTE_PRODUCT

// Quads of bytes as words: the even two of each, then the odd two. A vector may be written beyond them.
void widen_quads(const uint8_t* from, int64_t quads, uint8_t* to) {
  const hn::ScalableTag<uint16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> half;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  constexpr int64_t step = HWY_LANES(uint16_t);
  static_assert(2 * step <= kMostVector);
  HWY_ALIGN static constexpr uint8_t kOrder[16] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  const auto order = hn::LoadDup128(d8, kOrder);
  const auto widen = [&](const uint8_t* bytes, int64_t at) HWY_ATTR {
    const auto words = hn::PromoteTo(d, hn::LoadU(half, bytes));
    hn::StoreU(hn::TableLookupBytes(hn::BitCast(d8, words), order), d8, to + 2 * at);
  };
  int64_t i = 0;
  for (; i + step <= quads * 4; i += step) widen(from + i, i);
  if (i == quads * 4) return;
  HWY_ALIGN uint8_t last[step] = {};
  std::memcpy(last, from + i, static_cast<size_t>(quads * 4 - i));
  widen(last, i);
}

// Rows as words, each of one piece.
void widen_int8_rows(const Int8Problem& p, const uint8_t** pointers, const Int8Scratch& scratch, int64_t rows,
                     char* memory) {
  auto* bytes = reinterpret_cast<uint8_t*>(memory + scratch.bytes_of_row);
  auto* words = reinterpret_cast<uint8_t*>(memory + scratch.copies);
  const bool in_place = p.reads_in_place();
  const int64_t quads = divide_up(p.rows.depth, 4);
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* of_row = words + r * scratch.copy_stride;
    if (in_place) {
      for (int64_t t = 0; t < p.rows.taps; ++t) {
        widen_quads(pointers[t * scratch.rows + r], quads, of_row + t * quads * 8);
      }
    } else {
      copy_int8_row(p, pointers + r, scratch.rows, bytes);
      widen_quads(bytes, p.weights->layout.k, of_row);
    }
  }
  for (int64_t r = 0; r < rows; ++r) pointers[r] = words + r * scratch.copy_stride;
}

#endif

void int8_run_target(const Int8Problem& p, const Share& share, const Int8Part& part, void* workspace, bool dots) {
  constexpr int64_t lanes = HWY_LANES(int32_t);
  const Int8Weights& w = *p.weights;
  const bool blocks = p.gives_blocks() && !part.sums;
  const bool words = CAMSHAFT_HAS_BYTE_PRODUCT && !dots;
  const Int8Scratch scratch(w, p.m, p.rows.taps, p.gives_blocks(), words);
  char* memory = static_cast<char*>(workspace);
  const auto** pointers = reinterpret_cast<const uint8_t**>(memory + scratch.pointers);
  auto* copies = reinterpret_cast<uint8_t*>(memory + scratch.copies);
  auto* row_sums = reinterpret_cast<int32_t*>(memory + scratch.row_sums);
  auto* block_sums = reinterpret_cast<int32_t*>(memory + scratch.sums);
  const bool copy = words || !p.reads_in_place();
  const int64_t quad_bytes = words ? 8 : 4;  // of A
  const auto* packed = reinterpret_cast<const int32_t*>(p.packed);
  // Dense where these are all columns: then several rows go through a program at once.
  const int64_t block_columns = std::min(w.columns, share.p1 * w.layout.width) - share.p0 * w.layout.width;
  const int64_t most = blocks ? std::max(kRowGrain, kBlockSums / std::max<int64_t>(1, block_columns)) : scratch.rows;
  const int64_t block_rows = std::min(scratch.rows, most);

  Int8TileArgs t{};
  t.tap_stride = scratch.rows;
  t.taps = copy ? 1 : p.rows.taps;
  t.quads = copy ? w.layout.k : divide_up(p.rows.depth, 4);
  // A block is some of the taps, or of a single one's quads.
  const bool by_tap = t.taps > 1;
  const int8::Finisher finish(p);
#if CAMSHAFT_HAS_BYTE_PRODUCT
  // From registers, where nothing is taken off the sums.
  const bool straight = finish.writer() && !part.sums && !p.column_zeros && !p.row_zeros;
#endif
  int64_t& cut = by_tap ? t.taps : t.quads;
  const int64_t first = cut * part.block / part.blocks, skipped = by_tap ? first * t.quads : first;
  cut = cut * (part.block + 1) / part.blocks - first;
  const uint8_t** const rows_of_block = pointers + (by_tap ? first * scratch.rows : 0);
  for (int64_t row0 = share.m0; row0 < share.m1; row0 += block_rows) {
    const int64_t rows = std::min(block_rows, share.m1 - row0);
    if (p.rows.fill) {
      p.rows.fill(p.rows.context, row0, rows, pointers, scratch.rows);
    } else {
      for (int64_t r = 0; r < rows; ++r) pointers[r] = p.rows.base + (row0 + r) * p.rows.row_stride;
    }
#if CAMSHAFT_HAS_BYTE_PRODUCT
    if (words) widen_int8_rows(p, pointers, scratch, rows, memory);
#endif
    if (copy && !words) copy_int8_rows(p, pointers, scratch.rows, rows, copies, scratch.copy_stride);
    for (int64_t r = 0; !by_tap && first > 0 && r < rows; ++r) pointers[r] += first * quad_bytes;
    // The upper bytes of words are 0.
    if (p.column_zeros) sum_int8_rows(rows_of_block, t.taps, t.quads * quad_bytes, scratch.rows, rows, row_sums);
    int64_t callback_panel = share.p0;
    cancellation_point();
    for (int64_t panel = share.p0; panel < share.p1; ++panel) {
      const int64_t col0 = panel * w.layout.width, stored = w.layout.columns(panel), vectors = stored / lanes;
      const int64_t columns = std::min<int64_t>(w.layout.width, w.columns - col0);
      const int64_t tallest = int8::kTile.rows[vectors - 1];
      const int64_t tiles = divide_up(rows, tallest);
      t.b = packed + w.layout.offset(panel) + skipped * stored;
      t.begin = part.block == 0 ? p.begin + col0 : kNoSums;
      // The next panel comes into L2 meanwhile.
      const int64_t steps = std::max<int64_t>(1, t.taps * t.quads);
      int64_t lines_left = panel + 1 < share.p1 ? w.layout.columns(panel + 1) * w.layout.k / 16 : 0;
      t.prefetch = lines_left > 0 ? address_of(packed + w.layout.offset(panel + 1)) : 0;
      t.prefetch_lines = static_cast<int>(std::min<int64_t>(4, divide_up(divide_up(lines_left, tiles), steps)));
      for (int64_t i = 0, row = 0; i < tiles; ++i) {
        const int64_t height = divide_up(rows - row, tiles - i);  // tiles of even height
        if (lines_left <= 0) t.prefetch_lines = 0;
        t.rows = rows_of_block + row;
#if CAMSHAFT_HAS_BYTE_PRODUCT
        if (straight) {
          const int8::StepsPlace place{finish.writer(), p.row0 + row0 + row, p.col0 + col0, columns};
          dots ? int8_steps_tile<true>(vectors, height, t, place) : int8_steps_tile<false>(vectors, height, t, place);
          t.prefetch += static_cast<uintptr_t>(steps * t.prefetch_lines * 64);
          lines_left -= steps * t.prefetch_lines;
          row += height;
          continue;
        }
#endif
        HWY_ALIGN int32_t tile_sums[kTileSums];
        dots ? int8_tile<true>(vectors, height, t, tile_sums) : int8_tile<false>(vectors, height, t, tile_sums);
        take_tile_zeros(p, part, row_sums + row, row0 + row, height, col0, columns, tile_sums, stored);
        for (int64_t r = 0; part.sums && r < height; ++r)
          std::memcpy(part.sums + (row0 + row + r) * w.padded_columns() + col0, tile_sums + r * stored,
                      static_cast<size_t>(stored) * 4);
        if (!part.sums) finish({tile_sums, stored, height, p.row0 + row0 + row, p.col0 + col0, columns});
        if (!part.sums) int8::activate_rows(p, p.row0 + row0 + row, height, p.col0 + col0, columns);
        for (int64_t r = 0; blocks && r < height; ++r)
          std::memcpy(block_sums + (row + r) * block_columns + col0 - share.p0 * w.layout.width, tile_sums + r * stored,
                      static_cast<size_t>(columns) * 4);
        t.prefetch += static_cast<uintptr_t>(steps * t.prefetch_lines * 64);
        lines_left -= steps * t.prefetch_lines;
        row += height;
      }
      if (part.sums) continue;
      const int64_t done0 = callback_panel * w.layout.width, done = col0 + columns - done0;
      const bool last = panel + 1 == share.p1;
      if (blocks && last) {
        p.finish(p.finish_context, block_sums, block_columns, p.row0 + row0, rows, p.col0 + done0, done);
      } else if (p.result == Int8Result::scaled && p.epilogue.callback && (last || rows * done >= 4096)) {
        p.epilogue.callback(p.epilogue.context, p.row0 + row0, rows, p.col0 + done0, done);
        callback_panel = panel + 1;
      }
    }
  }
}

// The sums of `blocks` blocks of K are added up and finished, for panels [begin, end) of those of all rows, one row
// after the other. The sums of the first block are written over.
void int8_finish_target(const Int8Problem& p, int64_t blocks, int32_t* sums, int64_t begin, int64_t end) {
  const hn::ScalableTag<int32_t> d;
  const Int8Weights& w = *p.weights;
  const int64_t panels = w.layout.panels(), padded = w.padded_columns();
  const int8::Finisher finish(p);
  while (begin < end) {
    const int64_t row = begin / panels, first = begin - row * panels, count = std::min(panels - first, end - begin);
    const int64_t col0 = first * w.layout.width, columns = std::min(w.columns - col0, count * w.layout.width);
    int32_t* of_row = sums + row * padded + col0;
    for (int64_t i = 0; i < columns; i += HWY_LANES(int32_t)) {
      auto sum = hn::LoadU(d, of_row + i);
      for (int64_t b = 1; b < blocks; ++b) sum = hn::Add(sum, hn::LoadU(d, of_row + b * p.m * padded + i));
      hn::StoreU(sum, d, of_row + i);
    }
    finish({of_row, padded, 1, p.row0 + row, p.col0 + col0, columns});
    int8::activate_rows(p, p.row0 + row, 1, p.col0 + col0, columns);
    if (p.gives_blocks()) {
      p.finish(p.finish_context, of_row, padded, p.row0 + row, 1, p.col0 + col0, columns);
    } else if (p.result == Int8Result::scaled && p.epilogue.callback) {
      p.epilogue.callback(p.epilogue.context, p.row0 + row, 1, p.col0 + col0, columns);
    }
    begin += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(int8_run_target);
HWY_EXPORT(int8_finish_target);

#if defined(__x86_64__)
namespace {

struct KnownInstructions {
  bool avx_vnni = false, avx512_vnni = false, avx512_vbmi = false;
};

// Asked once: a virtual machine may take 50 us to answer.
const KnownInstructions& known_instructions() {
  static const KnownInstructions known = [] {
    KnownInstructions found;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
      found.avx512_vnni = (c >> 11 & 1) != 0;
      found.avx512_vbmi = (c >> 1 & 1) != 0;
    }
    found.avx_vnni = __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1) != 0;
    return found;
  }();
  return known;
}

}  // namespace
#endif

bool has_int8_dots() {
#if defined(__x86_64__)
  switch (tile_traits().byte_product) {
    case ByteProduct::avx_vnni:
      return known_instructions().avx_vnni;
    case ByteProduct::avx512_vnni:
      return known_instructions().avx512_vnni;
    case ByteProduct::none:
      return false;
  }
#endif
  return false;
}

// Whether rows are widened to words.
static bool has_words(bool dots) {
  return !dots && tile_traits().byte_product != ByteProduct::none;
}

bool has_byte_tables() {
#if defined(__x86_64__)
  return tile_traits().byte_product == ByteProduct::avx512_vnni && known_instructions().avx512_vbmi;
#else
  return false;
#endif
}

ProductShape int8_product_shape(const Int8Weights& w, int64_t m, int64_t taps, bool in_place,
                                const Int8Instructions& by) {
  // A quad is one step, and as many bytes as a float.
  constexpr int64_t block_quads = 256;
  const int64_t quads = w.layout.k, pieces = std::max<int64_t>(1, taps);
  ProductShape shape = core_product_shape(m, w.columns, pieces, divide_up(quads, pieces));
  if (int8_takes_tiles(w, m, by.matrix_unit)) shape.tile_rows = kTileRows;
  const int64_t blocks = shape.has_few_rows() ? row_product_parts(quads, shape.panels(), shape.panel_columns)
                                              : std::max<int64_t>(1, quads / block_quads);
  shape.k_blocks = in_place && pieces > 1 ? std::min(blocks, pieces) : blocks;
  return shape;
}

namespace {

int64_t scratch_bytes(const Int8Weights& w, int64_t m, int64_t taps, bool blocks, const Int8Instructions& by) {
  if (int8_takes_tiles(w, m, by.matrix_unit)) return int8_tiles_scratch_bytes(w, m, taps, blocks);
  return Int8Scratch(w, m, taps, blocks, has_words(by.dots)).bytes;
}

}  // namespace

int64_t int8_workspace_bytes(const Int8Weights& weights, int64_t m, int64_t taps, bool blocks, int threads,
                             const Int8Instructions& by) {
  if (m == 0 || weights.columns == 0) return 0;
  int64_t sums = 0;
  for (const bool in_place : {false, true}) {
    const ProductShape shape = int8_product_shape(weights, m, taps, in_place, by);
    for (int t = threads; t > 1 && sums < shape.k_blocks; --t)
      sums = std::max(sums, ProductShares(shape, t).k_blocks());
  }
  const int64_t sum_bytes = sums > 1 ? sums * m * weights.padded_columns() * 4 : 0;
  return scratch_bytes(weights, m, taps, blocks, by) * threads + sum_bytes;
}

void int8_gemm(const Int8Problem& problem, ThreadPool& pool, void* workspace, const Int8Instructions& by) {
  const Int8Weights& w = *problem.weights;
  if (problem.m == 0 || w.columns == 0) return;
  const bool tiles = int8_takes_tiles(w, problem.m, by.matrix_unit);
  const int64_t scratch = scratch_bytes(w, problem.m, problem.rows.taps, problem.gives_blocks(), by);
  char* const memory = static_cast<char*>(workspace);
  auto* sums = reinterpret_cast<int32_t*>(memory + scratch * pool.size());
  const ProductShares shares(int8_product_shape(w, problem.m, problem.rows.taps, problem.reads_in_place(), by),
                             pool.size());
  const int64_t blocks = shares.k_blocks(), of_block = problem.m * w.padded_columns();
  pool.run(shares.threads(), [&](int thread) {
    shares.for_each(thread, [&](const ProductPiece& piece) {
      const Int8Part part =
          piece.k_block < 0 ? Int8Part{} : Int8Part{piece.k_block, blocks, sums + piece.k_block * of_block};
      void* const own = memory + thread * scratch;
      if (tiles) return int8_run_tiles(problem, piece.share, part, by.matrix_unit, own);
      HWY_DYNAMIC_DISPATCH(int8_run_target)(problem, piece.share, part, own, by.dots);
    });
  });
  if (blocks == 1) return;
  // A thread is woken for 16 KiB of sums at least.
  const int64_t grain = 4096 / (w.layout.width * blocks) + 1;
  pool.parallel_for(problem.m * w.layout.panels(), grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(int8_finish_target)(problem, blocks, sums, begin, end);
  });
}

}  // namespace camshaft::cpu
#endif
