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

// Columns of the result from `begin` to `end`, and those of the image that they see.
struct Columns {
  int64_t begin = 0, end = 0, first = 0, past = 0;
};

// From `begin` on, as many as see at most `most` columns of the image.
HWY_INLINE Columns columns_from(const ResizeAxis& w, int64_t begin, int64_t most) {
  Columns c{begin, begin, w.in, 0};
  for (; c.end < w.out; ++c.end) {
    const int32_t* seen = &w.index[static_cast<size_t>(c.end * w.taps)];
    int64_t first = c.first, past = c.past;
    for (int64_t k = 0; k < w.taps && seen[0] >= 0; ++k) {
      first = std::min<int64_t>(first, seen[k]);
      past = std::max<int64_t>(past, seen[k] + 1);
    }
    if (c.end > begin && past - first > most) break;
    c.first = first, c.past = past;
  }
  return c;
}

// A part of an output line, axis by axis: `channels` are combined vertically for every input column, then horizontally.
// Taps by taps 4 MiB of output took 0.8 ms.
template <int kRows, int kColumns>
HWY_INLINE void line_by_axes(const Resize2d& p, const Columns& part, const float* image, const int32_t* rows,
                             const float* row_weights, int64_t channel0, int64_t channels, float* HWY_RESTRICT line,
                             float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const ResizeAxis &h = p.height, &w = p.width;
  const int64_t whole = channels / lanes * lanes, pitch = (channels + lanes - 1) / lanes * lanes;
  const auto tail = hn::FirstN(d, static_cast<size_t>(channels - whole));
  const float* from = image + part.first * p.in_pixel + channel0;
  float* combined = line;
  for (int64_t x = part.first; x < part.past; ++x, from += p.in_pixel, combined += pitch) {
    const auto row = [&](int64_t r) { return from + rows[r] * w.in * p.in_pixel; };
    for (int64_t c = 0; c < whole; c += lanes)
      hn::Store(weighted<kRows>(h.taps, row_weights, [&](int64_t r) HWY_ATTR { return hn::LoadU(d, row(r) + c); }), d,
                combined + c);
    if (whole < channels)
      hn::Store(weighted<kRows>(h.taps, row_weights,
                                [&](int64_t r) HWY_ATTR { return masked_load(tail, d, row(r) + whole); }),
                d, combined + whole);
  }
  to += part.begin * p.out_pixel + channel0;
  for (int64_t x = part.begin; x < part.end; ++x, to += p.out_pixel) {
    const int32_t* columns = &w.index[static_cast<size_t>(x * w.taps)];
    const float* weights = &w.weight[static_cast<size_t>(x * w.taps)];
    if (columns[0] < 0) {
      std::fill_n(to, channels, p.extrapolation);
      continue;
    }
    const auto column = [&](int64_t c) HWY_ATTR {
      return weighted<kColumns>(w.taps, weights, [&](int64_t k) HWY_ATTR {
        return hn::Load(d, line + (columns[k] - part.first) * pitch + c);
      });
    };
    for (int64_t c = 0; c < whole; c += lanes) hn::StoreU(column(c), d, to + c);
    if (whole < channels) masked_store(column(whole), tail, d, to + whole);
  }
}

