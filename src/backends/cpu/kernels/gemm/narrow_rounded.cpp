#include "backends/cpu/kernels/gemm/narrow_rounded.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/tile_traits.h"
#include "base/divide_up.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/narrow_rounded.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/for_each_of-inl.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/gemm/narrow_parameters-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if CAMSHAFT_HAS_BYTE_PRODUCT

using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::ScalableTag<int32_t>;
using ShortTag = hn::ScalableTag<int16_t>;
using FloatVec = hn::Vec<FloatTag>;
using IntVec = hn::Vec<IntTag>;
using ShortVec = hn::Vec<ShortTag>;

constexpr int64_t kLanes = HWY_LANES(float);
constexpr int kPanelVectors = kTiles.byte_product.vectors;
// Their sums of a segment are in registers, beside codes, a mask, a quad of a row and a product.
constexpr int kMostRows = std::min(8, (kTiles.registers - kPanelVectors - 3) / kPanelVectors);

// --- rows ---

HWY_INLINE FloatVec load_some(const float* from, int64_t count) {
  const FloatTag d;
  if (count >= kLanes) return hn::LoadU(d, from);
  return count <= 0 ? hn::Zero(d) : masked_load(hn::FirstN(d, static_cast<size_t>(count)), d, from);
}

// One block of `count` elements; all of it is written. Returns its unit. sums: of its two halves.
HWY_INLINE float round_block(const float* x, int64_t count, int8_t* steps, float (&sums)[2]) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<int8_t, FloatTag> bytes;
  constexpr int64_t vectors = kRoundedBlock / kLanes, of_half = vectors / 2;
  FloatVec values[vectors];
  IntVec most = hn::Zero(di);
  const IntVec magnitude = hn::Set(di, 0x7FFFFFFF);
  for (int64_t v = 0; v < vectors; ++v) {
    values[v] = load_some(x + v * kLanes, count - v * kLanes);
    most = hn::Max(most, hn::And(hn::BitCast(di, values[v]), magnitude));  // in which NaN is the largest
  }
  const float largest = std::max(std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, most))), kLeastLargest);
  constexpr float highest = kHighestStep;
  const FloatVec inverse = hn::Set(d, highest / largest);
  for (int64_t h = 0; h < 2; ++h) {
    IntVec sum = hn::Zero(di);
    for (int64_t v = h * of_half; v < (h + 1) * of_half; ++v) {
      const IntVec whole = round_to_integers(di, hn::Mul(values[v], inverse));
      hn::StoreU(hn::DemoteTo(bytes, whole), bytes, steps + v * kLanes);
      sum = hn::Add(sum, whole);
    }
    sums[h] = static_cast<float>(hn::GetLane(hn::SumOfLanes(di, sum)));
  }
  return std::isfinite(largest) ? largest / highest : std::numeric_limits<float>::quiet_NaN();
}

void round_rows_target(const NarrowGemm& args, const RoundedRows& rows, int64_t begin, int64_t end) {
  const NarrowWeights& w = *args.weights;
  const int64_t blocks = (w.k + kRoundedBlock - 1) / kRoundedBlock;
  const bool is_halved = RoundedRows::segment(w) < kRoundedBlock;
  for (int64_t row = begin; row < end; ++row) {
    const float* x = args.a + row * args.lda;
    int8_t* steps = rows.steps + row * rows.row_bytes;
    float* sums = rows.sums + row * rows.row_sums;
    for (int64_t b = 0; b < blocks; ++b) {
      float of_halves[2];
      const int64_t at = b * kRoundedBlock;
      rows.units[row * rows.row_units + b] = round_block(x + at, w.k - at, steps + at, of_halves);
      if (is_halved) {
        sums[2 * b] = of_halves[0];
        sums[2 * b + 1] = of_halves[1];
      } else {
        sums[b] = of_halves[0] + of_halves[1];
      }
    }
  }
}

// --- products ---

// The sums of one segment. Of bytes that a machine multiplies by pairs they have 16 bits, see above.
template <bool kDots>
using Sum = std::conditional_t<kDots, IntVec, ShortVec>;

