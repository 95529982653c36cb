#include "backends/cpu/kernels/reduce/normalize.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/targets.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/normalize.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/join_lanes-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/reduce/moments-inl.h"
#include "backends/cpu/kernels/reduce/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

// Channels whose running figures a thread keeps on its stack at a time.
constexpr int64_t max_block = 512;

// to = ((from - middle) * factor + addend) * scale + bias
HWY_INLINE void apply_to_row(const float* from, int64_t n, Vec middle, Vec factor, Vec addend, const float* scale,
                             const float* bias, float* to) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto finish = [&](const auto& load) HWY_ATTR {
    const Vec v = hn::MulAdd(hn::Sub(load(from), middle), factor, addend);
    if (scale && bias) return hn::MulAdd(v, load(scale), load(bias));
    if (scale) return hn::Mul(v, load(scale));
    return bias ? hn::Add(v, load(bias)) : v;
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    fetch_ahead<HWY_LANES(float)>(from + i);  // the row itself is in cache, and memory is idle meanwhile
    hn::StoreU(finish([&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, to + i);
  }
  if (i == n) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
  const Vec last = finish([&](const float* p) HWY_ATTR { return masked_load(mask, d, p + i); });
  masked_store(last, mask, d, to + i);
}

// Rows at a time: each passes from one step to the next in arrays of so many figures. A row by itself waits for the
// additions within a vector, a division and a root, one after the other: 112 cycles for 96 elements, now 45.
constexpr int64_t kRowsTogether = 8;

struct RowFigures {
  HWY_ALIGN float middle[kRowsTogether], missed[kRowsTogether], factor[kRowsTogether], addend[kRowsTogether];
  // A vector of each row; rows that do not exist keep their zeros.
  HWY_ALIGN float totals[kRowsTogether * HWY_LANES(float)], squares[kRowsTogether * HWY_LANES(float)];
};

// The figures of so many short rows, as moments() has them; a vector is the beginning.
void short_rows_figures(const float* x, int64_t n, int64_t rows, float epsilon, RowFigures& f) {
  const Tag d;
  constexpr int64_t lanes = HWY_LANES(float);
  HWY_ALIGN float sum[kRowsTogether], square[kRowsTogether];
  const double share = 1 / static_cast<double>(n);
  const int64_t heading = std::min(n, lanes);
  const auto head = hn::FirstN(d, static_cast<size_t>(heading));
  for (int64_t r = 0; r < rows; ++r) hn::Store(masked_load(head, d, x + r * n), d, f.totals + r * lanes);
  join_lanes<Sum>(f.totals, kRowsTogether, sum);
  const float head_share = 1 / static_cast<float>(heading);
  for (int64_t r = 0; r < kRowsTogether; ++r) f.middle[r] = sum[r] * head_share;
  for (int64_t r = 0; r < rows; ++r) {
    const Deviations row = deviations(x + r * n, n, hn::Set(d, f.middle[r]));
    hn::Store(row.sum, d, f.totals + r * lanes);
    hn::Store(row.squares, d, f.squares + r * lanes);
  }
  join_lanes<Sum>(f.totals, kRowsTogether, sum);
  join_lanes<Sum>(f.squares, kRowsTogether, square);
  const hn::ScalableTag<double> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  const auto shares = hn::Set(wide, share), zero = hn::Zero(wide);
  for (int64_t r = 0; r < kRowsTogether; r += static_cast<int64_t>(hn::Lanes(wide))) {
    const auto missed = hn::Mul(hn::PromoteTo(wide, hn::Load(narrow, sum + r)), shares);
    const auto mean_square = hn::Mul(hn::PromoteTo(wide, hn::Load(narrow, square + r)), shares);
    const auto variance = hn::Sub(mean_square, hn::Mul(missed, missed));
    const auto safe = hn::Add(hn::IfThenElse(hn::Lt(variance, zero), zero, variance), hn::Set(wide, epsilon));
    const auto factor = hn::Div(hn::Set(wide, 1.0), hn::Sqrt(safe));
    hn::Store(hn::DemoteTo(narrow, missed), narrow, f.missed + r);
    hn::Store(hn::DemoteTo(narrow, factor), narrow, f.factor + r);
    hn::Store(hn::DemoteTo(narrow, hn::Neg(hn::Mul(missed, factor))), narrow, f.addend + r);
  }
}

void layer_rows(const LayerNorm& norm, int64_t begin, int64_t end, const float* x, const float* scale,
                const float* bias, float* y, float* mean, float* inverse_deviation) {
  const Tag d;
  const int64_t n = norm.length, together = n <= kShortRow ? kRowsTogether : 1;
  RowFigures f = {};
  for (int64_t first = begin; first < end; first += together) {
    const int64_t rows = std::min(together, end - first);
    const float* from = x + first * n;
    float* to = y + first * n;
    if (n <= kShortRow) {
      short_rows_figures(from, n, rows, norm.epsilon, f);
    } else {
      const Moments m = moments(from, n, norm.epsilon);
      f.middle[0] = m.middle, f.missed[0] = m.missed, f.factor[0] = m.factor, f.addend[0] = m.addend;
    }
    for (int64_t r = 0; r < rows; ++r, from += n, to += n) {
      apply_to_row(from, n, hn::Set(d, f.middle[r]), hn::Set(d, f.factor[r]), hn::Set(d, f.addend[r]), scale, bias, to);
      if (mean) mean[first + r] = f.middle[r] + f.missed[r];
      if (inverse_deviation) inverse_deviation[first + r] = f.factor[r];
    }
  }
}

void rms_rows(const RmsNorm& norm, int64_t begin, int64_t end, const float* x, const float* scale, float* y) {
  for (int64_t r = begin; r < end; ++r) {
    const float* from = x + r * norm.length;
    const double square = row_sum(from, norm.length, 0, Squared()) / static_cast<double>(norm.length);
    const double bounded = square < norm.least ? norm.least : square;  // NaN stays
    const Vec inverse = hn::Set(Tag(), static_cast<float>(1 / std::sqrt(bounded + norm.epsilon))),
              zero = hn::Zero(Tag());
    apply_to_row(from, norm.length, zero, inverse, zero, scale, nullptr, y + r * norm.length);
  }
}

// The channels of one group of one batch item, each of consecutive spatial positions.
HWY_INLINE void apply_to_group(const GroupNorm& norm, int64_t group, float middle, float factor, float addend,
                               const float* x, const float* scale, const float* bias, float* y) {
  const Tag d;
  const int64_t width = norm.channels / norm.groups, first = group * width;
  if (norm.spatial == 1) {
    return apply_to_row(x, width, hn::Set(d, middle), hn::Set(d, factor), hn::Set(d, addend),
                        scale ? scale + first : nullptr, bias ? bias + first : nullptr, y);
  }
  for (int64_t c = 0; c < width; ++c, x += norm.spatial, y += norm.spatial) {
    const float by = scale ? scale[first + c] : 1.0f;
    const float total = addend * by + (bias ? bias[first + c] : 0.0f);
    apply_to_row(x, norm.spatial, hn::Set(d, middle), hn::Set(d, factor * by), hn::Set(d, total), nullptr, nullptr, y);
  }
}

// Groups of batch items, channels first. Short ones some at a time, as rows are: of 24,083 of 304 numbers with a
// channel each the additions, divisions and roots of one after the other took two thirds.
void groups_first(const GroupNorm& norm, int64_t begin, int64_t end, const float* x, const float* scale,
                  const float* bias, float* y) {
  const int64_t n = norm.channels / norm.groups * norm.spatial, together = n <= kShortRow ? kRowsTogether : 1;
  RowFigures f = {};
  for (int64_t first = begin; first < end; first += together) {
    const int64_t items = std::min(together, end - first);
    if (n <= kShortRow) {
      short_rows_figures(x + first * n, n, items, norm.epsilon, f);
    } else {
      const Moments m = moments(x + first * n, n, norm.epsilon);
      f.middle[0] = m.middle, f.factor[0] = m.factor, f.addend[0] = m.addend;
    }
    for (int64_t i = 0; i < items; ++i)
      apply_to_group(norm, (first + i) % norm.groups, f.middle[i], f.factor[i], f.addend[i], x + (first + i) * n, scale,
                     bias, y + (first + i) * n);
  }
}

constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));

