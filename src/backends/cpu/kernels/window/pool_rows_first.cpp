#include "backends/cpu/kernels/window/pool_rows_first.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_window.h"
#include "base/divide_up.h"

#ifndef CAMSHAFT_CPU_POOL_ROWS_FIRST_ONCE
#define CAMSHAFT_CPU_POOL_ROWS_FIRST_ONCE
namespace camshaft::cpu {
namespace {
// The columns that a chunk of outputs sees, padding among them, or those of lines that are combined together.
constexpr int64_t most_columns = 4096;
constexpr int64_t most_lines = 32;  // together
}  // namespace
}  // namespace camshaft::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/pool_rows_first.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"
#include "backends/cpu/kernels/window/pool_combine-inl.h"
#include "backends/cpu/kernels/window/pool_slide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));

struct Rows {
  int64_t planes, plane_step, rows, row_step;
};

// NV vectors of the window's rows, `count` columns in the last.
template <bool kAverage, int NV>
HWY_INLINE void combine_vectors(const float* top, const Rows& of, int64_t count, float* to) {
  const Tag d;
  const auto neutral = hn::Set(d, pool_neutral<kAverage>());
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  hn::Vec<Tag> sum[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) sum[v] = neutral;
  for (int64_t a = 0; a < of.planes; ++a) {
    const float* row = top + a * of.plane_step;
    for (int64_t r = 0; r < of.rows; ++r, row += of.row_step) {
#pragma GCC unroll 4
      for (int v = 0; v + 1 < NV; ++v) sum[v] = combine<kAverage>(sum[v], hn::LoadU(d, row + v * lanes));
      sum[NV - 1] = combine<kAverage>(sum[NV - 1], masked_load(mask, d, row + (NV - 1) * lanes));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v + 1 < NV; ++v) hn::StoreU(sum[v], d, to + v * lanes);
  hn::StoreU(hn::IfThenElse(mask, sum[NV - 1], neutral), d, to + (NV - 1) * lanes);
}

// Columns [0, count) of the window's rows, and padding to a whole vector.
template <bool kAverage>
HWY_INLINE void combine_rows(const float* top, const Rows& of, int64_t count, float* to) {
  const Tag d;
  for (; count > 4 * lanes; count -= 4 * lanes, top += 4 * lanes, to += 4 * lanes) {
    hn::Vec<Tag> sum[4];
#pragma GCC unroll 4
    for (auto& v : sum) v = hn::Set(d, pool_neutral<kAverage>());
    for (int64_t a = 0; a < of.planes; ++a) {
      const float* row = top + a * of.plane_step;
      for (int64_t r = 0; r < of.rows; ++r, row += of.row_step)
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) sum[v] = combine<kAverage>(sum[v], hn::LoadU(d, row + v * lanes));
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) hn::StoreU(sum[v], d, to + v * lanes);
  }
  const int64_t vectors = divide_up(count, lanes), in_last = count - (vectors - 1) * lanes;
  if (vectors == 1) combine_vectors<kAverage, 1>(top, of, in_last, to);
  if (vectors == 2) combine_vectors<kAverage, 2>(top, of, in_last, to);
  if (vectors == 3) combine_vectors<kAverage, 3>(top, of, in_last, to);
  if (vectors == 4) combine_vectors<kAverage, 4>(top, of, in_last, to);
}

// Columns [start, start + count) of the window's rows, padding among them, and `beyond` of it behind.
template <bool kAverage>
HWY_INLINE void combine_padded(const float* top, const Rows& of, int64_t in, int64_t start, int64_t count,
                               int64_t beyond, float* to) {
  const bool any = of.planes > 0 && of.rows > 0;
  const int64_t begin = any ? std::clamp<int64_t>(-start, 0, count) : 0;
  const int64_t end = any ? std::clamp(in - start, begin, count) : 0;
  std::fill_n(to, begin, pool_neutral<kAverage>());
  if (begin < end) combine_rows<kAverage>(top + start + begin, of, end - begin, to + begin);
  std::fill(to + end, to + count + beyond, pool_neutral<kAverage>());
}

