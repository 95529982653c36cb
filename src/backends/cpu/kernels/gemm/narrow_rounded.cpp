#include "backends/cpu/kernels/gemm/narrow_rounded.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/tile_traits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/narrow_rounded.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

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
constexpr int kMostVectors = kTiles.byte_product.vectors;
// Beside the sums there are codes, a mask, a quad of a row and a product.
template <int NV>
constexpr int kMostRows = std::min(8, (kTiles.registers - NV - 3) / NV);

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
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) codes[v] = bits_of<kBits, kShift>(words[v]);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    int32_t quad;
    std::memcpy(&quad, steps + r * row_bytes, sizeof(quad));
    const IntVec of_row = hn::Set(di, quad);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      add_products<kFirst, kDots>(codes[v], of_row, sum[r][v]);
      // Or GCC adds up products of several quads first, for which there are no registers: 120 GOP/s in place of 200.
      keep_in_register(sum[r][v]);
    }
  }
}

// One word of each column. kShift: of codes of 8 bits that are taken by halves, which half.
template <int kBits, int kShift, bool kFirst, int MR, int NV, bool kDots>
HWY_INLINE void add_word(const uint32_t* words, const int8_t* steps, int64_t row_bytes, Sum<kDots> (&sum)[MR][NV]) {
  const IntTag di;
  IntVec of_word[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) of_word[v] = hn::LoadU(di, reinterpret_cast<const int32_t*>(words) + v * kLanes);
  if constexpr (kBits == 8 && !kDots) {
    add_quad<4, kShift, kFirst, MR, NV, kDots>(of_word, steps, row_bytes, sum);
  } else {
    add_quad<kBits, 0, kFirst, MR, NV, kDots>(of_word, steps, row_bytes, sum);
    if constexpr (kBits <= 4) add_quad<kBits, kBits, false, MR, NV, kDots>(of_word, steps + 4, row_bytes, sum);
    if constexpr (kBits == 2) {
      add_quad<kBits, 4, false, MR, NV, kDots>(of_word, steps + 8, row_bytes, sum);
      add_quad<kBits, 6, false, MR, NV, kDots>(of_word, steps + 12, row_bytes, sum);
    }
  }
}

// Words of a segment, of which there is one at least.
template <int kBits, int kShift, int MR, int NV, bool kDots>
HWY_INLINE void segment_sums(const uint32_t* words, int64_t count, const int8_t* steps, int64_t row_bytes,
                             Sum<kDots> (&sum)[MR][NV]) {
  constexpr int64_t in_word = 32 / kBits, stored = NV * kLanes, whole = kRoundedBlock / in_word;
  add_word<kBits, kShift, true, MR, NV, kDots>(words, steps, row_bytes, sum);
  if (count == whole) {
#pragma GCC unroll 8
    for (int64_t w = 1; w < whole; ++w)
      add_word<kBits, kShift, false, MR, NV, kDots>(words + w * stored, steps + w * in_word, row_bytes, sum);
  } else {
#pragma GCC unroll 1
    for (int64_t w = 1; w < count; ++w)
      add_word<kBits, kShift, false, MR, NV, kDots>(words + w * stored, steps + w * in_word, row_bytes, sum);
  }
}

// Rows [row, row + MR) of a panel.
template <int kBits, int MR, int NV, bool kDots>
HWY_NOINLINE void tile(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, int64_t begin, int64_t end,
                       int64_t row, float* sums, int64_t ld) {
  const FloatTag d;
  const IntTag di;
  const ShortTag d16;
  const NarrowWeights& w = *args.weights;
  constexpr int64_t in_word = 32 / kBits, stored = NV * kLanes;
  const int64_t segment = RoundedRows::segment(w), of_segment = segment / in_word;
  const int64_t of_block = w.blocks() == 1 ? end : w.block / segment, in_unit = segment == kRoundedBlock ? 0 : 1;
  const PackedLayout parameters = w.parameters();
  const uint32_t* words = reinterpret_cast<const uint32_t*>(args.packed) + w.words.offset(panel);
  const int8_t* steps = rows.steps + row * rows.row_bytes;
  const float* units = rows.units + row * rows.row_units;
  const float* of_rows = rows.sums + row * rows.row_sums;
  const int64_t row_bytes = rows.row_bytes;

  FloatVec total[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) total[r][v] = hn::Zero(d);
  }
  int64_t block = begin / of_block, left = (block + 1) * of_block - begin;
  FloatVec zero[NV], scale[NV];
  const auto read_block = [&]() HWY_ATTR {
    const int64_t at = parameters.offset(panel) + block * stored;
    block_zeros<NV>(args.zeros, at, zero);
    block_scales<NV>(args, at, scale);
  };
  if (begin < end) read_block();
  for (int64_t i = begin; i < end; ++i) {
    if (left == 0) {
      ++block;
      left = of_block;
      read_block();
    }
    --left;
    const int64_t word0 = i * of_segment, count = std::min(of_segment, w.words.k - word0);
    const uint32_t* from = words + word0 * stored;
    Sum<kDots> sum[MR][NV];
    IntVec upper[MR][NV];
    if constexpr (kBits == 8 && !kDots) {
      segment_sums<kBits, 4, MR, NV, kDots>(from, count, steps + i * segment, row_bytes, sum);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v)
          upper[r][v] = hn::ShiftLeft<4>(add_word_pairs(hn::Zero(di), sum[r][v], hn::Set(d16, 1)));
      }
    }
    segment_sums<kBits, 0, MR, NV, kDots>(from, count, steps + i * segment, row_bytes, sum);
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const FloatVec unit = hn::Set(d, units[r * rows.row_units + (i >> in_unit)]);
      const FloatVec of_row = hn::Set(d, of_rows[r * rows.row_sums + i]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
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
      }
    }
  }
  const int64_t columns = std::min<int64_t>(stored, w.words.n - panel * w.words.width);
  for (int r = 0; r < MR; ++r) {
    float* to = sums + r * ld;
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const int64_t count = columns - v * kLanes;
      if (count >= kLanes) {
        hn::StoreU(total[r][v], d, to + v * kLanes);
      } else if (count > 0) {
        masked_store(total[r][v], hn::FirstN(d, static_cast<size_t>(count)), d, to + v * kLanes);
      }
    }
  }
}

