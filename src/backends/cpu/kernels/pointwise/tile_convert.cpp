// The loops that convert between types: see tile_kernels.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "backends/cpu/kernels/half.h"
#include "backends/cpu/kernels/pointwise/tile_element.h"
#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "backends/cpu/kernels/targets.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/tile_convert.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/pack_bytes-inl.h"
#include "backends/cpu/kernels/pointwise/truncate-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

template <class From, class To>
void convert(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const From*>(in[0]);
  auto* o = static_cast<To*>(out);
  if (uniform & 1) {
    const To value = convert_element<To>(*a);
    for (int64_t i = 0; i < n; ++i) o[i] = value;
    return;
  }
  if constexpr (std::is_same_v<From, To>) {
    if (o != a) std::memcpy(o, a, static_cast<size_t>(n) * sizeof(To));
  } else if constexpr (std::is_same_v<From, Bool> && std::is_integral_v<To> && sizeof(To) == 1) {
    const auto* bytes = static_cast<const uint8_t*>(in[0]);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = bytes[i] != 0;
  } else if constexpr (std::is_same_v<From, Bool>) {
    // 0 or 1 first, then converted as numbers: the compiler makes vectors of each, but not of both at once.
    const auto* bytes = static_cast<const uint8_t*>(in[0]);
    constexpr int64_t piece = 512;
    uint8_t ones[piece];
    for (int64_t first = 0; first < n; first += piece) {
      const int64_t count = n - first < piece ? n - first : piece;
      for (int64_t i = 0; i < count; ++i) ones[i] = bytes[first + i] != 0;
      To* to = o + first;
      for (int64_t i = 0; i < count; ++i) to[i] = convert_element<To>(ones[i]);
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = convert_element<To>(a[i]);
  }
}

TileKernel plain_conversion(DType from, DType to) {
  TileKernel found = nullptr;
  with_element_type(from, [&](auto source) {
    with_element_type(to, [&](auto target) { found = convert<decltype(source), decltype(target)>; });
  });
  return found;
}

// f16 through F16C where the target has it; Highway's emulation for the baseline truncates.
void f16_to_f32(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const Half*>(in[0]);
  auto* o = static_cast<float*>(out);
  if (uniform & 1) {
    const float value = to_float(*a);
    for (int64_t i = 0; i < n; ++i) o[i] = value;
    return;
  }
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const Tag d;
    const hn::Rebind<hwy::float16_t, Tag> d16;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(a + i))), d, o + i);
    }
  }
  for (; i < n; ++i) o[i] = to_float(a[i]);
}

void f32_to_f16(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const float*>(in[0]);
  auto* o = static_cast<Half*>(out);
  if (uniform & 1) {
    const Half value = to_half(*a);
    for (int64_t i = 0; i < n; ++i) o[i] = value;
    return;
  }
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const Tag d;
    const hn::Rebind<hwy::float16_t, Tag> d16;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, a + i)), d16, reinterpret_cast<hwy::float16_t*>(o + i));
    }
    if (i < n && i > 0) {  // a last vector that overlaps the one before
      i = n - lanes;
      hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, a + i)), d16, reinterpret_cast<hwy::float16_t*>(o + i));
      return;
    }
  }
  for (; i < n; ++i) o[i] = to_half(a[i]);
}

void bf16_to_f32(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const uint16_t*>(in[0]);
  auto* o = static_cast<uint32_t*>(out);
  if (uniform & 1) {
    const uint32_t value = static_cast<uint32_t>(*a) << 16;
    for (int64_t i = 0; i < n; ++i) o[i] = value;
    return;
  }
  for (int64_t i = 0; i < n; ++i) o[i] = static_cast<uint32_t>(a[i]) << 16;
}

// Four additions and shifts a vector where the target has no instruction for it: one by one 10^5 took 62 us on a Zen 3.
void i64_to_f64(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const int64_t*>(in[0]);
  auto* o = static_cast<double*>(out);
  const hn::ScalableTag<double> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (!(uniform & 1))
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, a + i)), d, o + i);
  for (; i < n; ++i) o[i] = static_cast<double>(a[uniform & 1 ? 0 : i]);
}

