#include "backends/cpu/kernels/gemm/narrow_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/tile_traits.h"
#include "base/divide_up.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/narrow_tiles.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/masked_load-inl.h"

#ifndef CAMSHAFT_CPU_NARROW_TILES_SHAPES
#define CAMSHAFT_CPU_NARROW_TILES_SHAPES
namespace camshaft::cpu {
namespace {

constexpr int64_t kSegmentWords = kRoundedBlock / 4;
constexpr int64_t kBlockRows = 2 * kTileRows, kBlockColumns = 2 * kTileColumns;

// Where the scales and zero points of a segment lie, of a panel's first column.
int64_t segment_parameters(const NarrowWeights& w, int64_t panel, int64_t segment) {
  const int64_t block = w.blocks() == 1 ? 0 : segment / (w.block / kRoundedBlock);
  return w.parameters().offset(panel) + block * w.words.columns(panel);
}

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if CAMSHAFT_HAS_BYTE_PRODUCT

using TileFloatTag = hn::ScalableTag<float>;
using TileIntTag = hn::ScalableTag<int32_t>;
using TileByteTag = hn::Repartition<int8_t, TileIntTag>;
constexpr int64_t kTileLanes = HWY_LANES(float);

// Columns [column, column + lanes) of a segment's words, as quads of bytes along K; those behind K are 0.
template <int kBits>
HWY_INLINE void write_codes(const uint32_t* words, int64_t count, int64_t stored, hn::Vec<TileByteTag> zero,
                            int8_t* to) {
  const TileIntTag di;
  const TileByteTag bytes;
  const hn::RebindToUnsigned<TileIntTag> du;
  constexpr int64_t of_segment = kRoundedBlock / (32 / kBits);
  const auto mask = hn::Set(di, static_cast<int32_t>(((1U << kBits) - 1) * 0x01010101U));
  for (int64_t w = 0; w < of_segment; ++w) {
    auto of_word = hn::Zero(du);
    if (w < count) of_word = hn::LoadU(du, words + w * stored);
    for (int quad = 0; quad < 8 / kBits; ++quad, to += 4 * stored) {
      auto codes = hn::BitCast(di, of_word);
      if constexpr (kBits < 8) codes = hn::And(codes, mask);
      const auto less = hn::Sub(hn::BitCast(bytes, codes), zero);
      hn::StoreU(w < count ? less : hn::Zero(bytes), bytes, to);
      if constexpr (kBits < 8) of_word = hn::ShiftRight<kBits>(of_word);
    }
  }
}

template <int kBits>
void make_tile_codes_of(const NarrowGemm& args, int64_t panel, int8_t* codes) {
  const TileByteTag bytes;
  const TileIntTag di;
  const hn::Rebind<uint8_t, TileIntTag> of_columns;
  const NarrowWeights& w = *args.weights;
  constexpr int64_t of_segment = kRoundedBlock / (32 / kBits);
  const int64_t stored = w.words.columns(panel), segments = RoundedRows::segments(w);
  const uint32_t* words = reinterpret_cast<const uint32_t*>(args.packed) + w.words.offset(panel);
  auto zero = hn::Set(bytes, static_cast<int8_t>(static_cast<int>(args.zeros.all)));
  for (int64_t i = 0; i < segments; ++i) {
    const int64_t parameters = segment_parameters(w, panel, i);
    for (int64_t column = 0; column < stored; column += kTileLanes) {
      if (args.zeros.bytes) {
        const auto of_each = hn::PromoteTo(di, hn::LoadU(of_columns, args.zeros.bytes + parameters + column));
        zero = hn::BitCast(bytes, hn::Mul(of_each, hn::Set(di, 0x01010101)));
      }
      write_codes<kBits>(words + i * of_segment * stored + column, std::min(of_segment, w.words.k - i * of_segment),
                         stored, zero, codes + (i * kSegmentWords * stored + column) * 4);
    }
  }
}

void make_tile_codes_target(const NarrowGemm& args, int64_t panel, int8_t* codes) {
  const int bits = args.weights->bits;
  if (bits == 2) return make_tile_codes_of<2>(args, panel, codes);
  if (bits == 4) return make_tile_codes_of<4>(args, panel, codes);
  make_tile_codes_of<8>(args, panel, codes);
}

// A block of rows and columns of a panel, and what its sums of a segment are multiplied with.
struct SegmentBlock {
  int64_t rows, columns;
  const float* units;  // of the first row
  int64_t units_stride;
  int64_t parameters;  // of the first column
};

// total += sums · scale · unit.
template <int64_t kVectors>
HWY_INLINE void add_segment_vectors(const NarrowGemm& args, const SegmentBlock& block, int64_t column,
                                    const int32_t* sums, float* total) {
  const TileFloatTag d;
  const TileIntTag di;
  const hn::Rebind<hwy::float16_t, TileFloatTag> halves;
  const auto* half = reinterpret_cast<const hwy::float16_t*>(args.half_scales);
  hn::Vec<TileFloatTag> scale[kVectors];
  for (int64_t v = 0; v < kVectors; ++v) {
    const int64_t at = block.parameters + column + v * kTileLanes;
    scale[v] = half ? hn::PromoteTo(d, hn::LoadU(halves, half + at)) : hn::LoadU(d, args.scales + at);
  }
  const float* unit = block.units;
  sums += column;
  total += column;
  for (int64_t r = 0; r < block.rows; ++r, unit += block.units_stride, sums += kBlockColumns, total += kBlockColumns) {
    const auto of_row = hn::Set(d, *unit);
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto whole = hn::ConvertTo(d, hn::Load(di, sums + v * kTileLanes));
      float* const to = total + v * kTileLanes;
      hn::Store(hn::MulAdd(whole, hn::Mul(scale[v], of_row), hn::Load(d, to)), d, to);
    }
  }
}

HWY_INLINE void add_segment_of_tiles(const NarrowGemm& args, const SegmentBlock& block, const int32_t* sums,
                                     float* total) {
  int64_t column = 0;
  for (; column + 2 * kTileLanes <= block.columns; column += 2 * kTileLanes)
    add_segment_vectors<2>(args, block, column, sums, total);
  if (column < block.columns) add_segment_vectors<1>(args, block, column, sums, total);
}

void tile_panel_sums_target(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const int8_t* codes,
                            const RoundedPart& part, int64_t row0, int64_t row1, float* sums, int64_t ld,
                            MatrixTiles& tiles) {
  const TileFloatTag d;
  const NarrowWeights& w = *args.weights;
  const int64_t stored = w.words.columns(panel), columns = std::min<int64_t>(stored, w.words.n - panel * w.words.width);
  // Those of a segment become floats while the next one's are multiplied.
  alignas(64) int32_t whole[2][kBlockRows * kBlockColumns];
  alignas(64) float total[kBlockRows * kBlockColumns];
  TileSums t;
  t.product = TileProduct::s8_s8;
  t.steps = {1, kSegmentWords};
  t.b_stride = stored * 4;
  t.sums_ld = kBlockColumns;
  TileRows of_tiles[2];
  for (int i = 0; i < 2; ++i) t.a[i] = &of_tiles[i];
  for (int64_t row = row0; row < row1; row += kBlockRows) {
    const int64_t count = std::min(kBlockRows, row1 - row);
    t.row_tiles = divide_up(count, kTileRows);
    for (int i = 0; i < t.row_tiles; ++i) t.rows[i] = std::min(kTileRows, count - i * kTileRows);
    for (int64_t column = 0; column < columns; column += kBlockColumns) {
      const int64_t width = std::min(kBlockColumns, stored - column);
      t.column_tiles = divide_up(width, kTileColumns);
      for (int j = 0; j < t.column_tiles; ++j) t.columns[j] = std::min(kTileColumns, width - j * kTileColumns);
      const auto multiply = [&](int64_t segment) {
        for (int i = 0; i < t.row_tiles; ++i)
          of_tiles[i] = {reinterpret_cast<const char*>(rows.steps) + (row + i * kTileRows) * rows.row_bytes +
                             segment * kRoundedBlock,
                         rows.row_bytes};
        t.b = reinterpret_cast<const char*>(codes) + (segment * kSegmentWords * stored + column) * 4;
        t.sums = whole[segment % 2];
        tiles.add_up(t);
      };
      std::fill(total, total + count * kBlockColumns, 0.0F);
      multiply(part.begin);
      for (int64_t i = part.begin; i < part.end; ++i) {
        if (i + 1 < part.end) multiply(i + 1);
        const SegmentBlock block{count, width, rows.units + row * rows.row_units + i, rows.row_units,
                                 segment_parameters(w, panel, i) + column};
        add_segment_of_tiles(args, block, whole[i % 2], total);
      }
      const int64_t written = std::min(width, columns - column);
      float* const to = sums + (row - row0) * ld + column;
      for (int64_t r = 0; r < count; ++r)
        for (int64_t c = 0; c < written; c += kTileLanes) {
          auto sum = hn::Load(d, total + r * kBlockColumns + c);
          float* const at = to + r * ld + c;
          if (written - c >= kTileLanes) {
            if (part.add) sum = hn::Add(hn::LoadU(d, at), sum);
            hn::StoreU(sum, d, at);
          } else {
            const auto some = hn::FirstN(d, static_cast<size_t>(written - c));
            if (part.add) sum = hn::Add(masked_load(some, d, at), sum);
            masked_store(sum, some, d, at);
          }
        }
    }
  }
}

#else

void make_tile_codes_target(const NarrowGemm&, int64_t, int8_t*) {}
void tile_panel_sums_target(const NarrowGemm&, const RoundedRows&, int64_t, const int8_t*, const RoundedPart&, int64_t,
                            int64_t, float*, int64_t, MatrixTiles&) {}

#endif

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(make_tile_codes_target);
HWY_EXPORT(tile_panel_sums_target);

bool narrow_may_take_tiles(const NarrowWeights& w, int64_t m) {
  return m >= kTileRows && byte_matrix_unit() != MatrixUnit::none && has_byte_products() &&
         RoundedRows::segment(w) == kRoundedBlock;
}

bool narrow_takes_tiles(const NarrowGemm& args) {
  if (!narrow_may_take_tiles(*args.weights, args.m) || args.zeros.floats) return false;
  // Of codes of 8 bits only the middle one, as of signed types, leaves bytes.
  if (args.weights->bits == 8) return !args.zeros.bytes && args.zeros.all == 128;
  const float zero = args.zeros.all, most = static_cast<float>((1 << args.weights->bits) - 1);
  return args.zeros.bytes || (zero >= 0 && zero <= most && std::nearbyint(zero) == zero);
}

int64_t tile_codes_bytes(const NarrowWeights& w) {
  return RoundedRows::segments(w) * kRoundedBlock * w.words.width;
}

void make_tile_codes(const NarrowGemm& args, int64_t panel, int8_t* codes) {
  HWY_DYNAMIC_DISPATCH(make_tile_codes_target)(args, panel, codes);
}

void tile_panel_sums(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const int8_t* codes,
                     const RoundedPart& part, int64_t row0, int64_t row1, float* sums, int64_t ld, MatrixTiles& tiles) {
  HWY_DYNAMIC_DISPATCH(tile_panel_sums_target)(args, rows, panel, codes, part, row0, row1, sums, ld, tiles);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
