#include "backends/cpu/kernels/gemm/matrix_tiles.h"

#include <cstring>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/gemm/portable_tiles.h"

namespace camshaft::cpu {

namespace {

// Which register holds what: four of sums, two of A, two of B.
constexpr int kSums = 0, kA = 4, kB = 6;

#if defined(__x86_64__)
// As text: no source needs to be compiled for a processor with AMX. No compiler knows these registers otherwise, so
// none of them can be taken.
struct Amx {
  template <int kTile>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  static void load(const void* from, int64_t stride) {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(stride) : "memory");
  }
  template <int kTile>
  static void store(void* to, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kTile), "r"(to), "r"(stride) : "memory");
  }
  template <TileProduct kProduct, int kSum, int kLeft, int kRight>
  static void multiply() {
    if constexpr (kProduct == TileProduct::u8_s8)
      __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
    else if constexpr (kProduct == TileProduct::s8_s8)
      __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
    else
      __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
  }
};
#endif

template <class Unit, TileProduct kProduct, int kRowTiles, int kColumnTiles>
void step(Unit& unit, const TileRows (&a)[2], const char* b, int64_t b_stride) {
  unit.template load<kB>(b, b_stride);
  if constexpr (kColumnTiles == 2) unit.template load<kB + 1>(b + 4 * kTileColumns, b_stride);
  unit.template load<kA>(a[0].first, a[0].stride);
  unit.template multiply<kProduct, kSums, kA, kB>();
  if constexpr (kColumnTiles == 2) unit.template multiply<kProduct, kSums + 1, kA, kB + 1>();
  if constexpr (kRowTiles == 2) {
    unit.template load<kA + 1>(a[1].first, a[1].stride);
    unit.template multiply<kProduct, kSums + 2, kA + 1, kB>();
    if constexpr (kColumnTiles == 2) unit.template multiply<kProduct, kSums + 3, kA + 1, kB + 1>();
  }
}

template <class Unit, TileProduct kProduct, int kRowTiles, int kColumnTiles>
void add_up_tiles(Unit& unit, const TileSums& s) {
  const auto begin = [&]<int kTile>(int column) {
    if (s.begin)
      unit.template load<kTile>(static_cast<const char*>(s.begin) + 4 * kTileColumns * column, 0);
    else
      unit.template zero<kTile>();
  };
  begin.template operator()<kSums>(0);
  if constexpr (kColumnTiles == 2) begin.template operator()<kSums + 1>(1);
  if constexpr (kRowTiles == 2) {
    begin.template operator()<kSums + 2>(0);
    if constexpr (kColumnTiles == 2) begin.template operator()<kSums + 3>(1);
  }
  const char* b = s.b;
  uintptr_t ahead = s.prefetch;
  for (int64_t tap = 0; tap < s.taps; ++tap) {
    TileRows a[2] = {s.a[0][tap], kRowTiles == 2 ? s.a[1][tap] : TileRows{}};
    const bool ends = s.b_last && tap + 1 == s.taps;
    for (int64_t i = 0; i < s.steps.count; ++i) {
      for (int line = 0; line < s.prefetch_lines; ++line, ahead += 64) __builtin_prefetch(at_address(ahead), 0, 2);
      step<Unit, kProduct, kRowTiles, kColumnTiles>(unit, a, ends && i + 1 == s.steps.count ? s.b_last : b, s.b_stride);
      b += s.steps.words * s.b_stride;
      a[0].first += s.steps.words * 4;
      if (kRowTiles == 2) a[1].first += s.steps.words * 4;
    }
  }
  char* const sums = static_cast<char*>(s.sums);
  const int64_t stride = s.sums_ld * 4;
  unit.template store<kSums>(sums, stride);
  if constexpr (kColumnTiles == 2) unit.template store<kSums + 1>(sums + 4 * kTileColumns, stride);
  if constexpr (kRowTiles == 2) {
    unit.template store<kSums + 2>(sums + kTileRows * stride, stride);
    if constexpr (kColumnTiles == 2)
      unit.template store<kSums + 3>(sums + kTileRows * stride + 4 * kTileColumns, stride);
  }
}

template <class Unit, TileProduct kProduct>
void add_up_product(Unit& unit, const TileSums& s) {
  if (s.row_tiles == 2)
    return s.column_tiles == 2 ? add_up_tiles<Unit, kProduct, 2, 2>(unit, s)
                               : add_up_tiles<Unit, kProduct, 2, 1>(unit, s);
  s.column_tiles == 2 ? add_up_tiles<Unit, kProduct, 1, 2>(unit, s) : add_up_tiles<Unit, kProduct, 1, 1>(unit, s);
}

