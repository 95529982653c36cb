// The loops that convert between types: see tile_kernels.h.
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

#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

template <class T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

template <class To, class From>
To convert_element(From from) {
  if constexpr (std::is_same_v<From, Bool>) {
    return convert_element<To>(static_cast<uint8_t>(from.byte != 0));
  } else if constexpr (is_half<From>) {
    return convert_element<To>(to_float(from));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool{static_cast<uint8_t>(from != From(0))};
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(from));
  } else if constexpr (std::is_same_v<To, BFloat>) {
    return to_bfloat(static_cast<float>(from));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    // Both ends are powers of two, or 0: exact. The largest number below 2^digits may be larger than the integer's
    // limit; it is cut back by the conversion.
    constexpr From lowest = static_cast<From>(Limits::lowest());
    constexpr From beyond = static_cast<From>(uint64_t{1} << (Limits::digits - 1)) * From(2);
    constexpr From highest = beyond * (From(1) - std::numeric_limits<From>::epsilon() / 2);
    const From number = from == from ? from : From(0);
    const From inside = number >= beyond ? highest : number <= lowest ? lowest : number;
    using Whole =
        std::conditional_t<std::is_same_v<To, uint64_t>, uint64_t,
                           std::conditional_t<(sizeof(To) < 4) || std::is_same_v<To, int32_t>, int32_t, int64_t>>;
    const To whole = static_cast<To>(static_cast<Whole>(inside));
    return number >= beyond ? Limits::max() : whole;
  } else {
    return static_cast<To>(from);
  }
}

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
  } else if constexpr (std::is_same_v<From, Bool>) {
    const auto* bytes = static_cast<const uint8_t*>(in[0]);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = convert_element<To>(static_cast<uint8_t>(bytes[i] ? 1 : 0));
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

void f32_to_bf16(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const uint32_t*>(in[0]);
  auto* o = static_cast<uint16_t*>(out);
  const int64_t step = uniform & 1 ? 0 : 1;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = a[i * step];
    const uint32_t quiet = bits >> 16 | 0x40u;
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    o[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

// f32 to 8 bits: truncated, saturated, NaN is 0. The plain loop takes 20 cycles for what is 6 here.
template <class T>
void f32_to_byte(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const float*>(in[0]);
  auto* o = static_cast<T*>(out);
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const Tag d;
    const hn::RebindToSigned<Tag> di;
    const hn::RebindToUnsigned<Tag> du;
    const hn::Rebind<uint8_t, Tag> d8;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto lo = hn::Set(d, static_cast<float>(std::numeric_limits<T>::lowest()));
    const auto hi = hn::Set(d, static_cast<float>(std::numeric_limits<T>::max()));
    for (; !(uniform & 1) && i + lanes <= n; i += lanes) {
      const auto x = hn::LoadU(d, a + i);
      const auto inside = hn::Min(hn::Max(hn::IfThenElseZero(hn::Eq(x, x), x), lo), hi);
      hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, hn::ConvertTo(di, inside))), d8, reinterpret_cast<uint8_t*>(o + i));
    }
  }
  for (; i < n; ++i) o[i] = convert_element<T>(a[uniform & 1 ? 0 : i]);
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

TileKernel vector_conversion(DType from, DType to) {
  if (from == DType::f16 && to == DType::f32) return f16_to_f32;
  if (from == DType::f32 && to == DType::f16) return f32_to_f16;
  if (from == DType::bf16 && to == DType::f32) return bf16_to_f32;
  if (from == DType::f32 && to == DType::bf16) return f32_to_bf16;
  if (from == DType::f32 && to == DType::u8) return f32_to_byte<uint8_t>;
  if (from == DType::f32 && to == DType::i8) return f32_to_byte<int8_t>;
  return nullptr;
}

TileKernel rounding(FusedFunction function) {
  if (function == FusedFunction::round_to_f16) return round_through<f32_to_f16, f16_to_f32>;
  if (function == FusedFunction::round_to_bf16) return round_through<f32_to_bf16, bf16_to_f32>;
  return nullptr;
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(plain_conversion);
HWY_EXPORT(vector_conversion);
HWY_EXPORT(rounding);

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

TileKernel find_rounding(FusedFunction function) {
  return HWY_DYNAMIC_DISPATCH(rounding)(function);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
