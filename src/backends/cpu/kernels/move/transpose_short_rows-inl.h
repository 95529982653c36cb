// Transposes of blocks of registers, and with them to and from dense rows of a few elements, as small images and the
// pairs and triples of detectors have them. Included once per SIMD target after highway.h.

#if defined(CAMSHAFT_CPU_KERNELS_TRANSPOSE_SHORT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_KERNELS_TRANSPOSE_SHORT_ROWS_INL_H_
#undef CAMSHAFT_CPU_KERNELS_TRANSPOSE_SHORT_ROWS_INL_H_
#else
#define CAMSHAFT_CPU_KERNELS_TRANSPOSE_SHORT_ROWS_INL_H_
#endif

#include <cstdint>
#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows of so many elements of that width at most are short; 0: there are no vectors for them. Of 4 elements at most
/// there are interleaving loads and stores.
#if HWY_TARGET == HWY_SCALAR
template <int64_t kWidth>
inline constexpr int64_t most_short_rows = 0;

template <int64_t kWidth>
int64_t lines_to_short_rows(int64_t, int64_t, const char*, int64_t, char*) {
  return 0;
}
template <int64_t kWidth>
int64_t short_rows_to_lines(int64_t, int64_t, const char*, char*, int64_t) {
  return 0;
}
#else
template <int64_t kWidth>
inline constexpr int64_t most_short_rows = kWidth <= 2   ? 15
                                           : kWidth == 4 ? 7
                                                         : 0;

/// Lines that are transposed together: of 16 bytes, or of eight single ones, as 16 lines of few would be mostly none.
template <class T>
inline constexpr int kUnit = sizeof(T) == 1 ? 8 : 16 / static_cast<int>(sizeof(T));

/// Blocks of 16 bytes, block b of which is of row n b, with n elements in each: transposing inside of blocks gives
/// whole vectors of the result.
template <class D>
HWY_INLINE hn::Vec<D> blocks_of_rows(D d, const char* in, int64_t in_step) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if constexpr (lanes * sizeof(hn::TFromD<D>) <= 16) {
    return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(in));
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, blocks_of_rows(half, in + lanes / 2 * in_step, in_step), blocks_of_rows(half, in, in_step));
  }
}

/// Row n b + k is block b of vector k; they are written in their order, 16 bytes each.
template <class D, int kCount>
HWY_INLINE void put_blocks(D d, const hn::Vec<D> (&rows)[kCount], char* out, int64_t out_step) {
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(D()));
  if constexpr (lanes <= kCount) {
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) hn::StoreU(rows[k], d, reinterpret_cast<hn::TFromD<D>*>(out + k * out_step));
  } else {
    const hn::Half<D> half;
    hn::Vec<decltype(half)> part[kCount];
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) part[k] = hn::LowerHalf(half, rows[k]);
    put_blocks(half, part, out, out_step);
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) part[k] = hn::UpperHalf(half, rows[k]);
    put_blocks(half, part, out + lanes / 2 * out_step, out_step);
  }
}

/// Blocks of two vectors of two elements of 64 bits, each transposed.
template <class D>
HWY_INLINE void transpose_blocks(D d, const hn::Vec<D> (&in)[2], hn::Vec<D> (&out)[2]) {
  out[0] = hn::InterleaveLower(d, in[0], in[1]);
  out[1] = hn::InterleaveUpper(d, in[0], in[1]);
}

/// Blocks of four vectors of four elements of 32 bits, each transposed.
template <class D>
HWY_INLINE void transpose_blocks(D d, const hn::Vec<D> (&in)[4], hn::Vec<D> (&out)[4]) {
  const hn::Repartition<uint64_t, D> d64;
  const auto low0 = hn::BitCast(d64, hn::InterleaveLower(d, in[0], in[1]));
  const auto high0 = hn::BitCast(d64, hn::InterleaveUpper(d, in[0], in[1]));
  const auto low1 = hn::BitCast(d64, hn::InterleaveLower(d, in[2], in[3]));
  const auto high1 = hn::BitCast(d64, hn::InterleaveUpper(d, in[2], in[3]));
  out[0] = hn::BitCast(d, hn::InterleaveLower(d64, low0, low1));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(d64, low0, low1));
  out[2] = hn::BitCast(d, hn::InterleaveLower(d64, high0, high1));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(d64, high0, high1));
}

