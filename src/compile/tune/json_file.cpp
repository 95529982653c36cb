#include "compile/tune/json_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace camshaft {

void damaged(const std::string& path, const JsonFormat& format, const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'{}' is damaged or no {}: {}; {}", path, format.name, what, format.way_out));
}

nlohmann::json read_json(const std::string& path, const JsonFormat& format) {
  const auto file = MappedFile::open(path);
  const auto* text = reinterpret_cast<const char*>(file->data());
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, text + file->size());
  } catch (const nlohmann::json::exception& e) {
    damaged(path, format, e.what());
  }
  if (!json.is_object() || !json.contains(format.key)) damaged(path, format, fmt::format("no \"{}\"", format.key));
  if (json[format.key] != format.version)
    damaged(path, format, fmt::format("version {}, not {}", json[format.key].dump(), format.version));
  return json;
}

void write_json(const std::string& path, const JsonFormat& format, nlohmann::json content) {
  content[format.key] = format.version;
  AtomicFile file(path);
  file.write(content.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file.commit();
}

}  // namespace camshaft