template <class Unit>
void add_up_on(Unit& unit, const TileSums& s) {
  switch (s.product) {
    case TileProduct::u8_s8:
      return add_up_product<Unit, TileProduct::u8_s8>(unit, s);
    case TileProduct::s8_s8:
      return add_up_product<Unit, TileProduct::s8_s8>(unit, s);
    case TileProduct::bf16_pairs:
      return add_up_product<Unit, TileProduct::bf16_pairs>(unit, s);
  }
}

#if defined(__x86_64__)
template <TileProduct kProduct>
void multiply_in_registers(int64_t rounds) {
  for (int64_t i = 0; i < rounds; ++i) {
    Amx::multiply<kProduct, kSums, kA, kB>();
    Amx::multiply<kProduct, kSums + 1, kA, kB + 1>();
    Amx::multiply<kProduct, kSums + 2, kA + 1, kB>();
    Amx::multiply<kProduct, kSums + 3, kA + 1, kB + 1>();
  }
}
#endif

}  // namespace

double spin_tiles([[maybe_unused]] TileProduct product, [[maybe_unused]] int64_t rounds) {
#if defined(__x86_64__)
  const bool pairs = product == TileProduct::bf16_pairs;
  if ((pairs ? pair_matrix_unit() : byte_matrix_unit()) != MatrixUnit::amx) return 0;
  // Configured, and with zeros in all registers.
  alignas(64) char zeros[kTileRows * kTileWords * 4] = {};
  alignas(64) char sums[2 * kTileRows * 2 * kTileColumns * 4];
  const TileRows rows{zeros, 64};
  TileSums s;
  s.product = product;
  s.row_tiles = s.column_tiles = 2;
  for (int i = 0; i < 2; ++i) s.rows[i] = kTileRows, s.columns[i] = kTileColumns, s.a[i] = &rows;
  s.steps = {1, kTileWords};
  s.b_stride = 0;
  s.b = sums;
  std::memset(sums, 0, sizeof sums);
  s.sums = sums;
  s.sums_ld = 2 * kTileColumns;
  MatrixTiles tiles(MatrixUnit::amx);
  tiles.add_up(s);
  pairs ? multiply_in_registers<TileProduct::bf16_pairs>(rounds) : multiply_in_registers<TileProduct::u8_s8>(rounds);
  const int64_t elements = pairs ? 2 : 4;
  return 2.0 * 4 * static_cast<double>(kTileRows * kTileColumns * kTileWords * elements) * static_cast<double>(rounds);
#else
  return 0;
#endif
}

MatrixTiles::Shapes MatrixTiles::shapes_of(const TileSums& s) {
  Shapes shapes;
  shapes.palette = 1;
  const auto set = [&](int tile, int64_t rows, int64_t words) {
    shapes.rows[tile] = static_cast<uint8_t>(rows);
    shapes.row_bytes[tile] = static_cast<uint16_t>(words * 4);
  };
  const int64_t words = s.steps.count == 0 ? 1 : s.steps.words;
  for (int i = 0; i < s.row_tiles; ++i) {
    for (int j = 0; j < s.column_tiles; ++j) set(kSums + 2 * i + j, s.rows[i], s.columns[j]);
    set(kA + i, s.rows[i], words);
  }
  for (int j = 0; j < s.column_tiles; ++j) set(kB + j, words, s.columns[j]);
  return shapes;
}

// All that shapes_of() depends on. Comparing the operand itself takes as long as a step of products.
uint64_t MatrixTiles::key_of(const TileSums& s) {
  const auto of_tiles = [](int64_t count, const int64_t(&sizes)[2]) {
    return static_cast<uint64_t>(sizes[0]) | (count == 2 ? static_cast<uint64_t>(sizes[1]) << 8 : 0);
  };
  const uint64_t words = s.steps.count == 0 ? 1 : static_cast<uint64_t>(s.steps.words);
  return of_tiles(s.row_tiles, s.rows) | of_tiles(s.column_tiles, s.columns) << 16 | words << 32;
}

void MatrixTiles::add_up(const TileSums& s) {
#if defined(__x86_64__)
  if (unit_ == MatrixUnit::amx) {
    const uint64_t key = key_of(s);
    if (key != configured_) {
      const Shapes shapes = shapes_of(s);
      __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
      configured_ = key;
    }
    Amx unit;
    return add_up_on(unit, s);
  }
#endif
  const Shapes shapes = shapes_of(s);
  PortableTiles unit(shapes.rows, shapes.row_bytes);
  add_up_on(unit, s);
}

MatrixTiles::~MatrixTiles() {
#if defined(__x86_64__)
  if (configured_ != 0) __asm__ volatile("tilerelease");
#endif
}

}  // namespace camshaft::cpu
