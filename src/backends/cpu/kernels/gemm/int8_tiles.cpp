#include "backends/cpu/kernels/gemm/int8_tiles.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/gemm/matrix_tiles.h"
#include "backends/cpu/kernels/gemm/tile_rows.h"
#include "backends/cpu/kernels/targets.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/int8_tiles.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/int8_finish-inl.h"
#include "backends/cpu/kernels/gemm/int8_rows-inl.h"

#ifndef CAMSHAFT_CPU_INT8_TILES_SCRATCH
#define CAMSHAFT_CPU_INT8_TILES_SCRATCH
namespace camshaft::cpu {
namespace {

// Rows of a block are 256 at most, and their bytes stay in L2 beside a group of panels and the one after it.
constexpr int64_t kBlockBytes = 1024 * 1024;
// Two tiles of rows stay in L1 while the panels of a group pass over them: what else there is to read comes from L2,
// from where a tile takes 30 ns on an Emerald Rapids, 11 from L1, and 6 to multiply.
constexpr int64_t kGroupBytes = 384 * 1024;
constexpr int64_t kMostGroup = 16, kLeastGroups = 4;
constexpr int64_t kPairRows = 2 * kTileRows, kMostRows = 8 * kPairRows;
constexpr int64_t kMostColumns = 64;  // of a panel
// Sums that are handed to `finish` at once, at most, but for two tiles of rows.
constexpr int64_t kBlockSums = 64 * 1024;

// How the rows of a problem are read.
struct Int8TileReads {
  bool as_signed;  // i8 as they are; otherwise as u8, moved by 128 where they are i8
  bool in_place;
  TileSteps steps;  // of a tap, or of whole rows in copy
  int64_t taps;

  explicit Int8TileReads(const Int8Problem& p) : as_signed(p.rows.flip && !p.column_zeros) {
    const Int8Weights& w = *p.weights;
    const bool moved = p.rows.flip && !as_signed;
    const int64_t words = divide_up(p.rows.depth, 4);
    const bool whole = p.rows.depth % 4 == 0 ? p.rows.taps == 1 || p.rows.depth >= 32
                                             : p.rows.has_room && w.piece == p.rows.depth && !p.column_zeros;
    steps = TileSteps::of(words);
    in_place = !moved && whole && steps.covered() == words;
    if (!in_place) steps = TileSteps::of(w.layout.k);
    taps = in_place ? p.rows.taps : 1;
  }
};

// One thread's scratch memory: row pointers, rows in copy, tiles, sums of rows, what sums of a group's columns begin
// with, its panels' last steps, sums of a block.
struct Int8TileScratch {
  int64_t rows;         // of a block
  int64_t copy_stride;  // an odd number of cache lines, so that rows never share a set of L1
  int64_t group;        // panels of a group
  int64_t pointers = 0, copies = 0, tiles = 0, row_sums = 0, begin = 0, last_steps = 0, sums = 0, bytes = 0;

  Int8TileScratch(const Int8Weights& w, int64_t m, int64_t taps, bool blocks) {
    const int64_t row = std::max<int64_t>(1, TileSteps::of(w.layout.k).covered() * 4);
    copy_stride = (divide_up(row, 64) | 1) * 64;
    rows = std::clamp(kBlockBytes / row / kPairRows * kPairRows, kPairRows, kMostRows);
    rows = std::min(rows, round_up(std::max<int64_t>(1, m), kTileRows));
    const auto take = [this](int64_t size) { return std::exchange(bytes, bytes + round_up(size, 64)); };
    pointers = take(rows * std::max<int64_t>(1, taps) * 8);
    copies = take(rows * copy_stride + Int8Rows::kRoom);
    tiles = take(TileRowBlock::description_bytes(rows, std::max<int64_t>(1, taps)));
    row_sums = take(rows * 4);
    group = std::clamp<int64_t>(kGroupBytes / (row * w.layout.width), 1, kMostGroup);
    begin = take(group * kMostColumns * 4);
    last_steps = take(group * kTileWords * kMostColumns * 4);
    sums = take(blocks ? std::max(kBlockSums, kPairRows * w.padded_columns()) * 4 : 0);
  }
};

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

// The last `words` words of a panel's K, filled up to a step with zeros.
void fill_last_step(const int32_t* from, int64_t words, int64_t step_words, int64_t stored, int32_t* to) {
  std::memcpy(to, from, static_cast<size_t>(words * stored) * 4);
  std::fill(to + words * stored, to + step_words * stored, 0);
}

// Cache lines of weights that steps of products ask for, in turn.
class LinesAhead {
 public:
  // `lines` of them, by so many steps.
  void set(const int32_t* from, int64_t lines, int64_t steps) {
    at_ = address_of(from);
    left_ = lines;
    of_step_ = std::min(kMostOfStep, divide_up(lines, std::max<int64_t>(1, steps)));
  }
  // Those of the next `steps`.
  void take(int64_t steps, TileSums& t) {
    t.prefetch = at_;
    t.prefetch_lines = static_cast<int>(left_ > 0 ? of_step_ : 0);
    at_ += static_cast<uintptr_t>(steps * t.prefetch_lines * 64);
    left_ -= steps * t.prefetch_lines;
  }

