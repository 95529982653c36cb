#include "server/http/json_document.h"

namespace camshaft::server {

namespace {

using nlohmann::json;
constexpr int deepest_document = 100;

[[noreturn]] void wrong_member(const char* name, const char* wanted) {
  throw ServerError(StatusCode::invalid_argument, std::string("Unable to parse '") + name + "': it is no " + wanted);
}

const json* member_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

json parse_document(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return json::object();
  const auto check_depth = [](int depth, json::parse_event_t event, json&) {
    const bool opens = event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth >= deepest_document)
      throw ServerError(StatusCode::invalid_argument,
                        "JSON nesting depth exceeds maximum allowed limit (" + std::to_string(deepest_document) + ")");
    return true;
  };
  try {
    json document = json::parse(text.begin(), text.end(), check_depth);
    if (!document.is_object())
      throw ServerError(StatusCode::invalid_argument, "failed to parse the request JSON buffer: it is no object");
    return document;
  } catch (const json::exception& error) {
    throw ServerError(StatusCode::invalid_argument,
                      std::string("failed to parse the request JSON buffer: ") + error.what());
  }
}

Parameter parameter_of(const std::string& name, const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return value.get<uint64_t>();
  if (value.is_number()) return value.get<int64_t>();
  throw ServerError(StatusCode::invalid_argument,
                    "parameter '" + name + "' has invalid type. It should be either 'int', 'bool', or 'string'.");
}

std::optional<std::string> text_member(const json& object, const char* name) {
  const json* member = member_of(object, name);
  if (member == nullptr) return std::nullopt;
  if (!member->is_string()) wrong_member(name, "text");
  return member->get<std::string>();
}

std::optional<uint64_t> natural_member(const json& object, const char* name) {
  const json* member = member_of(object, name);
  if (member == nullptr) return std::nullopt;
  if (!member->is_number_unsigned()) wrong_member(name, "number from 0 on");
  return member->get<uint64_t>();
}

std::optional<bool> truth_member(const json& object, const char* name) {
  const json* member = member_of(object, name);
  if (member == nullptr) return std::nullopt;
  if (!member->is_boolean()) wrong_member(name, "boolean");
  return member->get<bool>();
}

}  // namespace camshaft::server
