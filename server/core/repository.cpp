#include "server/core/repository.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

namespace fs = std::filesystem;

bool is_model_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Whether a path, with its links resolved, lies in a folder, whose links are resolved.
bool is_inside(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return false;
  return std::mismatch(folder.begin(), folder.end(), real.begin(), real.end()).first == folder.end();
}

uint64_t combine(uint64_t seed, const std::string& text) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

uint64_t fingerprint_of(const fs::path& folder, bool versions) {
  std::vector<std::string> entries;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const bool is_version = it.depth() == 0 && parse_version(it->path().filename().string());
    if (is_version && !versions) {
      it.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    std::string entry = it->path().lexically_relative(folder).string();
    if (it->is_regular_file(ignored)) {
      entry += '\0' + std::to_string(it->file_size(ignored)) + '\0' +
               std::to_string(it->last_write_time(ignored).time_since_epoch().count());
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end());
  uint64_t hash = 0;
  for (const std::string& entry : entries) hash = combine(hash, entry);
  return hash;
}

ModelFolder read_folder(const std::string& name, const fs::path& path) {
  ModelFolder folder;
  folder.name = name;
  folder.path = path;
  folder.config_fingerprint = fingerprint_of(path, false);
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const auto version = parse_version(it->path().filename().string());
    if (!version || !it->is_directory(ignored)) continue;
    folder.versions.push_back(*version);
    folder.version_fingerprints[*version] = fingerprint_of(it->path(), true);
  }
  std::sort(folder.versions.begin(), folder.versions.end());
  folder.fingerprint = folder.config_fingerprint;
  for (const auto& [version, fingerprint] : folder.version_fingerprints)
    folder.fingerprint = combine(folder.fingerprint, std::to_string(version) + '\0' + std::to_string(fingerprint));
  return folder;
}

fs::path real_repository(const fs::path& repository) {
  std::error_code error;
  fs::path real = fs::canonical(repository, error);
  if (error || !fs::is_directory(real, error))
    throw ServerError(StatusCode::invalid_argument, "the model repository '" + repository.string() +
                                                        "' is no folder that can be read (--model-repository)");
  return real;
}

}  // namespace

std::optional<int64_t> parse_version(const std::string& text) {
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 0) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;  // "01" and "1" would be one version twice
  return version;
}

std::map<std::string, ModelFolder> scan_repositories(const std::vector<fs::path>& repositories) {
  std::map<std::string, ModelFolder> models;
  for (const fs::path& repository : repositories) {
    const fs::path real = real_repository(repository);
    std::error_code error;
    for (fs::directory_iterator it(real, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      const std::string name = it->path().filename().string();
      if (name.starts_with('.') || !it->is_directory(ignored) || !is_inside(it->path(), real)) continue;
      const auto [at, added] = models.try_emplace(name);
      if (!added)
        throw ServerError(StatusCode::invalid_argument, "two repositories have a model '" + name + "': " +
                                                            at->second.path.string() + " and " + it->path().string());
      at->second = read_folder(name, it->path());
    }
    if (error)
      throw ServerError(StatusCode::invalid_argument,
                        "cannot read the model repository '" + repository.string() + "': " + error.message());
  }
  return models;
}

ModelFolder find_model(const std::vector<fs::path>& repositories, const std::string& name) {
  const ServerError not_found(StatusCode::not_found,
                              "failed to load '" + name + "', no such model in any model repository");
  if (!is_model_name(name)) throw not_found;
  std::optional<fs::path> found;
  for (const fs::path& repository : repositories) {
    const fs::path real = real_repository(repository);
    const fs::path path = real / name;
    std::error_code ignored;
    if (!fs::is_directory(path, ignored) || !is_inside(path, real)) continue;
    if (found)
      throw ServerError(StatusCode::invalid_argument,
                        "two repositories have a model '" + name + "': " + found->string() + " and " + path.string());
    found = path;
  }
  if (!found) throw not_found;
  return read_folder(name, *found);
}

}  // namespace camshaft::server
