// One element from a type to another. Included once per instruction set.
#if defined(CAMSHAFT_CPU_KERNELS_CONVERT_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_KERNELS_CONVERT_ELEMENT_INL_H_
#undef CAMSHAFT_CPU_KERNELS_CONVERT_ELEMENT_INL_H_
#else
#define CAMSHAFT_CPU_KERNELS_CONVERT_ELEMENT_INL_H_
#endif

#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/half.h"
#include "backends/cpu/kernels/pointwise/tile_element.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

template <class T>
constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;

// What becomes the same f16 or bf16 as the number itself, rounded once: f64 next to the middle between two of these are
// that middle in f32, as integers of more than 24 bits are between two of bf16.
template <class From>
float once_rounded(From from) {
  if constexpr (std::is_same_v<From, double> || (std::is_integral_v<From> && sizeof(From) >= sizeof(float))) {
    return float_detail::round_to_odd(static_cast<double>(from));
  } else {
    return static_cast<float>(from);
  }
}

template <class To, class From>
To convert_element(From from) {
  if constexpr (std::is_same_v<From, Bool>) {
    return convert_element<To>(static_cast<uint8_t>(from.byte != 0));
  } else if constexpr (is_half<From>) {
    return convert_element<To>(to_float(from));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool{static_cast<uint8_t>(from != From(0))};
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(once_rounded(from));
  } else if constexpr (std::is_same_v<To, BFloat>) {
    return to_bfloat(once_rounded(from));
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

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
