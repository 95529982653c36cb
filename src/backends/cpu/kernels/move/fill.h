// Memory filled with one element, and memory written past the caches.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// out[i] = element for i < count, of `width` bytes: 1, 2, 4, 8 or 16. Neither needs to be aligned.
void fill_elements(int64_t width, const void* element, void* out, int64_t count);

/// `rows` rows of `count` elements, each full of one: row r, at out + r * out_step, of the element at in + r * in_step
/// (steps in bytes).
void fill_rows(int64_t width, int64_t count, const char* in, int64_t in_step, char* out, int64_t out_step,
               int64_t rows);

/// From so many bytes on memory is better written past the caches: a part of the last one, which others use too.
int64_t least_streamed_bytes();

/// Copies to memory that is not read soon, past the caches. Other threads see it after finish_streams().
void stream_copy(const void* from, void* to, int64_t bytes);
void finish_streams();

}  // namespace camshaft::cpu
