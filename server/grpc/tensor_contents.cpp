#include "server/grpc/tensor_contents.h"

#include <cstdint>
#include <protozero/pbf_reader.hpp>

#include "server/core/data_type.h"
#include "server/core/status.h"

namespace camshaft::server {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

/// The fields of InferTensorContents.
enum class ContentsField : uint32_t { none, bool_, int_, int64, uint, uint64, fp32, fp64, bytes };

/// Which field has a type's elements; none for FP16 and BF16.
ContentsField contents_field(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return ContentsField::bool_;
    case DType::i8:
    case DType::i16:
    case DType::i32:
      return ContentsField::int_;
    case DType::i64:
      return ContentsField::int64;
    case DType::u8:
    case DType::u16:
    case DType::u32:
      return ContentsField::uint;
    case DType::u64:
      return ContentsField::uint64;
    case DType::f32:
      return ContentsField::fp32;
    case DType::f64:
      return ContentsField::fp64;
    case DType::string:
      return ContentsField::bytes;
    default:
      return ContentsField::none;
  }
}

/// What the message says of elements that came in a field.
DType field_type(ContentsField field) {
  switch (field) {
    case ContentsField::bool_:
      return DType::boolean;
    case ContentsField::int_:
      return DType::i32;
    case ContentsField::int64:
      return DType::i64;
    case ContentsField::uint:
      return DType::u32;
    case ContentsField::uint64:
      return DType::u64;
    case ContentsField::fp32:
      return DType::f32;
    case ContentsField::fp64:
      return DType::f64;
    default:
      return DType::string;
  }
}

class ContentsDecoder {
 public:
  ContentsDecoder(DType dtype, std::string_view input, std::string_view model)
      : dtype_(dtype), expected_(contents_field(dtype)), input_(input), model_(model) {}

  std::string take() { return std::move(out_); }

  void read(pbf_reader reader) {
    while (reader.next()) {
      const auto number = static_cast<ContentsField>(reader.tag());
      if (reader.tag() > static_cast<uint32_t>(ContentsField::bytes)) {
        reader.skip();
        continue;
      }
      const bool packed = reader.wire_type() == pbf_wire_type::length_delimited;
      if (packed && number != ContentsField::bytes && pbf_reader(reader).get_view().empty()) {
        reader.skip();
        continue;
      }
      if (number != expected_) refuse(number);
      read_elements(reader, number, packed);
    }
  }

 private:
  void read_elements(pbf_reader& reader, ContentsField number, bool packed) {
    const pbf_wire_type single = number == ContentsField::fp32   ? pbf_wire_type::fixed32
                                 : number == ContentsField::fp64 ? pbf_wire_type::fixed64
                                                                 : pbf_wire_type::varint;
    if (number == ContentsField::bytes ? !packed : !packed && reader.wire_type() != single) return reader.skip();
    switch (number) {
      case ContentsField::bool_:
        if (packed) return append_all<uint8_t>(reader.get_packed_bool());
        return append<uint8_t>(reader.get_uint64() != 0);  // as get_bool() may read behind the end
      case ContentsField::int_:
        switch (dtype_) {
          case DType::i8:
            return integers<int8_t, int32_t>(reader, packed);
          case DType::i16:
            return integers<int16_t, int32_t>(reader, packed);
          default:
            return integers<int32_t, int32_t>(reader, packed);
        }
      case ContentsField::uint:
        switch (dtype_) {
          case DType::u8:
            return integers<uint8_t, uint32_t>(reader, packed);
          case DType::u16:
            return integers<uint16_t, uint32_t>(reader, packed);
          default:
            return integers<uint32_t, uint32_t>(reader, packed);
        }
      case ContentsField::int64:
        if (packed) return append_all<int64_t>(reader.get_packed_int64());
        return append<int64_t>(reader.get_int64());
      case ContentsField::uint64:
        if (packed) return append_all<uint64_t>(reader.get_packed_uint64());
        return append<uint64_t>(reader.get_uint64());
      case ContentsField::fp32:
        if (packed) return append_all<float>(reader.get_packed_float());
        return append<float>(reader.get_float());
      case ContentsField::fp64:
        if (packed) return append_all<double>(reader.get_packed_double());
        return append<double>(reader.get_double());
      case ContentsField::bytes: {
        const protozero::data_view text = reader.get_view();
        append<uint32_t>(static_cast<uint32_t>(text.size()));
        out_.append(text.data(), text.size());
        return;
      }
      case ContentsField::none:
        return reader.skip();
    }
  }

  template <class T>
  void append(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <class T, class Range>
  void append_all(const Range& range) {
    for (const auto value : range) append<T>(static_cast<T>(value));
  }
  /// T of elements that the wire has as Wire.
  template <class T, class Wire>
  void integers(pbf_reader& reader, bool packed) {
    const auto one = [&](int64_t value) {
      if (!std::in_range<T>(value)) {
        throw ServerError(StatusCode::invalid_argument, "the value " + std::to_string(value) + " of input tensor '" +
                                                            std::string(input_) + "' for model '" +
                                                            std::string(model_) + "' is out of the range of " +
                                                            std::string(protocol_name(dtype_)));
      }
      append<T>(static_cast<T>(value));
    };
    if constexpr (std::is_signed_v<Wire>) {
      if (!packed) return one(reader.get_int32());
      for (const Wire value : reader.get_packed_int32()) one(value);
    } else {
      if (!packed) return one(reader.get_uint32());
      for (const Wire value : reader.get_packed_uint32()) one(value);
    }
  }

  [[noreturn]] void refuse(ContentsField number) const {
    const std::string start = "unexpected explicit tensor data for input tensor '" + std::string(input_) +
                              "' for model '" + std::string(model_) + "'";
    throw ServerError(StatusCode::invalid_argument,
                      out_.empty() ? start + " of type '" + std::string(protocol_name(dtype_)) +
                                         "', expected datatype '" + std::string(protocol_name(field_type(number))) + "'"
                                   : start + ", binary data was already supplied.");
  }

  DType dtype_;
  ContentsField expected_;
  std::string_view input_, model_;
  std::string out_;
};

}  // namespace

std::string decode_tensor_contents(std::span<const std::string_view> contents, DType dtype, std::string_view input,
                                   std::string_view model) {
  ContentsDecoder decoder(dtype, input, model);
  try {
    for (const std::string_view message : contents) decoder.read(pbf_reader(message.data(), message.size()));
  } catch (const protozero::exception& error) {
    throw ServerError(StatusCode::invalid_argument, "the contents of input tensor '" + std::string(input) +
                                                        "' are no InferTensorContents: " + error.what());
  }
  return decoder.take();
}

}  // namespace camshaft::server