/// Blocks of eight vectors of eight elements of 16 bits, each transposed: pairs, then these as elements of 32 bits.
template <class D>
HWY_INLINE void transpose_blocks(D d, const hn::Vec<D> (&in)[8], hn::Vec<D> (&out)[8]) {
  const hn::Repartition<uint32_t, D> d32;
  hn::Vec<decltype(d32)> low[4], high[4], first[4], last[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    low[k] = hn::BitCast(d32, hn::InterleaveLower(d, in[2 * k], in[2 * k + 1]));
    high[k] = hn::BitCast(d32, hn::InterleaveUpper(d, in[2 * k], in[2 * k + 1]));
  }
  transpose_blocks(d32, low, first);
  transpose_blocks(d32, high, last);
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) out[k] = hn::BitCast(d, first[k]), out[k + 4] = hn::BitCast(d, last[k]);
}

/// kLines lines, out_step apart, of as many rows as a vector has lanes: row r is at in + r * in_step, a whole unit of
/// which is read.
template <int kLines, class D>
HWY_INLINE void rows_to_lines(D d, const char* in, int64_t in_step, char* out, int64_t out_step) {
  constexpr int unit = kUnit<hn::TFromD<D> >;
  hn::Vec<D> rows[unit], lines[unit];
#pragma GCC unroll 8
  for (int k = 0; k < unit; ++k) rows[k] = blocks_of_rows(d, in + k * in_step, in_step);
  transpose_blocks(d, rows, lines);
#pragma GCC unroll 8
  for (int k = 0; k < kLines; ++k) hn::StoreU(lines[k], d, reinterpret_cast<hn::TFromD<D>*>(out + k * out_step));
}

/// The inverse: rows of kLines elements, of which whole units are written, one row after the other.
template <int kLines, class D>
HWY_INLINE void lines_to_rows(D d, const char* in, int64_t in_step, char* out, int64_t out_step) {
  constexpr int unit = kUnit<hn::TFromD<D> >;
  hn::Vec<D> lines[unit], rows[unit];
#pragma GCC unroll 8
  for (int k = 0; k < unit; ++k)
    lines[k] = k < kLines ? hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(in + k * in_step)) : hn::Zero(d);
  transpose_blocks(d, lines, rows);
  put_blocks(d, rows, out, out_step);
}

/// Of bytes, 16 rows of eight in eight vectors: each time the elements of two halves take turns, the bits of an
/// element's address turn by one. After three lines [8][16] are rows [16][8], after four rows are lines.
using Bytes = hn::Full128<uint8_t>;
HWY_INLINE void take_turns(const hn::Vec<Bytes> (&from)[8], hn::Vec<Bytes> (&to)[8]) {
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    to[2 * k] = hn::InterleaveLower(Bytes(), from[k], from[k + 4]);
    to[2 * k + 1] = hn::InterleaveUpper(Bytes(), from[k], from[k + 4]);
  }
}

template <int kLines>
HWY_INLINE void rows_to_lines(Bytes d, const char* in, int64_t in_step, char* out, int64_t out_step) {
  const hn::Half<Bytes> half;
  const auto* from = reinterpret_cast<const uint8_t*>(in);
  hn::Vec<Bytes> a[8], b[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k)
    a[k] = hn::Combine(d, hn::LoadU(half, from + (2 * k + 1) * in_step), hn::LoadU(half, from + 2 * k * in_step));
  take_turns(a, b);
  take_turns(b, a);
  take_turns(a, b);
  take_turns(b, a);
#pragma GCC unroll 8
  for (int k = 0; k < kLines; ++k) hn::StoreU(a[k], d, reinterpret_cast<uint8_t*>(out + k * out_step));
}

template <int kLines>
HWY_INLINE void lines_to_rows(Bytes d, const char* in, int64_t in_step, char* out, int64_t out_step) {
  const hn::Half<Bytes> half;
  auto* to = reinterpret_cast<uint8_t*>(out);
  hn::Vec<Bytes> a[8], b[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k)
    a[k] = k < kLines ? hn::LoadU(d, reinterpret_cast<const uint8_t*>(in + k * in_step)) : hn::Zero(d);
  take_turns(a, b);
  take_turns(b, a);
  take_turns(a, b);
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    hn::StoreU(hn::LowerHalf(half, b[k]), half, to + 2 * k * out_step);
    hn::StoreU(hn::UpperHalf(half, b[k]), half, to + (2 * k + 1) * out_step);
  }
}

