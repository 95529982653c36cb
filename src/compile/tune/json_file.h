// Small JSON files with a name and a version in front.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace camshaft {

/// A kind of file: `{"<key>": <version>, …}`.
struct JsonFormat {
  const char* name;  ///< for messages
  const char* key;
  int version;
  const char* way_out;  ///< what to do about a damaged file
};

/// Throws Error(io) when the file cannot be read, Error(invalid_argument) when it is not complete JSON of this kind and
/// version.
nlohmann::json read_json(const std::string& path, const JsonFormat& format);
/// Adds key and version; writes whole or not at all. Throws Error(io).
void write_json(const std::string& path, const JsonFormat& format, nlohmann::json content);
/// Throws Error(invalid_argument) that names the file, what is wrong and the way out.
[[noreturn]] void damaged(const std::string& path, const JsonFormat& format, const std::string& what);

}  // namespace camshaft