// Every S-th lane of S vectors that follow each other.
template <int S>
class Picks {
#if CAMSHAFT_TARGET_IS_AVX512
 public:
  Picks() {
    for (int s = 1; s < S; ++s)
      for (int64_t i = 0; i < lanes; ++i) {
        const int64_t lane = i * S - s * lanes;  // of vector s; what was joined before lies at i already
        const int64_t before = s == 1 ? i * S : i;
        from_[s - 1][i] = static_cast<int32_t>(lane >= 0 && lane < lanes ? lanes + lane : before % lanes);
      }
  }
  HWY_INLINE hn::Vec<Tag> of(const hn::Vec<Tag> (&vectors)[S]) const {
    auto result = vectors[0];
#pragma GCC unroll 8
    for (int s = 1; s < S; ++s)
      result = look_up_32_floats(result, vectors[s], hn::Load(hn::RebindToSigned<Tag>(), from_[s - 1]));
    return result;
  }

 private:
  HWY_ALIGN int32_t from_[std::max(S - 1, 1)][lanes];
#elif HWY_TARGET != HWY_SCALAR
 public:
  Picks() {
    HWY_ALIGN int32_t lane[lanes], of[lanes];
    for (int64_t i = 0; i < lanes; ++i) {
      lane[i] = static_cast<int32_t>(i * S % lanes);
      of[i] = static_cast<int32_t>(i * S / lanes);
    }
    const hn::RebindToSigned<Tag> di;
    place_ = hn::SetTableIndices(Tag(), lane);
    for (int s = 0; s < S; ++s) from_[s] = hn::RebindMask(Tag(), hn::Eq(hn::Load(di, of), hn::Set(di, s)));
  }
  HWY_INLINE hn::Vec<Tag> of(const hn::Vec<Tag> (&vectors)[S]) const {
    if constexpr (S == 1) return vectors[0];
    auto result = hn::TableLookupLanes(vectors[0], place_);
#pragma GCC unroll 8
    for (int s = 1; s < S; ++s) result = hn::IfThenElse(from_[s], hn::TableLookupLanes(vectors[s], place_), result);
    return result;
  }

 private:
  decltype(hn::SetTableIndices(Tag(), static_cast<const int32_t*>(nullptr))) place_;
  hn::Mask<Tag> from_[S];
#endif
};

// to[i] = from[i * stride + k * step] combined over `taps` of k, times scales[i], one by one.
template <bool kAverage>
void combine_far_columns(int64_t stride, const float* from, int64_t taps, int64_t step, int64_t count,
                         const float* scales, float* to) {
  const hn::CappedTag<float, 1> one;
  for (int64_t i = 0; i < count; ++i, from += stride) {
    auto sum = hn::Set(one, pool_neutral<kAverage>());
    for (int64_t k = 0; k < taps; ++k) sum = combine<kAverage>(sum, hn::LoadU(one, from + k * step));
    to[i] = hn::GetLane(sum);
    if (kAverage) to[i] *= scales[i];
  }
}

// Numbers that the compiler is to know.
template <int64_t K>
using Constant = std::integral_constant<int64_t, K>;

// The same of stride S by vectors, but for few that are left. Reads S vectors beyond the last tap.
template <bool kAverage, int S, class Number, class Step>
HWY_INLINE void combine_columns(const Picks<S>& picks, const float* from, Number taps, Step step, int64_t count,
                                const float* scales, float* to) {
  const Tag d;
  const auto neutral = hn::Set(d, pool_neutral<kAverage>());
  int64_t i = 0;
  for (; i < count; i += lanes, from += S * lanes) {
    if (S > 1 && i > 0 && count - i <= lanes / 8)
      return combine_far_columns<kAverage>(S, from, taps, step, count - i, kAverage ? scales + i : nullptr, to + i);
    hn::Vec<Tag> sum[S];
#pragma GCC unroll 8
    for (int s = 0; s < S; ++s) sum[s] = neutral;
#pragma GCC unroll 3
    for (int64_t k = 0; k < taps; ++k) {
#pragma GCC unroll 8
      for (int s = 0; s < S; ++s) sum[s] = combine<kAverage>(sum[s], hn::LoadU(d, from + k * step + s * lanes));
    }
#if HWY_TARGET == HWY_SCALAR
    auto result = sum[0];
#else
    auto result = picks.of(sum);
#endif
    if (kAverage) result = hn::Mul(result, hn::LoadU(d, scales + i));
    if (i + lanes <= count) {
      hn::StoreU(result, d, to + i);
    } else {
      masked_store(result, hn::FirstN(d, static_cast<size_t>(count - i)), d, to + i);
    }
  }
}

