#include "backends/cpu/kernels/gemm/bf16_pairs.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "backends/cpu/kernels/targets.h"
#include "base/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/bf16_pairs.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/word_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

#if !CAMSHAFT_HAS_BF16_PAIRS
void round_row(const float* from, int64_t k, float* words) {
  for (int64_t i = 0; i < k; i += 2) {
    const auto element = [&](int64_t at) -> uint32_t {
      return at < k ? static_cast<uint16_t>(to_bfloat(from[at])) : 0;
    };
    words[i / 2] = std::bit_cast<float>(element(i) | element(i + 1) << 16);
  }
}
#endif

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(round_row);

bool has_bf16_pairs() {
#if HWY_ARCH_X86
  return tile_traits().bf16_pairs && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

bool has_bf16_products() {
  return has_bf16_pairs() || pair_matrix_unit() != MatrixUnit::none;
}

double bf16_speedup(double rows) {
  return pair_matrix_unit() != MatrixUnit::none && rows >= 8 ? 6 : 2;
}

void round_rows(const float* from, int64_t ld, int64_t rows, int64_t k, float* words, ThreadPool& pool) {
  constexpr int64_t piece = 4096;
  if (ld == k && k % 2 == 0) {
    const int64_t count = rows * k;
    return pool.parallel_for((count + piece - 1) / piece, 4, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * piece;
      HWY_DYNAMIC_DISPATCH(round_row)(from + first, std::min(count, end * piece) - first, words + first / 2);
    });
  }
  pool.parallel_for(rows, 4 * piece / std::max<int64_t>(1, k) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) HWY_DYNAMIC_DISPATCH(round_row)(from + r * ld, k, words + r * pairs_of(k));
  });
}

void widen_rounded(const BFloat* from, int64_t count, float* to, ThreadPool& pool) {
  constexpr int64_t least = 1 << 14;
  pool.parallel_for(count, least, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = to_float(from[i]);
  });
}

namespace {

uint32_t bits(BFloat value) {
  return static_cast<uint16_t>(value);
}

/// Calls visit(word of the packed matrix, element of B, whether its pair is complete) for each pair.
template <class Visit>
void for_pairs(const PairedMatrix& m, const PairStrides& strides, Visit visit) {
  const int64_t pairs = pairs_of(m.depth);
  for (int64_t p = 0; p < m.layout.panels(); ++p) {
    const int64_t stored = m.layout.columns(p), first = p * m.layout.width;
    const int64_t columns = std::min<int64_t>(m.layout.width, m.layout.n - first);
    // Taps within pairs: a model's convolutions have them side by side.
    for (int64_t i = 0; i < pairs; ++i) {
      for (int64_t t = 0; t < m.taps; ++t) {
        const int64_t word = m.layout.offset(p) + (t * pairs + i) * stored;
        const int64_t element = t * strides.tap + 2 * i * strides.k + first * strides.n;
        for (int64_t j = 0; j < columns; ++j) visit(word + j, element + j * strides.n, 2 * i + 1 < m.depth);
      }
    }
  }
}

PairedMatrix group_of(const ConvWeights& words, int64_t group_channels) {
  return {words.layout, words.kernel_h * words.kernel_w, group_channels};
}

PairStrides oihw_strides(const PairedMatrix& group) {
  return {1, group.taps, group.taps * group.depth};
}

}  // namespace

void pack_pairs(const PairedMatrix& matrix, const float* b, const PairStrides& strides, float* packed) {
  std::fill_n(packed, matrix.layout.floats(), 0.0f);
  for_pairs(matrix, strides, [&](int64_t word, int64_t element, bool complete) {
    const uint32_t low = bits(to_bfloat(b[element]));
    const uint32_t high = complete ? bits(to_bfloat(b[element + strides.k])) : 0;
    packed[word] = std::bit_cast<float>(low | high << 16);
  });
}

void unpack_pairs(const PairedMatrix& matrix, const float* packed, BFloat* b, const PairStrides& strides) {
  for_pairs(matrix, strides, [&](int64_t word, int64_t element, bool complete) {
    const auto pair = std::bit_cast<uint32_t>(packed[word]);
    b[element] = BFloat(pair & 0xffffU);
    if (complete) b[element + strides.k] = BFloat(pair >> 16);
  });
}

ConvShape in_pairs(ConvShape shape) {
  shape.in_channels = shape.groups * pairs_of(shape.in_channels / shape.groups);
  shape.in_pixel_stride = 0;
  shape.words = Words::bf16_pairs;
  return shape;
}

void pack_conv_pairs(const ConvWeights& words, int64_t group_channels, const float* oihw, float* packed) {
  const PairedMatrix group = group_of(words, group_channels);
  for (int64_t g = 0; g < words.groups; ++g)
    pack_pairs(group, oihw + g * words.layout.n * group.taps * group.depth, oihw_strides(group),
               packed + g * words.group_stride());
}

void unpack_conv_pairs(const ConvWeights& words, int64_t group_channels, const float* packed, BFloat* oihw) {
  const PairedMatrix group = group_of(words, group_channels);
  for (int64_t g = 0; g < words.groups; ++g)
    unpack_pairs(group, packed + g * words.group_stride(), oihw + g * words.layout.n * group.taps * group.depth,
                 oihw_strides(group));
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