// Calls visit(number of vectors, first channel, channels in the last vector) for all of `count` channels.
template <class Visit>
HWY_INLINE void for_vectors(int64_t count, Visit&& visit) {
  int64_t c = 0;
  for (; c + 4 * lanes <= count; c += 4 * lanes) visit(std::integral_constant<int, 4>(), c, lanes);
  for (; c + 2 * lanes <= count; c += 2 * lanes) visit(std::integral_constant<int, 2>(), c, lanes);
  for (; c < count; c += lanes) visit(std::integral_constant<int, 1>(), c, std::min(lanes, count - c));
}

HWY_INLINE Vec load_channels(int64_t count, const float* from) {
  return count == lanes ? hn::LoadU(Tag(), from)
                        : masked_load(hn::FirstN(Tag(), static_cast<size_t>(count)), Tag(), from);
}

// total[c] = the sum over the positions of x[p, c], or of its squared distance from mean[c]. Four or more sums run at a
// time, in registers: a sum in memory waits for its own last store.
template <bool kSquared>
HWY_NOINLINE void sum_columns(const float* x, int64_t positions, int64_t stride, int64_t count, const float* mean,
                              float* total) {
  for_vectors(count, [&](auto vectors, int64_t c, int64_t in_last) HWY_ATTR {
    constexpr int NV = vectors, kSplit = NV == 4 ? 1 : NV == 2 ? 2 : 4;
    Vec sum[kSplit][NV], middle[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      if (kSquared) middle[v] = load_channels(v + 1 < NV ? lanes : in_last, mean + c + v * lanes);
#pragma GCC unroll 4
      for (int s = 0; s < kSplit; ++s) sum[s][v] = hn::Zero(Tag());
    }
    const auto add = [&](const float* from, Vec(&to)[NV]) HWY_ATTR {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        Vec value = load_channels(v + 1 < NV ? lanes : in_last, from + v * lanes);
        if (kSquared) value = hn::Sub(value, middle[v]);
        to[v] = kSquared ? hn::MulAdd(value, value, to[v]) : hn::Add(to[v], value);
      }
    };
    const float* from = x + c;
    int64_t p = 0;
    for (; p + kSplit <= positions; p += kSplit) {
#pragma GCC unroll 4
      for (int s = 0; s < kSplit; ++s, from += stride) add(from, sum[s]);
    }
    for (; p < positions; ++p, from += stride) add(from, sum[0]);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
#pragma GCC unroll 4
      for (int s = 1; s < kSplit; ++s) sum[0][v] = hn::Add(sum[0][v], sum[s][v]);
      const auto mask = hn::FirstN(Tag(), static_cast<size_t>(v + 1 < NV ? lanes : in_last));
      masked_store(sum[0][v], mask, Tag(), total + c + v * lanes);
    }
  });
}

