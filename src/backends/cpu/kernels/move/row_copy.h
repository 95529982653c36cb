// Rows of some vectors, copied one by one.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Rows that copy_vector_rows() takes: shorter ones are a few words, and longer ones memcpy's.
inline constexpr int64_t least_vector_row = 64, most_vector_row = 2048;  // bytes

/// `count` rows of `bytes` bytes, whose beginnings are in_step and out_step apart. An in_step of 0 repeats one row, of
/// any size from least_vector_row on.
void copy_vector_rows(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count);

/// The same for rows of any size, each by what copies its size fastest.
void copy_rows(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count);

/// The rows at in + offsets[i], i < count, one behind the other; of least_gathered_row to most_vector_row bytes.
inline constexpr int64_t least_gathered_row = 4;
void gather_vector_rows(int64_t bytes, const char* in, const int64_t* offsets, int64_t count, char* out);

}  // namespace camshaft::cpu
