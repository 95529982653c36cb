#include "module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "image.h"

namespace emulator {

namespace {

constexpr Kernel machine_code_kernel{};

// The bytes of an ELF file, up to the end of its table of sections.
std::string elf_bytes(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  uint64_t sections = 0;
  uint16_t entry = 0, count = 0;
  std::memcpy(&sections, bytes + 0x28, sizeof sections);
  std::memcpy(&entry, bytes + 0x3a, sizeof entry);
  std::memcpy(&count, bytes + 0x3c, sizeof count);
  return {bytes, sections + uint64_t{entry} * count};
}

}  // namespace

std::shared_ptr<Module> Module::load(const void* image) {
  if (std::memcmp(image,
                  "\x7f"
                  "ELF",
                  4) == 0) {
    const std::shared_ptr<Module> module(new Module);
    module->machine_code_ = elf_bytes(image);
    module->capability_ = -1;
    return module;
  }
  Image header;
  const Image genuine;
  if (std::memcmp(image, genuine.magic, sizeof genuine.magic) != 0) return nullptr;
  std::memcpy(&header, image, sizeof header);
  const auto* bytes = static_cast<const unsigned char*>(image) + sizeof header;
  if (checksum(bytes, header.bytes) != header.checksum) return nullptr;
  // A file of a name of its own: the loader takes the same name for the same library.
  std::string path = (std::filesystem::temp_directory_path() / "camshaft_emulated_XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return nullptr;
  const bool written = write(file, bytes, header.bytes) == static_cast<ssize_t>(header.bytes);
  close(file);
  const std::shared_ptr<Module> module(new Module);
  module->capability_ = static_cast<int>(header.capability);
  if (written) module->library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module->library_ == nullptr) std::fprintf(stderr, "emulated GPU: %s\n", written ? dlerror() : "the disk is full");
  unlink(path.c_str());
  if (module->library_ == nullptr) return nullptr;
  module->enter_ = reinterpret_cast<Enter>(dlsym(module->library_, "camshaft_enter"));
  return module->enter_ != nullptr ? module : nullptr;
}

Module::~Module() {
  if (library_ != nullptr) dlclose(library_);
}

const Kernel* Module::kernel(const std::string& name) const {
  if (library_ == nullptr)
    return machine_code_.find('\0' + name + '\0') == std::string::npos ? nullptr : &machine_code_kernel;
  return static_cast<const Kernel*>(dlsym(library_, ("camshaft_kernel_" + name).c_str()));
}

}  // namespace emulator
