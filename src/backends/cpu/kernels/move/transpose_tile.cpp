#include "backends/cpu/kernels/move/transpose_tile.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/move/transpose_tile.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/move/transpose_short_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <int64_t kWidth>
HWY_INLINE void transpose_plain(int64_t rows, int64_t columns, const char* in, int64_t in_step, char* out,
                                int64_t out_step) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      std::memcpy(out + r * out_step + c * kWidth, in + c * in_step + r * kWidth, kWidth);
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
constexpr bool has_vectors = false;
template <class D>
HWY_INLINE int64_t interleave(D, int64_t, int64_t, const char*, int64_t, char*) {
  return 0;
}
template <class D>
HWY_INLINE int64_t deinterleave(D, int64_t, int64_t, const char*, char*, int64_t) {
  return 0;
}
template <class T>
HWY_INLINE void transpose_units(int64_t, int64_t, const char*, int64_t, char*, int64_t) {}
HWY_INLINE void transpose_16x16_8bit(const char*, int64_t, char*, int64_t) {}
#else
constexpr bool has_vectors = true;

// Two, three or four lines that become columns of a dense matrix, as the channels of an image do: the elements that
// were done. 3 x 224 x 224 took 163 us element by element, of 8 bits 50.
template <class D, class T = hn::TFromD<D> >
HWY_INLINE int64_t interleave(D d, int64_t columns, int64_t rows, const char* in, int64_t in_step, char* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t r = 0;
  while (r < rows && lanes <= rows) {
    r = std::min(r, rows - lanes);  // the last ones again rather than one by one
    const auto at = [&](int64_t c) HWY_ATTR { return hn::LoadU(d, reinterpret_cast<const T*>(in + c * in_step) + r); };
    auto* to = reinterpret_cast<T*>(out) + r * columns;
    switch (columns) {
      case 2:
        hn::StoreInterleaved2(at(0), at(1), d, to);
        break;
      case 3:
        hn::StoreInterleaved3(at(0), at(1), at(2), d, to);
        break;
      default:
        hn::StoreInterleaved4(at(0), at(1), at(2), at(3), d, to);
    }
    r += lanes;
  }
  return r;
}

// The inverse: `rows` interleaved lines.
template <class D, class T = hn::TFromD<D> >
HWY_INLINE int64_t deinterleave(D d, int64_t rows, int64_t columns, const char* in, char* out, int64_t out_step) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  while (c < columns && lanes <= columns) {
    c = std::min(c, columns - lanes);
    const auto* from = reinterpret_cast<const T*>(in) + c * rows;
    const auto put = [&](int64_t r, hn::Vec<decltype(d)> v)
                         HWY_ATTR { hn::StoreU(v, d, reinterpret_cast<T*>(out + r * out_step) + c); };
    hn::Vec<decltype(d)> v0, v1, v2, v3;
    switch (rows) {
      case 2:
        hn::LoadInterleaved2(d, from, v0, v1);
        break;
      case 3:
        hn::LoadInterleaved3(d, from, v0, v1, v2);
        put(2, v2);
        break;
      default:
        hn::LoadInterleaved4(d, from, v0, v1, v2, v3);
        put(2, v2);
        put(3, v3);
    }
    put(0, v0);
    put(1, v1);
    c += lanes;
  }
  return c;
}

// Of `rows` x `columns`, both whole units.
template <class T>
HWY_NOINLINE void transpose_units(int64_t rows, int64_t columns, const char* in, int64_t in_step, char* out,
                                  int64_t out_step) {
  constexpr int64_t unit = kUnit<T>, width = sizeof(T);
  const hn::ScalableTag<T> d;
  const hn::Full128<T> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes)
    for (int64_t r = 0; r < rows; r += unit)
      rows_to_lines<unit>(d, in + c * in_step + r * width, in_step, out + r * out_step + c * width, out_step);
  for (; c < columns; c += unit)
    for (int64_t r = 0; r < rows; r += unit)
      rows_to_lines<unit>(narrow, in + c * in_step + r * width, in_step, out + r * out_step + c * width, out_step);
}