template <bool kFirst, bool kDots>
HWY_INLINE void add_products(IntVec codes, IntVec steps, Sum<kDots>& sum) {
  if constexpr (kDots) {
    sum = add_byte_dots(kFirst ? hn::Zero(IntTag()) : sum, codes, steps);
  } else {
    const ShortVec products = multiply_byte_pairs<ShortVec>(codes, steps);
    sum = kFirst ? products : hn::Add(sum, products);
  }
}

// The `kBits` bits of each byte from bit `kShift` on.
template <int kBits, int kShift>
HWY_INLINE IntVec bits_of(IntVec words) {
  const IntTag di;
  if constexpr (kBits == 8) return words;
  const hn::RebindToUnsigned<IntTag> du;
  const IntVec mask = hn::Set(di, static_cast<int32_t>(((1U << kBits) - 1) * 0x01010101U));
  if constexpr (kShift == 0) return hn::And(words, mask);
  return hn::And(hn::BitCast(di, hn::ShiftRight<kShift>(hn::BitCast(du, words))), mask);
}

// What one vector of words is multiplied with: quad `kQuad` of each, or of 8 bits the half of the bytes from kShift on.
template <int kBits, int kShift, bool kFirst, int MR, int NV, bool kDots>
HWY_INLINE void add_quad(const IntVec (&words)[NV], const int8_t* steps, int64_t row_bytes, Sum<kDots> (&sum)[MR][NV]) {
  const IntTag di;
  IntVec codes[NV];
  for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA { codes[v] = bits_of<kBits, kShift>(words[v]); });
  for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
    int32_t quad;
    std::memcpy(&quad, steps + r * row_bytes, sizeof(quad));
    const IntVec of_row = hn::Set(di, quad);
    for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA {
      add_products<kFirst, kDots>(codes[v], of_row, sum[r][v]);
      // Or GCC adds up products of several quads first, for which there are no registers: 120 GOP/s in place of 200.
      keep_in_register(sum[r][v]);
    });
  });
}

// Whether the upper halves of bytes have sums of their own, 16 times as large, as far as there are registers: they need
// not be moved down one by one then. A row of weights in memory took 7 % longer without.
template <int kBits, int MR, int NV, bool kDots>
inline constexpr bool kHasUpperSums = kBits == 4 && kDots && 2 * MR* NV + NV + 3 <= kTiles.registers;

template <bool kFirst, int MR, int NV>
HWY_INLINE void add_upper_quad(const IntVec (&words)[NV], const int8_t* steps, int64_t row_bytes,
                               IntVec (&sum)[MR][NV]) {
  const IntTag di;
  IntVec codes[NV];
  const IntVec mask = hn::Set(di, static_cast<int32_t>(0xF0F0F0F0U));
  for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA { codes[v] = hn::And(words[v], mask); });
  for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
    int32_t quad;
    std::memcpy(&quad, steps + r * row_bytes, sizeof(quad));
    const IntVec of_row = hn::Set(di, quad);
    for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA {
      add_products<kFirst, true>(codes[v], of_row, sum[r][v]);
      keep_in_register(sum[r][v]);
    });
  });
}

// Weights are asked for so many bytes ahead of their turn. A row by 8 bits from memory takes 0.9 of the time then, on a
// Xeon by 4 bits 0.78 and four rows 0.8; on a Zen 5 nothing was gained by 4 bits.
constexpr uintptr_t kBytesAhead = 4096;

// One word of each of the tile's columns. kShift: of codes of 8 bits that are taken by halves, which half.
template <int kBits, int kShift, bool kFirst, int MR, int NV, bool kDots>
HWY_INLINE void add_word(const uint32_t* words, const int8_t* steps, int64_t row_bytes, Sum<kDots> (&sum)[MR][NV],
                         [[maybe_unused]] Sum<kDots> (&upper)[MR][NV]) {
  const IntTag di;
  IntVec of_word[NV];
  for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA {
    if constexpr (kDots) __builtin_prefetch(at_address(address_of(words + v * kLanes) + kBytesAhead), 0, 3);
    of_word[v] = hn::LoadU(di, reinterpret_cast<const int32_t*>(words) + v * kLanes);
  });
  if constexpr (kBits == 8 && !kDots) {
    add_quad<4, kShift, kFirst, MR, NV, kDots>(of_word, steps, row_bytes, sum);
  } else {
    add_quad<kBits, 0, kFirst, MR, NV, kDots>(of_word, steps, row_bytes, sum);
    if constexpr (kHasUpperSums<kBits, MR, NV, kDots>) {
      add_upper_quad<kFirst>(of_word, steps + 4, row_bytes, upper);
    } else if constexpr (kBits <= 4) {
      add_quad<kBits, kBits, false, MR, NV, kDots>(of_word, steps + 4, row_bytes, sum);
    }
    if constexpr (kBits == 2) {
      add_quad<kBits, 4, false, MR, NV, kDots>(of_word, steps + 8, row_bytes, sum);
      add_quad<kBits, 6, false, MR, NV, kDots>(of_word, steps + 12, row_bytes, sum);
    }
  }
}

