#include "backends/cpu/kernels/reduce/arg_extreme.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/move/transpose_tile.h"
#include "backends/cpu/kernels/reduce/reduce_rows.h"
#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/pieces.h"

#ifndef CAMSHAFT_CPU_ARG_EXTREME_ONCE
#define CAMSHAFT_CPU_ARG_EXTREME_ONCE
namespace camshaft::cpu {
namespace {
constexpr int64_t max_block = 512;  // neighbours at a time: their best elements and indices are 4 to 8 KiB
}  // namespace
}  // namespace camshaft::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/arg_extreme.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Index = hwy::MakeSigned<T>;

// Whether v comes before b. With floats written so that a NaN wins against a number; nothing wins against a NaN.
template <bool kLargest, bool kLast, class V>
HWY_INLINE auto beats(V v, V b) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
    const auto loses = kLargest ? (kLast ? hn::Lt(v, b) : hn::Le(v, b)) : (kLast ? hn::Gt(v, b) : hn::Ge(v, b));
    return hn::AndNot(hn::IsNaN(b), hn::Not(loses));
  } else {
    if constexpr (kLast) return hn::Not(kLargest ? hn::Lt(v, b) : hn::Gt(v, b));
    return kLargest ? hn::Gt(v, b) : hn::Lt(v, b);
  }
}

// Row `a` of a block of neighbours: where it wins, `best` becomes its element and `index` a. n is a multiple of the
// vector or less than one.
template <bool kLargest, bool kLast, class D, class T = hn::TFromD<D>>
HWY_INLINE void take_vector(D d, const T* row, Index<T> a, T* best, Index<T>* index) {
  const hn::RebindToSigned<D> di;
  const auto v = hn::LoadU(d, row), b = hn::LoadU(d, best);
  const auto wins = beats<kLargest, kLast>(v, b);
  hn::StoreU(hn::IfThenElse(wins, v, b), d, best);
  const auto i = hn::LoadU(di, index);
  hn::StoreU(hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, a), i), di, index);
}

template <bool kLargest, bool kLast, class T>
void columns(const T* x, int64_t axis, int64_t step, int64_t n, T* best, Index<T>* index) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < n; ++c) best[c] = x[c], index[c] = 0;
  for (int64_t a = 1; a < axis; ++a) {
    const T* row = x + a * step;
    const auto at = static_cast<Index<T>>(a);
    int64_t c = 0;
    for (; c + lanes <= n; c += lanes) take_vector<kLargest, kLast>(d, row + c, at, best + c, index + c);
    for (; c < n; ++c) take_vector<kLargest, kLast>(one, row + c, at, best + c, index + c);
  }
}

template <class T>
void columns_of(const T* x, int64_t axis, int64_t step, int64_t n, bool largest, bool last, T* best, Index<T>* index) {
  if (largest)
    return last ? columns<true, true>(x, axis, step, n, best, index)
                : columns<true, false>(x, axis, step, n, best, index);
  last ? columns<false, true>(x, axis, step, n, best, index) : columns<false, false>(x, axis, step, n, best, index);
}

// Rows of `n` neighbours, one after the other. 1 and 2 bytes: positions do not fit into as many, so the compiler
// makes vectors of these as it can.
template <class T>
void narrow_columns(const T* x, int64_t axis, int64_t step, int64_t n, bool largest, bool last, T* best,
                    int32_t* index) {
  for (int64_t c = 0; c < n; ++c) best[c] = x[c], index[c] = 0;
  for (int64_t a = 1; a < axis; ++a) {
    const T* row = x + a * step;
    const auto at = static_cast<int32_t>(a);
    for (int64_t c = 0; c < n; ++c) {
      const T v = row[c], b = best[c];
      const bool better = (largest ? v > b : v < b) || (last && v == b);
      best[c] = better ? v : b;
      index[c] = better ? at : index[c];
    }
  }
}

