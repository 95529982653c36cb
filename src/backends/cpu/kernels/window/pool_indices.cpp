#include "backends/cpu/kernels/window/pool_indices.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_window.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/pool_indices.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t most_outputs = 256;  // of a line, at once

// Numbers are kept as wide as their positions: the compiler makes vectors of both at once.
template <class T>
using Kept = std::conditional_t<(sizeof(T) < 4), int32_t, T>;
template <class T>
using Position = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;

// What is known of a line's outputs: the maximum so far, and its position in the plane, -1 before the first.
template <class T>
struct Maxima {
  Kept<T> value[most_outputs];
  Position<T> position[most_outputs];
};

// One tap: of output x the pixel at x * stride. The stride as a constant lets the compiler vectorise the loads.
template <int kStride, class T, class Read>
HWY_INLINE void add_tap(const Read* in, int64_t any_stride, int64_t count, Position<T> position, Kept<T>* value,
                        Position<T>* found) {
  const int64_t stride = kStride ? kStride : any_stride;
#pragma GCC ivdep
  for (int64_t x = 0; x < count; ++x) {
    const Kept<T> v = in[x * stride], most = value[x];
    const bool take = (found[x] < 0) | (v > most) | ((most != most) & (v == v));  // NaN is passed over
    value[x] = take ? v : most;
    found[x] = take ? position + static_cast<Position<T>>(x * stride) : found[x];
  }
}

// The columns of a row that a line's windows see, where they are widened before every second of them is taken: the
// compiler does not do both at once. 64 planes of 40 x 40 bytes by 2 x 2 took 355 us.
template <class T>
class WideRow {
 public:
  WideRow(const ColumnTaps& taps, int64_t stride) {
    if (sizeof(T) >= 4 || stride != 2) return;
    int64_t past = 0;
    first_ = std::numeric_limits<int64_t>::max();
    taps.each([&](const ColumnTap& tap) {
      first_ = std::min(first_, tap.column);
      past = std::max(past, tap.column + (tap.count - 1) * stride + 1);
    });
    if (past - first_ <= most_columns) count_ = std::max<int64_t>(past - first_, 0);
  }
  bool is_used() const { return count_ > 0; }
  void read(const T* row) {
    for (int64_t i = 0; i < count_; ++i) columns_[i] = row[first_ + i];
  }
  const Kept<T>* at(int64_t column) const { return columns_ + (column - first_); }

 private:
  static constexpr int64_t most_columns = 1024;
  int64_t first_ = 0, count_ = 0;
  Kept<T> columns_[most_columns];
};

// The taps of one row of the window.
template <class T>
HWY_INLINE void add_row(const ColumnTaps& taps, int64_t stride, const T* row, int64_t position, WideRow<T>& wide,
                        Maxima<T>& maxima) {
  if (wide.is_used()) wide.read(row);
  taps.each([&](const ColumnTap& tap) HWY_ATTR {
    const auto at = static_cast<Position<T>>(position + tap.column);
    Kept<T>* value = maxima.value + tap.first;
    Position<T>* found = maxima.position + tap.first;
    if (wide.is_used()) return add_tap<2, T>(wide.at(tap.column), 2, tap.count, at, value, found);
    const auto add = stride == 1 ? add_tap<1, T, T> : stride == 2 ? add_tap<2, T, T> : add_tap<0, T, T>;
    add(row + tap.column, stride, tap.count, at, value, found);
  });
}

// Outputs of a short line, one window after the other. With what is kept for vectors, maxima and their places of 16
// planes of 8 × 8 took 5.1 us, and take 4.4. `in` is the plane, and rows are those of it that the window sees.
constexpr int64_t short_line = 8;
template <int kTaps, class T, class EachRow>
HWY_INLINE void maxima_of_windows(const PoolIndices& p, const Window* columns, int64_t count, const T* in,
                                  const EachRow& each_row, int64_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const Window& x = columns[i];
    T most{};
    int64_t found = -1;
    each_row([&](int64_t row) HWY_ATTR {
      const int64_t begin = row * p.width.in + x.start;
      // The first one is asked twice and not whether it is: the question would stand between every two of them.
      if (found < 0 && x.first < x.past) found = begin + x.first * p.width.dilation, most = in[found];
      const int64_t past = kTaps ? x.first + kTaps : x.past;
#pragma GCC unroll 3
      for (int64_t c = x.first; c < past; ++c) {
        const int64_t at = begin + c * p.width.dilation;
        const T v = in[at];
        const bool take = (v > most) | ((most != most) & (v == v));
        most = take ? v : most;
        found = take ? at : found;
      }
    });
    to[i] = found;
  }
}

// Windows of two by two elements that lie in the plane: `in` is the first row that they see, `below` the other one.
template <class T>
HWY_INLINE void maxima_of_fours(const Window* columns, int64_t count, int64_t dilation, const T* in, const T* below,
                                int64_t row, int64_t row_below, int64_t* to) {
  const auto better = [](T v, T most) { return (v > most) | ((most != most) & (v == v)); };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t left = columns[i].start, right = left + dilation;
    const bool is_right = better(in[right], in[left]), is_right_below = better(below[right], below[left]);
    const int64_t at = is_right ? right : left, at_below = is_right_below ? right : left;
    to[i] = better(below[at_below], in[at]) ? row_below + at_below : row + at;
  }
}