// Output lines of channels-last data where columns are not many more than in the result. Blocks of columns have all
// channels: in blocks of channels, 16 of 64 of 40 MB at once, parts of each pixel were written in four passes, which
// took twice as long.
void lines_last_by_axes(const Resize2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  constexpr int64_t least_columns = 16;  // of which few are combined for two blocks
  const ResizeAxis &h = p.height, &w = p.width;
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t block = std::max(lanes, max_line / std::max(p.widest, least_columns) / lanes * lanes);
  HWY_ALIGN float line_buffer[max_line];
  for (int64_t line = begin; line < end; ++line) {
    const int64_t y = line % h.out;
    const float* image = in + line / h.out * h.in * w.in * p.in_pixel;
    float* to = out + line * w.out * p.out_pixel;
    const int32_t* rows = &h.index[static_cast<size_t>(y * h.taps)];
    const float* weights = &h.weight[static_cast<size_t>(y * h.taps)];
    for (int64_t c = 0; c < p.channels; c += block) {
      const int64_t count = std::min(block, p.channels - c), pitch = (count + lanes - 1) / lanes * lanes;
      if (rows[0] < 0) {
        for (int64_t x = 0; x < w.out; ++x) std::fill_n(to + x * p.out_pixel + c, count, p.extrapolation);
        continue;
      }
      for (Columns part; part.begin < w.out; part.begin = part.end) {
        part = columns_from(w, part.begin, max_line / pitch);
        if (h.taps == 2 && w.taps == 2) {
          line_by_axes<2, 2>(p, part, image, rows, weights, c, count, line_buffer, to);
        } else {
          line_by_axes<0, 0>(p, part, image, rows, weights, c, count, line_buffer, to);
        }
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
  if (p.height.taps == 2) {
    const float *second = plane + rows[1] * size, a = weights[0], b = weights[1];
    for (int64_t x = 0; x < size; ++x) line[x] = a * first[x] + b * second[x];
    return;
  }
  for (int64_t x = 0; x < size; ++x) line[x] = weights[0] * first[x];
  for (int64_t r = 1; r < p.height.taps; ++r) {
    const float* row = plane + rows[r] * size;
    const float weight = weights[r];
    for (int64_t x = 0; x < size; ++x) line[x] += weight * row[x];
  }
}

// Columns [begin, end) of the result, of two taps.
HWY_INLINE void one_by_one(const ResizeAxis& w, int64_t begin, int64_t end, const float* line, float extrapolation,
                           float* to) {
  for (int64_t x = begin; x < end; ++x) {
    const int32_t* columns = &w.index[static_cast<size_t>(2 * x)];
    const float* weights = &w.weight[static_cast<size_t>(2 * x)];
    to[x] = columns[0] < 0 ? extrapolation : weights[0] * line[columns[0]] + weights[1] * line[columns[1]];
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

// Of two taps, for groups of four columns of the result: two neighbours of the line are loaded at once, where one by
// one each column takes four loads.
HWY_INLINE void combine_pairs(const Resize2d& p, const float* line, float* to) {
  const ResizeAxis& w = p.width;
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t group = Resize2d::pair_group;
  const hn::FixedTag<float, group> d;
  const hn::Half<decltype(d)> half;
  int64_t x = 0;
  for (size_t g = 0; g < p.pairs.size(); ++g, x += group) {
    if (!p.pairs[g]) {
      one_by_one(w, x, x + group, line, p.extrapolation, to);
      continue;
    }
    const int32_t* const column = &w.index[static_cast<size_t>(2 * x)];
    const auto pair = [&](int i) HWY_ATTR { return hn::LoadU(half, line + column[2 * i]); };
    const auto front = hn::Combine(d, pair(1), pair(0)), back = hn::Combine(d, pair(3), pair(2));
    const float* const weight = &p.pair_weights[static_cast<size_t>(2 * x)];
    const auto first = hn::Mul(hn::LoadU(d, weight), hn::ConcatEven(d, back, front));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, weight + group), hn::ConcatOdd(d, back, front), first), d, to + x);
  }
  one_by_one(w, x, w.out, line, p.extrapolation, to);
#else
  one_by_one(w, 0, w.out, line, p.extrapolation, to);
#endif
}

#if HWY_TARGET != HWY_SCALAR
// Images that are no wider than a vector, before and after: a line's columns are combined by permutations of it, in
// registers. Line by line through memory 50 of 10 x 5 to 30 x 3 took 14 us. False where they are not.
bool narrow_lines(const Resize2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  constexpr int most_taps = 4;
  const ResizeAxis &h = p.height, &w = p.width;
  if (w.in > lanes || w.out > lanes || w.taps > most_taps) return false;
  if (!std::all_of(w.index.begin(), w.index.end(), [](int32_t i) { return i >= 0; })) return false;
  HWY_ALIGN int32_t index[most_taps * lanes] = {};
  HWY_ALIGN float weight[most_taps * lanes] = {};
  for (int64_t x = 0; x < w.out; ++x)
    for (int64_t k = 0; k < w.taps; ++k) {
      index[k * lanes + x] = w.index[static_cast<size_t>(x * w.taps + k)];
      weight[k * lanes + x] = w.weight[static_cast<size_t>(x * w.taps + k)];
    }
  const auto seen = hn::FirstN(d, static_cast<size_t>(w.in)), made = hn::FirstN(d, static_cast<size_t>(w.out));
  for (int64_t item = begin; item < end; ++item) {
    const int64_t y = item % h.out;
    const float* plane = in + item / h.out * h.in * w.in;
    float* to = out + item * w.out;
    const int32_t* rows = &h.index[static_cast<size_t>(y * h.taps)];
    if (rows[0] < 0) {
      std::fill_n(to, w.out, p.extrapolation);
      continue;
    }
    const auto line = weighted<0>(h.taps, &h.weight[static_cast<size_t>(y * h.taps)],
                                  [&](int64_t r) HWY_ATTR { return masked_load(seen, d, plane + rows[r] * w.in); });
    auto sum = hn::Zero(d);
    for (int64_t k = 0; k < w.taps; ++k)
      sum = hn::MulAdd(hn::Load(d, weight + k * lanes),
                       hn::TableLookupLanes(line, hn::SetTableIndices(d, index + k * lanes)), sum);
    masked_store(sum, made, d, to);
  }
  return true;
}
#endif

void lines_first(const Resize2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  const ResizeAxis &h = p.height, &w = p.width;
#if HWY_TARGET != HWY_SCALAR
  if (!p.nearest && !p.keeps_columns && narrow_lines(p, begin, end, in, out)) return;
#endif
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
    if (p.keeps_columns) {
      combine_rows(p, plane, rows, weights, to);
      continue;
    }
    if (w.in <= max_line) {
      combine_rows(p, plane, rows, weights, line_buffer);
      switch (w.taps) {
        case 2:
          combine_pairs(p, line_buffer, to);
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
                       p.widest * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())) <= max_line;
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
  if (!channels_last && width.taps == 2 && !nearest) find_pairs();
  keeps_columns = width.taps == 1 && width.in == width.out;
  for (int64_t x = 0; keeps_columns && x < width.out; ++x)
    keeps_columns = width.index[static_cast<size_t>(x)] == x && width.weight[static_cast<size_t>(x)] == 1;
  for (auto seen = width.index.begin(); seen != width.index.end(); seen += width.taps) {
    const auto [first, last] = std::minmax_element(seen, seen + width.taps);
    widest = std::max<int64_t>(widest, *last - *first + 1);
  }
}

void Resize2d::find_pairs() {
  pairs.resize(static_cast<size_t>(width.out / pair_group));
  pair_weights.resize(pairs.size() * 2 * pair_group);
  for (size_t g = 0; g < pairs.size(); ++g) {
    const size_t first = g * 2 * pair_group;
    pairs[g] = 1;
    for (size_t i = 0; i < pair_group; ++i) {
      const int32_t* columns = &width.index[first + 2 * i];
      if (columns[0] < 0 || columns[1] != columns[0] + 1) pairs[g] = 0;
      for (size_t tap = 0; tap < 2; ++tap)
        pair_weights[first + tap * pair_group + i] = width.weight[first + 2 * i + tap];
    }
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