// The positions of a block's extremes; with 4 bytes and less an axis has 2^31 elements at most.
void arg_columns(DType dtype, const void* in, int64_t axis, int64_t step, int64_t n, bool largest, bool last,
                 int64_t* out) {
  with_type(dtype, "argmax", [&]<class T>(T) HWY_ATTR {
    constexpr int64_t block = max_block;
    using Position = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
    alignas(64) T best[block];
    alignas(64) Position index[block];
    if constexpr (sizeof(T) >= 4) {
      columns_of(static_cast<const T*>(in), axis, step, n, largest, last, best, index);
    } else {
      narrow_columns(static_cast<const T*>(in), axis, step, n, largest, last, best, index);
    }
    for (int64_t c = 0; c < n; ++c) out[c] = index[c];
  });
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(arg_columns);

namespace {

constexpr int64_t least_elements = 32 * 1024;

// One line of elements `step` apart.
template <class T>
int64_t arg_of_line(const T* x, int64_t axis, int64_t step, bool largest, bool last) {
  int64_t best = 0;
  for (int64_t a = 1; a < axis; ++a) {
    const T candidate = x[a * step], current = x[best * step];
    if (current != current) break;
    const bool better = largest ? candidate > current : candidate < current;
    if (better || candidate != candidate || (last && candidate == current)) best = a;
  }
  return best;
}

// Few neighbours along a long axis: `together` rows of the axis are taken for one, so that they fill vectors, and what
// wins among these is found at the end. 8650 x 49 rows of 2 took 1.7 ms one by one.
constexpr int64_t filled_row = 64;
template <class T>
void arg_of_few(DType dtype, const T* x, int64_t axis, int64_t inner, bool largest, bool last, int64_t* out) {
  const int64_t together = std::min(filled_row / inner, axis / 8), n = together * inner, rows = axis / together;
  int64_t at[filled_row];
  HWY_DYNAMIC_DISPATCH(arg_columns)(dtype, x, rows, n, n, largest, last, at);
  for (int64_t c = 0; c < inner; ++c) {
    int64_t best = -1;
    const auto offer = [&](int64_t a) {
      if (best < 0) return void(best = a);
      const T candidate = x[a * inner + c], current = x[best * inner + c];
      const bool is_before = a < best;
      if (current != current || candidate != candidate) {  // the first NaN wins
        const bool both = current != current && candidate != candidate;
        if (both ? is_before : candidate != candidate) best = a;
        return;
      }
      const bool better = largest ? candidate > current : candidate < current;
      if (better || (candidate == current && is_before != last)) best = a;
    };
    for (int64_t k = 0; k < together; ++k) offer(at[k * inner + c] * together + k);
    for (int64_t a = rows * together; a < axis; ++a) offer(a);
    out[c] = best;
  }
}

// Rows of few, which become columns of a block that stays in L1: vectors of rows are looked through at once. 25,000
// rows of 4 took 470 us on a Zen 3 one by one, and take 36.
constexpr int64_t most_turned = 64, turned_bytes = 16 * 1024;
void arg_of_short_rows(DType dtype, const char* x, int64_t rows, int64_t axis, bool largest, bool last, int64_t* out) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(arg_columns);
  const int64_t width = bit_width(dtype) / 8, block = std::min(max_block, turned_bytes / (axis * width));
  alignas(64) char columns[turned_bytes];
  for (int64_t row = 0; row < rows; row += block) {
    const int64_t n = std::min(block, rows - row);
    transpose_2d(width, {axis, n, axis * width, n * width}, x + row * axis * width, columns);
    kernel(dtype, columns, axis, n, n, largest, last, out + row);
  }
}

// The same of short lines of few neighbours: each is a row, then all lines of a neighbour are looked through at once.
void arg_of_short_lines(DType dtype, const char* x, int64_t lines, int64_t axis, int64_t inner, bool largest, bool last,
                        int64_t* out) {
  const auto kernel = HWY_DYNAMIC_DISPATCH(arg_columns);
  const int64_t width = bit_width(dtype) / 8, row = axis * inner,
                block = std::min(max_block, turned_bytes / (row * width));
  alignas(64) char columns[turned_bytes];
  int64_t at[max_block];
  for (int64_t line = 0; line < lines; line += block) {
    const int64_t n = std::min(block, lines - line);
    transpose_2d(width, {row, n, row * width, n * width}, x + line * row * width, columns);
    for (int64_t i = 0; i < inner; ++i) {
      kernel(dtype, columns + i * n * width, axis, inner * n, n, largest, last, at);
      for (int64_t k = 0; k < n; ++k) out[(line + k) * inner + i] = at[k];
    }
  }
}

// The extreme first, by vectors, then where it is. With a NaN among the elements nothing equals it.
template <class T>
int64_t arg_of_row(const T* x, int64_t axis, bool largest, bool last) {
  if constexpr (std::is_same_v<T, float>) {
    const int64_t at = position_in_row(x, axis, extreme_of_row(largest, x, axis), last);
    if (at >= 0) return at;
  } else {
    const ReduceKind kind = largest ? ReduceKind::max : ReduceKind::min;
    Partial<T> total = identity<T>(kind);
    reduce_rows(kind, x, 1, axis, &total);
    const T extreme = static_cast<T>(total);
    for (int64_t a = 0; a < axis; ++a)
      if (const int64_t at = last ? axis - 1 - a : a; x[at] == extreme) return at;
  }
  return arg_of_line(x, axis, 1, largest, last);
}

}  // namespace

