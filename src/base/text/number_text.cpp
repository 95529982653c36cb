#include "base/text/number_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/float_types.h"

namespace camshaft {

namespace {

// A number rounded to a type of 16 bits or fewer.
double rounded(double value, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return static_cast<double>(f16_to_float(double_to_f16(value)));
    case DType::bf16:
      return static_cast<double>(bf16_to_float(double_to_bf16(value)));
    case DType::f8e4m3:
      return static_cast<double>(f8e4m3_to_float(double_to_f8e4m3(value, false)));
    case DType::f8e5m2:
      return static_cast<double>(f8e5m2_to_float(double_to_f8e5m2(value, false)));
    case DType::f8e4m3fnuz:
      return static_cast<double>(f8e4m3fnuz_to_float(double_to_f8e4m3fnuz(value, false)));
    case DType::f8e5m2fnuz:
      return static_cast<double>(f8e5m2fnuz_to_float(double_to_f8e5m2fnuz(value, false)));
    case DType::f4e2m1:
      return std::fabs(value) > 6 ? NAN : static_cast<double>(f4e2m1_to_float(double_to_f4e2m1(value)));
    default:
      return value;
  }
}

}  // namespace

std::string shortest_text(double value, DType dtype) {
  if (dtype == DType::f32) return fmt::format("{}", static_cast<float>(value));
  // Powers of two of f8e8m0 are rounded up, down or to the nearest: what is written must be the number itself.
  if (dtype == DType::f64 || dtype == DType::f8e8m0) return fmt::format("{}", value);
  constexpr int enough_digits = 5;  // of 11 bits
  for (int digits = 0; digits < enough_digits; ++digits) {
    const std::string text = fmt::format("{:.{}e}", value, digits);
    double read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    if (rounded(read, dtype) == value) return fmt::format("{}", read);
  }
  return fmt::format("{}", static_cast<float>(value));
}

}  // namespace camshaft