 private:
  static constexpr int64_t kMostOfStep = 32;
  uintptr_t at_ = 0;
  int64_t left_ = 0, of_step_ = 0;
};

// What sums of a panel's columns begin with.
void fill_begin(const Int8Problem& p, const Int8Part& part, bool as_signed, int64_t col0, int64_t stored,
                int32_t* begin) {
  const auto* column_sums = reinterpret_cast<const int32_t*>(p.packed) + p.weights->layout.floats() + col0;
  for (int64_t i = 0; i < stored; ++i) {
    // Numbers that are not moved lack 128 times the weights' sum.
    const uint32_t moved = as_signed ? 128 * static_cast<uint32_t>(column_sums[i]) : 0;
    begin[i] = part.block > 0 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(p.begin[col0 + i]) + moved);
  }
}

// Where something is added to the result, asks for its lines and the result's: they come from L2 or beyond while tiles
// are multiplied.
void prefetch_sums_place(const Int8Problem& p, int64_t row, int64_t rows, int64_t col0) {
  if (p.result != Int8Result::steps || !p.steps.addend) return;
  char* c = static_cast<char*>(p.c) + row * p.ldc + col0;
  for (int64_t r = 0; r < rows; ++r) __builtin_prefetch(c + r * p.ldc, 1);
  const uint8_t* const addend = p.steps.addend;
  for (int64_t r = 0; r < rows; ++r) __builtin_prefetch(addend + (row + r) * p.steps.addend_ld + col0);
}

void int8_tiles_target(const Int8Problem& p, const Share& share, const Int8Part& part, MatrixUnit unit,
                       void* workspace) {
  const Int8Weights& w = *p.weights;
  const bool blocks = p.gives_blocks() && !part.sums;
  const Int8TileScratch scratch(w, p.m, p.rows.taps, p.gives_blocks());
  char* memory = static_cast<char*>(workspace);
  const auto** pointers = reinterpret_cast<const uint8_t**>(memory + scratch.pointers);
  auto* copies = reinterpret_cast<uint8_t*>(memory + scratch.copies);
  auto* row_sums = reinterpret_cast<int32_t*>(memory + scratch.row_sums);
  auto* begins = reinterpret_cast<int32_t*>(memory + scratch.begin);
  auto* last_steps = reinterpret_cast<int32_t*>(memory + scratch.last_steps);
  auto* block_sums = reinterpret_cast<int32_t*>(memory + scratch.sums);
  const auto* packed = reinterpret_cast<const int32_t*>(p.packed);
  const int64_t block_columns = std::min(w.columns, share.p1 * w.layout.width) - share.p0 * w.layout.width;
  const int64_t most = blocks ? std::max(kPairRows, kBlockSums / std::max<int64_t>(1, block_columns)) : scratch.rows;
  // Blocks are about as high, for each of them reads all weights.
  const int64_t highest = std::min(scratch.rows, most / kTileRows * kTileRows), all_rows = share.m1 - share.m0;
  const int64_t block_rows =
      std::min(highest, round_up(divide_up(all_rows, std::max<int64_t>(1, divide_up(all_rows, highest))), kPairRows));

  // At least four groups, so that most of the weights are asked for well before they are read.
  const int64_t panels = share.p1 - share.p0;
  const int64_t groups = std::max(divide_up(panels, scratch.group), std::min<int64_t>(panels, kLeastGroups));
  const int64_t group_panels = groups > 0 ? divide_up(panels, groups) : 1;

  const Int8TileReads reads(p);
  Int8Problem copied = p;
  if (reads.as_signed) copied.rows.flip = false;
  // A block of K is some of the taps, or of a single one's steps.
  const bool by_tap = reads.taps > 1;
  const int64_t cut = by_tap ? reads.taps : reads.steps.count;
  const int64_t first = cut * part.block / part.blocks, end = cut * (part.block + 1) / part.blocks;
  TileSums t;
  t.product = reads.as_signed ? TileProduct::s8_s8 : TileProduct::u8_s8;
  t.steps = reads.steps;
  t.taps = by_tap ? end - first : 1;
  if (!by_tap) t.steps.count = end - first;
  const int64_t skipped = first * (by_tap ? reads.steps.covered() : reads.steps.words);
  const int64_t words = w.layout.k, last_words = words - (reads.steps.count - 1) * reads.steps.words;
  const bool fills = !by_tap && end == cut && end > first && reads.steps.covered() > words;
  const int8::Finisher finish(p);
  TileRowBlock tiles(memory + scratch.tiles, copies);
  MatrixTiles matrix(unit);
  for (int64_t row0 = share.m0; row0 < share.m1; row0 += block_rows) {
    const int64_t rows = std::min(block_rows, share.m1 - row0);
    const bool plain = !p.rows.fill && reads.in_place && !p.column_zeros;
    if (p.rows.fill) {
      p.rows.fill(p.rows.context, row0, rows, pointers, scratch.rows);
    } else if (!plain) {
      for (int64_t r = 0; r < rows; ++r) pointers[r] = p.rows.base + (row0 + r) * p.rows.row_stride;
    }
    if (!reads.in_place) {
      copy_int8_rows(copied, pointers, scratch.rows, rows, copies, scratch.copy_stride);
      const int64_t filling = (reads.steps.covered() - words) * 4;
      for (int64_t r = 0; filling > 0 && r < rows; ++r)
        std::memset(copies + r * scratch.copy_stride + words * 4, 0, static_cast<size_t>(filling));
    }
    const int64_t skipped_bytes = by_tap ? 0 : skipped * 4;
    for (int64_t r = 0; !plain && skipped_bytes > 0 && r < rows; ++r) pointers[r] += skipped_bytes;
    const uint8_t** const of_part = pointers + (by_tap ? first * scratch.rows : 0);
    if (plain) {
      tiles.set(p.rows.base + row0 * p.rows.row_stride + skipped_bytes, p.rows.row_stride, rows);
    } else if (!reads.in_place) {
      tiles.set(copies + skipped_bytes, scratch.copy_stride, rows);
    } else {
      tiles.set(of_part, scratch.rows, t.taps, rows, t.steps.covered() * 4);
    }
    if (p.column_zeros) {
      // What rows in copy are filled up with is 0.
      sum_int8_rows(of_part, t.taps, t.steps.covered() * 4, scratch.rows, rows, row_sums);
    }
    int64_t callback_panel = share.p0;
    cancellation_point();
    for (int64_t group = share.p0; group < share.p1; group += group_panels) {
      const int64_t group_end = std::min(group + group_panels, share.p1);
      for (int64_t panel = group; panel < group_end; ++panel) {
        const int64_t stored = w.layout.columns(panel), at = (panel - group) * kMostColumns;
        fill_begin(p, part, reads.as_signed, panel * w.layout.width, stored, begins + at);
        if (fills) {
          fill_last_step(packed + w.layout.offset(panel) + (words - last_words) * stored, last_words, t.steps.words,
                         stored, last_steps + at * kTileWords);
        }
      }
      const int64_t steps = std::max<int64_t>(1, t.taps * t.steps.count);
      const int64_t pair_passes = divide_up(rows, kPairRows);
      // Of a part of K, which is apart from that of the next panel, a panel asks for the next one's alone.
      const bool whole = part.blocks == 1;
      const int64_t part_words = whole ? words : std::min(t.taps * t.steps.covered(), words - skipped);
      const auto lines_of = [&](int64_t begin, int64_t end) {
        int64_t lines = 0;
        for (int64_t panel = begin; panel < end; ++panel) lines += w.layout.columns(panel) * part_words / 16;
        return lines;
      };
      // The first pass over the first group reads what nothing has asked for yet: there each panel asks for the next
      // one.
      const bool is_first = group == share.p0 && row0 == share.m0;
      const bool panels_ask = !whole || (is_first && pair_passes > 1);
      // In the other passes the next group comes into L2; behind the last one, the first one for the next block of
      // rows.
      const int64_t other_passes = pair_passes - panels_ask;
      const int64_t next = group_end == share.p1 && row0 + rows < share.m1 ? share.p0 : group_end;
      const int64_t next_end = std::min(next + group_panels, share.p1);
      const int64_t calls_of_panel = divide_up(int64_t{w.layout.width}, 2 * kTileColumns);
      LinesAhead ahead;
      for (int64_t row = 0; row < rows; row += kPairRows) {
        const int64_t height = std::min(kPairRows, rows - row);
        t.row_tiles = divide_up(height, kTileRows);
        for (int i = 0; i < t.row_tiles; ++i) {
          t.rows[i] = std::min(kTileRows, height - i * kTileRows);
          t.a[i] = tiles.at(row + i * kTileRows);
        }
        if (whole && row == (panels_ask ? kPairRows : 0))
          ahead.set(packed + w.layout.offset(next), lines_of(next, next_end),
                    other_passes * (group_end - group) * calls_of_panel * steps);
        for (int64_t panel = group; panel < group_end; ++panel) {
          if (row == 0 && panels_ask) {
            const int64_t last = whole ? group_end : share.p1;
            const int64_t stored_next = panel + 1 < last ? w.layout.columns(panel + 1) : 0;
            ahead.set(packed + w.layout.offset(panel + 1) + skipped * stored_next,
                      lines_of(panel + 1, std::min(panel + 2, last)), calls_of_panel * steps);
          }
          const int64_t col0 = panel * w.layout.width, stored = w.layout.columns(panel);
          const int64_t columns = std::min<int64_t>(w.layout.width, w.columns - col0);
          const int64_t in_group = (panel - group) * kMostColumns;
          const int32_t* b = packed + w.layout.offset(panel) + skipped * stored;
          HWY_ALIGN int32_t tile_sums[kPairRows * kMostColumns];
          t.b_stride = stored * 4;
          if (!part.sums) prefetch_sums_place(p, p.row0 + row0 + row, height, p.col0 + col0);
          for (int64_t column = 0; column < stored; column += 2 * kTileColumns) {
            const int64_t width = std::min(2 * kTileColumns, stored - column);
            t.column_tiles = divide_up(width, kTileColumns);
            for (int i = 0; i < t.column_tiles; ++i) t.columns[i] = std::min(kTileColumns, width - i * kTileColumns);
            t.b = reinterpret_cast<const char*>(b + column);
            t.b_last = fills ? reinterpret_cast<const char*>(last_steps + in_group * kTileWords + column) : nullptr;
            t.begin = begins + in_group + column;
            t.sums = tile_sums + column;
            t.sums_ld = stored;
            ahead.take(steps, t);
            matrix.add_up(t);
          }
          take_tile_zeros(p, part, row_sums + row, row0 + row, height, col0, columns, tile_sums, stored);
          for (int64_t r = 0; part.sums && r < height; ++r)
            std::memcpy(part.sums + (row0 + row + r) * w.padded_columns() + col0, tile_sums + r * stored,
                        static_cast<size_t>(stored) * 4);
          if (!part.sums) finish({tile_sums, stored, height, p.row0 + row0 + row, p.col0 + col0, columns});
          if (!part.sums) int8::activate_rows(p, p.row0 + row0 + row, height, p.col0 + col0, columns);
          for (int64_t r = 0; blocks && r < height; ++r)
            std::memcpy(block_sums + (row + r) * block_columns + col0 - share.p0 * w.layout.width,
                        tile_sums + r * stored, static_cast<size_t>(columns) * 4);
        }
      }
      if (part.sums) continue;
      const int64_t done0 = callback_panel * w.layout.width;
      const int64_t done = std::min(w.columns, group_end * w.layout.width) - done0;
      const bool last = group_end == share.p1;
      if (blocks && last) {
        p.finish(p.finish_context, block_sums, block_columns, p.row0 + row0, rows, p.col0 + done0, done);
      } else if (p.result == Int8Result::scaled && p.epilogue.callback && (last || rows * done >= 4096)) {
        p.epilogue.callback(p.epilogue.context, p.row0 + row0, rows, p.col0 + done0, done);
        callback_panel = group_end;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(int8_tiles_target);

bool int8_takes_tiles(const Int8Weights& w, int64_t m, MatrixUnit unit) {
  // With fewer words a tile is multiplied sooner than its sums are stored: dots leave theirs in registers. In plain C++
  // all is tiles.
  constexpr int64_t least_rows = 8, least_words = 16;
  const bool gains = unit == MatrixUnit::portable ? w.layout.k > 0 : m >= least_rows && w.layout.k >= least_words;
  return unit != MatrixUnit::none && gains && w.layout.width <= kMostColumns;
}

int64_t int8_tiles_scratch_bytes(const Int8Weights& weights, int64_t m, int64_t taps, bool blocks) {
  return Int8TileScratch(weights, m, taps, blocks).bytes;
}

void int8_run_tiles(const Int8Problem& problem, const Share& share, const Int8Part& part, MatrixUnit unit,
                    void* scratch) {
  HWY_DYNAMIC_DISPATCH(int8_tiles_target)(problem, share, part, unit, scratch);
}

}  // namespace camshaft::cpu
#endif
