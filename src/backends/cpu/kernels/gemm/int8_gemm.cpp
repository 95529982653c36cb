#include "backends/cpu/kernels/gemm/int8_gemm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/int8_gemm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/int8_finish-inl.h"
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

// One thread's scratch memory: row pointers, rows in copy, sums of rows, sums of a block.
struct Int8Scratch {
  int64_t rows;         // of a block
  int64_t copy_stride;  // an odd number of cache lines, so that rows never share a set of L1
  int64_t pointers = 0, copies = 0, row_sums = 0, sums = 0, bytes = 0;

  Int8Scratch(const Int8Weights& w, int64_t m, int64_t taps, bool blocks) {
    const int64_t depth = std::max<int64_t>(1, w.k());
    copy_stride = (divide_up(depth, 64) | 1) * 64;
    rows = std::clamp(kBlockBytes / depth / kRowGrain * kRowGrain, kRowGrain, kMostRows);
    rows = std::max<int64_t>(1, std::min(rows, m));
    const auto take = [this](int64_t size) { return std::exchange(bytes, bytes + round_up(size, 64)); };
    pointers = take(rows * std::max<int64_t>(1, taps) * 8);
    copies = take(rows * copy_stride + Int8Rows::kRoom);
    row_sums = take(rows * 4);
    sums = take(blocks ? std::max(kBlockSums, kRowGrain * w.padded_columns()) * 4 : 0);
  }
};

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

template <bool kDots>
void int8_tile(int64_t vectors, int64_t rows, const Int8TileArgs& t, int32_t* sums) {
  if constexpr (int8::kDotsTile.vectors == 4) {
    if (vectors == 4) return int8::tile_of_rows<kDots, 4>(rows, t, sums);
    if (vectors == 3) return int8::tile_of_rows<kDots, 3>(rows, t, sums);
  }
  if (vectors == 2) return int8::tile_of_rows<kDots, 2>(rows, t, sums);
  int8::tile_of_rows<kDots, 1>(rows, t, sums);
}

// The bytes of each row, one after the other, with zeros up to a whole quad.
void copy_int8_rows(const Int8Problem& p, const uint8_t** pointers, int64_t tap_stride, int64_t rows, uint8_t* copies,
                    int64_t stride) {
  const Int8Weights& w = *p.weights;
  const uint8_t bits = p.rows.flip ? 0x80 : 0;
  const int64_t depth = p.rows.depth;
  // Two vectors whatever the depth: calls for 21 bytes each took half of a first layer's time. What is written too much
  // the next piece overwrites, or the next row, or it lies before the end of the scratch memory.
  const bool whole = p.rows.has_room && depth <= Int8Rows::kRoom && !p.rows.flip;
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* to = copies + r * stride;
    for (int64_t t = 0; t < p.rows.taps; ++t, to += depth) {
      const uint8_t* from = pointers[t * tap_stride + r];
      if (whole) {
        std::memcpy(to, from, Int8Rows::kRoom);
      } else if (!p.rows.flip) {
        std::memcpy(to, from, static_cast<size_t>(depth));
      } else {
        for (int64_t i = 0; i < depth; ++i) to[i] = from[i] ^ bits;
      }
    }
    std::memset(to, 0, static_cast<size_t>(w.layout.k * 4 - w.k()));
  }
  for (int64_t r = 0; r < rows; ++r) pointers[r] = copies + r * stride;
}

void sum_int8_rows(const uint8_t* const* pointers, int64_t taps, int64_t depth, int64_t tap_stride, int64_t rows,
                   int32_t* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    int32_t sum = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const uint8_t* from = pointers[t * tap_stride + r];
      for (int64_t i = 0; i < depth; ++i) sum += from[i];
    }
    sums[r] = sum;
  }
}

// Rows of one tile, from their sums.
void finish_tile(const Int8Problem& p, const int32_t* row_sums, int64_t row0, int64_t rows, int64_t col0,
                 int64_t columns, int32_t* sums, int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    int32_t* of_row = sums + r * ld;
    if (p.column_zeros) int8::take_zeros(of_row, columns, row_sums[r], p.column_zeros + col0);
    if (p.row_zeros) int8::take_zeros(of_row, columns, p.row_zeros[row0 + r], p.row_zero_sums + col0);
    int8::finish_row(p, {of_row, p.row0 + row0 + r, p.col0 + col0, columns});
  }
  int8::activate_rows(p, p.row0 + row0, rows, p.col0 + col0, columns);
}