void f32_to_bf16(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const uint32_t*>(in[0]);
  auto* o = static_cast<uint16_t*>(out);
  const auto round = [](uint32_t bits) {
    const uint32_t quiet = bits >> 16 | 0x40u;
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  };
  if (uniform & 1) return std::fill_n(o, n, round(*a)), void();
  int64_t i = 0;
  // The compiler leaves the loop below to scalars: with it stored results were a quarter of DenseNet-121's time.
  if constexpr (kTarget.conversions) {
    const hn::RebindToUnsigned<Tag> d;
    const hn::Rebind<uint16_t, Tag> d16;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto half = hn::Set(d, 0x7fffu), one = hn::Set(d, 1u), quiet_bit = hn::Set(d, 0x40u);
    const auto magnitude = hn::Set(d, 0x7fffffffu), infinity = hn::Set(d, 0x7f800000u);
    for (; i + lanes <= n; i += lanes) {
      const auto bits = hn::LoadU(d, a + i), upper = hn::ShiftRight<16>(bits);
      const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(half, hn::And(upper, one))));
      const auto is_nan = hn::Gt(hn::And(bits, magnitude), infinity);
      hn::StoreU(hn::TruncateTo(d16, hn::IfThenElse(is_nan, hn::Or(upper, quiet_bit), rounded)), d16, o + i);
    }
  }
  for (; i < n; ++i) o[i] = round(a[i]);
}

// What masks become: 0 or 1 in one pass.
void bool_to_f32(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const uint8_t*>(in[0]);
  auto* o = static_cast<float*>(out);
  if (uniform & 1) return std::fill_n(o, n, *a != 0 ? 1.0f : 0.0f), void();
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const Tag d;
    const hn::RebindToSigned<Tag> di;
    const hn::Rebind<uint8_t, Tag> d8;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto one = hn::Set(d8, 1);
    for (; i + lanes <= n; i += lanes)
      hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::Min(hn::LoadU(d8, a + i), one))), d, o + i);
  }
  for (; i < n; ++i) o[i] = a[i] != 0 ? 1.0f : 0.0f;
}

