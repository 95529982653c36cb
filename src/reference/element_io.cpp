#include "reference/element_io.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/work_scope.h"

namespace camshaft::ops {

namespace {

struct Bool {
  uint8_t value;
};

template <class S>
constexpr bool is_saturating_float = std::is_same_v<S, F8E4M3> || std::is_same_v<S, F8E5M2> ||
                                     std::is_same_v<S, F8E4M3FNUZ> || std::is_same_v<S, F8E5M2FNUZ>;
template <class S>
constexpr bool is_narrow_float =
    std::is_same_v<S, F16> || std::is_same_v<S, BF16> || std::is_same_v<S, F8E8M0> || is_saturating_float<S>;

// Towards zero, clamped; NaN gives 0. ONNX leaves out-of-range conversions undefined: clamping is what GPUs do.
template <class To>
To truncate(double value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  // The largest integer may round up as a double, so >= is needed.
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<To>(value);
}

template <class T, class S>
T widen(S stored) {
  if constexpr (std::is_same_v<S, Bool>) {
    return static_cast<T>(stored.value != 0);
  } else if constexpr (is_narrow_float<S>) {
    return widen<T>(static_cast<float>(stored));
  } else if constexpr (std::is_floating_point_v<S> && std::is_integral_v<T>) {
    return truncate<T>(static_cast<double>(stored));
  } else {
    return static_cast<T>(stored);
  }
}

template <class S, class T>
S narrow(T value, [[maybe_unused]] bool saturate, [[maybe_unused]] PowerRounding rounding) {
  if constexpr (std::is_same_v<S, Bool>) {
    return Bool{static_cast<uint8_t>(value != 0)};
  } else if constexpr (std::is_same_v<S, F8E8M0>) {
    return S(static_cast<double>(value), saturate, rounding);
  } else if constexpr (is_saturating_float<S>) {
    return S(static_cast<double>(value), saturate);
  } else if constexpr (is_narrow_float<S>) {
    return S(static_cast<double>(value));
  } else if constexpr (std::is_floating_point_v<T> && std::is_integral_v<S>) {
    return truncate<S>(value);
  } else {
    return static_cast<S>(value);
  }
}

// Calls f(S{}) with the type that elements are stored as; false for the packed types.
template <class F>
bool with_storage(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{}), true;
    case DType::f32:
      return f(float{}), true;
    case DType::f16:
      return f(F16{}), true;
    case DType::bf16:
      return f(BF16{}), true;
    case DType::f8e4m3:
      return f(F8E4M3{}), true;
    case DType::f8e5m2:
      return f(F8E5M2{}), true;
    case DType::f8e4m3fnuz:
      return f(F8E4M3FNUZ{}), true;
    case DType::f8e5m2fnuz:
      return f(F8E5M2FNUZ{}), true;
    case DType::f8e8m0:
      return f(F8E8M0{}), true;
    case DType::i64:
      return f(int64_t{}), true;
    case DType::i32:
      return f(int32_t{}), true;
    case DType::i16:
      return f(int16_t{}), true;
    case DType::i8:
      return f(int8_t{}), true;
    case DType::u64:
      return f(uint64_t{}), true;
    case DType::u32:
      return f(uint32_t{}), true;
    case DType::u16:
      return f(uint16_t{}), true;
    case DType::u8:
      return f(uint8_t{}), true;
    case DType::boolean:
      return f(Bool{}), true;
    case DType::i4:
    case DType::u4:
    case DType::f4e2m1:
    case DType::i2:
    case DType::u2:
      return false;
    case DType::string:
    case DType::sequence:
    case DType::optional:
    case DType::map:
      break;
  }
  throw Error(ErrorCode::invalid_model, "strings and containers have no numbers");
}

template <class T>
T widen_packed(DType dtype, int bits, uint8_t code) {
  if (dtype == DType::f4e2m1) return widen<T>(f4e2m1_to_float(code));
  return static_cast<T>(is_signed(dtype) && code >> (bits - 1) ? code - (1 << bits) : code);
}

template <class T>
uint8_t narrow_packed(DType dtype, int bits, T value) {
  if (dtype == DType::f4e2m1) return double_to_f4e2m1(static_cast<double>(value));
  const int mask = (1 << bits) - 1;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<uint8_t>(truncate<int32_t>(value) & mask);
  } else {
    return static_cast<uint8_t>(value & static_cast<T>(mask));
  }
}

