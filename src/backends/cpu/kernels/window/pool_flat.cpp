#include "backends/cpu/kernels/window/pool_flat.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_window.h"
#include "backends/cpu/kernels/with_type.h"

#ifndef CAMSHAFT_CPU_POOL_FLAT_ONCE
#define CAMSHAFT_CPU_POOL_FLAT_ONCE
namespace camshaft::cpu {
namespace {
// Larger images are combined by rows first: 20 x 20 pixels took as long either way, 10 x 10 16 us and 25.
constexpr int64_t most_pixels = 14 * 14;
constexpr int64_t most_taps = 32, most_mask_bytes = 24 * 1024;  // of all taps: most of L1
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
#include "backends/cpu/kernels/window/pool_combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors at once: each tap of one waits for the one before. Of narrow types one holds as many results.
template <class T>
constexpr int vectors_at_once = sizeof(T) >= 4   ? 4
                                : sizeof(T) == 2 ? 2
                                                 : 1;

// The taps of an image's windows: where they lie, and for each pixel all bits set where that is inside.
template <class T>
class Taps {
 public:
  using Mask = hwy::SignedFromSize<sizeof(T)>;

  explicit Taps(const SpatialPool& p) : pixels_(p.height.in * p.width.in) {
    const PoolAxis &h = p.height, &w = p.width;
    for (int64_t r = 0; r < h.kernel; ++r)
      for (int64_t c = 0; c < w.kernel; ++c) {
        const int64_t down = r * h.dilation - h.pad_before, right = c * w.dilation - w.pad_before;
        // Pixels whose tap is inside: a tap that none has needs no mask, and none may be so far away.
        const int64_t y0 = std::max<int64_t>(0, -down), y1 = std::min(h.in, h.in - down);
        const int64_t x0 = std::max<int64_t>(0, -right), x1 = std::min(w.in, w.in - right);
        if (y0 >= y1 || x0 >= x1) continue;
        Mask* mask = masks_ + count_ * pitch();
        for (int64_t y = 0; y < h.in; ++y) {
          std::fill_n(mask + y * w.in, w.in, Mask{0});
          if (y >= y0 && y < y1) std::fill(mask + y * w.in + x0, mask + y * w.in + x1, Mask{-1});
        }
        repeat(mask);
        offsets_[count_++] = down * w.in + right;
      }
    if (!p.average) return;
    for (int64_t y = 0; y < h.in; ++y) {
      const int64_t rows = window_at(h, y, p.count_include_pad).counted;
      for (int64_t x = 0; x < w.in; ++x) {
        const int64_t counted = rows * window_at(w, x, p.count_include_pad).counted;
        scales_[y * w.in + x] = counted > 0 ? T{1} / static_cast<T>(counted) : T{0};
      }
    }
    repeat(scales_);
  }

  int64_t pixels() const { return pixels_; }
  int64_t count() const { return count_; }
  int64_t offset(int64_t tap) const { return offsets_[tap]; }
  const Mask* mask(int64_t tap) const { return masks_ + tap * pitch(); }
  // Of each pixel what the sum is multiplied by.
  const T* scales() const { return scales_; }
  // A pixel's farthest taps on either side.
  int64_t before() const { return count_ ? std::max<int64_t>(0, -offsets_[0]) : 0; }
  int64_t behind() const { return count_ ? std::max<int64_t>(0, offsets_[count_ - 1]) : 0; }

 private:
  int64_t pitch() const { return pixels_ + most_mask_lanes; }
  template <class Element>
  void repeat(Element* of_pixels) const {
    for (int64_t i = 0; i < most_mask_lanes; ++i)
      of_pixels[pixels_ + i] = of_pixels[i];  // in order: also of few pixels
  }

