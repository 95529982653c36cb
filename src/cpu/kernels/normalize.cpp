#include "cpu/kernels/normalize.h"

#include <algorithm>
#include <cmath>

#include "cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/normalize.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "cpu/kernels/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

// Channels whose running figures a thread keeps on its stack at a time.
constexpr int64_t max_block = 512;

struct Moments {
  float mean;
  float inverse_deviation;
};

Moments moments(const float* x, int64_t n, float epsilon) {
  const double mean = row_sum(x, n, 0, Plain()) / static_cast<double>(n);
  const double variance = row_sum(x, n, static_cast<float>(mean), Squared()) / static_cast<double>(n);
  return {static_cast<float>(mean), static_cast<float>(1 / std::sqrt(variance + epsilon))};
}

// y = (x - mean) * inverse * scale + bias, the last two per element. Plain loops: the compiler vectorises them for the
// target, and they wait for memory.
HWY_NOINLINE void apply_per_element(const float* x, float* y, int64_t n, Moments m, const float* scale,
                                    const float* bias) {
  if (scale && bias) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.inverse_deviation * scale[i] + bias[i];
  } else if (scale) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.inverse_deviation * scale[i];
  } else if (bias) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.inverse_deviation + bias[i];
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - m.mean) * m.inverse_deviation;
  }
}

void layer_rows(const LayerNorm& norm, int64_t begin, int64_t end, const float* x, const float* scale,
                const float* bias, float* y, float* mean, float* inverse_deviation) {
  for (int64_t r = begin; r < end; ++r) {
    const float* from = x + r * norm.length;
    const Moments m = moments(from, norm.length, norm.epsilon);
    apply_per_element(from, y + r * norm.length, norm.length, m, scale, bias);
    if (mean) mean[r] = m.mean;
    if (inverse_deviation) inverse_deviation[r] = m.inverse_deviation;
  }
}

void rms_rows(const RmsNorm& norm, int64_t begin, int64_t end, const float* x, const float* scale, float* y) {
  for (int64_t r = begin; r < end; ++r) {
    const float* from = x + r * norm.length;
    const double square = row_sum(from, norm.length, 0, Squared()) / static_cast<double>(norm.length);
    const float inverse = static_cast<float>(1 / std::sqrt(square + norm.epsilon));
    apply_per_element(from, y + r * norm.length, norm.length, {0, inverse}, scale, nullptr);
  }
}

// One group of one batch item, channels first: channels of consecutive spatial positions.
void group_first(const GroupNorm& norm, int64_t item, const float* x, const float* scale, const float* bias, float* y) {
  const int64_t width = norm.channels / norm.groups;
  const int64_t group = item % norm.groups;
  const int64_t offset = item * width * norm.spatial;
  const Moments m = moments(x + offset, width * norm.spatial, norm.epsilon);
  for (int64_t c = 0; c < width; ++c) {
    const int64_t channel = group * width + c;
    const float factor = m.inverse_deviation * (scale ? scale[channel] : 1.0f);
    const float addend = bias ? bias[channel] : 0.0f;
    const float* from = x + offset + c * norm.spatial;
    float* to = y + offset + c * norm.spatial;
#pragma GCC ivdep
    for (int64_t i = 0; i < norm.spatial; ++i) to[i] = (from[i] - m.mean) * factor + addend;
  }
}

// Adds the sum over all positions of x[p, c] (or of its squared distance from mean[c]) to total[c], c < count.
HWY_NOINLINE void add_columns(const float* x, int64_t positions, int64_t stride, int64_t count, const float* mean,
                              double* total) {
  alignas(64) float partial[max_block];
  for (int64_t begin = 0; begin < positions; begin += 256) {
    const int64_t end = std::min(positions, begin + 256);
    std::fill_n(partial, count, 0.0f);
    for (int64_t p = begin; p < end; ++p) {
      const float* from = x + p * stride;
      if (mean) {
        for (int64_t c = 0; c < count; ++c) partial[c] += (from[c] - mean[c]) * (from[c] - mean[c]);
      } else {
        for (int64_t c = 0; c < count; ++c) partial[c] += from[c];
      }
    }
    for (int64_t c = 0; c < count; ++c) total[c] += partial[c];
  }
}

