#include "backends/cpu/kernels/gemm/narrow_weights.h"

#include <algorithm>

namespace camshaft::cpu {

namespace {

// Element i of a packed tensor.
class Codes {
 public:
  Codes(int bits, bool is_signed) : bits_(bits), mask_((1U << bits) - 1), flip_(is_signed ? 1U << (bits - 1) : 0) {}
  uint32_t get(const std::byte* from, int64_t i) const {
    const int64_t bit = i * bits_;
    return ((static_cast<uint32_t>(from[bit / 8]) >> (bit % 8)) & mask_) ^ flip_;
  }
  // Into bits that are 0.
  void put(std::byte* to, int64_t i, uint32_t code) const {
    const int64_t bit = i * bits_;
    to[bit / 8] |= static_cast<std::byte>((code ^ flip_) << (bit % 8));
  }

 private:
  int bits_;
  uint32_t mask_, flip_;
};

// Calls visit(the word's place, the word's bit, the element's place in the model) for each element.
template <class Visit>
void for_elements(const NarrowWeights& w, const NarrowElements& raw, const Visit& visit) {
  const int64_t in_word = w.word_elements();
  for (int64_t p = 0; p < w.words.panels(); ++p) {
    const int64_t stored = w.words.columns(p), first = p * w.words.width;
    const int64_t columns = std::min<int64_t>(w.words.width, w.words.n - first);
    // Some words of each column at a time: a cache line of the model's is used whole, whichever axis is contiguous.
    constexpr int64_t words_at_once = 16;
    for (int64_t word0 = 0; word0 < w.words.k; word0 += words_at_once) {
      const int64_t k0 = word0 * in_word, k1 = std::min(w.k, (word0 + words_at_once) * in_word);
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t k = k0; k < k1; ++k) {
          const int64_t in = k % in_word;
          const auto bit = static_cast<int>(in % 4 * 8 + in / 4 * w.bits);
          visit(w.words.offset(p) + k / in_word * stored + j, bit, k * raw.k_stride + (first + j) * raw.n_stride);
        }
      }
    }
  }
}

// Calls visit(place in the panels, place in the model).
template <class Visit>
void for_parameters(const PackedLayout& layout, const NarrowElements& raw, const Visit& visit) {
  for (int64_t p = 0; p < layout.panels(); ++p) {
    const int64_t stored = layout.columns(p), first = p * layout.width;
    const int64_t columns = std::min<int64_t>(layout.width, layout.n - first);
    for (int64_t k = 0; k < layout.k; ++k)
      for (int64_t j = 0; j < columns; ++j)
        visit(layout.offset(p) + k * stored + j, k * raw.k_stride + (first + j) * raw.n_stride);
  }
}

}  // namespace

NarrowWeights narrow_weights(int bits, int64_t k, int64_t n, int64_t block) {
  NarrowWeights w;
  w.bits = bits;
  w.k = k;
  w.block = block;
  w.words = packed_layout((k + w.word_elements() - 1) / w.word_elements(), n);
  return w;
}

void pack_narrow(const NarrowWeights& w, const NarrowElements& from, const std::byte* elements, std::byte* packed) {
  const Codes codes(w.bits, from.is_signed);
  auto* words = reinterpret_cast<uint32_t*>(packed);
  for_elements(w, from, [&](int64_t word, int bit, int64_t at) { words[word] |= codes.get(elements, at) << bit; });
}

void unpack_narrow(const NarrowWeights& w, const NarrowElements& to, const std::byte* packed, std::byte* elements) {
  const Codes codes(w.bits, to.is_signed);
  const auto* words = reinterpret_cast<const uint32_t*>(packed);
  const uint32_t mask = (1U << w.bits) - 1;
  for_elements(w, to, [&](int64_t word, int bit, int64_t at) { codes.put(elements, at, (words[word] >> bit) & mask); });
}

void pack_zeros(const PackedLayout& layout, int bits, const NarrowElements& from, const std::byte* elements,
                uint8_t* packed) {
  const Codes codes(bits, from.is_signed);
  for_parameters(layout, from,
                 [&](int64_t to, int64_t at) { packed[to] = static_cast<uint8_t>(codes.get(elements, at)); });
}

void unpack_zeros(const PackedLayout& layout, int bits, const NarrowElements& to, const uint8_t* packed,
                  std::byte* elements) {
  const Codes codes(bits, to.is_signed);
  for_parameters(layout, to, [&](int64_t from, int64_t at) { codes.put(elements, at, packed[from]); });
}

void pack_halves(const PackedLayout& layout, const NarrowElements& from, const uint16_t* halves, uint16_t* packed) {
  for_parameters(layout, from, [&](int64_t to, int64_t at) { packed[to] = halves[at]; });
}

void unpack_halves(const PackedLayout& layout, const NarrowElements& to, const uint16_t* packed, uint16_t* halves) {
  for_parameters(layout, to, [&](int64_t from, int64_t at) { halves[at] = packed[from]; });
}

}  // namespace camshaft::cpu
