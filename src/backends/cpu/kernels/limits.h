// Loops that do nothing but what a machine is best at, to learn how much of it there is.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Runs independent chains of f32 fused multiply-adds from registers, `rounds` times; returns how many operations that
/// were, a multiplication and an addition being two.
double spin_fma(int64_t rounds);

/// Reads n floats, n a multiple of 256, and returns their sum.
float sum_floats(const float* x, int64_t n);

/// Of n floats, n a multiple of 256, the sum of 1 + e^-x: by the leanest exponential that kernels have, that of gates.
float sum_exponentials(const float* x, int64_t n);

}  // namespace camshaft::cpu
