// A folder that goes with its owner.
#pragma once

#include <filesystem>
#include <string>

namespace camshaft::server {

class TemporaryFolder {
 public:
  /// Throws ServerError(internal) where none can be made.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file at a relative path. Throws ServerError(invalid_argument) for a path that leads out, and
  /// ServerError(resource_exhausted) for a disk that is full.
  void write(const std::string& relative, const std::string& bytes) const;

  /// Removes all that are there, for a process that ends without waiting for their owners. None is made after that.
  static void end_all();

 private:
  std::filesystem::path path_;
};

}  // namespace camshaft::server
