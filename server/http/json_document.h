// Small documents of JSON from clients.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/core/request.h"

namespace camshaft::server {

/// An object; an empty text is an empty one. Throws ServerError(invalid_argument) for what is no JSON or no object, and
/// for nesting deeper than 100.
nlohmann::json parse_document(std::string_view text);
/// Throws ServerError(invalid_argument) for lists, objects and null.
Parameter parameter_of(const std::string& name, const nlohmann::json& value);

/// A member of an object, where it is there. Throws ServerError(invalid_argument) for one of another type.
std::optional<std::string> text_member(const nlohmann::json& object, const char* name);
std::optional<uint64_t> natural_member(const nlohmann::json& object, const char* name);
std::optional<bool> truth_member(const nlohmann::json& object, const char* name);

}  // namespace camshaft::server
