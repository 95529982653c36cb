#include "onnx/external_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace fs = std::filesystem;

ExternalFiles::ExternalFiles(const fs::path& folder) {
  if (!folder.empty()) folder_ = fs::absolute(folder);
}

std::shared_ptr<const MappedFile> ExternalFiles::open(const std::string& location, const std::string& where) {
  if (const auto known = files_.find(location); known != files_.end()) return known->second;
  const auto refuse = [&](ErrorCode code, std::string_view why) {
    throw Error(code, fmt::format("{}: its external data file {} {}", where, quote(location), why));
  };
  if (folder_.empty())
    refuse(ErrorCode::invalid_model, "cannot be looked for: the model was given as bytes, without a folder");
  const fs::path relative(location);
  const bool climbs = std::any_of(relative.begin(), relative.end(), [](const fs::path& part) { return part == ".."; });
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() || climbs)
    refuse(ErrorCode::invalid_model, "is not a path inside the model's folder");

  std::error_code failed;
  const fs::path folder = fs::canonical(folder_, failed);
  const fs::path file = failed ? fs::path() : fs::canonical(folder_ / relative, failed);
  if (failed) refuse(ErrorCode::io, fmt::format("cannot be opened in {}: {}", folder_.string(), failed.message()));
  // Compared after links are resolved, part by part: /models/a does not contain /models/ab.
  const auto [rest_of_folder, rest_of_file] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  if (rest_of_folder != folder.end())
    refuse(ErrorCode::invalid_model,
           fmt::format("is a symbolic link out of the model's folder, to {}; copy the file there", file.string()));
  if (!fs::is_regular_file(file, failed)) refuse(ErrorCode::io, "is not a regular file");
  return files_[location] = MappedFile::open(file.string());
}

}  // namespace camshaft::onnx
