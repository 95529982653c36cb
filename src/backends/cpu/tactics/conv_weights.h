// Convolutions' constant weights, packed as the kernels want them.
#pragma once

#include "backends/cpu/tactics/conv_view.h"

namespace camshaft::cpu {

/// As conv() and as depthwise() want them; valid as long as `constants` lives.
const float* pack_conv(const RegionView& region, const ConvView& view, PackedConstants& constants);
/// As conv() wants them of in_pairs().
const float* pack_conv_bf16(const RegionView& region, const ConvView& view, PackedConstants& constants);
const float* pack_depthwise(const RegionView& region, const ConvView& view, PackedConstants& constants);

/// Recovers constants from these layouts, as Backend::unpack does; undefined for others.
Tensor unpack_conv(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