constexpr int64_t most_at_once = 1 << 18;  // between two cancellation points

template <class T>
void load_run(DType dtype, const std::byte* data, int64_t first, int64_t stride, int64_t count, T* out) {
  const bool done = with_storage(dtype, [&](auto type) {
    using S = decltype(type);
    const S* source = reinterpret_cast<const S*>(data) + first;
    if (stride == 1) {
      for (int64_t i = 0; i < count; ++i) out[i] = widen<T>(source[i]);
    } else if (stride == 0) {
      const T value = widen<T>(source[0]);
      for (int64_t i = 0; i < count; ++i) out[i] = value;
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = widen<T>(source[i * stride]);
    }
  });
  if (done) return;
  const auto* bytes = reinterpret_cast<const uint8_t*>(data);
  const int bits = bit_width(dtype), in_a_byte = 8 / bits, mask = (1 << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i * stride;
    out[i] =
        widen_packed<T>(dtype, bits, static_cast<uint8_t>((bytes[at / in_a_byte] >> (at % in_a_byte * bits)) & mask));
  }
}

template <class T>
void store_run(DType dtype, std::byte* data, int64_t first, int64_t stride, int64_t count, const T* in, bool saturate,
               PowerRounding rounding) {
  const bool done = with_storage(dtype, [&](auto type) {
    using S = decltype(type);
    S* target = reinterpret_cast<S*>(data) + first;
    if (stride == 1) {
      for (int64_t i = 0; i < count; ++i) target[i] = narrow<S>(in[i], saturate, rounding);
    } else {
      for (int64_t i = 0; i < count; ++i) target[i * stride] = narrow<S>(in[i], saturate, rounding);
    }
  });
  if (done) return;
  auto* bytes = reinterpret_cast<uint8_t*>(data);
  const int bits = bit_width(dtype), in_a_byte = 8 / bits, mask = (1 << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i * stride;
    const auto shift = static_cast<int>(at % in_a_byte * bits);
    uint8_t& byte = bytes[at / in_a_byte];
    byte = static_cast<uint8_t>((byte & ~(mask << shift)) | narrow_packed(dtype, bits, in[i]) << shift);
  }
}

}  // namespace

NumberClass number_class(DType dtype) {
  if (is_floating(dtype)) return NumberClass::real;
  if (dtype == DType::string) throw Error(ErrorCode::invalid_model, "a string tensor has no numbers");
  return is_signed(dtype) ? NumberClass::integer : NumberClass::natural;
}

template <class T>
void load_elements(DType dtype, const std::byte* data, int64_t first, int64_t stride, int64_t count, T* out) {
  for (; count > most_at_once; first += most_at_once * stride, out += most_at_once, count -= most_at_once) {
    cancellation_point();
    load_run(dtype, data, first, stride, most_at_once, out);
  }
  if (count > 0) load_run(dtype, data, first, stride, count, out);
}

template <class T>
void store_elements(DType dtype, std::byte* data, int64_t first, int64_t stride, int64_t count, const T* in,
                    bool saturate, PowerRounding rounding) {
  for (; count > most_at_once; first += most_at_once * stride, in += most_at_once, count -= most_at_once) {
    cancellation_point();
    store_run(dtype, data, first, stride, most_at_once, in, saturate, rounding);
  }
  if (count > 0) store_run(dtype, data, first, stride, count, in, saturate, rounding);
}

template void load_elements(DType, const std::byte*, int64_t, int64_t, int64_t, double*);
template void load_elements(DType, const std::byte*, int64_t, int64_t, int64_t, int64_t*);
template void load_elements(DType, const std::byte*, int64_t, int64_t, int64_t, uint64_t*);
template void store_elements(DType, std::byte*, int64_t, int64_t, int64_t, const double*, bool, PowerRounding);
template void store_elements(DType, std::byte*, int64_t, int64_t, int64_t, const int64_t*, bool, PowerRounding);
template void store_elements(DType, std::byte*, int64_t, int64_t, int64_t, const uint64_t*, bool, PowerRounding);

}  // namespace camshaft::ops