// y = (x - mean) * factor + addend, each of the three by channels.
HWY_NOINLINE void apply_columns(const float* x, float* y, int64_t positions, int64_t stride, int64_t count,
                                const float* mean, const float* factor, const float* addend) {
  for_vectors(count, [&](auto vectors, int64_t c, int64_t in_last) HWY_ATTR {
    constexpr int NV = vectors;
    Vec middle[NV], scale[NV], shift[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const int64_t channels = v + 1 < NV ? lanes : in_last;
      middle[v] = load_channels(channels, mean + c + v * lanes);
      scale[v] = load_channels(channels, factor + c + v * lanes);
      shift[v] = load_channels(channels, addend + c + v * lanes);
    }
    const auto mask = hn::FirstN(Tag(), static_cast<size_t>(in_last));
    const float* from = x + c;
    float* to = y + c;
    for (int64_t p = 0; p < positions; ++p, from += stride, to += stride) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        const bool whole = v + 1 < NV || in_last == lanes;
        const Vec in = load_channels(whole ? lanes : in_last, from + v * lanes);
        const Vec out = hn::MulAdd(hn::Sub(in, middle[v]), scale[v], shift[v]);
        if (whole)
          hn::StoreU(out, Tag(), to + v * lanes);
        else
          masked_store(out, mask, Tag(), to + v * lanes);
      }
    }
  });
}

