#include "backends/cuda/libraries/libraries.h"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>

#include "base/log.h"

namespace camshaft::cuda {

namespace {

namespace fs = std::filesystem;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

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

// Of the Python environments that files of this process lie in: the running Python's, whatever its variables say.
std::vector<fs::path> loaded_packages() {
  std::vector<fs::path> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        auto& list = *static_cast<std::vector<fs::path>*>(result);
        const std::string_view file = info->dlpi_name ? info->dlpi_name : "";
        for (const std::string_view packages : {"/site-packages/", "/dist-packages/"})
          if (const size_t at = file.find(packages); at != std::string_view::npos) {
            const fs::path folder = file.substr(0, at + packages.size() - 1);
            if (std::find(list.begin(), list.end(), folder) == list.end()) list.push_back(folder);
          }
        return 0;
      },
      &found);
  return found;
}

// Of the Python that a shell would start: PREFIX of PREFIX/bin/python3. Empty for none.
fs::path prefix_of_python() {
  std::istringstream path(from_environment("PATH"));
  for (std::string folder; std::getline(path, folder, ':');)
    if (std::error_code ignored; !folder.empty() && fs::is_regular_file(fs::path(folder) / "python3", ignored))
      return fs::path(folder).parent_path();
  return {};
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
#define CAMSHAFT_LOOK_UP_NEWER(name, parameters) \
  *reinterpret_cast<void**>(&library.functions.name) = library.file.symbol(#name);
  CAMSHAFT_CUDA_NEWER_DRIVER(CAMSHAFT_LOOK_UP_NEWER)
#undef CAMSHAFT_LOOK_UP_NEWER
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
  int major = 0, minor = 0;
  if (library.problem.empty() && library.functions.nvrtcVersion(&major, &minor) == api::success)
    library.version = fmt::format("{}.{}", major, minor);
  // In a wheel NVRTC does not find this one by itself; one that is open already is found by its name.
  library.companion = DynamicLibrary({fmt::format("libnvrtc-builtins.so.{}", library.version)},
                                     {fs::path(library.file.path()).parent_path().string()});
  return library;
}

// What a library is called and looked for as.
struct LibraryNames {
  const char* name;                ///< for messages
  const char* package;             ///< of Python that brings it
  std::vector<std::string> files;  ///< the newest first
  std::string versioned_file;      ///< of the same folder, whose size differs from version to version; else the first
};

LibraryNames blas_names() {
  // A library of a later CUDA than the driver's does not run.
  constexpr int newest = 13, oldest = 12;
  LibraryNames names{"cuBLASLt", "nvidia-cublas", {}, ""};
  for (int major = std::min(newest, std::atoi(driver_library().version.c_str())); major >= oldest; --major)
    names.files.push_back(fmt::format("libcublasLt.so.{}", major));
  return names;
}

LibraryNames dnn_names() {
  return {"cuDNN", "nvidia-cudnn-cu13", {"libcudnn.so.9"}, "libcudnn_graph.so.9"};
}

LibraryNames nccl_names() {
  return {"NCCL",
          std::atoi(driver_library().version.c_str()) < 13 ? "nvidia-nccl-cu12" : "nvidia-nccl-cu13",
          {"libnccl.so.2"},
          ""};
}

// The file that opens when it is asked for; empty where only the system's loader may know.
fs::path find_file(const LibraryNames& names) {
  if (const DynamicLibrary loaded = DynamicLibrary::loaded(names.files)) return loaded.path();
  std::vector<std::string> folders = library_folders();
  std::istringstream path(from_environment("LD_LIBRARY_PATH"));
  for (std::string folder; std::getline(path, folder, ':');) folders.push_back(folder);
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    folders.emplace_back(folder);
  for (const std::string& folder : folders)
    for (const std::string& file : names.files)
      if (std::error_code ignored; !folder.empty() && fs::is_regular_file(fs::path(folder) / file, ignored))
        return fs::path(folder) / file;
  return {};
}

template <class Functions>
Library<Functions> open_library(const LibraryNames& names) {
  Library<Functions> library;
  if (!driver_library().problem.empty()) {
    library.problem = driver_library().problem;
    return library;
  }
  // cuDNN's parts find each other by name: beside one that somebody has loaded (PyTorch), a second one gets the parts
  // of the first and refuses them with status 1008.
  library.file = DynamicLibrary::loaded(names.files);
  if (!library.file) {
    const fs::path file = find_file(names);
    library.file = file.empty() ? DynamicLibrary(names.files, {})
                                : DynamicLibrary({file.filename().string()}, {file.parent_path().string()});
  }
  if (!library.file)
    library.problem = fmt::format("no {}: {}; install CUDA, or `pip install {}`, or set CUDA_HOME", names.name,
                                  library.file.why(), names.package);
  return library;
}

template <class Functions>
void set_version(Library<Functions>& library, api::Result (*property)(api::LibraryProperty, int*)) {
  int version[3] = {};
  for (const auto which : {api::major_version, api::minor_version, api::patch_version})
    property(which, &version[which]);
  library.version = fmt::format("{}.{}.{}", version[0], version[1], version[2]);
}

Library<api::Blas> open_blas() {
  auto library = open_library<api::Blas>(blas_names());
  if (!library.problem.empty()) return library;
  CAMSHAFT_CUDA_BLAS(CAMSHAFT_LOOK_UP)
  if (library.problem.empty()) set_version(library, library.functions.cublasLtGetProperty);
  return library;
}

Library<api::Dnn> open_dnn() {
  auto library = open_library<api::Dnn>(dnn_names());
  if (!library.problem.empty()) return library;
  CAMSHAFT_CUDA_DNN(CAMSHAFT_LOOK_UP)
  if (library.problem.empty()) set_version(library, library.functions.cudnnGetProperty);
  return library;
}

Library<api::Nccl> open_nccl() {
  auto library = open_library<api::Nccl>(nccl_names());
  if (!library.problem.empty()) return library;
  CAMSHAFT_CUDA_NCCL(CAMSHAFT_LOOK_UP)
#undef CAMSHAFT_LOOK_UP
  look_up(library, "ncclGetErrorString", reinterpret_cast<void**>(&library.functions.ncclGetErrorString));
  int version = 0;
  if (library.problem.empty() && library.functions.ncclGetVersion(&version) == api::success)
    library.version = fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
  return library;
}

template <class Functions>
std::string identity(const LibraryNames& names, const Library<Functions>& (*open)()) {
  if (!driver_library().problem.empty()) return "none";
  std::error_code failed;
  fs::path file = fs::canonical(find_file(names), failed);
  if (!failed && !names.versioned_file.empty()) file = fs::canonical(file.parent_path() / names.versioned_file, failed);
  if (!failed)
    if (const auto bytes = fs::file_size(file, failed); !failed)
      return fmt::format("{} {}", file.filename().string(), bytes);
  return open().problem.empty() ? open().version : "none";
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = from_environment(name); !home.empty()) {
      folders.push_back(home + "/lib64");
      folders.push_back(home + "/lib");
    }
  for (const fs::path& packages : loaded_packages()) add_wheels(packages, folders);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string prefix = from_environment(name); !prefix.empty()) add_environment(prefix, folders);
  if (const fs::path prefix = prefix_of_python(); !prefix.empty()) add_environment(prefix, folders);
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

const Library<api::Blas>& blas_library() {
  // Never closed: what it does at the end of a process is its own affair.
  static const auto& library = *new Library<api::Blas>(open_blas());
  return library;
}

const Library<api::Dnn>& dnn_library() {
  static const auto& library = *new Library<api::Dnn>(open_dnn());
  return library;
}

const Library<api::Nccl>& nccl_library() {
  static const auto& library = *new Library<api::Nccl>(open_nccl());
  return library;
}

std::string blas_identity() {
  return identity(blas_names(), blas_library);
}

std::string dnn_identity() {
  return identity(dnn_names(), dnn_library);
}

void warn_of_refusal(std::string_view library, std::string_view file, std::string_view what) {
  static std::mutex mutex;
  static auto& warned = *new std::set<std::string, std::less<>>;
  {
    const std::lock_guard lock(mutex);
    if (!warned.emplace(library).second) return;
  }
  log_warning(fmt::format("{} ({}); what it refuses runs on Camshaft's own kernels", what, file));
}

}  // namespace camshaft::cuda