// round(x / scale) + zero as 8 or 16 bits. Parameters are one for all elements, or one each. A last vector overlaps the
// one before: the output is narrower than the operands, so it is none of them. (The 8 elements beyond vectors of a row
// of 1000 took a third of its time.)
template <class T, bool kHasZero>
void quantize(const void* const* in, void* out, int64_t n, unsigned uniform) {
  static constexpr float nothing = 0;
  const auto *a = static_cast<const float*>(in[0]), *scale = static_cast<const float*>(in[1]);
  const auto* zero = kHasZero ? static_cast<const float*>(in[2]) : &nothing;
  auto* o = static_cast<T*>(out);
  const int64_t sa = uniform & 1 ? 0 : 1, ss = uniform & 2 ? 0 : 1, sz = !kHasZero || uniform & 4 ? 0 : 1;
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const Tag d;
    const hn::RebindToSigned<Tag> di;
    const hn::RebindToUnsigned<Tag> du;
    using Bits = std::make_unsigned_t<T>;
    const hn::Rebind<Bits, Tag> narrow;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto lo = hn::Set(d, static_cast<float>(std::numeric_limits<T>::lowest()));
    const auto hi = hn::Set(d, static_cast<float>(std::numeric_limits<T>::max()));
    const auto one_scale = hn::Set(d, *scale), one_zero = hn::Set(d, *zero);
    // One whole zero point for all, as usual: added as an integer, which rounding by a large number leaves behind it.
    // In f32, with what conversions do for numbers beyond i32, 10^5 elements took 12.9 us.
    if (sa && !sz && std::fabs(*zero) <= 1024 && *zero == std::nearbyint(*zero)) {
      const float magic = 12582912.0f;  // 1.5 · 2^23
      const auto below = hn::Sub(lo, one_zero), above = hn::Sub(hi, one_zero);
      const auto shift = hn::Sub(hn::BitCast(di, hn::Set(d, magic)), hn::Set(di, static_cast<int32_t>(*zero)));
      auto nans = hn::Zero(d);  // NaN in the lanes that meet one
      const auto step = [&](int64_t k) HWY_ATTR {
        const auto quotient = hn::Div(hn::LoadU(d, a + k), ss ? hn::LoadU(d, scale + k) : one_scale);
        nans = hn::MulAdd(quotient, hn::Zero(d), nans);
        const auto rounded = hn::Add(hn::Min(hn::Max(quotient, below), above), hn::Set(d, magic));
        const auto whole = hn::Sub(hn::BitCast(di, rounded), shift);
        hn::StoreU(hn::TruncateTo(narrow, hn::BitCast(du, whole)), narrow, reinterpret_cast<Bits*>(o + k));
      };
#if CAMSHAFT_HAS_BYTE_PRODUCT
      // Four vectors become one of bytes, and packing bounds them: 10^6 elements took 66 us a vector at a time. What is
      // beyond i32 converts to its lowest, so only the upper end needs a bound before.
      if constexpr (sizeof(T) == 1) {
        // One sum of NaN for each vector: a single one waits for itself for as long as all the rest takes.
        decltype(nans) own[4] = {nans, nans, nans, nans};
        const auto added = hn::Set(hn::ScalableTag<int16_t>(), static_cast<int16_t>(*zero));
        for (; i + 4 * lanes <= n; i += 4 * lanes) {
          hn::Vec<decltype(di)> whole4[4];
#pragma GCC unroll 4
          for (int v = 0; v < 4; ++v) {
            const int64_t k = i + v * lanes;
            const auto quotient = hn::Div(hn::LoadU(d, a + k), ss ? hn::LoadU(d, scale + k) : one_scale);
            own[v] = hn::MulAdd(quotient, hn::Zero(d), own[v]);
            whole4[v] = round_to_integers(di, hn::Min(quotient, hn::Set(d, 0x1p30f)));
          }
          store_bytes(whole4, added, o + i);
        }
        nans = hn::Add(hn::Add(own[0], own[1]), hn::Add(own[2], own[3]));
      }
#endif
      for (; i + lanes <= n; i += lanes) step(i);
      if (i < n && i > 0) step(n - lanes), i = n;
      // Infinities leave NaN here, too.
      if (!hn::AllFalse(d, hn::IsNaN(nans))) i = 0;
    }
    const auto step = [&](int64_t k) HWY_ATTR {
      const auto by = ss ? hn::LoadU(d, scale + k) : one_scale;
      const auto x = hn::Add(hn::Round(hn::Div(hn::LoadU(d, a + k), by)), sz ? hn::LoadU(d, zero + k) : one_zero);
      const auto inside = hn::Min(hn::Max(hn::IfThenElseZero(hn::Eq(x, x), x), lo), hi);
      hn::StoreU(hn::TruncateTo(narrow, hn::BitCast(du, hn::ConvertTo(di, inside))), narrow,
                 reinterpret_cast<Bits*>(o + k));
    };
    for (; sa && i + lanes <= n; i += lanes) step(i);
    if (sa && i < n && i > 0) step(n - lanes), i = n;
  }
  for (; i < n; ++i) o[i] = convert_element<T>(std::nearbyint(a[i * sa] / scale[i * ss]) + zero[i * sz]);
}

