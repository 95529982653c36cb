// Libraries that are opened while the program runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace camshaft {

/// An open shared library; closed with its last copy. A default one is not open.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;
  /// Opens the first of `names` that is in one of `folders`, in their order, or else where the system looks. Not open
  /// afterwards when there is none; why() then says what was tried.
  DynamicLibrary(const std::vector<std::string>& names, const std::vector<std::string>& folders);

  /// The first of `names` that this process has loaded already, whoever did and from wherever; else not open.
  static DynamicLibrary loaded(const std::vector<std::string>& names);

  explicit operator bool() const { return handle_ != nullptr; }
  /// The file that was opened, as its path where that is known.
  const std::string& path() const { return path_; }
  /// One line: why it is not open.
  const std::string& why() const { return why_; }
  /// Address of a function or variable; null when the library has none of that name, or is not open.
  void* symbol(const char* name) const;

 private:
  bool open(const std::string& file, int flags);

  std::shared_ptr<void> handle_;
  std::string path_, why_;
};

}  // namespace camshaft
