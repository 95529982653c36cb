#include "base/float_types.h"

#include <cstring>
#include <string>

#include "base/error.h"

namespace camshaft {
namespace {

template <class Code, class Convert>
void widen(const void* source, float* destination, int64_t count, Convert convert) {
  const Code* codes = static_cast<const Code*>(source);
  for (int64_t i = 0; i < count; ++i) destination[i] = convert(codes[i]);
}

template <class Code, class Convert>
void narrow(const float* source, void* destination, int64_t count, Convert convert) {
  Code* codes = static_cast<Code*>(destination);
  for (int64_t i = 0; i < count; ++i) codes[i] = convert(source[i]);
}

[[noreturn]] void not_floating(DType dtype) {
  throw Error(ErrorCode::internal, "a floating-point conversion was asked for dtype " + std::string(to_string(dtype)));
}

}  // namespace

void convert_to_float(DType from, const void* source, float* destination, int64_t count) {
  switch (from) {
    case DType::f64:
      return widen<double>(source, destination, count, [](double value) { return static_cast<float>(value); });
    case DType::f32:
      if (count > 0) std::memcpy(destination, source, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::f16:
      return widen<uint16_t>(source, destination, count, f16_to_float);
    case DType::bf16:
      return widen<uint16_t>(source, destination, count, bf16_to_float);
    case DType::f8e4m3:
      return widen<uint8_t>(source, destination, count, f8e4m3_to_float);
    case DType::f8e5m2:
      return widen<uint8_t>(source, destination, count, f8e5m2_to_float);
    case DType::f8e4m3fnuz:
      return widen<uint8_t>(source, destination, count, f8e4m3fnuz_to_float);
    case DType::f8e5m2fnuz:
      return widen<uint8_t>(source, destination, count, f8e5m2fnuz_to_float);
    case DType::f8e8m0:
      return widen<uint8_t>(source, destination, count, f8e8m0_to_float);
    case DType::f4e2m1: {
      const uint8_t* pairs = static_cast<const uint8_t*>(source);
      for (int64_t i = 0; i < count; ++i)
        destination[i] = f4e2m1_to_float(static_cast<uint8_t>(pairs[i / 2] >> (i % 2 * 4)));
      return;
    }
    default:
      not_floating(from);
  }
}

void convert_from_float(DType to, const float* source, void* destination, int64_t count, bool saturate) {
  switch (to) {
    case DType::f64:
      return narrow<double>(source, destination, count, [](float value) { return static_cast<double>(value); });
    case DType::f32:
      if (count > 0) std::memcpy(destination, source, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::f16:
      return narrow<uint16_t>(source, destination, count, float_to_f16);
    case DType::bf16:
      return narrow<uint16_t>(source, destination, count, float_to_bf16);
    case DType::f8e4m3:
      return narrow<uint8_t>(source, destination, count, [=](float value) { return float_to_f8e4m3(value, saturate); });
    case DType::f8e5m2:
      return narrow<uint8_t>(source, destination, count, [=](float value) { return float_to_f8e5m2(value, saturate); });
    case DType::f8e4m3fnuz:
      return narrow<uint8_t>(source, destination, count,
                             [=](float value) { return float_to_f8e4m3fnuz(value, saturate); });
    case DType::f8e5m2fnuz:
      return narrow<uint8_t>(source, destination, count,
                             [=](float value) { return float_to_f8e5m2fnuz(value, saturate); });
    case DType::f8e8m0:
      return narrow<uint8_t>(source, destination, count, [=](float value) { return float_to_f8e8m0(value, saturate); });
    case DType::f4e2m1: {
      uint8_t* pairs = static_cast<uint8_t*>(destination);
      for (int64_t i = 0; i < count; i += 2) {
        const int high = i + 1 < count ? float_to_f4e2m1(source[i + 1]) : 0;
        pairs[i / 2] = static_cast<uint8_t>(float_to_f4e2m1(source[i]) | high << 4);
      }
      return;
    }
    default:
      not_floating(to);
  }
}

}  // namespace camshaft
