#include "backends/cpu/kernels/window/pool_flat.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"

#ifndef CAMSHAFT_CPU_POOL_FLAT_ONCE
#define CAMSHAFT_CPU_POOL_FLAT_ONCE
namespace camshaft::cpu {
namespace {
// Larger images are combined by rows first: 20 x 20 pixels took as long either way, 10 x 10 16 us and 25.
constexpr int64_t most_pixels = 14 * 14;
constexpr int64_t most_taps = 32, most_mask_words = 6 * 1024;  // of all taps: most of L1
constexpr int64_t most_mask_lanes = 64;  // that vectors computed together may reach beyond an image
}  // namespace
}  // namespace camshaft::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/pool_flat.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/window/pool_combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

// Vectors at once: each tap of one waits for the one before.
constexpr int kVectors = 4;
static_assert(kVectors * HWY_LANES(float) <= most_mask_lanes);

// The taps of an image's windows: where they lie, and for each pixel all bits set where that is inside.
class Taps {
 public:
  explicit Taps(const SpatialPool& p) : pixels_(p.height.in * p.width.in) {
    const PoolAxis &h = p.height, &w = p.width;
    for (int64_t r = 0; r < h.kernel; ++r)
      for (int64_t c = 0; c < w.kernel; ++c) {
        const int64_t down = r * h.dilation - h.pad_before, right = c * w.dilation - w.pad_before;
        // Pixels whose tap is inside: a tap that none has needs no mask, and none may be so far away.
        const int64_t y0 = std::max<int64_t>(0, -down), y1 = std::min(h.in, h.in - down);
        const int64_t x0 = std::max<int64_t>(0, -right), x1 = std::min(w.in, w.in - right);
        if (y0 >= y1 || x0 >= x1) continue;
        int32_t* mask = masks_ + count_ * pitch();
        for (int64_t y = 0; y < h.in; ++y) {
          std::fill_n(mask + y * w.in, w.in, 0);
          if (y >= y0 && y < y1) std::fill(mask + y * w.in + x0, mask + y * w.in + x1, -1);
        }
        for (int64_t i = 0; i < most_mask_lanes; ++i) mask[pixels_ + i] = mask[i];  // in order: also of few pixels
        offsets_[count_++] = down * w.in + right;
      }
  }

  int64_t pixels() const { return pixels_; }
  int64_t count() const { return count_; }
  int64_t offset(int64_t tap) const { return offsets_[tap]; }
  const int32_t* mask(int64_t tap) const { return masks_ + tap * pitch(); }
  // A pixel's farthest taps on either side.
  int64_t before() const { return count_ ? std::max<int64_t>(0, -offsets_[0]) : 0; }
  int64_t behind() const { return count_ ? std::max<int64_t>(0, offsets_[count_ - 1]) : 0; }

 private:
  int64_t pitch() const { return pixels_ + most_mask_lanes; }

  int64_t pixels_, count_ = 0;
  int64_t offsets_[most_taps];
  HWY_ALIGN int32_t masks_[most_mask_words];
};

// The largest of all taps of neighbouring results, which begin at pixel `pixel` of an image.
void largest(const Taps& taps, int64_t pixel, const float* in, float* out) {
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  hn::Vec<Tag> most[kVectors];
#pragma GCC unroll 4
  for (auto& v : most) v = hn::Set(d, pool_neutral<false>());
  for (int64_t t = 0; t < taps.count(); ++t) {
    const float* from = in + taps.offset(t);
    const int32_t* mask = taps.mask(t) + pixel;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto inside = hn::BitCast(d, hn::LoadU(hn::RebindToSigned<Tag>(), mask + v * lanes));
      most[v] = hn::IfVecThenElse(inside, combine<false>(most[v], hn::LoadU(d, from + v * lanes)), most[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) hn::StoreU(most[v], d, out + v * lanes);
}

// The same of one result.
float largest(const Taps& taps, int64_t pixel, const float* in) {
  const hn::CappedTag<float, 1> one;
  auto most = hn::Set(one, pool_neutral<false>());
  for (int64_t t = 0; t < taps.count(); ++t)
    if (taps.mask(t)[pixel] != 0) most = combine<false>(most, hn::LoadU(one, in + taps.offset(t)));
  return hn::GetLane(most);
}

void flat_lines(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  constexpr auto together = kVectors * static_cast<int64_t>(HWY_LANES(float));
  const Taps taps(p);
  const int64_t total = p.batch * p.channels * taps.pixels(), past = end * p.width.in;
  int64_t at = begin * p.width.in, pixel = begin % p.height.in * p.width.in;
  const auto go_on = [&](int64_t count) {
    at += count;
    for (pixel += count; pixel >= taps.pixels();) pixel -= taps.pixels();
  };
  while (at < past) {
    if (at >= taps.before() && at + taps.behind() + together <= total && at + together <= past) {
      largest(taps, pixel, in + at, out + at);
      go_on(together);
    } else {
      out[at] = largest(taps, pixel, in + at);
      go_on(1);
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(flat_lines);

bool can_pool_flat(const SpatialPool& p) {
  const auto keeps_size = [](const PoolAxis& a) { return a.stride == 1 && a.in == a.out; };
  const PoolAxis &h = p.height, &w = p.width;
  if (p.channels_last || p.average || p.depth.in != 1 || p.depth.out != 1 || p.depth.kernel != 1 ||
      p.depth.pad_before != 0 || !keeps_size(h) || !keeps_size(w) || h.in > most_pixels || w.in > most_pixels)
    return false;
  const int64_t pixels = h.in * w.in;
  return pixels > 0 && pixels <= most_pixels && h.kernel <= most_taps && w.kernel <= most_taps &&
         h.kernel * w.kernel <= most_taps && h.kernel * w.kernel * (pixels + most_mask_lanes) <= most_mask_words;
}

void pool_flat(const SpatialPool& problem, int64_t begin, int64_t end, const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(flat_lines)(problem, begin, end, in, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
