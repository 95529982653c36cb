// How a product is cut into cache blocks, and the scratch memory this takes. Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/tile_rows.h"
#include "base/divide_up.h"

namespace camshaft::cpu {

/// K steps of a block, of `k` in all. A 64-wide panel of them takes an eighth of this machine's L2 cache (512 steps of
/// 1 MiB), beside the next panel, which is asked for meanwhile, and the rows of A; or all of K where that is three
/// sixteenths at most, for each block costs a visit to C: 197 x 768 x 3072 is 5 % faster in one piece than in two,
/// 128 x 3072 x 768 as fast with pieces of 384 and 512 and 1 % slower with 768.
int64_t block_k(int64_t k);
/// K steps of a block of A that is copied: what a thread has scratch memory for.
inline constexpr int64_t kCopiedBlockK = 128;
/// Rows of an M block, and what they are a multiple of: full register tiles of every height in use but 5, 7, 8, 10.
/// The sequences that transformers see most (128, 197) are one block, so that their weights pass by once: 2 % of
/// DistilBERT beside 120.
inline constexpr int64_t kBlockRows = 204;
inline constexpr int64_t kRowGrain = 12;
/// Floats of C that are revisited for each K block: 64 KiB, so that they are still in L2 when the panels of the next
/// block have passed. With 256 KiB products of 128 and 197 rows took 1 to 4 % longer.
inline constexpr int64_t kBlockC = 16 * 1024;
/// Floats that the prefetch runs ahead when every byte of B is used once.
inline constexpr int64_t kStreamAhead = 1024;
/// The epilogue's callback gets at least this many elements at once where it can.
inline constexpr int64_t kCallbackElements = 4096;
/// Pointers of one M block, at most, where one row has fewer: 128 KiB.
inline constexpr int64_t kBlockPointers = 16 * 1024;

struct Blocking {
  int64_t rows = 0;         ///< rows of an M block, at least 1
  int64_t depth = 0;        ///< floats of a tap in one K block, if taps are split
  int64_t taps = 1;         ///< whole taps in one K block, if they are not
  int64_t copy_stride = 0;  ///< floats from row to row in a copied block of A
};

/// The most rows that an M block can have, for any part of m rows.
inline int64_t most_block_rows(int64_t m, int64_t taps) {
  const int64_t limit = kBlockPointers / std::max<int64_t>(1, taps) / kRowGrain * kRowGrain;
  return std::max<int64_t>(1, std::min(m, std::clamp(limit, kRowGrain, kBlockRows)));
}

/// Steps of the pieces, equal but for the last one, that `depth` steps are cut into where they are more than a block.
inline int64_t piece_depth(int64_t depth, int64_t block) {
  const int64_t pieces = std::max<int64_t>(1, divide_up(depth, block));
  return std::max<int64_t>(1, pieces == 1 ? depth : round_up(divide_up(depth, pieces), 4));
}

/// `copy`: the rows of A are copied. `few_row_parts`: where all rows of the product fit in one register tile, so that
/// no part of B is used twice, the parts of K that many threads want (row_product_parts); else 0.
inline Blocking core_blocking(int64_t m, int64_t taps, int64_t depth, bool copy, int64_t few_row_parts) {
  Blocking result;
  const int64_t most = most_block_rows(m, taps);
  const int64_t blocks = std::max<int64_t>(1, divide_up(m, most));
  result.rows = std::min(most, round_up(divide_up(m, blocks), kRowGrain));
  const int64_t k = taps * depth, part = few_row_parts > 0 ? std::max<int64_t>(1, divide_up(k, few_row_parts)) : 0;
  const int64_t block = copy ? kCopiedBlockK : part > 0 ? part : block_k(k);
  result.depth = piece_depth(depth, block);
  if (depth <= block) {
    const int64_t groups = std::max<int64_t>(1, divide_up(k, block));
    result.taps = std::max<int64_t>(1, divide_up(taps, groups));
  }
  // An odd number of cache lines, so that rows never share a set of L1.
  result.copy_stride = (divide_up(std::min(result.depth, kCopiedBlockK), 16) | 1) * 16;
  return result;
}

/// Words of K in a block of a product by tiles (gemm_matrix-inl.h), at most: what a thread has memory for to copy rows.
inline constexpr int64_t kMatrixBlockK = 768;

/// Of products by tiles. What of K is not cut is a whole number of tiles.
inline Blocking matrix_blocking(int64_t m, int64_t taps, int64_t depth) {
  Blocking result = core_blocking(m, taps, depth, false, 0);
  const int64_t k = taps * depth, block = k <= kMatrixBlockK ? kMatrixBlockK : 512;
  const int64_t pieces = std::max<int64_t>(1, divide_up(depth, block));
  result.depth = pieces == 1 ? std::max<int64_t>(1, depth) : round_up(divide_up(depth, pieces), kTileWords);
  result.taps =
      pieces == 1 ? std::clamp<int64_t>(block / std::max<int64_t>(1, depth), 1, std::max<int64_t>(1, taps)) : 1;
  return result;
}

/// Part of K: taps [tap0, tap0 + taps), of each the floats [depth0, depth0 + depth).
struct KBlock {
  int64_t tap0 = 0, taps = 0, depth0 = 0, depth = 0;
  bool first = false, done = false;
};

inline KBlock block_at(const Blocking& blocking, int64_t taps, int64_t depth, int64_t tap0, int64_t depth0) {
  KBlock block;
  block.tap0 = tap0;
  block.depth0 = depth0;
  block.first = tap0 == 0 && depth0 == 0;
  block.taps = std::min(blocking.taps, taps - tap0);
  block.depth = std::min(blocking.depth, depth - depth0);
  return block;
}

inline KBlock first_block(const Blocking& blocking, int64_t taps, int64_t depth) {
  return block_at(blocking, taps, depth, 0, 0);
}

inline KBlock next_block(const Blocking& blocking, int64_t taps, int64_t depth, const KBlock& block) {
  if (block.depth0 + block.depth < depth) {
    return block_at(blocking, taps, depth, block.tap0, block.depth0 + block.depth);
  }
  if (block.tap0 + block.taps < taps) return block_at(blocking, taps, depth, block.tap0 + block.taps, 0);
  KBlock end;
  end.done = true;
  return end;
}

/// One thread's scratch memory: row pointers, output rows, sums that the epilogue stores, a copied block of A. Where a
/// unit multiplies tiles also these, their copies and the last step of a panel.
struct Scratch {
  const float** pointers;
  int64_t* out_rows;
  float* sums;  ///< kBlockC
  float* copy;
  char* tiles;
  char* tile_copies;
  float* last_step;

