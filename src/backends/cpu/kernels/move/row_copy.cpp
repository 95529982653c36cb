#include "backends/cpu/kernels/move/row_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/move/fill.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/move/row_copy.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
void copy_rows_of_vectors(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  for (; count > 0; --count, in += in_step, out += out_step) std::memcpy(out, in, static_cast<size_t>(bytes));
}
void gather_rows_of_vectors(int64_t bytes, const char* in, const int64_t* offsets, int64_t count, char* out) {
  for (int64_t i = 0; i < count; ++i, out += bytes) std::memcpy(out, in + offsets[i], static_cast<size_t>(bytes));
}
#else
using Bytes = hn::ScalableTag<uint8_t>;
constexpr auto lanes = static_cast<int64_t>(HWY_LANES(uint8_t));

HWY_INLINE hn::Vec<Bytes> load(const char* from) {
  return hn::LoadU(Bytes(), reinterpret_cast<const uint8_t*>(from));
}
HWY_INLINE void store(hn::Vec<Bytes> v, char* to) {
  hn::StoreU(v, Bytes(), reinterpret_cast<uint8_t*>(to));
}

// Rows of kVectors vectors, the last of which overlaps with the one before it.
template <int kVectors>
HWY_INLINE void copy_fixed(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  const int64_t last = bytes - lanes;
  hn::Vec<Bytes> row[kVectors];
  const auto read = [&]() HWY_ATTR {
#pragma GCC unroll 8
    for (int v = 0; v + 1 < kVectors; ++v) row[v] = load(in + v * lanes);
    row[kVectors - 1] = load(in + last);
  };
  const auto write = [&]() HWY_ATTR {
#pragma GCC unroll 8
    for (int v = 0; v + 1 < kVectors; ++v) store(row[v], out + v * lanes);
    store(row[kVectors - 1], out + last);
  };
  if (in_step == 0) {
    read();
    for (; count > 0; --count, out += out_step) write();
    return;
  }
  for (; count > 0; --count, in += in_step, out += out_step) {
    read();
    write();
  }
}

HWY_INLINE void copy_long(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  for (; count > 0; --count, in += in_step, out += out_step) {
    int64_t i = 0;
    for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
      const auto a = load(in + i), b = load(in + i + lanes), c = load(in + i + 2 * lanes), d = load(in + i + 3 * lanes);
      store(a, out + i);
      store(b, out + i + lanes);
      store(c, out + i + 2 * lanes);
      store(d, out + i + 3 * lanes);
    }
    for (; i + lanes <= bytes; i += lanes) store(load(in + i), out + i);
    if (i < bytes) store(load(in + bytes - lanes), out + bytes - lanes);
  }
}

void copy_rows_of_vectors(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  const auto fixed = [&](auto vectors)
                         HWY_ATTR { copy_fixed<decltype(vectors)::value>(bytes, in, in_step, out, out_step, count); };
  switch ((bytes + lanes - 1) / lanes) {
    case 1:
      return fixed(std::integral_constant<int, 1>());
    case 2:
      return fixed(std::integral_constant<int, 2>());
    case 3:
      return fixed(std::integral_constant<int, 3>());
    case 4:
      return fixed(std::integral_constant<int, 4>());
    case 5:
      return fixed(std::integral_constant<int, 5>());
    case 6:
      return fixed(std::integral_constant<int, 6>());
    default:
      return copy_long(bytes, in, in_step, out, out_step, count);
  }
}

// What is written then is asked for: 10^6 rows of 40 bytes (OneHotEncoder) took 8.0 ms with what finds them, and
// take 5.2.
constexpr int64_t ahead = 4096;

// Rows of kVectors vectors; longer ones have their middle in a loop.
template <int kVectors>
HWY_INLINE void gather_fixed(int64_t bytes, const char* in, const int64_t* offsets, int64_t count, char* out) {
  for (int64_t i = 0; i < count; ++i, out += bytes) {
    for (int64_t at = 0; at < kVectors * lanes; at += 64) __builtin_prefetch(out + ahead + at, 1);
    copy_fixed<kVectors>(bytes, in + offsets[i], 1, out, 0, 1);
  }
}

// Rows of kBytes to 2 · kBytes, as two words that overlap: a call of memcpy for each took a fifth longer.
template <size_t kBytes>
HWY_INLINE void gather_words_of(int64_t bytes, const char* in, const int64_t* offsets, int64_t count, char* out) {
  const auto second = bytes - static_cast<int64_t>(kBytes);
  for (int64_t i = 0; i < count; ++i, out += bytes) {
    const char* row = in + offsets[i];
    if (kBytes >= 16) __builtin_prefetch(out + ahead, 1);
    std::memcpy(out, row, kBytes);
    std::memcpy(out + second, row + second, kBytes);
  }
}

