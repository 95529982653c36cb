#include "backends/cpu/kernels/window/integer_resize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/integer_resize.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// out[x] = a * first[x] + b * second[x], x < count: two taps, as linear resizing has them, in one pass.
template <class T>
void mix(const T* HWY_RESTRICT first, double a, const T* HWY_RESTRICT second, double b, int64_t count,
         double* HWY_RESTRICT out) {
  for (int64_t x = 0; x < count; ++x) out[x] = a * static_cast<double>(first[x]) + b * static_cast<double>(second[x]);
}

using Doubles = hn::ScalableTag<double>;

// Types that vectors of doubles are made of and become; compilers begin with 16 to 64 elements, and work on shorter
// rows one by one: 1600 rows of 20 bytes that became 15 took 89 us.
template <class T>
constexpr bool has_vectors = !std::is_same_v<T, uint32_t>;

template <class T>
HWY_INLINE hn::Vec<Doubles> load_doubles(const T* from) {
  const Doubles d;
  const auto elements = hn::LoadU(hn::Rebind<T, Doubles>(), from);
  if constexpr (sizeof(T) == 8) {
    return elements;
  } else if constexpr (sizeof(T) == 4) {
    return hn::PromoteTo(d, elements);
  } else {
    return hn::PromoteTo(d, hn::PromoteTo(hn::Rebind<int32_t, Doubles>(), elements));
  }
}

// visit(x) for all of `count` elements a vector at a time, of which the last may have some of the one before it.
template <class Visit>
HWY_INLINE void each_vector(int64_t count, Visit&& visit) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Doubles()));
  int64_t x = 0;
  for (; x + lanes <= count; x += lanes) visit(x);
  if (x < count) visit(count - lanes);
}

// mix(), of rows of a vector at least.
template <class T>
void mix_vectors(const T* first, double a, const T* second, double b, int64_t count, double* HWY_RESTRICT out) {
  const Doubles d;
  const auto of_first = hn::Set(d, a), of_second = hn::Set(d, b);
  each_vector(count, [&](int64_t x) HWY_ATTR {
    const auto mixed =
        hn::Add(hn::Mul(of_first, load_doubles(first + x)), hn::Mul(of_second, load_doubles(second + x)));
    hn::StoreU(mixed, d, out + x);
  });
}

// combine_columns() and store() in one, of two taps that are inside, and of a vector at least.
template <class T>
void store_columns(const IntegerResize& p, const double* HWY_RESTRICT line, T* HWY_RESTRICT out) {
  const Doubles d;
  const hn::Rebind<int32_t, Doubles> words;
  const hn::RebindToSigned<Doubles> wide;
  const auto low = hn::Set(d, static_cast<double>(std::numeric_limits<T>::lowest()));
  const auto high = hn::Set(d, static_cast<double>(std::numeric_limits<T>::max()));
  const int32_t* index = p.width.index.data();
  const double* weight = p.width.weight.data();
  each_vector(p.width.out(), [&](int64_t x) HWY_ATTR {
    hn::Vec<decltype(words)> first, second;
    hn::LoadInterleaved2(words, index + 2 * x, first, second);
    hn::Vec<Doubles> a, b;
    hn::LoadInterleaved2(d, weight + 2 * x, a, b);
    const auto mixed = hn::Add(hn::Mul(a, hn::GatherIndex(d, line, hn::PromoteTo(wide, first))),
                               hn::Mul(b, hn::GatherIndex(d, line, hn::PromoteTo(wide, second))));
    const auto rounded = hn::DemoteTo(words, hn::Round(hn::Min(hn::Max(mixed, low), high)));
    if constexpr (sizeof(T) == 4) {
      hn::StoreU(rounded, words, out + x);
    } else {
      hn::StoreU(hn::DemoteTo(hn::Rebind<T, Doubles>(), rounded), hn::Rebind<T, Doubles>(), out + x);
    }
  });
}

// line[x] = the sum over the taps of output `at` of weights[t] * rows[t][x], x < length; compilers make vectors of it.
template <class T>
void combine_rows(const IntegerResize::Axis& axis, int64_t at, double outside, int64_t length, const T* rows,
                  double* HWY_RESTRICT line) {
  const int64_t taps = axis.taps;
  const int32_t* index = &axis.index[static_cast<size_t>(at * taps)];
  const double* weights = &axis.weight[static_cast<size_t>(at * taps)];
  if (taps == 2 && index[0] >= 0 && index[1] >= 0) {
    if constexpr (has_vectors<T>)
      if (length >= static_cast<int64_t>(hn::Lanes(Doubles())))
        return mix_vectors(rows + index[0] * length, weights[0], rows + index[1] * length, weights[1], length, line);
    return mix(rows + index[0] * length, weights[0], rows + index[1] * length, weights[1], length, line);
  }
  std::fill_n(line, length, 0.0);
  for (int64_t t = 0; t < taps; ++t) {
    const double weight = weights[t];
    if (weight == 0) continue;
    if (index[t] < 0) {
      for (int64_t x = 0; x < length; ++x) line[x] += weight * outside;
      continue;
    }
    const T* HWY_RESTRICT row = rows + index[t] * length;
    for (int64_t x = 0; x < length; ++x) line[x] += weight * static_cast<double>(row[x]);
  }
}

