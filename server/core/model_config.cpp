#include "server/core/model_config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A configuration is some kB; what is beyond this is none.
constexpr size_t most_config_bytes = size_t{16} << 20;

class FirstTextError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + message;
  }
  void AddWarning(int, int, const std::string&) override {}
  std::string text;
};

bool is_wide(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 || field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
}

void unquote(nlohmann::json& value) {
  if (!value.is_string()) return;
  const std::string text = value.get<std::string>();
  value = text.starts_with('-') ? nlohmann::json(std::stoll(text)) : nlohmann::json(std::stoull(text));
}

// Protobuf writes integers of 64 bits as texts, which no client of this protocol expects.
void unquote_wide_integers(const google::protobuf::Descriptor& type, nlohmann::json& object) {
  const auto each = [](const FieldDescriptor& field, nlohmann::json& value) {
    if (is_wide(field)) unquote(value);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) unquote_wide_integers(*field.message_type(), value);
  };
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto value = object.find(field.name());
    if (value == object.end()) continue;
    if (field.is_map()) {
      for (auto& [key, item] : value->items()) each(*field.message_type()->map_value(), item);
    } else if (field.is_repeated()) {
      for (nlohmann::json& item : *value) each(field, item);
    } else {
      each(field, *value);
    }
  }
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw ServerError(StatusCode::invalid_argument, "cannot read " + file.string());
  std::string text(most_config_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return parse_model_config_text(text, file.string());
}

ModelConfig parse_model_config_text(std::string_view text, const std::string& place) {
  if (text.size() > most_config_bytes)
    throw ServerError(StatusCode::invalid_argument, place + " is too large to be a configuration");
  ModelConfig config;
  FirstTextError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(100);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &config))
    throw ServerError(StatusCode::invalid_argument, "cannot read the configuration " + place + error.text);
  // Escapes may make texts that are none, which no protocol can show. Reading a message looks at all its texts.
  const google::protobuf::LogSilencer quiet;
  if (!ModelConfig().ParseFromString(config.SerializeAsString()))
    throw ServerError(StatusCode::invalid_argument, "the configuration " + place + " has texts that are not UTF-8");
  return config;
}

ModelConfig parse_model_config_json(const std::string& json) {
  if (json.size() > most_config_bytes)
    throw ServerError(StatusCode::invalid_argument, "the configuration is larger than 16 MiB");
  ModelConfig config;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &config);
  if (!status.ok())
    throw ServerError(StatusCode::invalid_argument,
                      "cannot read the configuration in JSON: " + status.message().ToString());
  return config;
}

std::string model_config_json(const ModelConfig& config) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(config, &text, options);
  if (!status.ok()) throw ServerError(StatusCode::internal, "cannot write the configuration as JSON");
  nlohmann::json json = nlohmann::json::parse(text);
  unquote_wide_integers(*config.GetDescriptor(), json);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace camshaft::server