template <int kBits, int MR, int NV, bool kDots>
void tiles(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, int64_t begin, int64_t end, int64_t row0,
           int64_t row1, float* sums, int64_t ld) {
  for (; row0 + MR <= row1; row0 += MR, sums += MR * ld)
    tile<kBits, MR, NV, kDots>(args, rows, panel, begin, end, row0, sums, ld);
  if constexpr (MR > 1) {
    if (row0 < row1) tiles<kBits, MR / 2, NV, kDots>(args, rows, panel, begin, end, row0, row1, sums, ld);
  }
}

template <int kBits, int NV = kMostVectors>
void panel_sums_of(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, int64_t begin, int64_t end,
                   int64_t row0, int64_t row1, float* sums, int64_t ld) {
  if constexpr (NV > 1) {
    if (args.weights->words.columns(panel) < NV * kLanes)
      return panel_sums_of<kBits, NV - 1>(args, rows, panel, begin, end, row0, row1, sums, ld);
  }
  if (has_int8_dots()) {
    tiles<kBits, kMostRows<NV>, NV, true>(args, rows, panel, begin, end, row0, row1, sums, ld);
  } else {
    tiles<kBits, kMostRows<NV>, NV, false>(args, rows, panel, begin, end, row0, row1, sums, ld);
  }
}

void rounded_panel_sums_target(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, int64_t begin,
                               int64_t end, int64_t row0, int64_t row1, float* sums, int64_t ld) {
  const int bits = args.weights->bits;
  if (bits == 2) return panel_sums_of<2>(args, rows, panel, begin, end, row0, row1, sums, ld);
  if (bits == 4) return panel_sums_of<4>(args, rows, panel, begin, end, row0, row1, sums, ld);
  panel_sums_of<8>(args, rows, panel, begin, end, row0, row1, sums, ld);
}

#else

void round_rows_target(const NarrowGemm&, const RoundedRows&, int64_t, int64_t) {}
void rounded_panel_sums_target(const NarrowGemm&, const RoundedRows&, int64_t, int64_t, int64_t, int64_t, int64_t,
                               float*, int64_t) {}

#endif

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(round_rows_target);
HWY_EXPORT(rounded_panel_sums_target);

namespace {

int64_t up_to(int64_t size, int64_t step) {
  return (size + step - 1) / step * step;
}

}  // namespace

bool has_byte_products() {
  return tile_traits().byte_product != ByteProduct::none;
}

RoundedRows::RoundedRows(const NarrowWeights& w, int64_t m, void* memory)
    : row_bytes(up_to(w.k, kRoundedBlock)),
      row_units(row_bytes / kRoundedBlock),
      row_sums(row_bytes / segment(w)),
      steps(static_cast<int8_t*>(memory)),
      units(reinterpret_cast<float*>(steps + m * row_bytes)),
      sums(units + m * row_units) {}

int64_t RoundedRows::bytes(const NarrowWeights& w, int64_t m) {
  const int64_t row = up_to(w.k, kRoundedBlock);
  return up_to(m * (row + 4 * (row / kRoundedBlock + row / segment(w))), 64);
}

void round_rows(const NarrowGemm& args, const RoundedRows& rows, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(round_rows_target)(args, rows, begin, end);
}

void rounded_panel_sums(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, int64_t begin, int64_t end,
                        int64_t row0, int64_t row1, float* sums, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(rounded_panel_sums_target)(args, rows, panel, begin, end, row0, row1, sums, ld);
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
