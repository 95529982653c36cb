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

/// From so many bytes on a row is repeated by repeat_block().
inline constexpr int64_t least_repeated_blocks = 16 << 20;
/// The first `block` bytes again and again until `bytes` are full: doubled, and then copied by what L2 holds, past the
/// caches from least_streamed_bytes on. Copies of 64 KB and more are instructions that do not read what they write: 40
/// MB take 0.5 ms on a Zen 5, where stores of vectors take 0.8, those past the caches 0.9, and memset of a byte 0.8.
void repeat_block(char* memory, int64_t block, int64_t bytes);

/// From so many bytes on what is computed is better written past the caches. 80 MB took 3.4 ms past a cache of 260 MB,
/// which others used too, and 9.5 through it; on a Zen 5 whose cores reach 32 MB 3.6 and 4.3, but 40 MB as long.
inline constexpr int64_t least_streamed_bytes = 64 << 20;

/// Copies to memory that is not read soon, past the caches. Other threads see it after finish_streams().
void stream_copy(const void* from, void* to, int64_t bytes);
void finish_streams();

}  // namespace camshaft::cpu
