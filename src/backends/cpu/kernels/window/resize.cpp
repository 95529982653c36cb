#include "backends/cpu/kernels/window/resize.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/targets.h"
#include "base/error.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/resize.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Columns of a line that are combined vertically before they are combined horizontally, on the stack.
constexpr int64_t max_line = 4096;

// sum over k < taps of weights[k] * from(k), of 2 taps or any number.
template <int kTaps, class From>
HWY_INLINE hn::Vec<hn::ScalableTag<float>> weighted(int64_t taps, const float* weights, const From& from) {
  const hn::ScalableTag<float> d;
  auto sum = hn::Mul(hn::Set(d, weights[0]), from(0));
  const int64_t count = kTaps ? kTaps : taps;
  for (int64_t k = 1; k < count; ++k) sum = hn::MulAdd(hn::Set(d, weights[k]), from(k), sum);
  return sum;
}

// One output line, axis by axis: `channels` are combined vertically for every input column, then horizontally. Taps by
// taps 4 MiB of output took 0.8 ms.
template <int kRows, int kColumns>
HWY_INLINE void line_by_axes(const Resize2d& p, const float* image, const int32_t* rows, const float* row_weights,
                             int64_t channel0, int64_t channels, float* HWY_RESTRICT line, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const ResizeAxis &h = p.height, &w = p.width;
  const int64_t whole = channels / lanes * lanes, pitch = (channels + lanes - 1) / lanes * lanes;
  const auto tail = hn::FirstN(d, static_cast<size_t>(channels - whole));
  const float* from = image + channel0;
  for (int64_t x = 0; x < w.in; ++x, from += p.in_pixel) {
    const auto row = [&](int64_t r) { return from + rows[r] * w.in * p.in_pixel; };
    float* out = line + x * pitch;
    for (int64_t c = 0; c < whole; c += lanes)
      hn::Store(weighted<kRows>(h.taps, row_weights, [&](int64_t r) HWY_ATTR { return hn::LoadU(d, row(r) + c); }), d,
                out + c);
    if (whole < channels)
      hn::Store(weighted<kRows>(h.taps, row_weights,
                                [&](int64_t r) HWY_ATTR { return masked_load(tail, d, row(r) + whole); }),
                d, out + whole);
  }
  to += channel0;
  for (int64_t x = 0; x < w.out; ++x, to += p.out_pixel) {
    const int32_t* columns = &w.index[static_cast<size_t>(x * w.taps)];
    const float* weights = &w.weight[static_cast<size_t>(x * w.taps)];
    if (columns[0] < 0) {
      std::fill_n(to, channels, p.extrapolation);
      continue;
    }
    const auto column = [&](int64_t c) HWY_ATTR {
      return weighted<kColumns>(w.taps, weights,
                                [&](int64_t k) HWY_ATTR { return hn::Load(d, line + columns[k] * pitch + c); });
    };
    for (int64_t c = 0; c < whole; c += lanes) hn::StoreU(column(c), d, to + c);
    if (whole < channels) masked_store(column(whole), tail, d, to + whole);
  }
}

// Output lines of channels-last data where columns are not many more than in the result.
void lines_last_by_axes(const Resize2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  const ResizeAxis &h = p.height, &w = p.width;
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t block = max_line / w.in / lanes * lanes;
  HWY_ALIGN float line_buffer[max_line];
  for (int64_t line = begin; line < end; ++line) {
    const int64_t y = line % h.out;
    const float* image = in + line / h.out * h.in * w.in * p.in_pixel;
    float* to = out + line * w.out * p.out_pixel;
    const int32_t* rows = &h.index[static_cast<size_t>(y * h.taps)];
    const float* weights = &h.weight[static_cast<size_t>(y * h.taps)];
    for (int64_t c = 0; c < p.channels; c += block) {
      const int64_t count = std::min(block, p.channels - c);
      if (rows[0] < 0) {
        for (int64_t x = 0; x < w.out; ++x) std::fill_n(to + x * p.out_pixel + c, count, p.extrapolation);
      } else if (h.taps == 2 && w.taps == 2) {
        line_by_axes<2, 2>(p, image, rows, weights, c, count, line_buffer, to);
      } else {
        line_by_axes<0, 0>(p, image, rows, weights, c, count, line_buffer, to);
      }
    }
  }
}

