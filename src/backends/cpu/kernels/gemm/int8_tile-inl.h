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

#include "backends/cpu/kernels/cache_line.h"
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

// MR x NV sums, NV vectors of B and one of A.
inline constexpr TileShape kTile = kTiles.byte_product;

#if CAMSHAFT_HAS_BYTE_PRODUCT

template <int MR, int NV>
HWY_INLINE void step(const uint8_t* const (&a)[MR], int64_t q, const int32_t* HWY_RESTRICT b, Vec (&sum)[MR][NV],
                     std::true_type /*dots*/) {
  const Tag d;
  Vec bv[NV];
#pragma GCC unroll 16
  for (int v = 0; v < NV; ++v) bv[v] = hn::LoadU(d, b + v * lanes());
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    int32_t quad;
    std::memcpy(&quad, a[r] + q * 4, 4);
    const Vec av = hn::Set(d, quad);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = add_byte_dots(sum[r][v], av, bv[v]);
  }
}

// As add_word_pairs(), but both instructions in a row: of two products for a sum the compiler adds up the products
// first, and spills what no longer fits.
template <class V16>
HWY_INLINE Vec add_word_pairs_at_once(Vec sum, Vec a, V16 b) {
  Vec products;
  __asm__(
      "vpmaddwd %3, %2, %1\n\t"
      "vpaddd %1, %0, %0"
      : "+v"(sum.raw), "=&v"(products.raw)
      : "v"(a.raw), "v"(b.raw));
  return sum;
}

// The products of two words of each quad, which lie 8 bytes apart in A.
template <int MR, int NV, class V16>
HWY_INLINE void add_products(const uint8_t* const (&a)[MR], int64_t from, const V16 (&words)[NV], Vec (&sum)[MR][NV]) {
  const Tag d;
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    int32_t pair;
    std::memcpy(&pair, a[r] + from, 4);
    const Vec av = hn::Set(d, pair);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = add_word_pairs_at_once(sum[r][v], av, words[v]);
  }
}

// Even and odd bytes as words: `vpmaddubsw` would multiply both at once, but saturates at two products of 255 · 127. A
// has them as words already (widen_quads()), and B is widened for the even ones first, then for the odd ones, so that
// as many sums fit into registers as with products of bytes: on a Zen 3 1.4 times as fast as widening both here.
template <int MR, int NV>
HWY_INLINE void step(const uint8_t* const (&a)[MR], int64_t q, const int32_t* HWY_RESTRICT b, Vec (&sum)[MR][NV],
                     std::false_type /*dots*/) {
  const Tag d;
  const hn::Repartition<int16_t, Tag> d16;
  hn::Vec<decltype(d16)> words[NV];
#pragma GCC unroll 16
  for (int v = 0; v < NV; ++v)
    words[v] = hn::ShiftRight<8>(hn::ShiftLeft<8>(hn::BitCast(d16, hn::LoadU(d, b + v * lanes()))));
  add_products(a, q * 8, words, sum);
#pragma GCC unroll 16
  for (int v = 0; v < NV; ++v) words[v] = hn::ShiftRight<8>(hn::BitCast(d16, hn::LoadU(d, b + v * lanes())));
  add_products(a, q * 8 + 4, words, sum);
}

#else

// One byte of each quad at a time, as 32 bits.
template <int MR, int NV, bool kDots>
HWY_INLINE void step(const uint8_t* const (&a)[MR], int64_t q, const int32_t* HWY_RESTRICT b, Vec (&sum)[MR][NV],
                     std::bool_constant<kDots>) {
  const Tag d;
  for (int v = 0; v < NV; ++v) {
    const Vec quads = hn::LoadU(d, b + v * lanes());
    const Vec bytes[4] = {hn::ShiftRight<24>(hn::ShiftLeft<24>(quads)), hn::ShiftRight<24>(hn::ShiftLeft<16>(quads)),
                          hn::ShiftRight<24>(hn::ShiftLeft<8>(quads)), hn::ShiftRight<24>(quads)};
    for (int r = 0; r < MR; ++r) {
      for (int i = 0; i < 4; ++i)
        sum[r][v] = hn::Add(sum[r][v], hn::Mul(hn::Set(d, static_cast<int32_t>(a[r][q * 4 + i])), bytes[i]));
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
  uintptr_t ahead = t.prefetch;
  const int ahead_lines = t.prefetch_lines;
  const int64_t quads = t.quads;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const uint8_t* a[MR];
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) a[r] = t.rows[tap * t.tap_stride + r];
    for (int64_t q = 0; q < quads; ++q, b += NV * lanes()) {
      for (int i = 0; i < ahead_lines; ++i, ahead += 64) __builtin_prefetch(at_address(ahead), 0, 2);
      step<MR, NV>(a, q, b, sum, std::bool_constant<kDots>());
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

template <bool kDots, int NV, int MR = kTile.rows[NV - 1]>
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

template <bool kDots, int MR, int NV>
HWY_NOINLINE void steps_tile(const Int8TileArgs& t, const StepsPlace& place) {
  Vec sum[MR][NV];
  add_up<kDots, MR, NV>(t, sum);
  place.writer->write_tile<MR, NV>(sum, place.row, 1, MR, place.column, place.count);
}

template <bool kDots, int NV, int MR = kTile.rows[NV - 1]>
HWY_INLINE void steps_tile_of_rows(int64_t rows, const Int8TileArgs& t, const StepsPlace& place) {
  if constexpr (MR == 1) {
    steps_tile<kDots, 1, NV>(t, place);
  } else {
    if (rows == MR) return steps_tile<kDots, MR, NV>(t, place);
    steps_tile_of_rows<kDots, NV, MR - 1>(rows, t, place);
  }
}

#endif

}  // namespace int8
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