  static int64_t bytes(int64_t block_rows, int64_t taps) {
    return pointer_bytes(block_rows, taps) + sums_bytes +
           std::max(copy_bytes(block_rows),
                    pair_matrix_unit() == MatrixUnit::none ? 0 : matrix_bytes(block_rows, taps));
  }
  Scratch(void* memory, int64_t block_rows, int64_t taps) {
    char* at = static_cast<char*>(memory);
    pointers = reinterpret_cast<const float**>(at);
    at += round_up(block_rows * std::max<int64_t>(1, taps) * 8, 64);
    out_rows = reinterpret_cast<int64_t*>(at);
    at += round_up(block_rows * 8, 64);
    sums = reinterpret_cast<float*>(at);
    at += sums_bytes;
    copy = reinterpret_cast<float*>(at);
    last_step = copy;
    tiles = at + last_step_bytes;
    tile_copies = tiles + TileRowBlock::description_bytes(block_rows, std::max<int64_t>(1, taps));
  }

 private:
  static constexpr int64_t sums_bytes = kBlockC * 4;
  static constexpr int64_t last_step_bytes = kTileWords * 4 * kTileColumns * 4;  // of the widest panel

  static int64_t pointer_bytes(int64_t block_rows, int64_t taps) {
    return round_up(block_rows * std::max<int64_t>(1, taps) * 8, 64) + round_up(block_rows * 8, 64);
  }
  static int64_t copy_bytes(int64_t block_rows) { return block_rows * (divide_up(kCopiedBlockK, 16) | 1) * 16 * 4; }
  static int64_t matrix_bytes(int64_t block_rows, int64_t taps) {
    return last_step_bytes + TileRowBlock::description_bytes(block_rows, std::max<int64_t>(1, taps)) +
           TileRowBlock::copy_bytes(block_rows, 1, (kMatrixBlockK + kTileWords) * 4);
  }
};

/// Whether a block of A is copied before use: because its elements are not contiguous, or are multiplied on the way.
inline bool copies_rows(const RowSource& rows, int64_t k) {
  return rows.factors || (rows.k_stride != 1 && k > 1);
}

inline void copy_rows(const RowSource& source, int64_t row0, int64_t rows, const KBlock& block, int64_t stride,
                      float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = source.base + (row0 + r) * source.row_stride + block.depth0 * source.k_stride;
    float* to = out + r * stride;
    if (block.depth == 0) continue;
    if (source.k_stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(block.depth) * sizeof(float));
    } else {
      for (int64_t k = 0; k < block.depth; ++k) to[k] = from[k * source.k_stride];
    }
  }
}

}  // namespace camshaft::cpu