// Lines are [plane, out depth, out height].
template <class T>
void maxima_of_lines(const PoolIndices& p, int64_t begin, int64_t end, const T* in, int64_t* out) {
  const int64_t plane_pixels = p.depth.in * p.height.in * p.width.in;
  Maxima<T> maxima{};
  for (int64_t x = 0; x < p.width.out; x += most_outputs) {
    const int64_t count = std::min(most_outputs, p.width.out - x);
    const ColumnTaps taps(p.width, x, count);
    WideRow<T> wide(taps, p.width.stride);
    // Windows take divisions, which took a third of lines of four outputs: those of a plane are listed, lines counted.
    constexpr int64_t most_rows = 64;
    Window windows[most_rows], columns[short_line];
    const bool is_short = count <= short_line;
    int64_t fewest = p.width.kernel;
    for (int64_t i = 0; is_short && i < count; ++i) {
      columns[i] = window_at(p.width, x + i, false);
      fewest = std::min(fewest, columns[i].past - columns[i].first);
    }
    const bool are_pairs = p.width.kernel == 2 && fewest == 2;
    const bool is_listed = p.height.out <= most_rows && end - begin >= p.height.out;
    for (int64_t i = 0; is_listed && i < p.height.out; ++i) windows[i] = window_at(p.height, i, false);
    int64_t height = begin % p.height.out, depth = begin / p.height.out % p.depth.out;
    int64_t first_pixel = begin / (p.depth.out * p.height.out) * plane_pixels;
    Window next = window_at(p.depth, depth, false);
    for (int64_t line = begin; line < end; ++line) {
      const Window z = next, y = is_listed ? windows[height] : window_at(p.height, height, false);
      const int64_t own_pixel = first_pixel;
      if (++height == p.height.out) {
        height = 0;
        if (++depth == p.depth.out) {
          depth = 0;
          first_pixel += plane_pixels;
        }
        if (p.depth.out > 1) next = window_at(p.depth, depth, false);
      }
      const auto each_row = [&](auto visit) HWY_ATTR {
        for (int64_t s = z.first; s < z.past; ++s)
          for (int64_t r = y.first; r < y.past; ++r)
            visit((z.start + s * p.depth.dilation) * p.height.in + y.start + r * p.height.dilation);
      };
      int64_t* to = out + line * p.width.out + x;
      if (is_short && are_pairs && z.past - z.first == 1 && y.past - y.first == 2) {
        const int64_t row =
            ((z.start + z.first * p.depth.dilation) * p.height.in + y.start + y.first * p.height.dilation) * p.width.in;
        const int64_t row_below = row + p.height.dilation * p.width.in;
        const T* plane = in + own_pixel;
        maxima_of_fours(columns, count, p.width.dilation, plane + row, plane + row_below, row, row_below, to);
      } else if (is_short) {
        are_pairs ? maxima_of_windows<2>(p, columns, count, in + own_pixel, each_row, to)
                  : maxima_of_windows<0>(p, columns, count, in + own_pixel, each_row, to);
      } else {
        std::fill_n(maxima.position, count, Position<T>{-1});
        each_row([&](int64_t row) HWY_ATTR {
          add_row(taps, p.width.stride, in + own_pixel + row * p.width.in, row * p.width.in, wide, maxima);
        });
        std::copy_n(maxima.position, count, to);
      }
      for (int64_t i = 0; i < count; ++i) to[i] = own_pixel + std::max<int64_t>(0, to[i]);
      if (!p.column_major) continue;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = to[i] - own_pixel, row = at / std::max<int64_t>(1, p.width.in);
        const int64_t iy = row % std::max<int64_t>(1, p.height.in), iz = row / std::max<int64_t>(1, p.height.in);
        to[i] = own_pixel + iz + p.depth.in * (iy + p.height.in * (at - row * p.width.in));
      }
    }
  }
}

void find_maxima(DType dtype, const PoolIndices& p, int64_t begin, int64_t end, const void* in, int64_t* out) {
  with_type(dtype, "max pooling",
            [&]<class T>(T) HWY_ATTR { maxima_of_lines(p, begin, end, static_cast<const T*>(in), out); });
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(find_maxima);

void PoolIndices::run(ThreadPool& pool, DType dtype, const void* in, int64_t* out) const {
  const int64_t lines = planes * depth.out * height.out;
  if (lines == 0 || width.out == 0) return;
  const int64_t work = width.out * depth.kernel * height.kernel * width.kernel;
  const auto kernel = HWY_DYNAMIC_DISPATCH(find_maxima);
  for_pieces(pool, lines, (16 * 1024 + work - 1) / work,
             [&](int64_t begin, int64_t end) { kernel(dtype, *this, begin, end, in, out); });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