// Output lines of channels-last data: a pixel is a vector of channels.
void lines_last(const Resize2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const ResizeAxis &h = p.height, &w = p.width;
  const int64_t channels = p.channels;
  for (int64_t line = begin; line < end; ++line) {
    const int64_t y = line % h.out;
    const float* image = in + line / h.out * h.in * w.in * p.in_pixel;
    float* to = out + line * w.out * p.out_pixel;
    const int32_t* rows = &h.index[static_cast<size_t>(y * h.taps)];
    const float* row_weights = &h.weight[static_cast<size_t>(y * h.taps)];
    for (int64_t x = 0; x < w.out; ++x, to += p.out_pixel) {
      const int32_t* columns = &w.index[static_cast<size_t>(x * w.taps)];
      const float* column_weights = &w.weight[static_cast<size_t>(x * w.taps)];
      if (rows[0] < 0 || columns[0] < 0) {
        std::fill_n(to, channels, p.extrapolation);
        continue;
      }
      if (p.nearest) {
        std::memcpy(to, image + (rows[0] * w.in + columns[0]) * p.in_pixel,
                    static_cast<size_t>(channels) * sizeof(float));
        continue;
      }
      int64_t c = 0;
      for (; c + lanes <= channels; c += lanes) {
        auto sum = hn::Zero(d);
        for (int64_t r = 0; r < h.taps; ++r) {
          const float* row = image + rows[r] * w.in * p.in_pixel + c;
          auto part = hn::Zero(d);
          for (int64_t k = 0; k < w.taps; ++k) {
            part = hn::MulAdd(hn::Set(d, column_weights[k]), hn::LoadU(d, row + columns[k] * p.in_pixel), part);
          }
          sum = hn::MulAdd(hn::Set(d, row_weights[r]), part, sum);
        }
        hn::StoreU(sum, d, to + c);
      }
      for (; c < channels; ++c) {
        float sum = 0;
        for (int64_t r = 0; r < h.taps; ++r) {
          const float* row = image + rows[r] * w.in * p.in_pixel + c;
          float part = 0;
          for (int64_t k = 0; k < w.taps; ++k) part += column_weights[k] * row[columns[k] * p.in_pixel];
          sum += row_weights[r] * part;
        }
        to[c] = sum;
      }
    }
  }
}

HWY_INLINE void combine_rows(const Resize2d& p, const float* plane, const int32_t* rows, const float* weights,
                             float* line) {
  const int64_t size = p.width.in;
  const float* first = plane + rows[0] * size;
  for (int64_t x = 0; x < size; ++x) line[x] = weights[0] * first[x];
  for (int64_t r = 1; r < p.height.taps; ++r) {
    const float* row = plane + rows[r] * size;
    const float weight = weights[r];
    for (int64_t x = 0; x < size; ++x) line[x] += weight * row[x];
  }
}

template <int kTaps>
HWY_INLINE void combine_columns(const ResizeAxis& w, const float* line, float extrapolation, float* to) {
  const int64_t taps = kTaps ? kTaps : w.taps;
  for (int64_t x = 0; x < w.out; ++x) {
    const int32_t* columns = &w.index[static_cast<size_t>(x * taps)];
    const float* weights = &w.weight[static_cast<size_t>(x * taps)];
    float sum = 0;
    if (columns[0] < 0) {
      sum = extrapolation;
    } else {
      for (int64_t k = 0; k < taps; ++k) sum += weights[k] * line[columns[k]];
    }
    to[x] = sum;
  }
}

