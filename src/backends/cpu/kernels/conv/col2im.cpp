#include "backends/cpu/kernels/conv/col2im.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"
#include "base/index_range.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/col2im.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Adds the windows' element at (y0, x0) of each, one after the other as they lie in memory.
void add_tap(const Col2Im& fold, const float* from, int64_t y0, int64_t x0, float* to) {
  const IndexRange rows = indices_inside(y0, fold.stride_height, fold.height, fold.window_rows);
  const auto [first, past] = indices_inside(x0, fold.stride_width, fold.width, fold.window_columns);
  if (first == past) return;
  for (int64_t row = rows.first; row < rows.past; ++row) {
    const float* const source = from + row * fold.window_columns + first;
    float* const target = to + (y0 + row * fold.stride_height) * fold.width + x0 + first * fold.stride_width;
    for (int64_t i = 0; i < past - first; ++i) target[i * fold.stride_width] += source[i];
  }
}

// Windows beside each other, of which one element lies in each pixel of a row. Sums of a row are made in registers:
// adding up in memory reads what was just written, a few floats beside, and waits for it.
class RowSums {
 public:
  static constexpr int64_t most_taps = 64;

  explicit RowSums(const Col2Im& fold) : fold_(fold), taps_(fold.kernel_height * fold.kernel_width) {
    whole_past_ = fold.width;
    for (int64_t t = 0; t < taps_; ++t) {
      const int64_t x0 = t % fold.kernel_width * fold.dilation_width - fold.pad_left;
      const auto [first, past] = indices_inside(x0, 1, fold.width, fold.window_columns);
      rows_before_[t] = t / fold.kernel_width * fold.dilation_height - fold.pad_top;
      columns_before_[t] = x0;
      whole_first_ = std::max(whole_first_, x0 + first);
      whole_past_ = std::min(whole_past_, x0 + past);
      set_reached(left_[t], 0, x0 + first, x0 + past);
      set_reached(right_[t], fold.width - lanes_, x0 + first, x0 + past);
    }
    inner_ = std::max<int64_t>(1, whole_past_ / lanes_) * lanes_;
    for (int64_t t = 0; t < taps_; ++t) {
      const auto [first, past] = indices_inside(columns_before_[t], 1, fold.width, fold.window_columns);
      set_reached(before_right_[t], inner_, columns_before_[t] + first, columns_before_[t] + past);
    }
  }

  static bool fits(const Col2Im& fold) {
    return fold.stride_width == 1 && fold.kernel_height <= most_taps && fold.kernel_width <= most_taps &&
           fold.kernel_height * fold.kernel_width <= most_taps;
  }
  // Whether what not all taps reach lies in the first vector and in the last.
  bool is_even() const { return whole_first_ <= lanes_ && whole_past_ >= fold_.width - lanes_; }

  void sum_plane(const float* columns, float* image) {
    for (int64_t y = 0; y < fold_.height; ++y, image += fold_.width) {
      find_rows(columns, y);
      if (fold_.width < lanes_) {
        hn::BlendedStore(sum_reached(left_, 0), hn::FirstN(d_, static_cast<size_t>(fold_.width)), d_, image);
        continue;
      }
      hn::StoreU(sum_reached(left_, 0), d_, image);
      const int64_t last = fold_.width - lanes_;
      for (int64_t x = lanes_; x < std::min(inner_, last); x += lanes_) {
        auto sum = hn::Zero(d_);
        for (int64_t k = 0; k < count_; ++k) sum = hn::Add(sum, hn::LoadU(d_, from_[k] + x));
        hn::StoreU(sum, d_, image + x);
      }
      if (inner_ < last) hn::StoreU(sum_reached(before_right_, inner_), d_, image + inner_);
      hn::StoreU(sum_reached(right_, last), d_, image + last);
    }
  }

 private:
  using D = hn::ScalableTag<float>;
  using Masks = int32_t[most_taps][hn::MaxLanes(D())];

  // Which lanes of the vector at x lie in [first, past).
  void set_reached(int32_t* reached, int64_t x, int64_t first, int64_t past) const {
    for (int64_t i = 0; i < lanes_; ++i) reached[i] = x + i >= first && x + i < past ? -1 : 0;
  }

  // The rows of windows that reach row y of the image.
  void find_rows(const float* columns, int64_t y) {
    const int64_t windows = fold_.window_rows * fold_.window_columns;
    count_ = 0;
    for (int64_t t = 0; t < taps_; ++t) {
      int64_t row = y - rows_before_[t];
      if (fold_.stride_height > 1) {  // a division takes as long as a row of 100 pixels
        if (row % fold_.stride_height != 0) continue;
        row /= fold_.stride_height;
      }
      if (row < 0 || row >= fold_.window_rows) continue;
      tap_[count_] = t;
      from_[count_++] = columns + t * windows + row * fold_.window_columns - columns_before_[t];
    }
  }

  HWY_INLINE hn::Vec<D> sum_reached(const Masks& masks, int64_t x) const {
    const hn::RebindToSigned<D> di;
    auto sum = hn::Zero(d_);
    for (int64_t k = 0; k < count_; ++k) {
      const auto reached = hn::RebindMask(d_, hn::MaskFromVec(hn::LoadU(di, masks[tap_[k]])));
      sum = hn::Add(sum, masked_load(reached, d_, from_[k] + x));
    }
    return sum;
  }

  const D d_{};
  const int64_t lanes_ = static_cast<int64_t>(hn::Lanes(D()));
  const Col2Im& fold_;
  int64_t taps_, whole_first_ = 0, whole_past_ = 0;  // of the pixels that all taps reach
  int64_t inner_ = 0;                                // vectors from the second one to there are whole
  int64_t rows_before_[most_taps], columns_before_[most_taps];
  Masks left_, before_right_, right_;  // of the vectors at 0, inner_ and the end: the lanes that each tap reaches
  int64_t count_ = 0;                  // of the taps that reach the row at hand
  int64_t tap_[most_taps];
  const float* from_[most_taps];
};

void add_planes(const Col2Im& fold, const float* columns, float* image, int64_t planes) {
  const int64_t windows = fold.window_rows * fold.window_columns;
  const int64_t taps = windows == 0 ? 0 : fold.kernel_height * fold.kernel_width;  // else there are fewer than elements
  if (taps > 0 && RowSums::fits(fold)) {
    RowSums sums(fold);
    if (sums.is_even()) {
      for (int64_t p = 0; p < planes; ++p)
        sums.sum_plane(columns + p * taps * windows, image + p * fold.height * fold.width);
      return;
    }
  }
  std::fill_n(image, planes * fold.height * fold.width, 0.0f);
  for (int64_t t = 0; t < planes * taps; ++t)
    add_tap(fold, columns + t * windows, t % taps / fold.kernel_width * fold.dilation_height - fold.pad_top,
            t % fold.kernel_width * fold.dilation_width - fold.pad_left, image + t / taps * fold.height * fold.width);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(add_planes);

void Col2Im::run(ThreadPool& pool, const float* columns, float* image) const {
  const int64_t windows = window_rows * window_columns;
  const int64_t column = windows == 0 ? 0 : kernel_height * kernel_width * windows;  // else of any size
  const int64_t work = std::max<int64_t>(1, std::max(height * width, column));
  for_pieces(pool, planes, 16 * 1024 / work + 1, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_planes)(*this, columns + begin * column, image + begin * height * width, end - begin);
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