#if CAMSHAFT_TARGET_IS_AVX512
// The same of K neighbouring taps: S vectors are taken apart into every S-th column, from the first, the second, ...,
// and taps that lie farther are columns of the next outputs. What every tap loads of its own, unaligned, took longer:
// lines of 115 pixels, 7 taps by steps of 3, a third. Reads 2 S vectors beyond the first tap of the last vector of
// outputs.
template <bool kAverage, int S, int K>
void combine_apart(const float* from, int64_t count, const float* scales, float* to) {
  static_assert(S == 2 || S == 3);
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  using Index = hn::Vec<decltype(di)>;
  constexpr int kLater = (K - 1) / S;  // the most outputs that a tap lies behind its own
  Index of_two[S], of_third[S], shift[kLater + 1];
  for (int j = 0; j < S; ++j) {
    HWY_ALIGN int32_t two[lanes], third[lanes];
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t column = i * S + j, behind = column - 2 * lanes;
      two[i] = static_cast<int32_t>(column % (2 * lanes));
      third[i] = static_cast<int32_t>(behind < 0 ? i : lanes + behind);
    }
    of_two[j] = hn::Load(di, two), of_third[j] = hn::Load(di, third);
  }
  for (int q = 0; q <= kLater; ++q) shift[q] = hn::Iota(di, q);
  const auto neutral = hn::Set(d, pool_neutral<kAverage>());
  hn::Vec<Tag> now[S], next[S];
  const auto take_apart = [&](hn::Vec<Tag>(&columns)[S]) HWY_ATTR {
    hn::Vec<Tag> v[S];
#pragma GCC unroll 3
    for (int s = 0; s < S; ++s, from += lanes) v[s] = hn::LoadU(d, from);
#pragma GCC unroll 3
    for (int j = 0; j < S; ++j) {
      columns[j] = look_up_32_floats(v[0], v[1], of_two[j]);
      if constexpr (S == 3) columns[j] = look_up_32_floats(columns[j], v[2], of_third[j]);
    }
  };
  take_apart(now);
  for (int64_t i = 0; i < count; i += lanes) {
    if (kLater > 0 || i + lanes < count) take_apart(next);
    auto sum = neutral;
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k)
      sum = combine<kAverage>(sum, k < S ? now[k] : look_up_32_floats(now[k % S], next[k % S], shift[k / S]));
    if (kAverage) sum = hn::Mul(sum, hn::LoadU(d, scales + i));
    if (i + lanes <= count)
      hn::StoreU(sum, d, to + i);
    else
      masked_store(sum, hn::FirstN(d, static_cast<size_t>(count - i)), d, to + i);
#pragma GCC unroll 3
    for (int j = 0; j < S; ++j) now[j] = next[j];
  }
}

template <bool kAverage, int S>
auto combine_apart_of(int64_t kernel) {
  constexpr void (*functions[])(const float*, int64_t, const float*, float*) = {
      combine_apart<kAverage, S, 2>, combine_apart<kAverage, S, 3>, combine_apart<kAverage, S, 4>,
      combine_apart<kAverage, S, 5>, combine_apart<kAverage, S, 6>, combine_apart<kAverage, S, 7>};
  return kernel >= 2 && kernel <= 7 ? functions[kernel - 2] : nullptr;
}
#endif

// Goes through lines of [batch, channels, out depth, out height] in order.
class Lines {
 public:
  Lines(const SpatialPool& p, int64_t begin, int64_t end, const float* in)
      : p_(p),
        in_(in),
        plane_(p.height.in * p.width.in),
        row_(begin % p.height.out),
        depth_(begin / p.height.out % p.depth.out),
        image_(begin / (p.depth.out * p.height.out)),
        is_listed_(p.height.out <= most_rows && end - begin >= p.height.out),
        z_(window_at(p.depth, depth_, p.count_include_pad)) {
    for (int64_t i = 0; is_listed_ && i < p.height.out; ++i) listed_[i] = window_at(p.height, i, p.count_include_pad);
  }

