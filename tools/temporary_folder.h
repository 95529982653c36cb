// A folder that goes when its owner does.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "camshaft/error.hpp"

namespace camshaft::tools {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "camshaft-XXXXXX").string();
    if (!mkdtemp(path_.data()))
      throw Error(ErrorCode::io, fmt::format("no temporary folder '{}': {}", path_, std::strerror(errno)));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace camshaft::tools