// The sums of a segment, of `count` words a column: one at least, and a constant where that is all of them. stored:
// columns of the panel.
template <int kBits, int kShift, bool kWhole, int MR, int NV, bool kDots>
HWY_INLINE void segment_sums(const uint32_t* words, int64_t stored, int64_t count, const int8_t* steps,
                             int64_t row_bytes, Sum<kDots> (&sum)[MR][NV]) {
  constexpr int64_t in_word = 32 / kBits, whole = kRoundedBlock / in_word;
  Sum<kDots> upper[MR][NV];
  add_word<kBits, kShift, true, MR, NV, kDots>(words, steps, row_bytes, sum, upper);
  if constexpr (kWhole) {
#pragma GCC unroll 8
    for (int64_t w = 1; w < whole; ++w)
      add_word<kBits, kShift, false, MR, NV, kDots>(words + w * stored, steps + w * in_word, row_bytes, sum, upper);
  } else {
#pragma GCC unroll 1
    for (int64_t w = 1; w < count; ++w)
      add_word<kBits, kShift, false, MR, NV, kDots>(words + w * stored, steps + w * in_word, row_bytes, sum, upper);
  }
  if constexpr (kHasUpperSums<kBits, MR, NV, kDots>) {
    for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
      for_each_of<NV>([&](auto v)
                          CAMSHAFT_INLINE_LAMBDA { sum[r][v] = hn::Add(sum[r][v], hn::ShiftRight<4>(upper[r][v])); });
    });
  }
}

// What the rows of a segment are multiplied with beside their steps: units of rows, and the sums of their steps.
struct SegmentRows {
  const float *units, *sums;
  int64_t units_stride, sums_stride;
};

// A segment's products, in the totals' scale.
template <int kBits, bool kWhole, int MR, int NV, bool kDots>
HWY_INLINE void add_segment(const uint32_t* words, int64_t stored, int64_t count, const int8_t* steps,
                            int64_t row_bytes, const SegmentRows& of_rows, const FloatVec (&zero)[NV],
                            const FloatVec (&scale)[NV], FloatVec (&total)[MR][NV]) {
  const FloatTag d;
  const IntTag di;
  const ShortTag d16;
  Sum<kDots> sum[MR][NV];
  IntVec upper[MR][NV];
  if constexpr (kBits == 8 && !kDots) {
    segment_sums<kBits, 4, kWhole, MR, NV, kDots>(words, stored, count, steps, row_bytes, sum);
    for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
      for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA {
        upper[r][v] = hn::ShiftLeft<4>(add_word_pairs(hn::Zero(di), sum[r][v], hn::Set(d16, 1)));
      });
    });
  }
  segment_sums<kBits, 0, kWhole, MR, NV, kDots>(words, stored, count, steps, row_bytes, sum);
  for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
    const FloatVec unit = hn::Set(d, of_rows.units[r * of_rows.units_stride]);
    const FloatVec of_row = hn::Set(d, of_rows.sums[r * of_rows.sums_stride]);
    for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA {
      IntVec whole;
      if constexpr (kDots) {
        whole = sum[r][v];
      } else if constexpr (kBits == 8) {
        whole = add_word_pairs(upper[r][v], sum[r][v], hn::Set(d16, 1));
      } else {
        whole = add_word_pairs(hn::Zero(di), sum[r][v], hn::Set(d16, 1));
      }
      const FloatVec moved = hn::NegMulAdd(zero[v], of_row, hn::ConvertTo(d, whole));
      total[r][v] = hn::MulAdd(moved, hn::Mul(scale[v], unit), total[r][v]);
    });
  });
}