// (x - zero) * scale of 8 or 16 bits, and x * scale also of 32.
template <class T, bool kHasZero>
void dequantize(const void* const* in, void* out, int64_t n, unsigned uniform) {
  static constexpr float nothing = 0;
  const auto* a = static_cast<const T*>(in[0]);
  const auto* zero = kHasZero ? static_cast<const float*>(in[1]) : &nothing;
  const auto* scale = static_cast<const float*>(in[kHasZero ? 2 : 1]);
  auto* o = static_cast<float*>(out);
  const int64_t sa = uniform & 1 ? 0 : 1, sz = !kHasZero || uniform & 2 ? 0 : 1;
  const int64_t ss = uniform & (kHasZero ? 4 : 2) ? 0 : 1;
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const Tag d;
    const hn::RebindToSigned<Tag> di;
    const hn::Rebind<T, Tag> narrow;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto one_scale = hn::Set(d, *scale), one_zero = hn::Set(d, *zero);
    const auto step = [&](int64_t k) HWY_ATTR {
      hn::Vec<decltype(di)> wide;
      if constexpr (sizeof(T) == 4) {
        wide = hn::LoadU(di, a + k);
      } else {
        wide = hn::PromoteTo(di, hn::LoadU(narrow, a + k));
      }
      auto x = hn::ConvertTo(d, wide);
      if constexpr (kHasZero) x = hn::Sub(x, sz ? hn::LoadU(d, zero + k) : one_zero);
      hn::StoreU(hn::Mul(x, ss ? hn::LoadU(d, scale + k) : one_scale), d, o + k);
    };
    for (; sa && i + lanes <= n; i += lanes) step(i);
    // A last vector overlaps with the one before, but where the output is an operand.
    if (out != in[0] && !sz && !ss && i < n && i > 0) step(n - lanes), i = n;
  }
  for (; i < n; ++i) {
    const auto x = static_cast<float>(a[i * sa]);
    o[i] = (kHasZero ? x - zero[i * sz] : x) * scale[i * ss];
  }
}

struct Sum {
  static float of(float a, float b) { return a + b; }
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Product {
  static float of(float a, float b) { return a * b; }
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};

// Bytes from two of them, each with its zero point and scale: what dequantize(), an addition and quantize() give, to
// the bit. The output may be an operand.
template <class T, class Combine>
void combine_bytes(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[3]);
  const auto number = [&](int k) { return *static_cast<const float*>(in[k]); };
  const float zero_a = number(1), scale_a = number(2), zero_b = number(4), scale_b = number(5), scale = number(6);
  const float zero = uniform & 1u << 7 ? number(7) : 0;
  auto* o = static_cast<T*>(out);
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const Tag d;
    const hn::RebindToSigned<Tag> di;
    const hn::RebindToUnsigned<Tag> du;
    const hn::Rebind<T, Tag> d8;
    const hn::Rebind<uint8_t, Tag> narrow;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    // As in quantize(): a whole zero point is added as an integer; here no quotient may be infinite or NaN.
    const float most_a = (255 + std::fabs(zero_a)) * std::fabs(scale_a),
                most_b = (255 + std::fabs(zero_b)) * std::fabs(scale_b);
    const float most = std::fabs(Combine::of(most_a, most_b) / scale);
    const auto is_whole = [](float point) { return std::fabs(point) <= 1024 && point == std::nearbyint(point); };
#if CAMSHAFT_HAS_BYTE_PRODUCT
    // Zero points that are whole, as usual, are taken from what reading adds to bytes, and quotients that fit are
    // bounded by packing: 10^5 elements took 30 us on a Zen 3 a vector at a time, and take 18. Quotients are products
    // by the reciprocal, corrected twice by what is left over, which gives the bits of a division (Markstein, 1990) in
    // a quarter of its time on a core whose vectors of 64 bytes take ten cycles.
    const bool has_inverse = std::fabs(scale) > 0x1p-60f && std::fabs(scale) < 0x1p60f;
    if (is_whole(zero_a) && is_whole(zero_b) && is_whole(zero) && most < 0x1p30f && has_inverse) {
      const auto from_a = hn::Set(d, byte_offset<T> + zero_a), from_b = hn::Set(d, byte_offset<T> + zero_b);
      const auto factor_a = hn::Set(d, scale_a), factor_b = hn::Set(d, scale_b), by = hn::Set(d, scale);
      const auto added = hn::Set(hn::ScalableTag<int16_t>(), static_cast<int16_t>(zero));
      const auto inverse = hn::Set(d, 1 / scale);
      const auto quotient = [&](hn::Vec<Tag> value) HWY_ATTR {
        auto q = hn::Mul(value, inverse);
        q = hn::MulAdd(hn::NegMulAdd(q, by, value), inverse, q);
        return hn::MulAdd(hn::NegMulAdd(q, by, value), inverse, q);
      };
      for (; i + 4 * lanes <= n; i += 4 * lanes) {
        hn::Vec<Tag> x[4], y[4];
        hn::Vec<decltype(di)> whole[4];
        bytes_as_floats(a + i, x);
        bytes_as_floats(b + i, y);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          const auto left = hn::Mul(hn::Sub(x[v], from_a), factor_a), right = hn::Mul(hn::Sub(y[v], from_b), factor_b);
          whole[v] = round_to_integers(di, quotient(Combine()(left, right)));
        }
        pack_as_read(whole, added, o + i);
      }
    }