void lines_first(const Resize2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  const ResizeAxis &h = p.height, &w = p.width;
  alignas(64) float line_buffer[max_line];
  for (int64_t item = begin; item < end; ++item) {
    const int64_t y = item % h.out;
    const float* plane = in + item / h.out * h.in * w.in;
    float* to = out + item * w.out;
    const int32_t* rows = &h.index[static_cast<size_t>(y * h.taps)];
    const float* weights = &h.weight[static_cast<size_t>(y * h.taps)];
    if (rows[0] < 0) {
      std::fill_n(to, w.out, p.extrapolation);
      continue;
    }
    if (p.nearest) {
      // Enlarging repeats whole lines.
      if (item > begin && y > 0 && rows[-1] == rows[0]) {
        std::memcpy(to, to - w.out, static_cast<size_t>(w.out) * sizeof(float));
        continue;
      }
      const float* row = plane + rows[0] * w.in;
      for (int64_t x = 0; x < w.out; ++x) {
        const int32_t column = w.index[static_cast<size_t>(x)];
        to[x] = column < 0 ? p.extrapolation : row[column];
      }
      continue;
    }
    if (w.in <= max_line) {
      combine_rows(p, plane, rows, weights, line_buffer);
      switch (w.taps) {
        case 2:
          combine_columns<2>(w, line_buffer, p.extrapolation, to);
          break;
        case 4:
          combine_columns<4>(w, line_buffer, p.extrapolation, to);
          break;
        default:
          combine_columns<0>(w, line_buffer, p.extrapolation, to);
      }
      continue;
    }
    for (int64_t x = 0; x < w.out; ++x) {
      const size_t at = static_cast<size_t>(x * w.taps);
      float sum = 0;
      for (int64_t r = 0; r < h.taps && w.index[at] >= 0; ++r) {
        float part = 0;
        for (int64_t k = 0; k < w.taps; ++k) {
          const size_t tap = at + static_cast<size_t>(k);
          part += w.weight[tap] * plane[rows[r] * w.in + w.index[tap]];
        }
        sum += weights[r] * part;
      }
      to[x] = w.index[at] < 0 ? p.extrapolation : sum;
    }
  }
}

void resize_lines(const Resize2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  if (!p.channels_last) return lines_first(p, begin, end, in, out);
  const bool by_axes = !p.nearest && p.channels >= 4 && p.width.in <= 2 * p.width.out &&
                       p.width.in * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())) <= max_line;
  by_axes ? lines_last_by_axes(p, begin, end, in, out) : lines_last(p, begin, end, in, out);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(resize_lines);

ResizeAxis ResizeAxis::identity(int64_t size) {
  ResizeAxis axis{size, size, 1, {}, std::vector<float>(static_cast<size_t>(size), 1.0f)};
  for (int64_t i = 0; i < size; ++i) axis.index.push_back(static_cast<int32_t>(i));
  return axis;
}

Resize2d::Resize2d(int64_t batch_size, int64_t channel_count, ResizeAxis height_axis, ResizeAxis width_axis, bool last,
                   float outside, int64_t in_pixel_stride, int64_t out_pixel_stride)
    : batch(batch_size),
      channels(channel_count),
      height(std::move(height_axis)),
      width(std::move(width_axis)),
      channels_last(last),
      extrapolation(outside),
      in_pixel(in_pixel_stride ? in_pixel_stride : channel_count),
      out_pixel(out_pixel_stride ? out_pixel_stride : channel_count),
      nearest(height.taps == 1 && width.taps == 1) {
  for (const ResizeAxis* axis : {&height, &width}) {
    const auto entries = static_cast<size_t>(axis->out * axis->taps);
    bool good = axis->taps >= 1 && axis->index.size() == entries && axis->weight.size() == entries;
    for (size_t i = 0; good && i < entries; ++i) good = axis->index[i] >= -1 && axis->index[i] < axis->in;
    if (!good) {
      throw Error(ErrorCode::internal, "a resize from " + std::to_string(axis->in) + " to " +
                                           std::to_string(axis->out) + " elements was given bad source indices");
    }
    nearest &= std::all_of(axis->weight.begin(), axis->weight.end(), [](float x) { return x == 1; });
  }
}

void Resize2d::run(ThreadPool& pool, const float* in, float* out) const {
  const int64_t lines = batch * height.out * (channels_last ? 1 : channels);
  const int64_t line = width.out * (channels_last ? channels : 1);
  if (lines == 0 || line == 0) return;
  const int64_t work = line * height.taps * width.taps;
  const auto kernel = HWY_DYNAMIC_DISPATCH(resize_lines);
  for_pieces(pool, lines, (32 * 1024 + work - 1) / work,
             [&](int64_t begin, int64_t end) { kernel(*this, begin, end, in, out); });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
