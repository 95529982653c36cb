#include "backends/cpu/kernels/move/fill.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/move/fill.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// `pattern`: elements that fill it.
constexpr int64_t whole = 16;
void fill_pattern(const uint8_t* pattern, uint8_t* out, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto v = hn::LoadU(d, pattern);
  int64_t i = 0;
  if (lanes < whole) {  // shorter than an element may be
    for (; i + whole <= bytes; i += whole) std::memcpy(out + i, pattern, whole);
    std::memcpy(out + i, pattern, static_cast<size_t>(bytes - i));
    return;
  }
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    hn::StoreU(v, d, out + i);
    hn::StoreU(v, d, out + i + lanes);
    hn::StoreU(v, d, out + i + 2 * lanes);
    hn::StoreU(v, d, out + i + 3 * lanes);
  }
  for (; i + lanes <= bytes; i += lanes) hn::StoreU(v, d, out + i);
  std::memcpy(out + i, pattern, static_cast<size_t>(bytes - i));
}

// Of elements of 1, 2, 4 or 8 bytes, repeated in a word: nothing is built in memory first, which took longer than rows
// of 1000 bytes.
void fill_words(uint64_t word, uint8_t* out, int64_t bytes) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint64_t> words;
  const hn::Repartition<uint8_t, decltype(words)> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto v = hn::BitCast(d, hn::Set(words, word));
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    hn::StoreU(v, d, out + i);
    hn::StoreU(v, d, out + i + lanes);
    hn::StoreU(v, d, out + i + 2 * lanes);
    hn::StoreU(v, d, out + i + 3 * lanes);
  }
  for (; i + lanes <= bytes; i += lanes) hn::StoreU(v, d, out + i);
  if (i < bytes && bytes >= lanes) return hn::StoreU(v, d, out + bytes - lanes);  // whole elements before the end
#endif
  for (; i < bytes; i += 8) std::memcpy(out + i, &word, static_cast<size_t>(std::min<int64_t>(8, bytes - i)));
}

void stream_bytes(const uint8_t* from, uint8_t* to, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t before =
      std::min(bytes, static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(lanes)));
  std::memcpy(to, from, static_cast<size_t>(before));
  int64_t i = before;
  for (; i + lanes <= bytes; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

// A row of kPart to 2 · kPart bytes, as two parts that overlap by whole elements.
template <size_t kPart, size_t kWidth>
HWY_INLINE void fill_two_parts(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step,
                               int64_t rows) {
  const int64_t second = bytes - static_cast<int64_t>(kPart);
  for (int64_t r = 0; r < rows; ++r, in += in_step, out += out_step) {
    hwy::UnsignedFromSize<kWidth> element;
    std::memcpy(&element, in, kWidth);
    hwy::UnsignedFromSize<kPart> part = element;
    for (size_t filled = kWidth; filled < kPart; filled *= 2)
      part = static_cast<decltype(part)>(part | static_cast<decltype(part)>(part << (8 * filled)));
    std::memcpy(out, &part, kPart);
    std::memcpy(out + second, &part, kPart);
  }
}

#if HWY_TARGET != HWY_SCALAR
// A row from a vector on, the last of which overlaps with the one before it by whole elements.
template <size_t kWidth, class D, class Element>
HWY_INLINE void fill_vectors(D d, int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step,
                             int64_t rows, Element element) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, in += in_step, out += out_step) {
    const auto v = element(in);
    auto* to = reinterpret_cast<uint8_t*>(out);
    for (int64_t i = 0; i + lanes < bytes; i += lanes) hn::StoreU(v, d, to + i);
    hn::StoreU(v, d, to + bytes - lanes);
  }
}
#endif

template <size_t kWidth>
void fill_rows_of(int64_t bytes, const char* in, int64_t in_step, char* out, int64_t out_step, int64_t rows) {
  if constexpr (kWidth < 8) {
    if (bytes < 8) {
      if constexpr (kWidth < 4) {
        if constexpr (kWidth < 2) {
          if (bytes < 2) return fill_two_parts<1, kWidth>(bytes, in, in_step, out, out_step, rows);
        }
        if (bytes < 4) return fill_two_parts<2, kWidth>(bytes, in, in_step, out, out_step, rows);
      }
      return fill_two_parts<4, kWidth>(bytes, in, in_step, out, out_step, rows);
    }
  }
  if constexpr (kWidth <= 8) {
    if (bytes < 16) return fill_two_parts<8, kWidth>(bytes, in, in_step, out, out_step, rows);
  }
#if HWY_TARGET != HWY_SCALAR
  const auto vectors = [&](auto d) HWY_ATTR {
    fill_vectors<kWidth>(d, bytes, in, in_step, out, out_step, rows, [d](const char* from) HWY_ATTR {
      if constexpr (kWidth == 16) {
        return hn::LoadDup128(d, reinterpret_cast<const uint8_t*>(from));
      } else {
        const hn::Repartition<hwy::UnsignedFromSize<kWidth>, decltype(d)> words;
        hwy::UnsignedFromSize<kWidth> element;
        std::memcpy(&element, from, kWidth);
        return hn::BitCast(d, hn::Set(words, element));
      }
    });
  };
  const hn::ScalableTag<uint8_t> whole_vector;
  const hn::CappedTag<uint8_t, 32> half;
  const hn::CappedTag<uint8_t, 16> quarter;
  if (bytes >= static_cast<int64_t>(hn::Lanes(whole_vector))) return vectors(whole_vector);
  if (bytes >= static_cast<int64_t>(hn::Lanes(half))) return vectors(half);
  return vectors(quarter);
#else
  for (int64_t r = 0; r < rows; ++r, in += in_step, out += out_step) {
    for (int64_t i = 0; i < bytes; i += static_cast<int64_t>(kWidth)) std::memcpy(out + i, in, kWidth);
  }
#endif
}

