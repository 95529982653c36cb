// Packed operands of products with weights of few bits.
#pragma once

#include "backends/cpu/kernels/gemm/narrow_gemm.h"
#include "compile/backend.h"

namespace camshaft::cpu {

/// Which inputs of a region they are, constants all; -1 for a zero point that is not there.
struct WeightOnlyOperands {
  int32_t steps = -1, scale = -1, zero = -1;
  int64_t block = 1;
  bool transposed = false;  ///< the model's matrices are [n, k]
};

/// What narrow_gemm() takes. Valid as long as the constants' store lives.
struct PackedWeightOnly {
  NarrowWeights layout;
  const std::byte* steps = nullptr;
  const float* scales = nullptr;          ///< f32 …
  const uint16_t* half_scales = nullptr;  ///< … or f16
  const uint8_t* zero_bytes = nullptr;    ///< by block, of the steps' type …
  const float* zero_floats = nullptr;     ///< … or f32
  bool reads_zero = false;                ///< the zero point is one number, which is no part of what is packed
  float code_of_zero = 0;                 ///< of the step 0
};

PackedWeightOnly packed_weight_only(const RegionView& region, const WeightOnlyOperands& operands,
                                    PackedConstants& constants);

/// Recovers steps, scales and zero points from their packed forms; undefined when the layout is none of them.
Tensor unpack_weight_only(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
