#include "server/http/element_writer.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "server/core/data_type.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

template <class T>
void append_real(std::string& out, T value) {
  if (std::isnan(value)) {
    out += "NaN";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  char text[40];
  const auto written = std::to_chars(text, text + sizeof text, value);
  const std::string_view digits(text, static_cast<size_t>(written.ptr - text));
  out += digits;
  if (digits.find_first_of(".e") == digits.npos) out += ".0";  // a real, for readers that look
}

template <class T>
void append_numbers(std::string& out, const NamedTensor& tensor) {
  const std::byte* at = tensor.data.span.data();
  const size_t count = tensor.data.span.size() / sizeof(T);
  out.reserve(out.size() + count * (sizeof(T) < 4 ? 4 : 10));
  for (size_t i = 0; i < count; ++i, at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof value);
    if (i > 0) out += ',';
    if constexpr (std::is_floating_point_v<T>) {
      append_real(out, value);
    } else {
      char text[24];
      out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
    }
  }
}

void append_texts(std::string& out, const NamedTensor& tensor) {
  std::span<const std::byte> rest = tensor.data.span;
  for (bool first = true; !rest.empty(); first = false) {
    uint32_t size = 0;
    if (rest.size() < sizeof size) throw ServerError(StatusCode::internal, "output '" + tensor.name + "' is cut off");
    std::memcpy(&size, rest.data(), sizeof size);
    rest = rest.subspan(sizeof size);
    if (rest.size() < size) throw ServerError(StatusCode::internal, "output '" + tensor.name + "' is cut off");
    if (!first) out += ',';
    try {
      out += nlohmann::json(std::string(reinterpret_cast<const char*>(rest.data()), size)).dump();
    } catch (const nlohmann::json::exception&) {
      throw ServerError(StatusCode::invalid_argument,
                        "output '" + tensor.name +
                            "' holds bytes that are no UTF-8, which JSON cannot carry: ask for it "
                            "with \"binary_data\": true");
    }
    rest = rest.subspan(size);
  }
}

}  // namespace

void append_elements(std::string& out, const NamedTensor& tensor) {
  if (tensor.dtype == DType::string) return append_texts(out, tensor);
  if (tensor.data.span.size() != byte_size(tensor.dtype, element_count(tensor.shape)))
    throw ServerError(StatusCode::internal,
                      "output '" + tensor.name + "' has " + std::to_string(tensor.data.span.size()) +
                          " bytes, which is not what its shape " + shape_text(tensor.shape) + " says");
  switch (tensor.dtype) {
    case DType::boolean:
      for (size_t i = 0; i < tensor.data.span.size(); ++i) {
        if (i > 0) out += ',';
        out += tensor.data.span[i] == std::byte{0} ? "false" : "true";
      }
      return;
    case DType::u8:
      return append_numbers<uint8_t>(out, tensor);
    case DType::u16:
      return append_numbers<uint16_t>(out, tensor);
    case DType::u32:
      return append_numbers<uint32_t>(out, tensor);
    case DType::u64:
      return append_numbers<uint64_t>(out, tensor);
    case DType::i8:
      return append_numbers<int8_t>(out, tensor);
    case DType::i16:
      return append_numbers<int16_t>(out, tensor);
    case DType::i32:
      return append_numbers<int32_t>(out, tensor);
    case DType::i64:
      return append_numbers<int64_t>(out, tensor);
    case DType::f32:
      return append_numbers<float>(out, tensor);
    case DType::f64:
      return append_numbers<double>(out, tensor);
    default:
      break;
  }
  throw ServerError(StatusCode::unsupported,
                    "sending " + std::string(protocol_name(tensor.dtype)) +
                        " data via JSON is not supported. Please use the binary data format for "
                        "output " +
                        tensor.name);
}

}  // namespace camshaft::server
