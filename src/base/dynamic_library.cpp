#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/foreign_call.h"

namespace camshaft {

namespace {

std::string path_of(void* handle, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr || *map->l_name == '\0')
    return fallback;
  return map->l_name;
}

/// Of the machines that libraries are likely to be for.
std::string machine_name(unsigned machine) {
  static constexpr std::pair<unsigned, const char*> names[] = {
      {EM_386, "x86 (32 bits)"}, {EM_X86_64, "x86-64"}, {EM_ARM, "ARM (32 bits)"}, {EM_AARCH64, "aarch64"},
      {EM_PPC64, "ppc64"},       {EM_S390, "s390x"},    {EM_RISCV, "RISC-V"}};
  for (const auto& [number, name] : names)
    if (number == machine) return name;
  return fmt::format("machine {} of ELF", machine);
}

#if defined(__x86_64__)
constexpr unsigned own_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned own_machine = EM_AARCH64;
#else
constexpr unsigned own_machine = EM_NONE;
#endif

/// Why a file cannot be opened, where dlopen() would not say it: one for another machine, of which it says that there
/// is no such file, and one that is cut short, which ends the process as parts of it are mapped that it does not have
/// (SIGBUS). Empty for others.
std::string what_is_wrong(const std::string& path) {
  std::error_code ignored;
  const uint64_t size = std::filesystem::file_size(path, ignored);
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header = {};
  if (ignored || !file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return {};
  // Both of these lie in the same place for both classes.
  if (own_machine != EM_NONE && header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_machine != own_machine)
    return fmt::format("it is for {}, and this program for {}", machine_name(header.e_machine),
                       machine_name(own_machine));
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "it is of 32 bits, and this program of 64";
  uint64_t end = 0;  // of what its headers name
  const auto take = [&](uint64_t offset, uint64_t bytes) {
    end = std::max(end, bytes > UINT64_MAX - offset ? UINT64_MAX : offset + bytes);
  };
  take(header.e_phoff, uint64_t{header.e_phnum} * header.e_phentsize);
  for (unsigned i = 0; i < header.e_phnum && end <= size; ++i) {
    Elf64_Phdr segment = {};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + uint64_t{i} * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) break;
    if (segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC) take(segment.p_offset, segment.p_filesz);
  }
  if (end <= size) return {};
  return fmt::format("the file is cut short: it has {} bytes, and its headers name parts up to {}", size, end);
}

}  // namespace

bool DynamicLibrary::open(const std::string& file, int flags) {
  if (file.find('/') != std::string::npos) {
    if (const std::string how = what_is_wrong(file); !how.empty()) {
      why_ = fmt::format("{}: {}", file, how);
      return false;
    }
  }
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
