// f32 convolution of many narrow groups on channels-last tensors. The groups that fit a vector together are a unit;
// each lane of it is an output channel, and takes the input channels of its own group by a permutation of the unit's
// input, so that nothing is multiplied by zeros. The lines of the image under a row of outputs are first copied unit by
// unit, with their padding: what is read again and again then lies together in L1.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/row_channel_shares.h"

namespace camshaft::cpu {

/// The packed weights' description: [unit][vector][kernel line][channel][kernel column][lane].
struct GroupedWeights {
  int64_t out_channels = 0, group_channels = 0;  ///< group_channels: input channels per group
  int64_t lines = 1, kernel_w = 1;               ///< lines of the kernel, of all depths
  int64_t groups = 1;
  int32_t lanes = 1;

  int64_t group_outputs() const { return out_channels / groups; }
  /// Groups of a unit; above 1 a unit is one vector of outputs, and its inputs fit one.
  int64_t together() const;
  int64_t units() const { return (groups + together() - 1) / together(); }
  /// Vectors of a unit's outputs.
  int64_t vectors() const { return (together() * group_outputs() + lanes - 1) / lanes; }
  int64_t vector_floats() const { return lines * group_channels * kernel_w * lanes; }
  int64_t floats() const { return units() * vectors() * vector_floats(); }
  bool operator==(const GroupedWeights&) const = default;
};

/// Describes weights of ONNX shape [out_channels, group_channels, lines, kernel_w] as this machine wants them packed.
/// `groups` must divide the outputs, and a group have some.
GroupedWeights grouped_weights(int64_t out_channels, int64_t group_channels, int64_t lines, int64_t kernel_w,
                               int64_t groups);
/// From ONNX order to `packed` (weights.floats() floats, 64-byte aligned), and back exactly; for a layout of any
/// machine.
void pack_grouped_weights(const GroupedWeights& weights, const float* oihw, float* packed);
/// The same on all threads; allocates nothing.
void pack_grouped_weights(const GroupedWeights& weights, const float* oihw, float* packed, ThreadPool& pool);
void unpack_grouped_weights(const GroupedWeights& weights, const float* packed, float* oihw);

/// How grouped_conv() is cut for at most `most` threads. Rows are [batch, out_d, out_h], channels the units.
RowChannelShares grouped_conv_shares(const GroupedWeights& weights, const ConvShape& shape, int most);
int64_t grouped_conv_workspace_bytes(const GroupedWeights& weights, const ConvShape& shape, int threads);

/// As conv(). `weights` and `packed` are of this machine and of the shape's channels, kernel and groups.
void grouped_conv(const GroupedWeights& weights, const ConvShape& shape, const float* input, const float* packed,
                  float* output, const Epilogue& epilogue, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
