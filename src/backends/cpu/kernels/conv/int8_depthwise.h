// Depthwise convolution of 8-bit numbers with exact sums in i32: one kernel a channel, channels-last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"

namespace camshaft::cpu {

/// Weights in pairs of taps, 16 bits each: [pair][channel, up to padded()][2], then the sum of each channel's, i32.
struct Int8DepthwiseWeights {
  int64_t channels = 0, taps = 1;

  int64_t pairs() const { return (taps + 1) / 2; }
  /// Whole vectors of every instruction set.
  int64_t padded() const { return (channels + 15) / 16 * 16; }
  /// 4-byte words.
  int64_t pair_words() const { return pairs() * padded(); }
  int64_t bytes() const { return (pair_words() + padded()) * 4; }
};

/// From [channel][tap] as the model has them, and back.
void pack_int8_depthwise(const Int8DepthwiseWeights& w, const uint8_t* from, bool is_signed, std::byte* packed);
void unpack_int8_depthwise(const Int8DepthwiseWeights& w, const std::byte* packed, uint8_t* to);

struct Int8DepthwiseProblem {
  const ConvPlan* plan = nullptr;
  const uint8_t* x = nullptr;
  const uint8_t* padding = nullptr;  ///< a pixel of it
  bool is_signed = false;            ///< x is i8
  const int16_t* pairs = nullptr;    ///< weights without their zero points, as packed
  const int32_t* begin = nullptr;    ///< what sums begin with: `channels`, readable up to padded()
  Int8DepthwiseWeights weights;
  Int8Problem result;  ///< what becomes of the sums: the members that are about it
};

void int8_depthwise(const Int8DepthwiseProblem& problem, ThreadPool& pool, void* workspace);
int64_t int8_depthwise_workspace_bytes(const Int8DepthwiseWeights& weights, int threads);

}  // namespace camshaft::cpu