void int8_run_target(const Int8Problem& p, const Share& share, void* workspace, bool dots) {
  constexpr int64_t lanes = HWY_LANES(int32_t);
  const Int8Weights& w = *p.weights;
  const bool blocks = p.gives_blocks();
  const Int8Scratch scratch(w, p.m, p.rows.taps, blocks);
  char* memory = static_cast<char*>(workspace);
  const auto** pointers = reinterpret_cast<const uint8_t**>(memory + scratch.pointers);
  auto* copies = reinterpret_cast<uint8_t*>(memory + scratch.copies);
  auto* row_sums = reinterpret_cast<int32_t*>(memory + scratch.row_sums);
  auto* block_sums = reinterpret_cast<int32_t*>(memory + scratch.sums);
  const bool copy = !p.rows.in_place();
  const auto* words = reinterpret_cast<const int32_t*>(p.packed);
  // Dense where these are all columns: then several rows go through a program at once.
  const int64_t block_columns = std::min(w.columns, share.p1 * w.layout.width) - share.p0 * w.layout.width;
  const int64_t most = blocks ? std::max(kRowGrain, kBlockSums / std::max<int64_t>(1, block_columns)) : scratch.rows;
  const int64_t block_rows = std::min(scratch.rows, most);

  Int8TileArgs t{};
  t.tap_stride = scratch.rows;
  t.taps = copy ? 1 : p.rows.taps;
  t.quads = copy ? w.layout.k : p.rows.depth / 4;
  for (int64_t row0 = share.m0; row0 < share.m1; row0 += block_rows) {
    const int64_t rows = std::min(block_rows, share.m1 - row0);
    if (p.rows.fill) {
      p.rows.fill(p.rows.context, row0, rows, pointers, scratch.rows);
    } else {
      for (int64_t r = 0; r < rows; ++r) pointers[r] = p.rows.base + (row0 + r) * p.rows.row_stride;
    }
    if (copy) copy_int8_rows(p, pointers, scratch.rows, rows, copies, scratch.copy_stride);
    if (p.column_zeros) sum_int8_rows(pointers, t.taps, copy ? w.k() : p.rows.depth, scratch.rows, rows, row_sums);
    int64_t callback_panel = share.p0;
    for (int64_t panel = share.p0; panel < share.p1; ++panel) {
      const int64_t col0 = panel * w.layout.width, stored = w.layout.columns(panel), vectors = stored / lanes;
      const int64_t columns = std::min<int64_t>(w.layout.width, w.columns - col0);
      const int64_t tallest = dots ? int8::kDotsTile.rows[vectors - 1] : int8::kPairsTile.rows[vectors - 1];
      const int64_t tiles = divide_up(rows, tallest);
      t.b = words + w.layout.offset(panel);
      t.begin = p.begin + col0;
      // The next panel comes into L2 meanwhile.
      const int64_t steps = std::max<int64_t>(1, t.taps * t.quads);
      int64_t lines_left = panel + 1 < share.p1 ? w.layout.columns(panel + 1) * w.layout.k / 16 : 0;
      t.prefetch = reinterpret_cast<const char*>(words + w.layout.offset(panel + 1));
      t.prefetch_lines = static_cast<int>(std::min<int64_t>(4, divide_up(divide_up(lines_left, tiles), steps)));
      for (int64_t i = 0, row = 0; i < tiles; ++i) {
        const int64_t height = divide_up(rows - row, tiles - i);  // tiles of even height
        if (lines_left <= 0) t.prefetch_lines = 0;
        t.rows = pointers + row;
        HWY_ALIGN int32_t tile_sums[kTileSums];
        dots ? int8_tile<true>(vectors, height, t, tile_sums) : int8_tile<false>(vectors, height, t, tile_sums);
        finish_tile(p, row_sums + row, row0 + row, height, col0, columns, tile_sums, stored);
        for (int64_t r = 0; blocks && r < height; ++r)
          std::memcpy(block_sums + (row + r) * block_columns + col0 - share.p0 * w.layout.width, tile_sums + r * stored,
                      static_cast<size_t>(columns) * 4);
        t.prefetch += steps * t.prefetch_lines * 64;
        lines_left -= steps * t.prefetch_lines;
        row += height;
      }
      const int64_t first = callback_panel * w.layout.width, done = col0 + columns - first;
      const bool last = panel + 1 == share.p1;
      if (blocks && last) {
        p.finish(p.finish_context, block_sums, block_columns, p.row0 + row0, rows, p.col0 + first, done);
      } else if (p.result == Int8Result::scaled && p.epilogue.callback && (last || rows * done >= 4096)) {
        p.epilogue.callback(p.epilogue.context, p.row0 + row0, rows, p.col0 + first, done);
        callback_panel = panel + 1;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(int8_run_target);

bool has_int8_dots() {
#if defined(__x86_64__)
  // Asked once: a virtual machine may take 50 us to answer.
  static const auto known = [] {
    struct {
      bool avx_vnni, avx512_vnni;
    } found{};
    unsigned a = 0, b = 0, c = 0, d = 0;
    found.avx512_vnni = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1) != 0;
    found.avx_vnni = __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1) != 0;
    return found;
  }();
  switch (tile_traits().byte_product) {
    case ByteProduct::avx_vnni:
      return known.avx_vnni;
    case ByteProduct::avx512_vnni:
      return known.avx512_vnni;
    case ByteProduct::none:
      return false;
  }
#endif
  return false;
}

int64_t int8_workspace_bytes(const Int8Weights& weights, int64_t m, int64_t taps, bool blocks, int threads) {
  return m == 0 || weights.columns == 0 ? 0 : Int8Scratch(weights, m, taps, blocks).bytes * threads;
}

void int8_gemm(const Int8Problem& problem, ThreadPool& pool, void* workspace, bool dots) {
  const Int8Weights& w = *problem.weights;
  if (problem.m == 0 || w.columns == 0) return;
  const int64_t scratch = Int8Scratch(w, problem.m, problem.rows.taps, problem.gives_blocks()).bytes;
  pool.run([&](int thread) {
    const Share share = core_share(problem.m, w.columns, problem.rows.taps, pool.size(), thread);
    if (share.m0 < share.m1 && share.p0 < share.p1) HWY_DYNAMIC_DISPATCH(int8_run_target)
    (problem, share, static_cast<char*>(workspace) + thread * scratch, dots);
  });
}

}  // namespace camshaft::cpu
#endif
