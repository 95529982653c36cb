// Sums of a product by a unit that multiplies tiles (matrix_unit.h): 2 x 2 tiles of 16 x 16 sums at once, each tile of
// either operand used twice. Internal to the kernels.
//
// Operands are 4-byte words along K: quads of bytes, or pairs of bf16. A tile of A is 16 rows of 16 words at most, as
// they lie in memory, a constant step apart; a tile of B is 16 words of 16 columns, which is how the panels of
// PackedLayout have them. So weights are packed as they are without such a unit.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "base/divide_up.h"

namespace camshaft::cpu {

inline constexpr int64_t kTileRows = 16;     ///< of A and of the sums
inline constexpr int64_t kTileColumns = 16;  ///< of B and of the sums, 4 bytes each
inline constexpr int64_t kTileWords = 16;    ///< of K

/// How words of K are cut into steps as long, each one product of tiles.
struct TileSteps {
  int64_t count = 0, words = 0;

  static TileSteps of(int64_t words) {
    if (words == 0) return {};
    const int64_t least = divide_up(words, kTileWords);
    // One more step takes less time than rows in copy, filled up with zeros.
    for (const int64_t count : {least, least + 1})
      if (words % count == 0) return {count, words / count};
    return {least, divide_up(words, least)};
  }
  int64_t covered() const { return count * words; }  ///< words of K, some of which may be beyond its end
};

/// Up to 16 rows of a tap of A: `stride` bytes from one to the next.
struct TileRows {
  const char* first;
  int64_t stride;
};

/// Sums of one or two tiles of rows by one or two of columns.
struct TileSums {
  TileProduct product = TileProduct::u8_s8;
  int64_t row_tiles = 1, column_tiles = 1;
  int64_t rows[2] = {}, columns[2] = {};  ///< of each tile, 1 to 16
  /// Tap t of tile i of A starts at a[i][t].
  const TileRows* a[2] = {};
  int64_t taps = 1;
  TileSteps steps;       ///< of a tap
  const char* b = {};    ///< the first tap's first step; the others follow
  int64_t b_stride = 0;  ///< bytes from a word to the next
  /// The last step of the last tap, if it is not there: rows of b_stride bytes, with zeros beyond the end of K.
  const char* b_last = nullptr;
  const void* begin = nullptr;  ///< what each column's sums begin with; null: 0
  void* sums = nullptr;         ///< 4 bytes each, rows of `sums_ld` of them
  int64_t sums_ld = 0;
  uintptr_t prefetch = 0;  ///< where the next lines lie (address_of(), cache_line.h)
  int prefetch_lines = 0;  ///< cache lines to ask for every step
};

/// Multiplies full tiles of the unit that this machine has for the product, `rounds` times four that stay in registers.
/// Returns how many operations that were, a multiplication and an addition being two; 0 where it has none.
double spin_tiles(TileProduct product, int64_t rounds);

/// The unit in use by this thread. Its tiles are configured when they are first used, and released in the end: other
/// code finds none that are.
class MatrixTiles {
 public:
  explicit MatrixTiles(MatrixUnit unit) : unit_(unit) {}
  ~MatrixTiles();
  MatrixTiles(const MatrixTiles&) = delete;
  MatrixTiles& operator=(const MatrixTiles&) = delete;

  void add_up(const TileSums& s);

 private:
  /// LDTILECFG's operand.
  struct alignas(64) Shapes {
    uint8_t palette = 0, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  };
  static Shapes shapes_of(const TileSums& s);
  static uint64_t key_of(const TileSums& s);

  MatrixUnit unit_;
  uint64_t configured_ = 0;  ///< key_of() what the unit's tiles are configured for
};

}  // namespace camshaft::cpu
