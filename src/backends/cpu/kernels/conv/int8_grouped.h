// Convolution of 8-bit numbers in many narrow groups, channels-last, with exact sums in i32. The groups whose outputs
// fit a vector together are a unit; each lane of it is an output channel, and takes the quads of its own group by a
// permutation of the unit's bytes, so that nothing is multiplied by the channels of others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "base/divide_up.h"

namespace camshaft::cpu {

/// Weights in quads, a signed byte each: [unit][tap][quad][lane][4], then the sum of each lane's, i32. A quad is four
/// bytes of a pixel that begin at a multiple of four from its unit's first: where a group begins or ends within one,
/// its other bytes are zeros.
struct Int8GroupedWeights {
  int64_t out_channels = 0, group_channels = 0;  ///< group_channels: input channels per group
  int64_t taps = 1, groups = 1;
  int32_t lanes = 1;

  int64_t group_outputs() const { return out_channels / groups; }
  /// Groups of a unit; 0: a group has more outputs than lanes, or more inputs than a vector has bytes.
  int64_t together() const {
    return std::min({int64_t{lanes} / group_outputs(), int64_t{lanes} * 4 / group_channels, groups});
  }
  int64_t units() const { return divide_up(groups, together()); }
  int64_t unit_outputs() const { return together() * group_outputs(); }
  int64_t unit_channels() const { return together() * group_channels; }
  /// The first byte of a lane's group within the unit.
  int64_t first_byte(int64_t lane) const { return lane / group_outputs() * group_channels; }
  /// Of the group with most.
  int64_t quads() const {
    int64_t most = 0;
    for (int64_t first = 0; first < unit_channels(); first += group_channels)
      most = std::max(most, (first + group_channels - 1) / 4 - first / 4 + 1);
    return most;
  }
  /// 4-byte words.
  int64_t unit_words() const { return taps * quads() * lanes; }
  int64_t bytes() const { return units() * (unit_words() + lanes) * 4; }
};

/// As this machine wants them. `groups` must divide the outputs, of which there are some.
Int8GroupedWeights int8_grouped_weights(int64_t out_channels, int64_t group_channels, int64_t taps, int64_t groups);
/// From [out channel][channel of the group][tap] as the model has them, and back. `flip`: they are u8, and stored less
/// 128. For a layout of any machine.
void pack_int8_grouped(const Int8GroupedWeights& w, const uint8_t* from, bool flip, std::byte* packed);
void unpack_int8_grouped(const Int8GroupedWeights& w, const std::byte* packed, bool flip, uint8_t* to);

struct Int8GroupedProblem {
  const ConvPlan* plan = nullptr;  ///< for one byte an element
  const uint8_t* x = nullptr;
  bool is_signed = false;            ///< x is i8, and counts as 128 more
  const uint8_t* padding = nullptr;  ///< a pixel of what x has around it
  Int8GroupedWeights weights;        ///< of this machine
  const std::byte* packed = nullptr;
  /// units() * lanes of each: what sums begin with, and the weights' zero points, or null where all are 0.
  const int32_t* begin = nullptr;
  const int32_t* zeros = nullptr;
  Int8Problem result;  ///< what becomes of the sums: the members that are about it
};

/// Whether pixels of that many channels can be read: a vector is never read beyond a pixel.
bool int8_grouped_takes(const Int8GroupedWeights& weights, int64_t in_channels);
int64_t int8_grouped_workspace_bytes(const Int8GroupedWeights& weights, int threads);
/// 64-byte aligned workspace of int8_grouped_workspace_bytes().
void int8_grouped(const Int8GroupedProblem& problem, ThreadPool& pool, void* workspace, bool dots = has_int8_dots());

}  // namespace camshaft::cpu
