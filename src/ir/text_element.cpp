// Elements of constants as text.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float_types.h"
#include "base/text/number_text.h"
#include "ir/text_internal.h"

namespace camshaft::text_detail {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '@' || c == '-';
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

namespace {

// The stored code of an element, in the low bits.
uint64_t code(const Tensor& t, int64_t i) {
  const int bits = bit_width(t.dtype());
  if (bits < 8) {
    const int in_a_byte = 8 / bits;
    return (static_cast<uint64_t>(t.data()[i / in_a_byte]) >> (i % in_a_byte * bits)) & ((1u << bits) - 1);
  }
  uint64_t out = 0;
  std::memcpy(&out, t.data() + i * (bits / 8), static_cast<size_t>(bits / 8));  // little-endian
  return out;
}

void set_code(Tensor& t, int64_t i, uint64_t code) {
  const int bits = bit_width(t.dtype());
  if (bits < 8) {
    const int in_a_byte = 8 / bits;
    const auto shift = static_cast<unsigned>(i % in_a_byte * bits);
    const uint64_t mask = (1u << bits) - 1;
    std::byte& byte = t.mutable_data()[i / in_a_byte];
    byte = (byte & ~static_cast<std::byte>(mask << shift)) | static_cast<std::byte>((code & mask) << shift);
    return;
  }
  std::memcpy(t.mutable_data() + i * (bits / 8), &code, static_cast<size_t>(bits / 8));
}

float widen(DType dtype, uint64_t code) {
  switch (dtype) {
    case DType::f16:
      return f16_to_float(static_cast<uint16_t>(code));
    case DType::bf16:
      return bf16_to_float(static_cast<uint16_t>(code));
    case DType::f8e4m3:
      return f8e4m3_to_float(static_cast<uint8_t>(code));
    case DType::f8e5m2:
      return f8e5m2_to_float(static_cast<uint8_t>(code));
    case DType::f8e4m3fnuz:
      return f8e4m3fnuz_to_float(static_cast<uint8_t>(code));
    case DType::f8e5m2fnuz:
      return f8e5m2fnuz_to_float(static_cast<uint8_t>(code));
    case DType::f8e8m0:
      return f8e8m0_to_float(static_cast<uint8_t>(code));
    case DType::f4e2m1:
      return f4e2m1_to_float(static_cast<uint8_t>(code));
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(code));
  }
}

uint64_t narrow(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return std::bit_cast<uint64_t>(value);
    case DType::f16:
      return double_to_f16(value);
    case DType::bf16:
      return double_to_bf16(value);
    case DType::f8e4m3:
      return double_to_f8e4m3(value, false);
    case DType::f8e5m2:
      return double_to_f8e5m2(value, false);
    case DType::f8e4m3fnuz:
      return double_to_f8e4m3fnuz(value, false);
    case DType::f8e5m2fnuz:
      return double_to_f8e5m2fnuz(value, false);
    case DType::f8e8m0:
      return double_to_f8e8m0(value, false, PowerRounding::nearest);
    case DType::f4e2m1:
      return double_to_f4e2m1(value);
    default:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

// The NaN that is meant when none of its bits are given.
uint64_t plain_nan(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x7ff8000000000000;
    case DType::f16:
      return 0x7e00;
    case DType::bf16:
      return 0x7fc0;
    case DType::f8e4m3:
      return 0x7f;
    case DType::f8e5m2:
      return 0x7e;
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
      return 0x80;
    case DType::f8e8m0:
      return 0xff;
    default:
      return 0x7fc00000;
  }
}

template <class T>
bool read(std::string_view text, T& out, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_real(std::string_view text, double& out) {
  const bool negative = !text.empty() && text[0] == '-';
  if (text.substr(negative) == "inf") {
    out = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  if (text.size() <= static_cast<size_t>(negative)) return false;
  const char first = text[negative];
  if ((first < '0' || first > '9') && first != '.') return false;  // from_chars also takes "infinity"
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool set_float(Tensor& tensor, int64_t index, std::string_view text) {
  const DType dtype = tensor.dtype();
  const bool has_nan = dtype != DType::f4e2m1;
  if (text == "nan") {
    if (has_nan) set_code(tensor, index, plain_nan(dtype));
    return has_nan;
  }
  if (text.starts_with("nan(0x") && text.ends_with(")")) {
    uint64_t bits = 0;
    const int width = bit_width(dtype);
    if (!read(text.substr(6, text.size() - 7), bits, 16) || (width < 64 && bits >> width != 0)) return false;
    const bool is_nan = dtype == DType::f64 ? std::isnan(std::bit_cast<double>(bits)) : std::isnan(widen(dtype, bits));
    if (is_nan) set_code(tensor, index, bits);
    return is_nan;
  }
  double value = 0;
  if (!read_real(text, value)) return false;
  if (dtype == DType::f32 && std::isfinite(value)) {
    // Straight to float: through double, the shortest text of a float may round twice.
    float single = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), single);
    if (error == std::errc() && end == text.data() + text.size()) {
      set_code(tensor, index, std::bit_cast<uint32_t>(single));
      return true;
    }
  }
  if (!std::isfinite(value) && dtype == DType::f4e2m1) return false;
  if (dtype == DType::f8e8m0 && value < 0) return false;
  const uint64_t bits = narrow(dtype, value);
  // Beyond the largest of a type without infinity.
  if (dtype != DType::f64 && dtype != DType::f4e2m1 && std::isnan(widen(dtype, bits))) return false;
  set_code(tensor, index, bits);
  return true;
}

bool set_integer(Tensor& tensor, int64_t index, std::string_view text) {
  const int bits = bit_width(tensor.dtype());
  if (is_signed(tensor.dtype())) {
    int64_t value = 0;
    const int64_t high = std::numeric_limits<int64_t>::max() >> (64 - bits);
    if (!read(text, value) || value > high || value < -high - 1) return false;
    set_code(tensor, index, static_cast<uint64_t>(value));
    return true;
  }
  uint64_t value = 0;
  if (!read(text, value) || (bits < 64 && value >> bits != 0)) return false;
  set_code(tensor, index, value);
  return true;
}

}  // namespace

std::string element(const Tensor& tensor, int64_t index) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::string) return quote(tensor.as<std::string>()[index]);
  const uint64_t bits = code(tensor, index);
  if (dtype == DType::boolean && bits <= 1) return bits ? "true" : "false";
  if (is_floating(dtype)) {
    const double wide = dtype == DType::f64 ? std::bit_cast<double>(bits) : static_cast<double>(widen(dtype, bits));
    if (std::isnan(wide)) return bits == plain_nan(dtype) ? "nan" : fmt::format("nan({:#x})", bits);
    return shortest_text(wide, dtype);
  }
  if (!is_signed(dtype)) return std::to_string(bits);
  const int unused = 64 - bit_width(dtype);
  return std::to_string(static_cast<int64_t>(bits << unused) >> unused);
}

bool set_element(Tensor& tensor, int64_t index, std::string_view text) {
  if (tensor.dtype() == DType::string) {
    tensor.as_mutable<std::string>()[index] = std::string(text);
    return true;
  }
  if (is_floating(tensor.dtype())) return set_float(tensor, index, text);
  if (tensor.dtype() == DType::boolean && (text == "true" || text == "false")) {
    set_code(tensor, index, text == "true");
    return true;
  }
  return set_integer(tensor, index, text);
}

bool is_uniform(const Tensor& tensor) {
  if (tensor.size() < 2) return false;
  if (tensor.dtype() == DType::string) {
    const auto* strings = tensor.as<std::string>();
    for (int64_t i = 1; i < tensor.size(); ++i)
      if (strings[i] != strings[0]) return false;
    return true;
  }
  if (is_packed(tensor.dtype())) {
    for (int64_t i = 1; i < tensor.size(); ++i)
      if (code(tensor, i) != code(tensor, 0)) return false;
    return true;
  }
  // Equal to itself moved on by one element.
  const auto width = static_cast<size_t>(bit_width(tensor.dtype()) / 8);
  return std::memcmp(tensor.data(), tensor.data() + width, tensor.bytes() - width) == 0;
}

}  // namespace camshaft::text_detail