// Sixteen vectors of sixteen bytes: four times the elements of two halves take turns. A byte at a time 10^5 took 66 us.
HWY_INLINE void transpose_16x16_8bit(const char* in, int64_t in_step, char* out, int64_t out_step) {
  const hn::Full128<uint8_t> d;
  hn::Vec<hn::Full128<uint8_t> > a[16], b[16];
  for (int k = 0; k < 16; ++k) a[k] = hn::LoadU(d, reinterpret_cast<const uint8_t*>(in + k * in_step));
  const auto shuffle = [&](const auto(&from)[16], auto(&to)[16]) HWY_ATTR {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      to[2 * k] = hn::InterleaveLower(d, from[k], from[k + 8]);
      to[2 * k + 1] = hn::InterleaveUpper(d, from[k], from[k + 8]);
    }
  };
  shuffle(a, b);
  shuffle(b, a);
  shuffle(a, b);
  shuffle(b, a);
  for (int k = 0; k < 16; ++k) hn::StoreU(a[k], d, reinterpret_cast<uint8_t*>(out + k * out_step));
}
#endif

template <int64_t kWidth>
void transpose_block(int64_t rows, int64_t columns, const char* in, int64_t in_step, char* out, int64_t out_step) {
  constexpr int64_t unit = !has_vectors ? 0 : kWidth <= 8 ? 16 / kWidth : 0;
  if constexpr (unit == 0) {
    transpose_plain<kWidth>(rows, columns, in, in_step, out, out_step);
  } else {
    const int64_t whole_rows = rows / unit * unit, whole_columns = columns / unit * unit;
    if constexpr (kWidth > 1) {
      transpose_units<hwy::UnsignedFromSize<kWidth> >(whole_rows, whole_columns, in, in_step, out, out_step);
    } else {
      for (int64_t r = 0; r < whole_rows; r += unit)
        for (int64_t c = 0; c < whole_columns; c += unit)
          transpose_16x16_8bit(in + c * in_step + r * kWidth, in_step, out + r * out_step + c * kWidth, out_step);
    }
    // What is left over are the last units once more, which overlap with those before them: 24 lines of 45,036 bytes
    // took 146 us with a third of them one by one.
    const auto again = [&](int64_t first_row, int64_t some_rows, int64_t first_column, int64_t some_columns) HWY_ATTR {
      transpose_block<kWidth>(some_rows, some_columns, in + first_column * in_step + first_row * kWidth, in_step,
                              out + first_row * out_step + first_column * kWidth, out_step);
    };
    const bool more_rows = whole_rows < rows, more_columns = whole_columns < columns;
    if (whole_rows == 0 || whole_columns == 0) {
      transpose_plain<kWidth>(rows, columns, in, in_step, out, out_step);
      return;
    }
    if (more_rows) again(rows - unit, unit, 0, whole_columns);
    if (more_columns) again(0, whole_rows, columns - unit, unit);
    if (more_rows && more_columns) again(rows - unit, unit, columns - unit, unit);
  }
}

// Beyond this, both sides are not in L1 together.
constexpr int64_t most_in_cache = 24 * 1024;

// Asks for the lines that the next block writes: stores wait for lines of many rows, whose order no processor foresees.
// 1000 × 1000 halves took 388 us, and take 151; 10^7 floats 17.7 ms, and take 4.5; 1000 × 100 floats, which are in L2,
// 17 us on a Xeon, and take 10.
HWY_INLINE void fetch_to_write(int64_t rows, const char* out, int64_t out_step) {
  for (int64_t r = 0; r < rows; ++r) __builtin_prefetch(out + r * out_step, 1);
}

