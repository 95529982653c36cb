// Stacking of tensors along a new innermost axis.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Tensors that interleave() takes at most.
constexpr int most_interleaved = 4;

/// out[i * parts + k] = in[k][i] for i in [begin, end), of elements of 1, 2, 4 or 8 bytes from 2 to most_interleaved
/// tensors.
void interleave(int64_t width, int parts, const void* const* in, int64_t begin, int64_t end, void* out);

}  // namespace camshaft::cpu
