#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <filesystem>

#include "base/foreign_call.h"

namespace camshaft {

namespace {

std::string path_of(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr || *map->l_name == '\0')
    return fallback;
  return map->l_name;
}

}  // namespace

bool DynamicLibrary::open(const std::string& file, int flags) {
  // Local: another copy of the library in this process, as PyTorch brings one, keeps its own symbols.
  // What a library's own objects throw when they are made comes out of dlopen().
  void* handle = nullptr;
  try {
    handle = foreign_call([&] { return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | flags); });
  } catch (const ForeignException& e) {
    why_ = fmt::format("{}: it threw an exception while it was loaded{}", file, e.is_standard ? ": " + e.message : "");
    return false;
  }
  if (handle == nullptr) return false;
  why_.clear();  // of another file
  handle_ = std::shared_ptr<void>(handle, [](void* h) { dlclose(h); });
  path_ = path_of(handle, file);
  return true;
}

DynamicLibrary::DynamicLibrary(const std::vector<std::string>& names, const std::vector<std::string>& folders) {
  std::string failure;  // of a file that is there and cannot be opened: the one that somebody can do something about
  const auto is_open = [&](const std::string& file) {
    if (open(file, 0)) return true;
    const char* error = dlerror();
    if (failure.empty()) failure = !why_.empty() ? why_ : error ? error : file;
    return false;
  };
  for (const std::string& folder : folders)
    for (const std::string& name : names) {
      const std::filesystem::path file = std::filesystem::path(folder) / name;
      std::error_code ignored;
      if (std::filesystem::exists(file, ignored) && is_open(file.string())) return;
    }
  for (const std::string& name : names)
    if (is_open(name)) return;
  why_ = fmt::format("{} cannot be opened: {}", names.empty() ? "a library without a name" : names.front(), failure);
}

DynamicLibrary DynamicLibrary::loaded(const std::vector<std::string>& names) {
  DynamicLibrary library;
  for (const std::string& name : names)
    if (library.open(name, RTLD_NOLOAD)) return library;
  library.why_ = fmt::format("{} is not loaded", names.empty() ? "a library without a name" : names.front());
  return library;
}

void* DynamicLibrary::symbol(const char* name) const {
  return handle_ ? dlsym(handle_.get(), name) : nullptr;
}

}  // namespace camshaft