#endif
    if (is_whole(zero) && std::isfinite(most)) {
      const float magic = 12582912.0f;  // 1.5 · 2^23
      const auto below = hn::Set(d, static_cast<float>(std::numeric_limits<T>::lowest()) - zero);
      const auto above = hn::Set(d, static_cast<float>(std::numeric_limits<T>::max()) - zero);
      const auto shift = hn::Sub(hn::BitCast(di, hn::Set(d, magic)), hn::Set(di, static_cast<int32_t>(zero)));
      const auto by = hn::Set(d, scale);
      const auto number_of = [&](const T* from, float zero_point, float factor) HWY_ATTR {
        const auto x = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, from)));
        return hn::Mul(hn::Sub(x, hn::Set(d, zero_point)), hn::Set(d, factor));
      };
      const auto step = [&](const T* x, const T* y) HWY_ATTR {
        const auto value = Combine()(number_of(x, zero_a, scale_a), number_of(y, zero_b, scale_b));
        const auto inside = hn::Min(hn::Max(hn::Div(value, by), below), above);
        const auto whole = hn::Sub(hn::BitCast(di, hn::Add(inside, hn::Set(d, magic))), shift);
        return hn::TruncateTo(narrow, hn::BitCast(du, whole));
      };
      for (; i + lanes <= n; i += lanes) hn::StoreU(step(a + i, b + i), narrow, reinterpret_cast<uint8_t*>(o + i));
      if (i < n) {
        T x[hn::MaxLanes(Tag())] = {}, y[hn::MaxLanes(Tag())] = {};
        uint8_t bytes[hn::MaxLanes(Tag())];
        const auto left = static_cast<size_t>(n - i);
        std::memcpy(x, a + i, left);
        std::memcpy(y, b + i, left);
        hn::StoreU(step(x, y), narrow, bytes);
        std::memcpy(o + i, bytes, left);
      }
      return;
    }
  }
  for (; i < n; ++i) {
    const float x = (static_cast<float>(a[i]) - zero_a) * scale_a, y = (static_cast<float>(b[i]) - zero_b) * scale_b;
    o[i] = convert_element<T>(std::nearbyint(Combine::of(x, y) / scale) + zero);
  }
}

// Through the narrow type and back, a few vectors at a time.
template <TileKernel kThere, TileKernel kBack>
void round_through(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const float*>(in[0]);
  auto* o = static_cast<float*>(out);
  constexpr int64_t piece = 256;
  uint16_t narrow[piece];
  const void* middle[1] = {narrow};
  for (int64_t i = 0; i < n; i += piece) {
    const int64_t count = n - i < piece ? n - i : piece;
    const void* source[1] = {uniform & 1 ? a : a + i};
    kThere(source, narrow, count, uniform & 1);
    kBack(middle, o + i, count, 0);
  }
}

