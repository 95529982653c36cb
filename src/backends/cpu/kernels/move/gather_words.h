// Elements of up to 32 bits at given indices, a vector of them at once. Internal to gather.cpp.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// out[k] = from[indices[k] * step + k · stays], k < the number returned, a part of `count`: where vectors pay, and up
/// to the first of them with an index outside of [-size, size), or with several where they stay. Negative indices count
/// from the end.
int64_t gather_words(const uint32_t* from, const int64_t* indices, int64_t count, int64_t size, int64_t step,
                     bool stays, uint32_t* out);
int64_t gather_words(const uint32_t* from, const int32_t* indices, int64_t count, int64_t size, int64_t step,
                     bool stays, uint32_t* out);

/// The same of elements of 8 and 16 bits, from[indices[k]] alone.
int64_t gather_words(const uint8_t* from, const int64_t* indices, int64_t count, int64_t size, uint8_t* out);
int64_t gather_words(const uint8_t* from, const int32_t* indices, int64_t count, int64_t size, uint8_t* out);
int64_t gather_words(const uint16_t* from, const int64_t* indices, int64_t count, int64_t size, uint16_t* out);
int64_t gather_words(const uint16_t* from, const int32_t* indices, int64_t count, int64_t size, uint16_t* out);

/// out[k] = from[-k], k < count.
void reverse_words(const uint32_t* from, int64_t count, uint32_t* out);

}  // namespace camshaft::cpu
