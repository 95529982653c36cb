// The arithmetic of ops::DynamicQuantize.
#pragma once

#include <cstdint>

namespace camshaft::ops {

/// What DynamicQuantize finds in numbers from `low` to `high` (each NaN, or 0 on its own side).
struct QuantizedRange {
  float scale;
  uint8_t zero;
};
QuantizedRange quantized_range(float low, float high);
/// x in steps of the range, as DynamicQuantize writes it.
uint8_t quantized(float x, const QuantizedRange& range);

}  // namespace camshaft::ops