// What a tile is of: `rows`, and of a panel the columns from `column` on.
struct TilePlace {
  int64_t row = 0, panel = 0, column = 0;
};

// Sums over a part of K, of which the first `columns` are stored. Totals may be in memory: tiles of half as many
// columns, whose totals are in registers, are as fast on weights in cache, but read memory at a third of the speed.
template <int kBits, int MR, int NV, bool kDots>
HWY_NOINLINE void tile(const NarrowGemm& args, const RoundedRows& rows, const TilePlace& place, const RoundedPart& part,
                       int64_t columns, float* to, int64_t ld) {
  const int64_t begin = part.begin, end = part.end;
  const FloatTag d;
  const NarrowWeights& w = *args.weights;
  constexpr int64_t in_word = 32 / kBits;
  const int64_t stored = w.words.columns(place.panel);
  const int64_t segment = RoundedRows::segment(w), of_segment = segment / in_word;
  const int64_t of_block = w.blocks() == 1 ? end : w.block / segment, in_unit = segment == kRoundedBlock ? 0 : 1;
  const int64_t first_parameter = w.parameters().offset(place.panel) + place.column;
  const uint32_t* words = reinterpret_cast<const uint32_t*>(args.packed) + w.words.offset(place.panel) + place.column;
  const int8_t* steps = rows.steps + place.row * rows.row_bytes;
  const float* units = rows.units + place.row * rows.row_units;
  const float* sums = rows.sums + place.row * rows.row_sums;

  FloatVec total[MR][NV];
  for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
    for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA { total[r][v] = hn::Zero(d); });
  });
  // Segments of whole blocks of rows come first: in one loop with the others GCC kept their sums in memory.
  const int64_t whole = segment == kRoundedBlock ? std::clamp(w.words.k / of_segment, begin, end) : begin;
  int64_t i = begin;
  while (i < end) {
    const int64_t block = i / of_block, past = std::min(i < whole ? whole : end, (block + 1) * of_block);
    FloatVec zero[NV], scale[NV];
    block_zeros<NV>(args.zeros, first_parameter + block * stored, zero);
    block_scales<NV>(args, first_parameter + block * stored, scale);
    const auto of_rows = [&](int64_t at) {
      return SegmentRows{units + (at >> in_unit), sums + at, rows.row_units, rows.row_sums};
    };
    if (i < whole) {
      for (; i < past; ++i)
        add_segment<kBits, true, MR, NV, kDots>(words + i * of_segment * stored, stored, of_segment,
                                                steps + i * segment, rows.row_bytes, of_rows(i), zero, scale, total);
    } else {
      for (; i < past; ++i)
        add_segment<kBits, false, MR, NV, kDots>(words + i * of_segment * stored, stored,
                                                 std::min(of_segment, w.words.k - i * of_segment), steps + i * segment,
                                                 rows.row_bytes, of_rows(i), zero, scale, total);
    }
  }
  for_each_of<MR>([&](auto r) CAMSHAFT_INLINE_LAMBDA {
    for_each_of<NV>([&](auto v) CAMSHAFT_INLINE_LAMBDA {
      const int64_t count = columns - v * kLanes;
      float* const at = to + r * ld + v * kLanes;
      if (part.add) total[r][v] = hn::Add(load_some(at, count), total[r][v]);
      if (count >= kLanes) {
        hn::StoreU(total[r][v], d, at);
      } else if (count > 0) {
        masked_store(total[r][v], hn::FirstN(d, static_cast<size_t>(count)), d, at);
      }
    });
  });
}

// Rows [row, row + MR) of a panel: at once, or, of the last one where it is narrower, a vector of columns after the
// other.
template <int kBits, int MR, bool kDots>
void panel_rows(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const RoundedPart& part, int64_t row,
                float* sums, int64_t ld) {
  const PackedLayout& layout = args.weights->words;
  const int64_t stored = layout.columns(panel), columns = std::min<int64_t>(stored, layout.n - panel * layout.width);
  if (stored == kPanelVectors * kLanes)
    return tile<kBits, MR, kPanelVectors, kDots>(args, rows, {row, panel, 0}, part, columns, sums, ld);
  for (int64_t column = 0; column < stored; column += kLanes)
    tile<kBits, MR, 1, kDots>(args, rows, {row, panel, column}, part, columns - column, sums + column, ld);
}