template <int64_t kWidth>
void transpose(int64_t rows, int64_t columns, const char* in, int64_t in_step, char* out, int64_t out_step) {
  if constexpr (kWidth <= 8) {
    using T = hwy::UnsignedFromSize<kWidth>;
    // Lines shorter than a vector by vectors of 16 bytes: 20 halves took three times as long one by one.
    const hn::ScalableTag<T> d;
    const hn::CappedTag<T, 16 / kWidth> narrow;
    if (columns <= 4 && columns > 1 && out_step == columns * kWidth) {
      int64_t done = interleave(d, columns, rows, in, in_step, out);
      if (done == 0) done = interleave(narrow, columns, rows, in, in_step, out);
      return transpose_plain<kWidth>(rows - done, columns, in + done * kWidth, in_step, out + done * out_step,
                                     out_step);
    }
    if (rows <= 4 && rows > 1 && in_step == rows * kWidth) {
      int64_t done = deinterleave(d, rows, columns, in, out, out_step);
      if (done == 0) done = deinterleave(narrow, rows, columns, in, out, out_step);
      return transpose_plain<kWidth>(rows, columns - done, in + done * in_step, in_step, out + done * kWidth, out_step);
    }
  }
  if constexpr (most_short_rows < kWidth >> 0) {
    if (columns >= 5 && columns <= most_short_rows<kWidth> && out_step == columns * kWidth) {
      const int64_t done = lines_to_short_rows<kWidth>(columns, rows, in, in_step, out);
      return transpose_plain<kWidth>(rows - done, columns, in + done * kWidth, in_step, out + done * out_step,
                                     out_step);
    }
    if (rows >= 5 && rows <= most_short_rows<kWidth> && in_step == rows * kWidth) {
      const int64_t done = short_rows_to_lines<kWidth>(rows, columns, in, out, out_step);
      return transpose_plain<kWidth>(rows, columns - done, in + done * in_step, in_step, out + done * kWidth, out_step);
    }
  }
  // Blocks whose two sides stay in L1: two cache lines of each column of the input become one of each row of the
  // result. Of 8 bytes eight lines: so few columns keep memory busy by long pieces alone (10^7 took 13 ms by two lines,
  // 8 by eight).
  constexpr int64_t block_rows = kWidth == 8 ? 64 : 128 / kWidth, block_columns = 64 / kWidth;
  const bool fetches = rows * columns * kWidth > most_in_cache;
  // A last block of less than a unit begins with what the one before has done.
  constexpr int64_t least = kWidth <= 8 ? 16 / kWidth : 1;
  const auto begin_of = [](int64_t at, int64_t all) { return at > 0 && all - at < least ? all - least : at; };
  for (int64_t r = 0; r < rows; r += block_rows) {
    const int64_t row = begin_of(r, rows), some_rows = std::min(block_rows, rows - row);
    for (int64_t c = 0; c < columns; c += block_columns) {
      const int64_t column = begin_of(c, columns);
      char* to = out + row * out_step + column * kWidth;
      if (fetches && c + block_columns < columns) fetch_to_write(some_rows, to + block_columns * kWidth, out_step);
      transpose_block<kWidth>(some_rows, std::min(block_columns, columns - column),
                              in + column * in_step + row * kWidth, in_step, to, out_step);
    }
  }
}

template <int64_t kWidth>
void transpose_batch(const Transpose2d& t, const char* in, char* out, const TransposeBatch& batch) {
  // Interleaved lines go to as many places at once: asked for in time, SpaceToDepth of 10^6 doubles takes 590 us and
  // not 800, of 10^7 7.8 ms and not 16.
  constexpr int64_t least_row = 128, items_ahead = 2;
  const bool is_narrow = t.rows > 1 && t.rows <= 4 && t.in_step == t.rows * kWidth;
  const bool fetches = is_narrow && t.columns * kWidth >= least_row;
  for (int64_t i = 0; i < batch.count; ++i, in += batch.in_step, out += batch.out_step) {
    if (fetches && i + items_ahead < batch.count) {
      char* later = out + items_ahead * batch.out_step;
      for (int64_t at = 0; at < t.columns * kWidth; at += 64) fetch_to_write(t.rows, later + at, t.out_step);
    }
    transpose<kWidth>(t.rows, t.columns, in, t.in_step, out, t.out_step);
  }
}

void transpose_any(int64_t width, const Transpose2d& t, const char* in, char* out, const TransposeBatch& batch) {
  switch (width) {
    case 1:
      return transpose_batch<1>(t, in, out, batch);
    case 2:
      return transpose_batch<2>(t, in, out, batch);
    case 4:
      return transpose_batch<4>(t, in, out, batch);
    case 8:
      return transpose_batch<8>(t, in, out, batch);
    default:
      return transpose_batch<16>(t, in, out, batch);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(transpose_any);

void transpose_2d(int64_t width, const Transpose2d& transpose, const char* in, char* out, const TransposeBatch& batch) {
  HWY_DYNAMIC_DISPATCH(transpose_any)(width, transpose, in, out, batch);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
