// What convolution and pooling share: spatial axes, windows, layouts.
#pragma once

#include <string_view>

#include "ir/graph.h"

namespace camshaft::ops {

/// The axes of [n, c, spatial...] or [n, spatial..., c].
struct SpatialLayout {
  size_t channel_axis = 1, first_spatial = 2, spatial_rank = 0;

  SpatialLayout(size_t rank, bool channels_last)
      : channel_axis(channels_last ? rank - 1 : 1), first_spatial(channels_last ? 1 : 2), spatial_rank(rank - 2) {}
};

/// Checks that every per-axis field of a windowed operator has `spatial_rank` entries (pads: twice as many) and that
/// strides and dilations are positive. Throws Error(invalid_model) naming the field.
void check_window_fields(std::string_view op, size_t spatial_rank, const std::vector<int64_t>& strides,
                         const Shape& pads, const std::vector<int64_t>& dilations);

/// A pad's value; throws Error(invalid_argument) beyond 2^31, which check_window_fields() could not tell of a symbol.
int64_t evaluate_pad(const Dim& pad, const SymbolBindings& symbols);
/// (size - 1)·dilation + 1
Dim window_extent(const Dim& kernel, int64_t dilation);

/// The size of a pooling that rounds up: the smaller of ceil((input + pads - window) / stride) + 1 and
/// ceil((input + begin) / stride), as windows that would start in the padding behind the input are left out.
Dim pool_size_rounded_up(const Dim& input, const Dim& begin, const Dim& end, const Dim& window, int64_t stride);

/// Throws Error(invalid_model) when an output size is known to be negative or nothing.
void check_output_size(std::string_view op, const Dim& size, const Dim& input, const Dim& window);

}  // namespace camshaft::ops
