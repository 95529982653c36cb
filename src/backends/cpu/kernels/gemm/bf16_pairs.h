// Products of operands that are rounded to bf16 (8 significant bits, f32's range). AVX512_BF16 multiplies them in pairs
// of neighbours along K: twice as many multiplications an instruction as of f32, from half the bytes. Sums are f32.
// Numbers below 2^-126 count as 0, as operands and as sums.
//
// Use: pack_pairs() once per model; per run round_rows(), then gemm() or conv() of Words::bf16_pairs.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/half.h"

namespace camshaft::cpu {

/// Whether this machine multiplies pairs by vectors.
bool has_bf16_pairs();
/// Whether it has products of pairs, by vectors or by a unit that multiplies tiles (matrix_unit.h). Without, nothing
/// below but packing and rounding works.
bool has_bf16_products();
/// How many of them take as long as one product of f32, as estimates have it, where there are `rows` rows.
double bf16_speedup(double rows);

/// Words that `k` elements take; the last pair of an odd number is filled up with 0.
constexpr int64_t pairs_of(int64_t k) {
  return (k + 1) / 2;
}

/// Rounds `rows` rows of `k` floats, `ld` apart, to nearest, to rows of pairs_of(k) words that follow each other.
void round_rows(const float* from, int64_t ld, int64_t rows, int64_t k, float* words, ThreadPool& pool);

/// The floats that `count` rounded numbers are: rows of bf16 where nothing multiplies these.
void widen_rounded(const BFloat* from, int64_t count, float* to, ThreadPool& pool);

/// pack_b of rounded weights: B's K axis is `taps` pieces of `depth` elements, each paired by itself. `layout` is
/// packed_layout(taps * pairs_of(depth), n).
struct PairedMatrix {
  PackedLayout layout;
  int64_t taps = 1, depth = 0;
};

/// Element (tap, k, n) is b[tap * tap_stride + k * k_stride + n * n_stride].
struct PairStrides {
  int64_t tap = 0, k = 0, n = 0;
};

void pack_pairs(const PairedMatrix& matrix, const float* b, const PairStrides& strides, float* packed);
/// What pack_pairs() has left of B.
void unpack_pairs(const PairedMatrix& matrix, const float* packed, BFloat* b, const PairStrides& strides);

/// The convolution of the same image in pairs: of dense pixels from round_rows(), whose channels are words. Groups have
/// even numbers of channels, unless there is one alone.
ConvShape in_pairs(ConvShape shape);
/// Weights of ONNX shape [out_channels, group_channels, kernel_h, kernel_w], packed for it.
void pack_conv_pairs(const ConvWeights& words, int64_t group_channels, const float* oihw, float* packed);
void unpack_conv_pairs(const ConvWeights& words, int64_t group_channels, const float* packed, BFloat* oihw);

}  // namespace camshaft::cpu