  int64_t pixels_, count_ = 0;
  int64_t offsets_[most_taps];
  HWY_ALIGN Mask masks_[most_mask_bytes / sizeof(Mask)];
  HWY_ALIGN T scales_[most_pixels + most_mask_lanes];
};

template <bool kAverage, class T>
constexpr T neutral() {
  if constexpr (std::is_same_v<T, float>) return pool_neutral<kAverage>();
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

// As combine() does; the maximum of other types, too.
template <bool kAverage, class V>
HWY_INLINE V combined(V before, V tap) {
  using T = hn::TFromV<V>;
  if constexpr (std::is_same_v<T, float>) {
    return combine<kAverage>(before, tap);
  } else if constexpr (hwy::IsFloat<T>()) {
    return hn::IfThenElse(hn::Gt(tap, before), tap, before);
  } else {
    return hn::Max(tap, before);
  }
}

// Neighbouring results, which begin at pixel `pixel` of an image, of all taps.
template <bool kAverage, class T>
void combine_taps(const Taps<T>& taps, int64_t pixel, const T* in, T* out) {
  using Tag = hn::ScalableTag<T>;
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(T));
  constexpr int vectors = vectors_at_once<T>;
  static_assert(vectors * HWY_LANES(T) <= most_mask_lanes);
  hn::Vec<Tag> sum[vectors];
#pragma GCC unroll 4
  for (auto& v : sum) v = hn::Set(d, neutral<kAverage, T>());
  for (int64_t t = 0; t < taps.count(); ++t) {
    const T* from = in + taps.offset(t);
    const auto* mask = taps.mask(t) + pixel;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const auto inside = hn::BitCast(d, hn::LoadU(hn::RebindToSigned<Tag>(), mask + v * lanes));
      const auto with_tap = combined<kAverage>(sum[v], hn::LoadU(d, from + v * lanes));
      sum[v] = hn::IfVecThenElse(inside, with_tap, sum[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    if constexpr (kAverage) sum[v] = hn::Mul(sum[v], hn::LoadU(d, taps.scales() + pixel + v * lanes));
    hn::StoreU(sum[v], d, out + v * lanes);
  }
}

// The same of one result.
template <bool kAverage, class T>
T combine_taps(const Taps<T>& taps, int64_t pixel, const T* in) {
  const hn::CappedTag<T, 1> one;
  auto sum = hn::Set(one, neutral<kAverage, T>());
  for (int64_t t = 0; t < taps.count(); ++t)
    if (taps.mask(t)[pixel] != 0) sum = combined<kAverage>(sum, hn::LoadU(one, in + taps.offset(t)));
  if constexpr (kAverage) sum = hn::Mul(sum, hn::LoadU(one, taps.scales() + pixel));
  return hn::GetLane(sum);
}

template <bool kAverage, class T>
void lines_of(const SpatialPool& p, int64_t begin, int64_t end, const T* in, T* out) {
  constexpr auto together = vectors_at_once<T> * static_cast<int64_t>(HWY_LANES(T));
  const Taps<T> taps(p);
  const int64_t total = p.batch * p.channels * taps.pixels(), past = end * p.width.in;
  int64_t at = begin * p.width.in, pixel = begin % p.height.in * p.width.in;
  const auto go_on = [&](int64_t count) {
    at += count;
    for (pixel += count; pixel >= taps.pixels();) pixel -= taps.pixels();
  };
  while (at < past) {
    if (at >= taps.before() && at + taps.behind() + together <= total && at + together <= past) {
      combine_taps<kAverage>(taps, pixel, in + at, out + at);
      go_on(together);
    } else {
      out[at] = combine_taps<kAverage>(taps, pixel, in + at);
      go_on(1);
    }
  }
}

void flat_lines(const SpatialPool& p, DType dtype, int64_t begin, int64_t end, const void* in, void* out) {
  if (p.average) return lines_of<true>(p, begin, end, static_cast<const float*>(in), static_cast<float*>(out));
  with_type(dtype, "max pooling", [&]<class T>(T) HWY_ATTR {
    lines_of<false>(p, begin, end, static_cast<const T*>(in), static_cast<T*>(out));
  });
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(flat_lines);

bool can_pool_flat(const SpatialPool& p, DType dtype) {
  const auto keeps_size = [](const PoolAxis& a) { return a.stride == 1 && a.in == a.out; };
  const PoolAxis &h = p.height, &w = p.width;
  if (p.channels_last || (p.average && dtype != DType::f32) || p.depth.in != 1 || p.depth.out != 1 ||
      p.depth.kernel != 1 || p.depth.pad_before != 0 || !keeps_size(h) || !keeps_size(w) || h.in > most_pixels ||
      w.in > most_pixels)
    return false;
  const int64_t pixels = h.in * w.in;
  return pixels > 0 && pixels <= most_pixels && h.kernel <= most_taps && w.kernel <= most_taps &&
         h.kernel * w.kernel <= most_taps &&
         h.kernel * w.kernel * (pixels + most_mask_lanes) * bit_width(dtype) / 8 <= most_mask_bytes;
}

void pool_flat(const SpatialPool& problem, DType dtype, int64_t begin, int64_t end, const void* in, void* out) {
  HWY_DYNAMIC_DISPATCH(flat_lines)(problem, dtype, begin, end, in, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
