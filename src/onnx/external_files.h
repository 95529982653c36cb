// The files beside a model that hold its large tensors.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/mapped_file.h"

namespace camshaft::onnx {

/// Maps each external data file once. A location is a path relative to the model's folder and must stay inside it:
/// a model is data from elsewhere and must not be able to name /etc/passwd.
class ExternalFiles {
 public:
  /// `folder` is made absolute now; empty: every location is refused.
  explicit ExternalFiles(const std::filesystem::path& folder);

  /// `where` begins messages: "model.onnx: tensor 'w'". Throws Error(invalid_model) for a location that is absolute,
  /// contains "..", or leads out of the folder through a symbolic link; Error(io) for a file that is missing, no
  /// regular file, or unreadable.
  std::shared_ptr<const MappedFile> open(const std::string& location, const std::string& where);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace camshaft::onnx