// What becomes the same f16 or bf16 as the number itself, see once_rounded(). Of f64 the last bit that f32 has is set
// where any behind it is, which is exact but for the subnormal numbers of f32.
template <class From>
void to_odd_f32(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const From*>(in[0]);
  auto* o = static_cast<float*>(out);
  const int64_t step = uniform & 1 ? 0 : 1;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<From, double>) {
      constexpr uint64_t last = uint64_t{1} << 29, behind = last - 1;
      const auto bits = std::bit_cast<uint64_t>(a[i * step]);
      o[i] = static_cast<float>(std::bit_cast<double>((bits & ~behind) | (((bits & behind) + behind) & last)));
      if (std::fabs(o[i]) < std::numeric_limits<float>::min()) o[i] = once_rounded(a[i * step]);
    } else {
      o[i] = once_rounded(a[i * step]);
    }
  }
}

TileKernel odd_conversion(DType from) {
  TileKernel found = nullptr;
  with_element_type(from, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_same_v<T, double> || (std::is_integral_v<T> && sizeof(T) >= sizeof(float)))
      found = to_odd_f32<T>;
  });
  return found;
}

// By way of f32, as single elements are converted too, but each half by vectors.
template <class From, class To, TileKernel kThere, TileKernel kBack>
void through_f32(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const From*>(in[0]);
  auto* o = static_cast<To*>(out);
  constexpr int64_t piece = 512;
  HWY_ALIGN float numbers[piece];
  const void* middle[1] = {numbers};
  // A piece is read before it is written: the output may be the operand.
  for (int64_t i = 0; i < n; i += piece) {
    const int64_t count = std::min(piece, n - i);
    const void* source[1] = {uniform & 1 ? a : a + i};
    kThere(source, numbers, count, uniform & 1);
    kBack(middle, o + i, count, 0);
  }
}

TileKernel conversion_through_f32(DType from, DType to) {
  TileKernel found = nullptr;
  with_element_type(from == DType::f16 ? to : from, [&](auto element) {
    using T = decltype(element);
    if constexpr (!is_half<T> && !std::is_same_v<T, float>) {
      constexpr TileKernel to_f32 = std::is_same_v<T, double> ? to_odd_f32<double> : convert<T, float>;
      if (to == DType::f16) found = through_f32<T, Half, to_f32, f32_to_f16>;
      if (from != DType::f16) return;
      if constexpr (std::is_integral_v<T> && sizeof(T) <= 4) {
        found = through_f32<Half, T, f16_to_f32, f32_to_integer<T>>;
      } else if constexpr (std::is_integral_v<T>) {
        found = through_f32<Half, T, f16_to_f32, f32_to_wide<T>>;
      } else {
        found = through_f32<Half, T, f16_to_f32, convert<float, T>>;
      }
    }
  });
  return found;
}

TileKernel vector_conversion(DType from, DType to) {
  if (from == DType::f16 && to == DType::f32) return f16_to_f32;
  if (from == DType::f32 && to == DType::f16) return f32_to_f16;
  if (from == DType::bf16 && to == DType::f32) return bf16_to_f32;
  if (from == DType::f32 && to == DType::bf16) return f32_to_bf16;
  if (from == DType::boolean && to == DType::f32) return bool_to_f32;
  if (from == DType::i64 && to == DType::f64) return i64_to_f64;
  if (from == DType::f32 && to == DType::u8) return f32_to_integer<uint8_t>;
  if (from == DType::f32 && to == DType::i8) return f32_to_integer<int8_t>;
  if (from == DType::f32 && to == DType::i32) return f32_to_integer<int32_t>;
  if (from == DType::f32 && to == DType::u32) return f32_to_integer<uint32_t>;
  if (from == DType::f32 && to == DType::i64) return f32_to_wide<int64_t>;
  if (from == DType::f32 && to == DType::u64) return f32_to_wide<uint64_t>;
  if (from == DType::f64 && to == DType::i64) return f64_to_wide<int64_t>;
  if (from == DType::f64 && to == DType::u64) return f64_to_wide<uint64_t>;
  if (from == DType::f64 && to == DType::u32) return f64_to_u32;
  if (from == DType::f64 && to == DType::i32) return f64_to_integer<int32_t>;
  if (from == DType::f64 && to == DType::i16) return f64_to_integer<int16_t>;
  if (from == DType::f64 && to == DType::u16) return f64_to_integer<uint16_t>;
  if (from == DType::f64 && to == DType::i8) return f64_to_integer<int8_t>;
  if (from == DType::f64 && to == DType::u8) return f64_to_integer<uint8_t>;
  if (from == DType::f32 && to == DType::i16) return f32_to_integer<int16_t>;
  if (from == DType::f32 && to == DType::u16) return f32_to_integer<uint16_t>;
  if (from == DType::f16 || to == DType::f16) return conversion_through_f32(from, to);
  return nullptr;
}