void fill_short_rows(int64_t width, int64_t count, const char* in, int64_t in_step, char* out, int64_t out_step,
                     int64_t rows) {
  const int64_t bytes = width * count;
  switch (width) {
    case 1:
      return fill_rows_of<1>(bytes, in, in_step, out, out_step, rows);
    case 2:
      return fill_rows_of<2>(bytes, in, in_step, out, out_step, rows);
    case 4:
      return fill_rows_of<4>(bytes, in, in_step, out, out_step, rows);
    case 8:
      return fill_rows_of<8>(bytes, in, in_step, out, out_step, rows);
    default:
      return fill_rows_of<16>(bytes, in, in_step, out, out_step, rows);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(fill_pattern);
HWY_EXPORT(fill_words);
HWY_EXPORT(stream_bytes);
HWY_EXPORT(fill_short_rows);

void stream_copy(const void* from, void* to, int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_bytes)(static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), bytes);
}

void finish_streams() {
  hwy::FlushStream();
}

void repeat_block(char* memory, int64_t block, int64_t bytes) {
  constexpr int64_t least_copied = 128 << 10;
  const int64_t most = (least_copied + block - 1) / block * block;
  const bool streams = bytes >= least_streamed_bytes;
  for (int64_t filled = block; filled < bytes;) {
    const int64_t n = std::min({filled, most, bytes - filled});
    if (streams) {
      stream_copy(memory, memory + filled, n);
    } else {
      std::memcpy(memory + filled, memory, static_cast<size_t>(n));
    }
    filled += n;
  }
  if (streams) finish_streams();
}

void fill_elements(int64_t width, const void* element, void* out, int64_t count) {
  constexpr int64_t longest = 64;  // vector
  const int64_t bytes = width * count;
  if (bytes >= least_repeated_blocks) {
    constexpr int64_t first = 4096;
    // Pages of zeros are memset's to make: EyeLike of 80 MB takes 0.9 ms, and by copies 1.1.
    const auto* of_element = static_cast<const uint8_t*>(element);
    if (std::all_of(of_element, of_element + width, [](uint8_t byte) { return byte == 0; })) {
      std::memset(out, 0, static_cast<size_t>(bytes));
      return;
    }
    fill_elements(width, element, out, first / width);
    return repeat_block(static_cast<char*>(out), first, bytes);
  }
  if (width <= 8) {
    uint64_t word = 0;
    std::memcpy(&word, element, static_cast<size_t>(width));
    for (int64_t filled = width; filled < 8; filled *= 2) word |= word << (8 * filled);
    return HWY_DYNAMIC_DISPATCH(fill_words)(word, static_cast<uint8_t*>(out), bytes);
  }
  alignas(longest) uint8_t pattern[longest];
  for (int64_t at = 0; at < std::min(longest, bytes); at += width)
    std::memcpy(pattern + at, element, static_cast<size_t>(width));
  if (bytes < longest) {
    if (bytes > 0) std::memcpy(out, pattern, static_cast<size_t>(bytes));
    return;
  }
  HWY_DYNAMIC_DISPATCH(fill_pattern)(pattern, static_cast<uint8_t*>(out), bytes);
}

void fill_rows(int64_t width, int64_t count, const char* in, int64_t in_step, char* out, int64_t out_step,
               int64_t rows) {
  // Beside what a call costs for each row: 3960 rows of 9 f32 took 58 us on a Zen 3, where they take 8.
  constexpr int64_t longest = 1024;  // bytes
  if (count == 0 || rows == 0) return;
  if (width * count <= longest)
    return HWY_DYNAMIC_DISPATCH(fill_short_rows)(width, count, in, in_step, out, out_step, rows);
  for (; rows > 0; --rows, in += in_step, out += out_step) fill_elements(width, in, out, count);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
