#include "backends/cpu/kernels/gemm/narrow_tile.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/narrow_tile.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/narrow_parameters-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using NarrowTag = hn::ScalableTag<float>;
using NarrowVec = hn::Vec<NarrowTag>;
using WordTag = hn::ScalableTag<uint32_t>;
using WordVec = hn::Vec<WordTag>;

HWY_INLINE constexpr int64_t narrow_lanes() {
  return static_cast<int64_t>(HWY_LANES(float));
}

constexpr int kMostVectors = kTiles.product.vectors;

// Where element `e` of a word is.
template <int kBits>
constexpr int bit_of(int e) {
  return e % 4 * 8 + e / 4 * kBits;
}

// Code `kElement` of each word.
template <int kBits, int kElement>
HWY_INLINE NarrowVec code_of(WordVec words) {
  const WordTag du;
  const hn::RebindToSigned<WordTag> di;
  constexpr int bit = bit_of<kBits>(kElement);
  const WordVec mask = hn::Set(du, (1U << kBits) - 1);
  return hn::ConvertTo(NarrowTag(), hn::BitCast(di, hn::And(hn::ShiftRight<bit>(words), mask)));
}

template <int kBits, int kElement, int MR, int NV>
HWY_INLINE void element_step(const WordVec (&words)[NV], const NarrowVec (&zero)[NV], const float* const (&x)[MR],
                             int64_t k, NarrowVec (&sum)[MR][NV]) {
  const NarrowTag d;
  NarrowVec code[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) code[v] = hn::Sub(code_of<kBits, kElement>(words[v]), zero[v]);
#pragma GCC unroll 4
  for (int r = 0; r < MR; ++r) {
    const NarrowVec a = hn::Set(d, x[r][k + kElement]);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::MulAdd(a, code[v], sum[r][v]);
  }
}

template <int kBits, int MR, int NV, int... kElements>
HWY_INLINE void word_step(const WordVec (&words)[NV], const NarrowVec (&zero)[NV], const float* const (&x)[MR],
                          int64_t k, NarrowVec (&sum)[MR][NV], std::integer_sequence<int, kElements...>) {
  (element_step<kBits, kElements, MR, NV>(words, zero, x, k, sum), ...);
}

// Words of a block of some columns: `count` in each, `step` from one to the next of a column.
struct BlockWords {
  const uint32_t* words;
  int64_t count, step;
};

// total += scale · sum of MR rows; element k of row r is x[r][k].
template <int kBits, int MR, int NV>
HWY_INLINE void block_rows(const BlockWords& block, const NarrowVec (&zero)[NV], const NarrowVec (&scale)[NV],
                           const float* const (&x)[MR], float* total, int64_t total_ld) {
  const NarrowTag d;
  const WordTag du;
  constexpr int64_t lanes = narrow_lanes();
  constexpr int in_word = 32 / kBits;
  NarrowVec sum[MR][NV];
#pragma GCC unroll 4
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
  }
  const uint32_t* from = block.words;
  for (int64_t w = 0; w < block.count; ++w, from += block.step) {
    WordVec words[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) words[v] = hn::LoadU(du, from + v * lanes);
    word_step<kBits, MR, NV>(words, zero, x, w * in_word, sum, std::make_integer_sequence<int, in_word>());
  }
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
#pragma GCC unroll 4
    for (int r = 0; r < MR; ++r) {
      float* to = total + r * total_ld + v * lanes;
      hn::StoreU(hn::MulAdd(sum[r][v], scale[v], hn::LoadU(d, to)), d, to);
    }
  }
}

template <int kBits, int MR, int NV>
HWY_INLINE void rows_of_block(const BlockWords& block, const NarrowVec (&zero)[NV], const NarrowVec (&scale)[NV],
                              const float* const* x, float* total, int64_t total_ld) {
  const float* rows[MR];
  for (int r = 0; r < MR; ++r) rows[r] = x[r];
  block_rows<kBits, MR, NV>(block, zero, scale, rows, total, total_ld);
}

template <int kBits, int NV>
HWY_NOINLINE void panel_sums(const NarrowGemm& args, int64_t panel, int64_t begin, int64_t end, float* sums) {
  const NarrowTag d;
  const NarrowWeights& w = *args.weights;
  constexpr int64_t lanes = narrow_lanes(), in_word = 32 / kBits, stored = NV * lanes;
  HWY_ALIGN float total[kFewNarrowRows * stored];
  HWY_ALIGN float tail[kFewNarrowRows * in_word];
  std::fill(total, total + args.m * stored, 0.0F);
  const PackedLayout parameters = w.parameters();
  const uint32_t* words = reinterpret_cast<const uint32_t*>(args.packed) + w.words.offset(panel);
  const int64_t whole_words = w.k / in_word;
  for (int64_t i = begin; i < end; ++i) {
    const NarrowWeights::Chunk chunk = w.chunk(i);
    const int64_t at = parameters.offset(panel) + chunk.block * stored;
    NarrowVec zero[NV], scale[NV];
    block_zeros<NV>(args.zeros, at, zero);
    block_scales<NV>(args, at, scale);
    const auto multiply = [&](int64_t word0, int64_t word1, const float* const* x) HWY_ATTR {
      const BlockWords of_block{words + word0 * stored, word1 - word0, stored};
      int64_t r = 0;
      for (; r + 4 <= args.m; r += 4)
        rows_of_block<kBits, 4, NV>(of_block, zero, scale, x + r, total + r * stored, stored);
      for (; r + 2 <= args.m; r += 2)
        rows_of_block<kBits, 2, NV>(of_block, zero, scale, x + r, total + r * stored, stored);
      for (; r < args.m; ++r) rows_of_block<kBits, 1, NV>(of_block, zero, scale, x + r, total + r * stored, stored);
    };
    const float* x[kFewNarrowRows];
    for (int64_t r = 0; r < args.m; ++r) x[r] = args.a + r * args.lda + chunk.word0 * in_word;
    multiply(chunk.word0, std::min(chunk.word1, whole_words), x);
    if (chunk.word1 <= whole_words) continue;
    // The last word has fewer elements: zeros stand for those of A that are not there.
    std::fill(tail, tail + args.m * in_word, 0.0F);
    for (int64_t r = 0; r < args.m; ++r) {
      const float* row = args.a + r * args.lda;
      std::copy(row + whole_words * in_word, row + w.k, tail + r * in_word);
      x[r] = tail + r * in_word;
    }
    multiply(whole_words, whole_words + 1, x);
  }
  const int64_t column = panel * w.words.width, columns = std::min<int64_t>(stored, w.words.n - column);
  for (int64_t r = 0; r < args.m; ++r) {
    float* to = sums + r * w.words.n + column;
    for (int64_t c = 0; c < columns; c += lanes) {
      const NarrowVec sum = hn::LoadU(d, total + r * stored + c);
      if (columns - c >= lanes) {
        hn::StoreU(sum, d, to + c);
      } else {
        masked_store(sum, hn::FirstN(d, static_cast<size_t>(columns - c)), d, to + c);
      }
    }
  }
}

