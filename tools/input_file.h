// Whole files, mapped into memory: what is read of one is copied once, to where it is used.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace camshaft::tools {

class InputFile {
 public:
  /// Throws Error(io) that names the path and says why: not found, no permission, a directory, not a regular file,
  /// empty.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace camshaft::tools