// Of as many rows each as nearly as may be: a panel is read for each of them.
template <int kBits, bool kDots, int MR = kMostRows>
void panel_rows_by_tiles(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const RoundedPart& part,
                         int64_t row0, int64_t row1, float* sums, int64_t ld) {
  while (row0 < row1) {
    if constexpr (MR > 1) {
      if (divide_up(row1 - row0, divide_up(row1 - row0, int64_t{kMostRows})) < MR)
        return panel_rows_by_tiles<kBits, kDots, MR - 1>(args, rows, panel, part, row0, row1, sums, ld);
    }
    panel_rows<kBits, MR, kDots>(args, rows, panel, part, row0, sums, ld);
    row0 += MR, sums += MR * ld;
  }
}

template <int kBits>
void panel_sums_of(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const RoundedPart& part,
                   int64_t row0, int64_t row1, float* sums, int64_t ld) {
  if (has_int8_dots()) {
    panel_rows_by_tiles<kBits, true>(args, rows, panel, part, row0, row1, sums, ld);
  } else {
    panel_rows_by_tiles<kBits, false>(args, rows, panel, part, row0, row1, sums, ld);
  }
}

void rounded_panel_sums_target(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const RoundedPart& part,
                               int64_t row0, int64_t row1, float* sums, int64_t ld) {
  const int bits = args.weights->bits;
  if (bits == 2) return panel_sums_of<2>(args, rows, panel, part, row0, row1, sums, ld);
  if (bits == 4) return panel_sums_of<4>(args, rows, panel, part, row0, row1, sums, ld);
  panel_sums_of<8>(args, rows, panel, part, row0, row1, sums, ld);
}

#else

void round_rows_target(const NarrowGemm&, const RoundedRows&, int64_t, int64_t) {}
void rounded_panel_sums_target(const NarrowGemm&, const RoundedRows&, int64_t, const RoundedPart&, int64_t, int64_t,
                               float*, int64_t) {}

#endif

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(round_rows_target);
HWY_EXPORT(rounded_panel_sums_target);

bool has_byte_products() {
  return tile_traits().byte_product != ByteProduct::none;
}

namespace {

// An odd number of cache lines, so that neighbouring rows of 2048 elements do not share sets of L1.
int64_t rounded_row_bytes(const NarrowWeights& w) {
  return (divide_up(w.k, 64) | 1) * 64;
}

}  // namespace

RoundedRows::RoundedRows(const NarrowWeights& w, int64_t m, void* memory)
    : row_bytes(rounded_row_bytes(w)),
      row_units(divide_up(w.k, kRoundedBlock)),
      row_sums(row_units * kRoundedBlock / segment(w)),
      steps(static_cast<int8_t*>(memory)),
      units(reinterpret_cast<float*>(steps + m * row_bytes)),
      sums(units + m * row_units) {}

int64_t RoundedRows::bytes(const NarrowWeights& w, int64_t m) {
  const int64_t units = divide_up(w.k, kRoundedBlock);
  return round_up(m * (rounded_row_bytes(w) + 4 * (units + units * kRoundedBlock / segment(w))), 64);
}

void round_rows(const NarrowGemm& args, const RoundedRows& rows, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(round_rows_target)(args, rows, begin, end);
}

void rounded_panel_sums(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const RoundedPart& part,
                        int64_t row0, int64_t row1, float* sums, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(rounded_panel_sums_target)(args, rows, panel, part, row0, row1, sums, ld);
}

void round_rows_to_floats(const NarrowGemm& args, float* to, int64_t begin, int64_t end) {
  const int64_t k = args.weights->k;
  for (int64_t row = begin; row < end; ++row) {
    const float* x = args.a + row * args.lda;
    for (int64_t at = 0; at < k; at += kRoundedBlock) {
      const int64_t count = std::min(kRoundedBlock, k - at);
      float most = kLeastLargest;
      for (int64_t i = 0; i < count; ++i)
        if (!(std::fabs(x[at + i]) <= most) && !std::isnan(most)) most = std::fabs(x[at + i]);
      constexpr float highest = kHighestStep;
      const float unit = most / highest, inverse = highest / most;
      for (int64_t i = 0; i < count; ++i) to[row * k + at + i] = std::nearbyint(x[at + i] * inverse) * unit;
    }
  }
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