  // What a line's windows see of the rows, whose first pixel is at top.
  struct Line {
    Rows rows;
    const float* top;
    int64_t counted;
  };
  Line next() {
    const Window y = is_listed_ ? listed_[row_] : window_at(p_.height, row_, p_.count_include_pad);
    const Line line{
        {z_.past - z_.first, p_.depth.dilation * plane_, y.past - y.first, p_.height.dilation * p_.width.in},
        in_ + (image_ * p_.depth.in + z_.start + z_.first * p_.depth.dilation) * plane_ +
            (y.start + y.first * p_.height.dilation) * p_.width.in,
        z_.counted * y.counted};
    if (++row_ < p_.height.out) return line;
    row_ = 0;
    if (++depth_ == p_.depth.out) depth_ = 0, ++image_;
    if (p_.depth.out > 1) z_ = window_at(p_.depth, depth_, p_.count_include_pad);
    return line;
  }

 private:
  static constexpr int64_t most_rows = 256;
  const SpatialPool& p_;
  const float* in_;
  int64_t plane_, row_, depth_, image_;
  bool is_listed_;  // the divisions of the windows' rows would take longer than a short line
  Window z_;
  Window listed_[most_rows];
};

// What the sums of outputs are multiplied by, for windows that count as many elements along the other axes.
class Scales {
 public:
  explicit Scales(const SpatialPool& p) : p_(p), whole_(whole_windows(p.width)) {}

  const float* of(int64_t others, int64_t first, int64_t count) {
    if (others == others_ && first == first_) return scales_;
    const Tag d;
    if (first != first_) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t x = first + i;
        const bool is_whole = x >= whole_.first && x < whole_.past;
        counted_[i] =
            static_cast<float>(is_whole ? p_.width.kernel : window_at(p_.width, x, p_.count_include_pad).counted);
      }
    }
    others_ = others, first_ = first;
    const auto factor = hn::Set(d, static_cast<float>(others));
    for (int64_t i = 0; i < count; i += lanes) {
      const auto number = hn::Mul(hn::Load(d, counted_ + i), factor);
      hn::Store(hn::IfThenElseZero(hn::Gt(number, hn::Zero(d)), hn::Div(hn::Set(d, 1.0F), number)), d, scales_ + i);
    }
    return scales_;
  }

 private:
  const SpatialPool& p_;
  IndexRange whole_;
  int64_t others_ = -1, first_ = -1;
  // Of each output the columns that its window counts, found once for all lines.
  HWY_ALIGN float counted_[most_columns + lanes] = {};
  HWY_ALIGN float scales_[most_columns + lanes];
};