template <int kBits, int kElement, int NV>
HWY_INLINE void store_element(const WordVec (&words)[NV], const NarrowVec (&zero)[NV], const NarrowVec (&scale)[NV],
                              int64_t count, float* to) {
  const NarrowTag d;
  if (kElement >= count) return;
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v)
    hn::StoreU(hn::Mul(hn::Sub(code_of<kBits, kElement>(words[v]), zero[v]), scale[v]), d,
               to + (kElement * NV + v) * narrow_lanes());
}

template <int kBits, int NV, int... kElements>
HWY_INLINE void store_word(const WordVec (&words)[NV], const NarrowVec (&zero)[NV], const NarrowVec (&scale)[NV],
                           int64_t count, float* to, std::integer_sequence<int, kElements...>) {
  (store_element<kBits, kElements, NV>(words, zero, scale, count, to), ...);
}

template <int kBits, int NV>
HWY_NOINLINE void widen_panel(const NarrowGemm& args, int64_t panel, float* floats) {
  const WordTag du;
  const NarrowWeights& w = *args.weights;
  constexpr int64_t lanes = narrow_lanes(), in_word = 32 / kBits, stored = NV * lanes;
  const PackedLayout parameters = w.parameters();
  const uint32_t* from = reinterpret_cast<const uint32_t*>(args.packed) + w.words.offset(panel);
  const int64_t block_words = w.block_words();
  for (int64_t block = 0; block < parameters.k; ++block) {
    const int64_t at = parameters.offset(panel) + block * stored;
    NarrowVec zero[NV], scale[NV];
    block_zeros<NV>(args.zeros, at, zero);
    block_scales<NV>(args, at, scale);
    const int64_t end = std::min((block + 1) * block_words, w.words.k);
    for (int64_t word = block * block_words; word < end; ++word, from += stored) {
      WordVec words[NV];
      for (int v = 0; v < NV; ++v) words[v] = hn::LoadU(du, from + v * lanes);
      const int64_t k = word * in_word;
      store_word<kBits, NV>(words, zero, scale, w.k - k, floats + k * stored,
                            std::make_integer_sequence<int, in_word>());
    }
  }
}

// Calls use.template operator()<bits, vectors>() for a panel.
template <class Use, int NV = kMostVectors>
void with_shape(const NarrowWeights& w, int64_t panel, const Use& use) {
  if constexpr (NV > 1) {
    if (w.words.columns(panel) < NV * narrow_lanes()) return with_shape<Use, NV - 1>(w, panel, use);
  }
  if (w.bits == 2) return use.template run<2, NV>();
  if (w.bits == 4) return use.template run<4, NV>();
  use.template run<8, NV>();
}

struct UsePanelSums {
  const NarrowGemm& args;
  int64_t panel, begin, end;
  float* sums;
  template <int kBits, int NV>
  void run() const {
    panel_sums<kBits, NV>(args, panel, begin, end, sums);
  }
};

struct UseWidenPanel {
  const NarrowGemm& args;
  int64_t panel;
  float* floats;
  template <int kBits, int NV>
  void run() const {
    widen_panel<kBits, NV>(args, panel, floats);
  }
};

void panel_sums_target(const NarrowGemm& args, int64_t panel, int64_t begin, int64_t end, float* sums) {
  with_shape(*args.weights, panel, UsePanelSums{args, panel, begin, end, sums});
}

void widen_panel_target(const NarrowGemm& args, int64_t panel, float* floats) {
  with_shape(*args.weights, panel, UseWidenPanel{args, panel, floats});
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(panel_sums_target);
HWY_EXPORT(widen_panel_target);

void narrow_panel_sums(const NarrowGemm& args, int64_t panel, int64_t begin, int64_t end, float* sums) {
  HWY_DYNAMIC_DISPATCH(panel_sums_target)(args, panel, begin, end, sums);
}

void widen_narrow_panel(const NarrowGemm& args, int64_t panel, float* floats) {
  HWY_DYNAMIC_DISPATCH(widen_panel_target)(args, panel, floats);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
