// Packed weights of products of 8-bit numbers.
#pragma once

#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "compile/backend.h"

namespace camshaft::cpu {

/// The weights of region input `i`, a constant of `w`'s sizes, packed.
const std::byte* packed_integer_weights(const RegionView& region, size_t i, const Int8Weights& w,
                                        PackedConstants& constants);

/// Recovers them; undefined when the layout is not one of these.
Tensor unpack_integer_weights(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