// Stride S; 0 for any.
template <bool kAverage, int S>
void lines_of(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  const PoolAxis& w = p.width;
  const int64_t extent = (w.kernel - 1) * w.dilation + 1;
  // What vectors read behind the last window.
  constexpr int64_t beyond = (2 * S + 1) * lanes;
  HWY_ALIGN float combined[most_columns + beyond + lanes];
  Scales scales(p);
  [[maybe_unused]] const Picks<std::max(S, 1)> picks;
  Lines lines(p, begin, end, in);
#if CAMSHAFT_TARGET_IS_AVX512
  void (*apart)(const float*, int64_t, const float*, float*) = nullptr;
  if constexpr (S == 2 || S == 3)
    if (w.dilation == 1) apart = combine_apart_of<kAverage, S>(w.kernel);
#endif
  const auto columns = [&](const float* from, int64_t others, int64_t first, int64_t count, float* to) HWY_ATTR {
    const float* by = kAverage ? scales.of(others, first, count) : nullptr;
#if CAMSHAFT_TARGET_IS_AVX512
    if constexpr (S == 2 || S == 3)
      if (apart) return apart(from, count, by, to);
#endif
    if constexpr (S == 0) {
      combine_far_columns<kAverage>(w.stride, from, w.kernel, w.dilation, count, by, to);
    } else if (w.kernel == 2 && w.dilation == 1) {
      combine_columns<kAverage, S>(picks, from, Constant<2>(), Constant<1>(), count, by, to);
    } else if (w.kernel == 3 && w.dilation == 1) {
      combine_columns<kAverage, S>(picks, from, Constant<3>(), Constant<1>(), count, by, to);
    } else {
      combine_columns<kAverage, S>(picks, from, w.kernel, w.dilation, count, by, to);
    }
  };

  const int64_t lead = round_up(std::max<int64_t>(0, w.pad_before), lanes);  // pixels begin where vectors do
  const int64_t pitch = round_up(lead + std::max(w.in, (w.out - 1) * w.stride + extent - w.pad_before), lanes);
  if (pitch <= most_columns) {
    // Several lines are combined before their columns are: what was just stored is not read again at once. Padding is
    // written once.
    std::fill_n(combined, most_columns + beyond + lanes, pool_neutral<kAverage>());
    Lines::Line seen[most_lines];
    const SlideRows slide = slide_rows_of<kAverage>(p.height);
    // Whole windows of one image, each a step below the one before.
    const auto follows = [&](const Lines::Line& before, const Lines::Line& line) {
      const auto is_whole = [&](const Lines::Line& l) { return l.rows.planes == 1 && l.rows.rows == p.height.kernel; };
      return is_whole(before) && is_whole(line) && line.top == before.top + p.height.stride * w.in;
    };
    for (int64_t line = begin; line < end;) {
      const int64_t together = std::min({most_lines, most_columns / pitch, end - line});
      for (int64_t l = 0; l < together; ++l) seen[l] = lines.next();
      for (int64_t l = 0; l < together;) {
        float* const to = combined + l * pitch + lead;
        int64_t run = 1;
        while (slide && l + run < together && follows(seen[l + run - 1], seen[l + run])) ++run;
        if (run > 1)
          slide(seen[l].top, w.in, run, w.in, to, pitch);
        else
          combine_rows<kAverage>(seen[l].top, seen[l].rows, w.in, to);
        l += run;
      }
      for (int64_t l = 0; l < together; ++l, ++line)
        columns(combined + l * pitch + lead - w.pad_before, seen[l].counted, 0, w.out, out + line * w.out);
    }
    return;
  }
  const int64_t chunk = (most_columns - extent) / w.stride + 1;  // outputs
  for (int64_t line = begin; line < end; ++line) {
    const auto at = lines.next();
    for (int64_t o = 0; o < w.out; o += chunk) {
      const int64_t count = std::min(chunk, w.out - o);
      combine_padded<kAverage>(at.top, at.rows, w.in, o * w.stride - w.pad_before, (count - 1) * w.stride + extent,
                               beyond, combined);
      columns(combined, at.counted, o, count, out + line * w.out + o);
    }
  }
}

template <bool kAverage>
void lines_by_stride(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
#if HWY_TARGET != HWY_SCALAR
  switch (p.width.stride) {
#define CAMSHAFT_STRIDE(S) \
  case S:                  \
    return lines_of<kAverage, S>(p, begin, end, in, out);
    CAMSHAFT_STRIDE(1)
    CAMSHAFT_STRIDE(2)
    CAMSHAFT_STRIDE(3)
    CAMSHAFT_STRIDE(4)
    CAMSHAFT_STRIDE(5)
    CAMSHAFT_STRIDE(6)
#undef CAMSHAFT_STRIDE
    default:
      break;
  }
#endif
  lines_of<kAverage, 0>(p, begin, end, in, out);
}

void rows_first(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  p.average ? lines_by_stride<true>(p, begin, end, in, out) : lines_by_stride<false>(p, begin, end, in, out);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(rows_first);

bool can_pool_rows_first(const SpatialPool& p) {
  const PoolAxis& w = p.width;
  return !p.channels_last && w.out > 0 && (w.kernel - 1) * w.dilation + 1 <= most_columns;
}

void pool_rows_first(const SpatialPool& problem, int64_t begin, int64_t end, const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(rows_first)(problem, begin, end, in, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
