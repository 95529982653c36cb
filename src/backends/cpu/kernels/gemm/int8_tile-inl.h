// The register tile of an 8-bit product: MR rows x NV vectors of sums, all of K. Included once per instruction set.
#if defined(CAMSHAFT_CPU_INT8_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_INT8_TILE_INL_H
#undef CAMSHAFT_CPU_INT8_TILE_INL_H
#else
#define CAMSHAFT_CPU_INT8_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/gemm/int8_steps-inl.h"
#include "backends/cpu/kernels/gemm/int8_tile.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace int8 {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<int32_t>;
using Vec = hn::Vec<Tag>;
HWY_INLINE constexpr int lanes() {
  return static_cast<int>(HWY_LANES(int32_t));
}

// MR x NV sums, NV vectors of B and one or two of A. Products of 16 bits need B twice.
inline constexpr TileShape kDotsTile = kTiles.byte_dots, kPairsTile = kTiles.byte_pairs;

#if CAMSHAFT_HAS_BYTE_PRODUCT

template <int MR, int NV>
HWY_INLINE void step(const uint8_t* const (&a)[MR], int64_t k, const int32_t* HWY_RESTRICT b, Vec (&sum)[MR][NV],
                     std::true_type /*dots*/) {
  const Tag d;
  Vec bv[NV];
#pragma GCC unroll 16
  for (int v = 0; v < NV; ++v) bv[v] = hn::LoadU(d, b + v * lanes());
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    int32_t quad;
    std::memcpy(&quad, a[r] + k, 4);
    const Vec av = hn::Set(d, quad);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = add_byte_dots(sum[r][v], av, bv[v]);
  }
}

// Even and odd bytes as 16 bits each: `vpmaddubsw` would do both at once, but saturates at two products of 255 · 127.
template <int MR, int NV>
HWY_INLINE void step(const uint8_t* const (&a)[MR], int64_t k, const int32_t* HWY_RESTRICT b, Vec (&sum)[MR][NV],
                     std::false_type /*dots*/) {
  const Tag d;
  const hn::Repartition<int16_t, Tag> d16;
  const auto low_bytes = hn::Set(d16, int16_t{0xFF});
  hn::Vec<decltype(d16)> even[NV], odd[NV];
#pragma GCC unroll 16
  for (int v = 0; v < NV; ++v) {
    const auto both = hn::BitCast(d16, hn::LoadU(d, b + v * lanes()));
    even[v] = hn::ShiftRight<8>(hn::ShiftLeft<8>(both));
    odd[v] = hn::ShiftRight<8>(both);
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    int32_t quad;
    std::memcpy(&quad, a[r] + k, 4);
    const auto both = hn::BitCast(d16, hn::Set(d, quad));
    const auto a_even = hn::And(both, low_bytes);
    const auto a_odd = hn::And(hn::ShiftRight<8>(both), low_bytes);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) {
      sum[r][v] = add_word_pairs(sum[r][v], a_even, even[v]);
      sum[r][v] = add_word_pairs(sum[r][v], a_odd, odd[v]);
    }
  }
}

#else

// One byte of each quad at a time, as 32 bits.
template <int MR, int NV, bool kDots>
HWY_INLINE void step(const uint8_t* const (&a)[MR], int64_t k, const int32_t* HWY_RESTRICT b, Vec (&sum)[MR][NV],
                     std::bool_constant<kDots>) {
  const Tag d;
  for (int v = 0; v < NV; ++v) {
    const Vec quads = hn::LoadU(d, b + v * lanes());
    const Vec bytes[4] = {hn::ShiftRight<24>(hn::ShiftLeft<24>(quads)), hn::ShiftRight<24>(hn::ShiftLeft<16>(quads)),
                          hn::ShiftRight<24>(hn::ShiftLeft<8>(quads)), hn::ShiftRight<24>(quads)};
    for (int r = 0; r < MR; ++r) {
      for (int q = 0; q < 4; ++q)
        sum[r][v] = hn::Add(sum[r][v], hn::Mul(hn::Set(d, static_cast<int32_t>(a[r][k + q])), bytes[q]));
    }
  }
}

#endif

// The sums of MR rows of NV vectors.
template <bool kDots, int MR, int NV>
HWY_INLINE void add_up(const Int8TileArgs& t, Vec (&sum)[MR][NV]) {
  const Tag d;
#pragma GCC unroll 16
  for (int v = 0; v < NV; ++v) {
    const Vec begin = hn::LoadU(d, t.begin + v * lanes());
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) sum[r][v] = begin;
  }
  const int32_t* b = t.b;
  const char* ahead = t.prefetch;
  const int ahead_lines = t.prefetch_lines;
  const int64_t quads = t.quads;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const uint8_t* a[MR];
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) a[r] = t.rows[tap * t.tap_stride + r];
    for (int64_t q = 0; q < quads; ++q, b += NV * lanes()) {
      for (int i = 0; i < ahead_lines; ++i, ahead += 64) __builtin_prefetch(ahead, 0, 2);
      step<MR, NV>(a, q * 4, b, sum, std::bool_constant<kDots>());
    }
  }
}

// To `sums`, one row after the other.
template <bool kDots, int MR, int NV>
HWY_NOINLINE void tile(const Int8TileArgs& t, int32_t* HWY_RESTRICT sums) {
  Vec sum[MR][NV];
  add_up<kDots, MR, NV>(t, sum);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) hn::StoreU(sum[r][v], Tag(), sums + (r * NV + v) * lanes());
  }
}

template <bool kDots, int NV, int MR = kDots ? kDotsTile.rows[NV - 1] : kPairsTile.rows[NV - 1]>
HWY_INLINE void tile_of_rows(int64_t rows, const Int8TileArgs& t, int32_t* sums) {
  if constexpr (MR == 1) {
    tile<kDots, 1, NV>(t, sums);
  } else {
    if (rows == MR) return tile<kDots, MR, NV>(t, sums);
    tile_of_rows<kDots, NV, MR - 1>(rows, t, sums);
  }
}

#if CAMSHAFT_HAS_BYTE_PRODUCT

// As steps of the result, of which it is `count` columns from (row, column) on.
struct StepsPlace {
  const StepsWriter* writer;
  int64_t row, column, count;
};

template <int MR, int NV>
HWY_NOINLINE void steps_tile(const Int8TileArgs& t, const StepsPlace& place) {
  Vec sum[MR][NV];
  add_up<true, MR, NV>(t, sum);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) place.writer->write<NV>(sum[r], place.row + r, place.column, place.count);
}

template <int NV, int MR = kDotsTile.rows[NV - 1]>
HWY_INLINE void steps_tile_of_rows(int64_t rows, const Int8TileArgs& t, const StepsPlace& place) {
  if constexpr (MR == 1) {
    steps_tile<1, NV>(t, place);
  } else {
    if (rows == MR) return steps_tile<MR, NV>(t, place);
    steps_tile_of_rows<NV, MR - 1>(rows, t, place);
  }
}

#endif

}  // namespace int8
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
