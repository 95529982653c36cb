// Passes over a row of logits, in vectors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft::llm {

/// Neighbouring logits of which one pass keeps the largest: what is looked for later is looked for there alone. The
/// maxima of 128,000 logits take 8 kB then.
constexpr size_t chunk_size = 64;

inline size_t chunk_count(size_t size) {
  return (size + chunk_size - 1) / chunk_size;
}

struct RowMaximum {
  float value = 0;           ///< of all; not meaningful where has_invalid is true
  bool has_invalid = false;  ///< a NaN or +inf is among them
};

/// Of each chunk into `maxima`, the last one being shorter, and of all.
RowMaximum find_maxima(const float* logits, size_t size, float* maxima);

/// The sum of exp((x - largest) * scale) over the logits that are `least` or more; `largest` is not below any of these.
double sum_exponentials(const float* logits, size_t size, float largest, float scale, float least);

/// The same numbers, 0 for logits below `least`. Returns their sum.
double write_exponentials(const float* logits, size_t size, float largest, float scale, float least, float* weights);

/// Logits above `value`.
size_t count_above(const float* logits, size_t size, float value);

}  // namespace camshaft::llm
