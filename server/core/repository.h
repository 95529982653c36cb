// Folders with models, as Triton lays them out: <repository>/<model>/[config.pbtxt] <version>/model.plan|model.onnx|…
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace camshaft::server {

/// A model as it lies there. What it says is not checked yet.
struct ModelFolder {
  std::string name;
  std::filesystem::path path;
  std::vector<int64_t> versions;  ///< folders whose names are numbers, ascending
  /// Changes when a file in it does: names, sizes and times of change.
  uint64_t fingerprint = 0;
  /// The same of one version's folder, and of all that is in none.
  std::map<int64_t, uint64_t> version_fingerprints;
  uint64_t config_fingerprint = 0;
};

/// The number that a version's folder is named by; none for other names.
std::optional<int64_t> parse_version(const std::string& text);

/// All models of several repositories. Throws ServerError(invalid_argument) for a folder that is not there, and for a
/// name that two of them have. Links that lead out of a repository are not followed.
std::map<std::string, ModelFolder> scan_repositories(const std::vector<std::filesystem::path>& repositories);
/// One of them. Throws ServerError(not_found); names with '/' or '..' in them are never found.
ModelFolder find_model(const std::vector<std::filesystem::path>& repositories, const std::string& name);

}  // namespace camshaft::server