// mixed[x, i] = the same along the line, of one channel element by element, else channel by channel.
void combine_columns(const IntegerResize& p, bool is_inside, const double* HWY_RESTRICT line,
                     double* HWY_RESTRICT mixed) {
  const int64_t taps = p.width.taps, count = p.width.out();
  const int32_t* index = p.width.index.data();
  const double* weight = p.width.weight.data();
  if (p.inner == 1 && taps == 2 && is_inside) {
    for (int64_t x = 0; x < count; ++x)
      mixed[x] = weight[2 * x] * line[index[2 * x]] + weight[2 * x + 1] * line[index[2 * x + 1]];
    return;
  }
  for (int64_t x = 0; x < count; ++x, mixed += p.inner, index += taps, weight += taps) {
    if (taps == 2 && is_inside) {
      mix(line + index[0] * p.inner, weight[0], line + index[1] * p.inner, weight[1], p.inner, mixed);
      continue;
    }
    std::fill_n(mixed, p.inner, 0.0);
    for (int64_t t = 0; t < taps; ++t) {
      const double* HWY_RESTRICT from = index[t] < 0 ? nullptr : line + index[t] * p.inner;
      if (from) {
        for (int64_t i = 0; i < p.inner; ++i) mixed[i] += weight[t] * from[i];
      } else {
        for (int64_t i = 0; i < p.inner; ++i) mixed[i] += weight[t] * p.outside;
      }
    }
  }
}

// Rounded half to even, by what is added and taken away where fractions have no bits left.
template <class T>
void store(const double* HWY_RESTRICT mixed, int64_t count, T* HWY_RESTRICT out) {
  constexpr double low = std::numeric_limits<T>::lowest(), high = std::numeric_limits<T>::max();
  constexpr double whole = 6755399441055744.0;  // 1.5 * 2^52
  using Wide = std::conditional_t<sizeof(T) < 4, int32_t, int64_t>;
  for (int64_t i = 0; i < count; ++i) {
    double v = mixed[i] < low ? low : mixed[i];
    v = v > high ? high : v;
    out[i] = static_cast<T>(static_cast<Wide>((v + whole) - whole));
  }
}

// Lines are [images, out depth, out height]. Of volumes a plane is made for all lines that are read from it.
template <class T>
void resize_lines(const IntegerResize& p, int64_t begin, int64_t end, const T* in, T* out, double* scratch) {
  const int64_t length = p.width.in * p.inner, out_length = p.width.out() * p.inner, plane = p.height.in * length;
  const bool is_inside = std::ranges::none_of(p.width.index, [](int32_t at) { return at < 0; });
  const bool is_pair = p.inner == 1 && p.width.taps == 2 && is_inside, is_volume = !p.depth.has_one();
  double *const mixed = scratch + length, *const planes = mixed + out_length;
  int64_t made = -1;  // the plane that is there
  for (int64_t line = begin; line < end; ++line) {
    const int64_t y = line % p.height.out(), wanted = line / p.height.out();
    const T* image = in + wanted / p.depth.out() * p.depth.in * plane;
    if (is_volume && wanted != made) {
      combine_rows(p.depth, wanted % p.depth.out(), p.outside, plane, image, planes);
      made = wanted;
    }
    if (is_volume)
      combine_rows(p.height, y, p.outside, length, planes, scratch);
    else
      combine_rows(p.height, y, p.outside, length, image, scratch);
    if constexpr (has_vectors<T>) {
      if (is_pair && out_length >= static_cast<int64_t>(hn::Lanes(Doubles()))) {
        store_columns(p, scratch, out + line * out_length);
        continue;
      }
    }
    combine_columns(p, is_inside, scratch, mixed);
    store(mixed, out_length, out + line * out_length);
  }
}

void resize_any(const IntegerResize& p, DType dtype, int64_t begin, int64_t end, const void* in, void* out,
                double* scratch) {
  with_type(dtype, "integer resize", [&]<class T>(T) HWY_ATTR {
    if constexpr (std::is_integral_v<T> && sizeof(T) <= 4)
      resize_lines(p, begin, end, static_cast<const T*>(in), static_cast<T*>(out), scratch);
  });
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(resize_any);

namespace {

// Doubles for one thread: a line before and behind its own mixing, and a plane of a volume.
int64_t scratch_of(const IntegerResize& p) {
  const int64_t plane = p.depth.has_one() ? 0 : p.height.in * p.width.in;
  return ((p.width.in + p.width.out() + plane) * p.inner + 7) / 8 * 8;
}

}  // namespace

size_t IntegerResize::workspace_bytes(int threads) const {
  return static_cast<size_t>(scratch_of(*this) * threads) * sizeof(double);
}

void IntegerResize::run(ThreadPool& pool, DType dtype, const void* in, void* out, std::byte* workspace) const {
  const int64_t lines = images * depth.out() * height.out();
  constexpr int64_t least = 8 * 1024, least_lines = 64;  // elements that are worth a thread; lines between looks
  const int64_t paced = std::max(least_lines, depth.has_one() ? 0 : height.out());
  const int64_t work = lines * width.out() * inner;
  const auto threads = static_cast<int>(std::clamp<int64_t>(work / least, 1, pool.size()));
  const auto resize = HWY_DYNAMIC_DISPATCH(resize_any);
  pool.run(threads, [&](int thread) {
    auto* const scratch = reinterpret_cast<double*>(workspace) + thread * scratch_of(*this);
    const int64_t end = lines * (thread + 1) / threads;
    for (int64_t line = lines * thread / threads; line < end; line += paced) {
      cancellation_point();
      resize(*this, dtype, line, std::min(end, line + paced), in, out, scratch);
    }
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
