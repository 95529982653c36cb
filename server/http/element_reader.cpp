#include "server/http/element_reader.h"

#include <charconv>
#include <limits>

#include "server/core/data_type.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

using Kind = JsonScalar::Kind;

std::string value_text(const JsonScalar& value) {
  switch (value.kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return value.boolean ? "true" : "false";
    case Kind::negative:
      return std::to_string(value.negative);
    case Kind::unsigned_number:
      return std::to_string(value.number);
    case Kind::real:
      return std::string(value.text.substr(0, 64));
    case Kind::text:
      break;
  }
  return "a text";
}

[[noreturn]] void does_not_fit(DType dtype, const JsonScalar& value, const std::string& tensor) {
  throw ServerError(StatusCode::invalid_argument, "Unable to parse 'data' of input '" + tensor +
                                                      "': " + std::string(protocol_name(dtype)) + " does not hold " +
                                                      value_text(value));
}

template <class T>
void put(std::vector<std::byte>& data, const T& element) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&element);
  data.insert(data.end(), bytes, bytes + sizeof element);
}

template <class T>
bool put_integer(std::vector<std::byte>& data, const JsonScalar& value) {
  if (value.kind == Kind::unsigned_number && value.number <= static_cast<uint64_t>(std::numeric_limits<T>::max())) {
    put(data, static_cast<T>(value.number));
    return true;
  }
  if constexpr (std::is_signed_v<T>) {
    if (value.kind == Kind::negative && value.negative >= std::numeric_limits<T>::min()) {
      put(data, static_cast<T>(value.negative));
      return true;
    }
  }
  return false;
}

// A real is read again from its text: rounded once, to the type that it becomes.
template <class T>
bool put_real(std::vector<std::byte>& data, const JsonScalar& value) {
  T element = 0;
  if (value.kind == Kind::unsigned_number) {
    element = static_cast<T>(value.number);
  } else if (value.kind == Kind::negative) {
    element = static_cast<T>(value.negative);
  } else if (value.kind == Kind::real) {
    const std::string_view text = value.text;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), element);
    // Too small for the type is zero; too large is not infinite, but a mistake.
    if (read.ec == std::errc::result_out_of_range) {
      if (value.real >= 1 || value.real <= -1) return false;
      element = value.real < 0 ? T{-0.0} : T{0};
    }
  } else {
    return false;
  }
  put(data, element);
  return true;
}

bool put_element(std::vector<std::byte>& data, DType dtype, const JsonScalar& value) {
  switch (dtype) {
    case DType::boolean: {
      const bool number = value.kind == Kind::unsigned_number && value.number <= 1;
      if (value.kind != Kind::boolean && !number) return false;
      put(data, static_cast<uint8_t>(number ? value.number == 1 : value.boolean));
      return true;
    }
    case DType::u8:
      return put_integer<uint8_t>(data, value);
    case DType::u16:
      return put_integer<uint16_t>(data, value);
    case DType::u32:
      return put_integer<uint32_t>(data, value);
    case DType::u64:
      return put_integer<uint64_t>(data, value);
    case DType::i8:
      return put_integer<int8_t>(data, value);
    case DType::i16:
      return put_integer<int16_t>(data, value);
    case DType::i32:
      return put_integer<int32_t>(data, value);
    case DType::i64:
      return put_integer<int64_t>(data, value);
    case DType::f32:
      return put_real<float>(data, value);
    case DType::f64:
      return put_real<double>(data, value);
    case DType::string: {
      if (value.kind != Kind::text || value.text.size() > std::numeric_limits<uint32_t>::max()) return false;
      put(data, static_cast<uint32_t>(value.text.size()));
      const auto* bytes = reinterpret_cast<const std::byte*>(value.text.data());
      data.insert(data.end(), bytes, bytes + value.text.size());
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

void append_element(std::vector<std::byte>& data, DType dtype, const JsonScalar& value, const std::string& tensor) {
  if (dtype == DType::f16 || dtype == DType::bf16)
    throw ServerError(StatusCode::invalid_argument, "receiving " + std::string(protocol_name(dtype)) +
                                                        " data via JSON is not supported. Please use the binary data "
                                                        "format for input " +
                                                        tensor);
  if (!put_element(data, dtype, value)) does_not_fit(dtype, value, tensor);
}

}  // namespace camshaft::server