/// As many rows as a vector has lanes at a time, from row `first` on and while one is left behind them, into which
/// whole units reach; the first row that was not done. Rows are `has_unit` times a unit and kPart elements long.
template <int kPart, class D>
HWY_INLINE int64_t lines_to_short_rows_by(D d, bool has_unit, int64_t first, int64_t rows, const char* in,
                                          int64_t in_step, char* out) {
  constexpr int64_t unit = kUnit<hn::TFromD<D> >, width = sizeof(hn::TFromD<D>);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t before = has_unit ? unit : 0, row_bytes = (before + kPart) * width;
  for (; first + lanes < rows; first += lanes) {
    const char* from = in + first * width;
    char* to = out + first * row_bytes;
    // The ends of rows first: they reach into the beginnings of the next ones.
    if constexpr (kPart > 0) lines_to_rows<kPart>(d, from + before * in_step, in_step, to + before * width, row_bytes);
    if (has_unit) lines_to_rows<unit>(d, from, in_step, to, row_bytes);
  }
  return first;
}

template <int kPart, class D>
HWY_INLINE int64_t short_rows_to_lines_by(D d, bool has_unit, int64_t first, int64_t rows, const char* in, char* out,
                                          int64_t out_step) {
  constexpr int64_t unit = kUnit<hn::TFromD<D> >, width = sizeof(hn::TFromD<D>);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t before = has_unit ? unit : 0, row_bytes = (before + kPart) * width;
  for (; first + lanes < rows; first += lanes) {
    const char* from = in + first * row_bytes;
    char* to = out + first * width;
    if (has_unit) rows_to_lines<unit>(d, from, row_bytes, to, out_step);
    if constexpr (kPart > 0)
      rows_to_lines<kPart>(d, from + before * width, row_bytes, to + before * out_step, out_step);
  }
  return first;
}

/// Calls f(std::integral_constant of lines % unit).
template <int kUnits, class F>
HWY_INLINE int64_t with_part(int64_t lines, const F& f) {
  const auto part = static_cast<int>(lines % kUnits);
  int64_t done = 0;
  [&]<int... kParts>(std::integer_sequence<int, kParts...>) {
    ((part == kParts ? void(done = f(std::integral_constant<int, kParts>())) : void()), ...);
  }
  (std::make_integer_sequence<int, kUnits>());
  return done;
}

/// `lines` lines of `rows` elements, in_step bytes apart, become dense rows of five to most_short_rows elements: how
/// many rows were done. 20,000 rows of five halves took 60 us one by one, and take 6.
template <int64_t kWidth>
HWY_NOINLINE int64_t lines_to_short_rows(int64_t lines, int64_t rows, const char* in, int64_t in_step, char* out) {
  using T = hwy::UnsignedFromSize<kWidth>;
  constexpr int unit = kUnit<T>;
  const bool has_unit = lines >= unit;
  return with_part<unit>(lines, [&](auto part) HWY_ATTR {
    const hn::Full128<T> narrow;
    int64_t done = 0;
    if constexpr (kWidth > 1)
      done = lines_to_short_rows_by<part.value>(hn::ScalableTag<T>(), has_unit, 0, rows, in, in_step, out);
    return lines_to_short_rows_by<part.value>(narrow, has_unit, done, rows, in, in_step, out);
  });
}

/// The inverse: dense rows become lines, out_step bytes apart.
template <int64_t kWidth>
HWY_NOINLINE int64_t short_rows_to_lines(int64_t lines, int64_t rows, const char* in, char* out, int64_t out_step) {
  using T = hwy::UnsignedFromSize<kWidth>;
  constexpr int unit = kUnit<T>;
  const bool has_unit = lines >= unit;
  return with_part<unit>(lines, [&](auto part) HWY_ATTR {
    const hn::Full128<T> narrow;
    int64_t done = 0;
    if constexpr (kWidth > 1)
      done = short_rows_to_lines_by<part.value>(hn::ScalableTag<T>(), has_unit, 0, rows, in, out, out_step);
    return short_rows_to_lines_by<part.value>(narrow, has_unit, done, rows, in, out, out_step);
  });
}
#endif

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
