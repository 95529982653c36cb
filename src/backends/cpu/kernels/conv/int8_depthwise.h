// Depthwise convolution of 8-bit numbers with exact sums in i32: one kernel a channel, channels-last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"

namespace camshaft::cpu {

/// Weights in quads of taps that lie one below the other, a signed byte each:
/// [column of the kernel][quad of lines][channel, up to padded()][4], then the sum of each channel's, i32.
/// Where bytes cannot be multiplied so, they become pairs of 16 bits: [column][pair of lines][channel][2].
struct Int8DepthwiseWeights {
  int64_t channels = 0;
  int64_t lines = 1, columns = 1;  ///< of the kernel; lines of all depths

  int64_t taps() const { return lines * columns; }
  int64_t line_pairs() const { return (lines + 1) / 2; }
  int64_t line_quads() const { return (lines + 3) / 4; }
  /// Whole vectors of every instruction set.
  int64_t padded() const { return (channels + 15) / 16 * 16; }
  /// 4-byte words.
  int64_t pair_words() const { return columns * line_pairs() * padded(); }
  int64_t quad_words() const { return columns * line_quads() * padded(); }
  int64_t bytes() const { return (quad_words() + padded()) * 4; }
};

/// From [channel][line][column] as the model has them, and back. `flip`: they are u8, and stored less 128.
void pack_int8_depthwise(const Int8DepthwiseWeights& w, const uint8_t* from, bool flip, std::byte* packed);
void unpack_int8_depthwise(const Int8DepthwiseWeights& w, const std::byte* packed, bool flip, uint8_t* to);
/// The packed weights less their channels' zero points, as w.pair_words() * 2 numbers.
void int8_depthwise_pairs(const Int8DepthwiseWeights& w, const std::byte* packed, const int32_t* zeros, int16_t* pairs);

struct Int8DepthwiseProblem {
  ConvShape shape;
  const uint8_t* x = nullptr;
  uint8_t padding = 0;     ///< what x has around it
  bool is_signed = false;  ///< x is i8
  /// Weights without zero points, one or the other: as packed, for machines that have_int8_dots() and inputs of u8 (or
  /// of i8, which count as 128 more); or as pairs.
  const std::byte* quads = nullptr;
  const int16_t* pairs = nullptr;
  const int32_t* begin = nullptr;  ///< what sums begin with: `channels`, readable up to padded()
  Int8DepthwiseWeights weights;
  Int8Problem result;  ///< what becomes of the sums: the members that are about it
};

/// 64-byte aligned workspace of int8_depthwise_workspace_bytes().
void int8_depthwise(const Int8DepthwiseProblem& problem, ThreadPool& pool, void* workspace);
int64_t int8_depthwise_workspace_bytes(const ConvShape& shape, const Int8DepthwiseWeights& weights, int threads);

}  // namespace camshaft::cpu