// Whole groups of one batch item, channels last: `first` … `past` are its groups. Blocks of positions that stay in L1
// are walked for their mean and then for the squared distances from it, and joined (Chan et al., "Updating formulae and
// a pairwise algorithm for computing sample variances", 1979): memory is read once for both.
void groups_last(const GroupNorm& norm, int64_t batch, int64_t first, int64_t past, const float* x, const float* scale,
                 const float* bias, float* y) {
  const int64_t width = norm.channels / norm.groups, groups = past - first;  // at most max_block, see the caller
  const int64_t begin = first * width, channels = groups * width;
  const float* from = x + batch * norm.spatial * norm.channels + begin;
  float* to = y + batch * norm.spatial * norm.channels + begin;
  alignas(64) float total[max_block], mean[max_block], factor[max_block], addend[max_block];
  double block_sum[max_block], block_square[max_block], group_mean[max_block], group_square[max_block];
  std::fill_n(group_mean, groups, 0.0);
  std::fill_n(group_square, groups, 0.0);

  constexpr int64_t block_floats = 4 * 1024;
  const int64_t block = std::clamp<int64_t>(block_floats / channels, 1, 256);
  for (int64_t p = 0; p < norm.spatial; p += block) {
    const int64_t positions = std::min(block, norm.spatial - p);
    const float* in = from + p * norm.channels;
    const double size = static_cast<double>(positions * width), before = static_cast<double>(p * width);
    std::fill_n(block_sum, groups, 0.0);
    std::fill_n(block_square, groups, 0.0);
    for (int64_t c0 = 0; c0 < channels; c0 += max_block) {
      const int64_t count = std::min(max_block, channels - c0);
      sum_columns<false>(in + c0, positions, norm.channels, count, nullptr, total);
      for (int64_t c = 0; c < count; ++c) block_sum[(c0 + c) / width] += total[c];
    }
    for (int64_t c0 = 0; c0 < channels; c0 += max_block) {
      const int64_t count = std::min(max_block, channels - c0);
      for (int64_t c = 0; c < count; ++c) mean[c] = static_cast<float>(block_sum[(c0 + c) / width] / size);
      sum_columns<true>(in + c0, positions, norm.channels, count, mean, total);
      for (int64_t c = 0; c < count; ++c) block_square[(c0 + c) / width] += total[c];
    }
    for (int64_t g = 0; g < groups; ++g) {
      // The squares are about the block's mean as rounded.
      const double middle = static_cast<double>(static_cast<float>(block_sum[g] / size));
      const double off = block_sum[g] / size - middle, distance = block_sum[g] / size - group_mean[g];
      const double share = size / (before + size);
      group_mean[g] += distance * share;
      group_square[g] += block_square[g] - size * off * off + distance * distance * before * share;
    }
  }

  const double size = static_cast<double>(width * norm.spatial);
  for (int64_t c0 = 0; c0 < channels; c0 += max_block) {
    const int64_t count = std::min(max_block, channels - c0);
    for (int64_t c = 0; c < count; ++c) {
      const int64_t g = (c0 + c) / width, channel = begin + c0 + c;
      mean[c] = static_cast<float>(group_mean[g]);
      const double square = group_square[g] < 0 ? 0 : group_square[g];  // NaN stays
      const double inverse = 1 / std::sqrt(square / size + norm.epsilon);
      const double by = inverse * (scale ? scale[channel] : 1.0);
      factor[c] = static_cast<float>(by);
      addend[c] = static_cast<float>((bias ? bias[channel] : 0.0) - (group_mean[g] - double{mean[c]}) * by);
    }
    apply_columns(from + c0, to + c0, norm.spatial, norm.channels, count, mean, factor, addend);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(layer_rows);
HWY_EXPORT(rms_rows);
HWY_EXPORT(groups_first);
HWY_EXPORT(groups_last);

namespace {

// Elements below which a thread of its own does not pay: a few microseconds' worth.
constexpr int64_t least_elements = 16 * 1024;

}  // namespace

void LayerNorm::run(ThreadPool& pool, const float* x, const float* scale, const float* bias, float* y, float* mean,
                    float* inverse_deviation) const {
  if (rows == 0 || length == 0) return;
  const auto kernel = HWY_DYNAMIC_DISPATCH(layer_rows);
  for_pieces(pool, rows, (least_elements + length - 1) / length, [&](int64_t begin, int64_t end) {
    kernel(*this, begin, end, x, scale, bias, y, mean, inverse_deviation);
  });
}

void LayerNorm::run_here(const float* x, const float* scale, const float* bias, float* y) const {
  HWY_DYNAMIC_DISPATCH(layer_rows)(*this, 0, rows, x, scale, bias, y, nullptr, nullptr);
}

void RmsNorm::run_here(const float* x, const float* scale, float* y) const {
  HWY_DYNAMIC_DISPATCH(rms_rows)(*this, 0, rows, x, scale, y);
}

void RmsNorm::run(ThreadPool& pool, const float* x, const float* scale, float* y) const {
  if (rows == 0 || length == 0) return;
  const auto kernel = HWY_DYNAMIC_DISPATCH(rms_rows);
  for_pieces(pool, rows, (least_elements + length - 1) / length,
             [&](int64_t begin, int64_t end) { kernel(*this, begin, end, x, scale, y); });
}

void GroupNorm::run(ThreadPool& pool, const float* x, const float* scale, const float* bias, float* y) const {
  if (batch == 0 || channels == 0 || spatial == 0) return;
  const int64_t width = channels / groups;
  if (!channels_last) {
    const auto kernel = HWY_DYNAMIC_DISPATCH(groups_first);
    for_pieces(pool, batch * groups, (least_elements + width * spatial - 1) / (width * spatial),
               [&](int64_t begin, int64_t end) { kernel(*this, begin, end, x, scale, bias, y); });
    return;
  }
  const auto kernel = HWY_DYNAMIC_DISPATCH(groups_last);
  // Whole groups, at least 64 channels together (a few cache lines a position), at most what the stack arrays hold.
  const int64_t together = std::min(groups, std::max<int64_t>(1, 64 / width));
  const int64_t runs = (groups + together - 1) / together;
  for_pieces(pool, batch * runs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % runs * together;
      kernel(*this, item / runs, first, std::min(groups, first + together), x, scale, bias, y);
    }
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