// Whole groups of one batch item, channels last: `first` … `past` are its groups. Blocks of channels are walked once
// for the mean, once for the variance and once to apply.
void groups_last(const GroupNorm& norm, int64_t batch, int64_t first, int64_t past, const float* x, const float* scale,
                 const float* bias, float* y) {
  const int64_t width = norm.channels / norm.groups;
  const int64_t begin = first * width, end = past * width;
  const float* from = x + batch * norm.spatial * norm.channels;
  float* to = y + batch * norm.spatial * norm.channels;
  const double size = static_cast<double>(width * norm.spatial);
  double total[max_block];
  double group_total[max_block];  // at most max_block groups, see the caller
  alignas(64) float mean[max_block], factor[max_block], addend[max_block];
  double group_mean[max_block];

  const auto gather = [&](bool squared) HWY_ATTR {
    std::fill_n(group_total, past - first, 0.0);
    for (int64_t c0 = begin; c0 < end; c0 += max_block) {
      const int64_t count = std::min(max_block, end - c0);
      std::fill_n(total, count, 0.0);
      if (squared) {
        for (int64_t c = 0; c < count; ++c) mean[c] = static_cast<float>(group_mean[(c0 + c) / width - first]);
      }
      add_columns(from + c0, norm.spatial, norm.channels, count, squared ? mean : nullptr, total);
      for (int64_t c = 0; c < count; ++c) group_total[(c0 + c) / width - first] += total[c];
    }
  };
  gather(false);
  for (int64_t g = 0; g < past - first; ++g) group_mean[g] = group_total[g] / size;
  gather(true);

  for (int64_t c0 = begin; c0 < end; c0 += max_block) {
    const int64_t count = std::min(max_block, end - c0);
    for (int64_t c = 0; c < count; ++c) {
      const int64_t g = (c0 + c) / width - first;
      mean[c] = static_cast<float>(group_mean[g]);
      const double inverse = 1 / std::sqrt(group_total[g] / size + norm.epsilon);
      factor[c] = static_cast<float>(inverse) * (scale ? scale[c0 + c] : 1.0f);
      addend[c] = bias ? bias[c0 + c] : 0.0f;
    }
    for (int64_t p = 0; p < norm.spatial; ++p) {
      const float* in = from + p * norm.channels + c0;
      float* out = to + p * norm.channels + c0;
#pragma GCC ivdep
      for (int64_t c = 0; c < count; ++c) out[c] = (in[c] - mean[c]) * factor[c] + addend[c];
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(layer_rows);
HWY_EXPORT(rms_rows);
HWY_EXPORT(group_first);
HWY_EXPORT(groups_last);

namespace {

// Elements below which a thread of its own does not pay: a few microseconds' worth.
constexpr int64_t least_elements = 16 * 1024;

}  // namespace

void LayerNorm::run(ThreadPool& pool, const float* x, const float* scale, const float* bias, float* y, float* mean,
                    float* inverse_deviation) const {
  if (rows == 0 || length == 0) return;
  const auto kernel = HWY_DYNAMIC_DISPATCH(layer_rows);
  pool.parallel_for(rows, (least_elements + length - 1) / length, [&](int64_t begin, int64_t end) {
    kernel(*this, begin, end, x, scale, bias, y, mean, inverse_deviation);
  });
}

void RmsNorm::run(ThreadPool& pool, const float* x, const float* scale, float* y) const {
  if (rows == 0 || length == 0) return;
  const auto kernel = HWY_DYNAMIC_DISPATCH(rms_rows);
  pool.parallel_for(rows, (least_elements + length - 1) / length,
                    [&](int64_t begin, int64_t end) { kernel(*this, begin, end, x, scale, y); });
}

void GroupNorm::run(ThreadPool& pool, const float* x, const float* scale, const float* bias, float* y) const {
  if (batch == 0 || channels == 0 || spatial == 0) return;
  const int64_t width = channels / groups;
  if (!channels_last) {
    const auto kernel = HWY_DYNAMIC_DISPATCH(group_first);
    pool.parallel_for(batch * groups, (least_elements + width * spatial - 1) / (width * spatial),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t item = begin; item < end; ++item) kernel(*this, item, x, scale, bias, y);
                      });
    return;
  }
  const auto kernel = HWY_DYNAMIC_DISPATCH(groups_last);
  // Whole groups, at least 64 channels together (a few cache lines a position), at most what the stack arrays hold.
  const int64_t together = std::min(groups, std::max<int64_t>(1, 64 / width));
  const int64_t runs = (groups + together - 1) / together;
  pool.parallel_for(batch * runs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % runs * together;
      kernel(*this, item / runs, first, std::min(groups, first + together), x, scale, bias, y);
    }
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