TileKernel fused_conversion(FusedFunction function) {
  switch (function) {
    case FusedFunction::round_to_f16:
      return round_through<f32_to_f16, f16_to_f32>;
    case FusedFunction::round_to_bf16:
      return round_through<f32_to_bf16, bf16_to_f32>;
    case FusedFunction::quantize_u8:
      return quantize<uint8_t, true>;
    case FusedFunction::steps_u8:
      return quantize<uint8_t, false>;
    case FusedFunction::quantize_i8:
      return quantize<int8_t, true>;
    case FusedFunction::steps_i8:
      return quantize<int8_t, false>;
    case FusedFunction::quantize_u16:
      return quantize<uint16_t, true>;
    case FusedFunction::steps_u16:
      return quantize<uint16_t, false>;
    case FusedFunction::quantize_i16:
      return quantize<int16_t, true>;
    case FusedFunction::steps_i16:
      return quantize<int16_t, false>;
    case FusedFunction::dequantize_u8:
      return dequantize<uint8_t, true>;
    case FusedFunction::scale_u8:
      return dequantize<uint8_t, false>;
    case FusedFunction::dequantize_i8:
      return dequantize<int8_t, true>;
    case FusedFunction::scale_i8:
      return dequantize<int8_t, false>;
    case FusedFunction::dequantize_u16:
      return dequantize<uint16_t, true>;
    case FusedFunction::scale_u16:
      return dequantize<uint16_t, false>;
    case FusedFunction::dequantize_i16:
      return dequantize<int16_t, true>;
    case FusedFunction::scale_i16:
      return dequantize<int16_t, false>;
    case FusedFunction::scale_i32:
      return dequantize<int32_t, false>;
    case FusedFunction::add_bytes_u8:
      return combine_bytes<uint8_t, Sum>;
    case FusedFunction::add_bytes_i8:
      return combine_bytes<int8_t, Sum>;
    case FusedFunction::multiply_bytes_u8:
      return combine_bytes<uint8_t, Product>;
    case FusedFunction::multiply_bytes_i8:
      return combine_bytes<int8_t, Product>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(plain_conversion);
HWY_EXPORT(vector_conversion);
HWY_EXPORT(odd_conversion);
HWY_EXPORT(fused_conversion);

TileKernel find_conversion(DType from, DType to) {
  if (TileKernel found = HWY_DYNAMIC_DISPATCH(vector_conversion)(from, to)) return found;
  const TileKernel found = HWY_DYNAMIC_DISPATCH(plain_conversion)(from, to);
  if (!found) {
    throw Error(ErrorCode::unsupported, "there is no vector loop that converts " + std::string(to_string(from)) +
                                            " to " + std::string(to_string(to)) +
                                            "; evaluate the operator by reference");
  }
  return found;
}

TileKernel find_odd_conversion(DType from) {
  return HWY_DYNAMIC_DISPATCH(odd_conversion)(from);
}

TileKernel find_fused_conversion(FusedFunction function) {
  return HWY_DYNAMIC_DISPATCH(fused_conversion)(function);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
