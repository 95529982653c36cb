#include "cuda/libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace camshaft::cuda {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_folders(const fs::path& parent) {
  std::vector<fs::path> folders;
  std::error_code failed;
  for (fs::directory_iterator it(parent, failed), end; !failed && it != end; it.increment(failed))
    if (std::error_code ignored; it->is_directory(ignored)) folders.push_back(it->path());
  std::sort(folders.rbegin(), folders.rend());  // the newest version first
  return folders;
}

// site-packages/nvidia/cu13/lib, site-packages/nvidia/cudnn/lib, …
void add_wheels(const fs::path& packages, std::vector<std::string>& folders) {
  for (const fs::path& wheel : sorted_folders(packages / "nvidia")) {
    std::error_code ignored;
    if (fs::is_directory(wheel / "lib", ignored)) folders.push_back((wheel / "lib").string());
  }
}

void add_environment(const fs::path& prefix, std::vector<std::string>& folders) {
  for (const fs::path& python : sorted_folders(prefix / "lib")) {
    if (!python.filename().string().starts_with("python")) continue;
    add_wheels(python / "site-packages", folders);
    add_wheels(python / "dist-packages", folders);
  }
}

template <class Functions>
void look_up(Library<Functions>& library, const char* name, void** function) {
  *function = library.file.symbol(name);
  if (*function == nullptr && library.problem.empty())
    library.problem = fmt::format("{} has no function {}: it is too old", library.file.path(), name);
}

Library<api::Driver> open_driver() {
  Library<api::Driver> library;
  library.file = DynamicLibrary({"libcuda.so.1"}, {});
  if (!library.file) {
    library.problem = fmt::format("no NVIDIA driver: {}", library.file.why());
    return library;
  }
#define CAMSHAFT_LOOK_UP(name, parameters) look_up(library, #name, reinterpret_cast<void**>(&library.functions.name));
  CAMSHAFT_CUDA_DRIVER(CAMSHAFT_LOOK_UP)
  if (!library.problem.empty()) return library;
  int version = 0;
  if (library.functions.cuDriverGetVersion(&version) == api::success)
    library.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  constexpr int oldest = 12000;
  if (version < oldest)
    library.problem = fmt::format("the NVIDIA driver is of CUDA {}; 12.0 or newer is needed", library.version);
  return library;
}

Library<api::Nvrtc> open_nvrtc() {
  Library<api::Nvrtc> library;
  library.file = DynamicLibrary({"libnvrtc.so.13", "libnvrtc.so.12"}, library_folders());
  if (!library.file) {
    library.problem = fmt::format(
        "no CUDA compiler: {}; install CUDA, or `pip install nvidia-cuda-nvrtc`, or set "
        "CUDA_HOME",
        library.file.why());
    return library;
  }
  CAMSHAFT_CUDA_NVRTC(CAMSHAFT_LOOK_UP)
#undef CAMSHAFT_LOOK_UP
  int major = 0, minor = 0;
  if (library.problem.empty() && library.functions.nvrtcVersion(&major, &minor) == api::success)
    library.version = fmt::format("{}.{}", major, minor);
  // In a wheel NVRTC does not find this one by itself; one that is open already is found by its name.
  library.companion = DynamicLibrary({fmt::format("libnvrtc-builtins.so.{}", library.version)},
                                     {fs::path(library.file.path()).parent_path().string()});
  return library;
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  const auto from_environment = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = from_environment(name); !home.empty()) {
      folders.push_back(home + "/lib64");
      folders.push_back(home + "/lib");
    }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string prefix = from_environment(name); !prefix.empty()) add_environment(prefix, folders);
  if (const std::string home = from_environment("HOME"); !home.empty()) add_environment(home + "/.local", folders);
  add_environment("/usr/local", folders);
  add_environment("/usr", folders);
  folders.push_back("/usr/local/cuda/lib64");
  return folders;
}

const Library<api::Driver>& driver_library() {
  static const Library<api::Driver> library = open_driver();
  return library;
}

const Library<api::Nvrtc>& nvrtc_library() {
  static const Library<api::Nvrtc> library = open_nvrtc();
  return library;
}

}  // namespace camshaft::cuda
