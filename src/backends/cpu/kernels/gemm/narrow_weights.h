// Weights of 2, 4 or 8 bits, packed for products with rows of f32: what a machine reads of them is as narrow as they
// are, and no more than their blocks' scales beside it.
//
// A word of 4 bytes has 32/bits elements of one column that follow each other along K: element k of them is in byte
// k % 4, above the k / 4 elements before it there. So the elements of four bytes come out of a word by one shift and
// one mask, as products of bytes want them. Words lie in panels (PackedLayout), as floats do.
//
// Elements are stored as codes from 0 on: those of signed types are moved by half their range, as are zero points.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft::cpu {

struct NarrowWeights {
  int bits = 4;
  int64_t k = 0;       ///< elements of a column
  int64_t block = 1;   ///< of them share a scale: a multiple of word_elements(), or at least k
  PackedLayout words;  ///< of words; its k counts words

  int word_elements() const { return 32 / bits; }
  int64_t blocks() const { return (k + block - 1) / block; }
  /// Words of a block; the last one may have fewer.
  int64_t block_words() const { return (block + word_elements() - 1) / word_elements(); }
  int64_t bytes() const { return words.floats() * 4; }

  /// What is summed at once: words of one block, few enough to stay in L1.
  struct Chunk {
    int64_t block, word0, word1;
  };
  int64_t chunk_words() const { return block_words() < 32 ? block_words() : 32; }
  int64_t block_chunks() const { return (block_words() + chunk_words() - 1) / chunk_words(); }
  int64_t chunks() const {
    const int64_t before = blocks() - 1, rest = words.k - before * block_words();
    return before * block_chunks() + (rest + chunk_words() - 1) / chunk_words();
  }
  Chunk chunk(int64_t i) const {
    const int64_t in_block = block_chunks(), of = i / in_block,
                  word0 = of * block_words() + i % in_block * chunk_words();
    const int64_t end = (of + 1) * block_words() < words.k ? (of + 1) * block_words() : words.k;
    return {of, word0, word0 + chunk_words() < end ? word0 + chunk_words() : end};
  }
  /// The layout of scales and zero points, one a block and column: pack_b() packs scales of f32, pack_halves() of f16,
  /// pack_zeros() bytes.
  PackedLayout parameters() const { return {blocks(), words.n, words.width, words.lanes}; }
};

/// Of k x n elements, as this machine's products want them.
NarrowWeights narrow_weights(int bits, int64_t k, int64_t n, int64_t block);

/// How the elements lie in the model: packed as tensors are, the first in a byte's low bits.
struct NarrowElements {
  bool is_signed = false;
  int64_t k_stride = 0, n_stride = 0;  ///< in elements
};

/// Packs them into `packed` (w.bytes() bytes that are 0).
void pack_narrow(const NarrowWeights& w, const NarrowElements& from, const std::byte* elements, std::byte* packed);
/// The inverse: into memory that is 0.
void unpack_narrow(const NarrowWeights& w, const NarrowElements& to, const std::byte* packed, std::byte* elements);

/// Zero points of the blocks (along k), one a byte, in panels: `layout` is NarrowWeights::parameters(), whose floats()
/// are the bytes here.
void pack_zeros(const PackedLayout& layout, int bits, const NarrowElements& from, const std::byte* elements,
                uint8_t* packed);
void unpack_zeros(const PackedLayout& layout, int bits, const NarrowElements& to, const uint8_t* packed,
                  std::byte* elements);

/// Scales of f16 likewise, element (k, n) at halves[k * k_stride + n * n_stride].
void pack_halves(const PackedLayout& layout, const NarrowElements& from, const uint16_t* halves, uint16_t* packed);
void unpack_halves(const PackedLayout& layout, const NarrowElements& to, const uint16_t* packed, uint16_t* halves);

}  // namespace camshaft::cpu
