#include "server/grpc/infer_message.h"

#include <protozero/pbf_reader.hpp>
#include <string>

#include "server/grpc/utf8.h"

namespace camshaft::server {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
constexpr uint32_t field(uint32_t number, pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}
constexpr pbf_wire_type length = pbf_wire_type::length_delimited;

/// Walks the messages; fields of other numbers or wire types are passed over, as protobuf does.
class InferMessageReader {
 public:
  explicit InferMessageReader(InferMessage& message) : message_(message) {}

  void read(pbf_reader reader) {
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case field(1, length):
          message_.model_name = text(reader, "model_name");
          break;
        case field(2, length):
          message_.model_version = text(reader, "model_version");
          break;
        case field(3, length):
          message_.id = text(reader, "id");
          break;
        case field(4, length):
          parameter(reader.get_message(), message_.parameters);
          break;
        case field(5, length):
          input(reader.get_message());
          break;
        case field(6, length):
          output(reader.get_message());
          break;
        case field(7, length):
          count(1);
          message_.raw_input_contents.push_back(view(reader));
          break;
        default:
          reader.skip();
      }
    }
  }

 private:
  static std::string_view view(pbf_reader& reader) {
    const protozero::data_view data = reader.get_view();
    return {data.data(), data.size()};
  }
  static std::string_view text(pbf_reader& reader, const char* name) {
    const std::string_view value = view(reader);
    if (!is_utf8(value)) {
      throw ServerError(StatusCode::invalid_argument,
                        std::string("the ModelInferRequest's field '") + name + "' is not UTF-8");
    }
    return value;
  }
  void count(size_t items) {
    items_ += items;
    if (items_ > infer_message_items) {
      throw ServerError(StatusCode::invalid_argument, "the ModelInferRequest has more than " +
                                                          std::to_string(infer_message_items) +
                                                          " tensors, parameters and sizes together");
    }
  }

  void input(pbf_reader reader) {
    count(1);
    InferMessage::Input& input = message_.inputs.emplace_back();
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case field(1, length):
          input.name = text(reader, "inputs.name");
          break;
        case field(2, length):
          input.datatype = text(reader, "inputs.datatype");
          break;
        case field(3, length):
          for (const int64_t size : reader.get_packed_int64()) {
            count(1);
            input.shape.push_back(size);
          }
          break;
        case field(3, pbf_wire_type::varint):
          count(1);
          input.shape.push_back(reader.get_int64());
          break;
        case field(4, length):
          parameter(reader.get_message(), input.parameters);
          break;
        case field(5, length):
          count(1);
          input.contents.push_back(view(reader));
          break;
        default:
          reader.skip();
      }
    }
  }

  void output(pbf_reader reader) {
    count(1);
    InferMessage::Output& output = message_.outputs.emplace_back();
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case field(1, length):
          output.name = text(reader, "outputs.name");
          break;
        case field(2, length):
          parameter(reader.get_message(), output.parameters);
          break;
        default:
          reader.skip();
      }
    }
  }

  /// An entry of a map<string, InferParameter>.
  void parameter(pbf_reader reader, WireParameters& parameters) {
    count(1);
    auto& [name, value] = parameters.emplace_back();
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case field(1, length):
          name = text(reader, "parameters.key");
          break;
        case field(2, length):
          value_of(reader.get_message(), value);
          break;
        default:
          reader.skip();
      }
    }
  }

  static void value_of(pbf_reader reader, std::optional<Parameter>& value) {
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case field(1, pbf_wire_type::varint):
          value = reader.get_uint64() != 0;  // get_bool() reads a byte that may be behind the end
          break;
        case field(2, pbf_wire_type::varint):
          value = reader.get_int64();
          break;
        case field(3, length):
          value = std::string(text(reader, "parameters.value"));
          break;
        case field(4, pbf_wire_type::fixed64):
          value = reader.get_double();
          break;
        case field(5, pbf_wire_type::varint):
          value = reader.get_uint64();
          break;
        default:
          reader.skip();
      }
    }
  }

  InferMessage& message_;
  size_t items_ = 0;
};

}  // namespace

const std::optional<Parameter>* find_parameter(const WireParameters& parameters, std::string_view name) {
  for (auto it = parameters.rbegin(); it != parameters.rend(); ++it)
    if (it->first == name) return &it->second;
  return nullptr;
}

void read_infer_message(std::span<const std::byte> bytes, InferMessage& message) {
  try {
    InferMessageReader(message).read(pbf_reader(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  } catch (const protozero::exception& error) {
    throw ServerError(StatusCode::invalid_argument, std::string("the message of ") + std::to_string(bytes.size()) +
                                                        " bytes is not a ModelInferRequest: " + error.what());
  }
}

}  // namespace camshaft::server
