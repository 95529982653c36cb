// Copies of files that are used for longer than others leave them alone.
#pragma once

#include <filesystem>
#include <string>

namespace camshaft::server {

/// A file's bytes as they were, without a name that anybody could reach them by: on the disk of a folder where that has
/// room, else in memory. A map of a file that is overwritten or cut short shows other bytes, or ends the process.
class PrivateFile {
 public:
  /// `folder` is made where it is not there. Throws ServerError: internal for a file that cannot be read,
  /// resource_exhausted where there is room neither on the disk nor in memory.
  PrivateFile(const std::filesystem::path& file, const std::filesystem::path& folder);
  ~PrivateFile();
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  /// What opens it while this lives; what is mapped by then stays.
  std::string path() const;

 private:
  int descriptor_ = -1;
};

/// A folder's files, in a folder of its own below `parent` that goes with it.
class PrivateFolder {
 public:
  /// Throws ServerError(resource_exhausted) where it cannot be written.
  PrivateFolder(const std::filesystem::path& folder, const std::filesystem::path& parent);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace camshaft::server