void ArgExtreme::run(ThreadPool& pool, DType dtype, const void* in, int64_t* out) const {
  if (axis < 1) throw Error(ErrorCode::invalid_argument, "argmax or argmin along an axis of size 0 has no result");
  if (outer == 0 || inner == 0) return;
  const int64_t block = std::min<int64_t>(inner, max_block), blocks = (inner + block - 1) / block, work = block * axis;
  const int64_t grain = (least_elements + work - 1) / work;
  if (inner > 1 && inner * 4 <= filled_row && axis >= filled_row && axis <= std::numeric_limits<int32_t>::max()) {
    with_type(dtype, "argmax", [&](auto element) {
      using T = decltype(element);
      for_pieces(pool, outer, grain, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o)
          arg_of_few(dtype, static_cast<const T*>(in) + o * axis * inner, axis, inner, largest, last_of_equals,
                     out + o * inner);
      });
    });
    return;
  }
  constexpr int64_t most_turned_line = 256;
  if (inner > 1 && axis * inner <= most_turned_line && outer >= 4 && inner * 4 <= filled_row) {
    for_pieces(pool, outer, grain, [&](int64_t begin, int64_t end) {
      arg_of_short_lines(dtype, static_cast<const char*>(in) + begin * axis * inner * bit_width(dtype) / 8, end - begin,
                         axis, inner, largest, last_of_equals, out + begin * inner);
    });
    return;
  }
  if (inner > 1 && (bit_width(dtype) == 64 || axis <= std::numeric_limits<int32_t>::max())) {
    const auto kernel = HWY_DYNAMIC_DISPATCH(arg_columns);
    const int64_t width = bit_width(dtype) / 8;
    for_pieces(pool, outer * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item % blocks * block, n = std::min(block, inner - first);
        kernel(dtype, static_cast<const char*>(in) + (item / blocks * axis * inner + first) * width, axis, inner, n,
               largest, last_of_equals, out + item / blocks * inner + first);
      }
    });
    return;
  }
  if (inner == 1 && axis <= most_turned) {
    for_pieces(pool, outer, (least_elements + axis - 1) / axis, [&](int64_t begin, int64_t end) {
      arg_of_short_rows(dtype, static_cast<const char*>(in) + begin * axis * bit_width(dtype) / 8, end - begin, axis,
                        largest, last_of_equals, out + begin);
    });
    return;
  }
  with_type(dtype, "argmax", [&](auto element) {
    using T = decltype(element);
    const T* x = static_cast<const T*>(in);
    for_pieces(pool, outer * inner, (least_elements + axis - 1) / axis, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item)
        out[item] = inner == 1 ? arg_of_row(x + item * axis, axis, largest, last_of_equals)
                               : arg_of_line(x + item / inner * axis * inner + item % inner, axis, inner, largest,
                                             last_of_equals);
    });
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