void gather_rows_of_vectors(int64_t bytes, const char* in, const int64_t* offsets, int64_t count, char* out) {
  if (bytes < lanes) {
    if (bytes < 8) return gather_words_of<4>(bytes, in, offsets, count, out);
    if (bytes < 16) return gather_words_of<8>(bytes, in, offsets, count, out);
    if (bytes < 32) return gather_words_of<16>(bytes, in, offsets, count, out);
    return gather_words_of<32>(bytes, in, offsets, count, out);
  }
  switch ((bytes + lanes - 1) / lanes) {
    case 1:
      return gather_fixed<1>(bytes, in, offsets, count, out);
    case 2:
      return gather_fixed<2>(bytes, in, offsets, count, out);
    case 3:
      return gather_fixed<3>(bytes, in, offsets, count, out);
    case 4:
      return gather_fixed<4>(bytes, in, offsets, count, out);
    default:
      for (int64_t i = 0; i < count; ++i, out += bytes) {
        for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(out + ahead + at, 1);
        copy_long(bytes, in + offsets[i], 0, out, 0, 1);
      }
  }
}
#endif

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(copy_rows_of_vectors);
HWY_EXPORT(gather_rows_of_vectors);

void gather_vector_rows(int64_t bytes, const char* in, const int64_t* offsets, int64_t count, char* out) {
  HWY_DYNAMIC_DISPATCH(gather_rows_of_vectors)(bytes, in, offsets, count, out);
}

void copy_vector_rows(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  HWY_DYNAMIC_DISPATCH(copy_rows_of_vectors)(bytes, in, in_step, out, out_step, count);
}

namespace {

template <size_t kBytes>
void copy_short_rows(const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  for (int64_t i = 0; i < count; ++i, in += in_step, out += out_step) std::memcpy(out, in, kBytes);
}

// Rows of kBytes to 2 · kBytes, as two parts that overlap.
template <size_t kBytes>
void copy_two_parts(size_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  const size_t second = bytes - kBytes;
  for (int64_t i = 0; i < count; ++i, in += in_step, out += out_step) {
    std::memcpy(out, in, kBytes);
    std::memcpy(out + second, in + second, kBytes);
  }
}

}  // namespace

// `count` rows of `bytes`. Short ones take a call of memcpy longer than it takes to copy them (sub-pixels of 3 x 3: 36
// us for 12288 rows of 12 bytes).
void copy_rows(int64_t size, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t count) {
  const auto bytes = static_cast<size_t>(size);
  // A row that follows itself is doubled, and blocks of what is there are copied, which are lines of the cache as rows
  // of other lengths are not: 60784 rows of 36 bytes took 86 us one by one on a Zen 3, 50 KB of 452 by vectors 0.6 us
  // and take 0.3 on a Xeon, 8 MB 410 and 310.
  constexpr int64_t most_block = 128 << 10, least_doubled = 16, least_bytes = 4096;
  if (in_step == 0 && out_step == size && size > 0) {
    const bool is_long = size * count >= least_repeated_blocks;
    if (size <= most_block &&
        (is_long || (count >= least_doubled && (size < least_vector_row || size * count >= least_bytes)))) {
      std::memcpy(out, in, bytes);
      return repeat_block(out, size, size * count);
    }
    if (size * count >= least_streamed_bytes) {
      for (int64_t i = 0; i < count; ++i, out += out_step) stream_copy(in, out, size);
      return finish_streams();
    }
  }
  if (bytes == 8) return copy_short_rows<8>(in, in_step, out, out_step, count);
  if (bytes == 16) return copy_short_rows<16>(in, in_step, out, out_step, count);
  // Beside what a call costs for each row: 2480 rows of 160 bytes took twice as long. Long rows are repeated by
  // vectors, too, but those that L1 does not hold.
  constexpr int64_t most_repeated_row = 8 << 10;
  const bool repeats = in_step == 0 && size <= most_repeated_row;
  if (size > least_vector_row && (size <= most_vector_row || repeats) && count > 1)
    return copy_vector_rows(size, in, in_step, out, out_step, count);
  if (bytes == 0) return;
  if (bytes == 1) return copy_short_rows<1>(in, in_step, out, out_step, count);
  if (bytes == 2) return copy_short_rows<2>(in, in_step, out, out_step, count);
  if (bytes == 4) return copy_short_rows<4>(in, in_step, out, out_step, count);
  if (bytes < 4) {
    copy_two_parts<2>(bytes, in, in_step, out, out_step, count);
  } else if (bytes > 64) {
    for (int64_t i = 0; i < count; ++i, in += in_step, out += out_step) std::memcpy(out, in, bytes);
  } else if (bytes < 8) {
    copy_two_parts<4>(bytes, in, in_step, out, out_step, count);
  } else if (bytes < 16) {
    copy_two_parts<8>(bytes, in, in_step, out, out_step, count);
  } else if (bytes <= 32) {
    copy_two_parts<16>(bytes, in, in_step, out, out_step, count);
  } else {
    copy_two_parts<32>(bytes, in, in_step, out, out_step, count);
  }
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
