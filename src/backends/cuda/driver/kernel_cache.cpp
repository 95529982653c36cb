#include "backends/cuda/driver/kernel_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace camshaft::cuda {

namespace {

namespace fs = std::filesystem;

// A file ends with the hash of what is before it: half of one, or another's, is compiled again.
constexpr size_t hash_bytes = sizeof(uint64_t);

Cubin read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  if (size <= static_cast<std::streamoff>(hash_bytes)) return {};
  Cubin cubin(static_cast<size_t>(size) - hash_bytes);
  uint64_t hash = 0;
  file.seekg(0);
  file.read(reinterpret_cast<char*>(cubin.data()), static_cast<std::streamsize>(cubin.size()));
  file.read(reinterpret_cast<char*>(&hash), hash_bytes);
  return file && hash == hash64(cubin) ? cubin : Cubin();
}

void write(const fs::path& path, const Cubin& cubin) {
  try {
    fs::create_directories(path.parent_path());
    AtomicFile file(path.string());
    file.write(cubin);
    const uint64_t hash = hash64(cubin);
    file.write(std::as_bytes(std::span(&hash, 1)));
    file.commit();
  } catch (const std::exception& e) {
    log_info(std::string("a compiled kernel is not kept: ") + e.what());
  }
}

}  // namespace

Cubin KernelCache::get(const Compiler& compiler, const KernelSource& source) const {
  if (folder_.empty()) return compiler.compile(source);
  const std::string key = source.text + '\n' + source.architecture + '\n' + compiler.version();
  const fs::path path = fs::path(folder_) / (to_hex(hash128(key)) + ".cubin");
  Cubin cubin = read(path);
  if (!cubin.empty()) return cubin;
  cubin = compiler.compile(source);
  write(path, cubin);
  return cubin;
}

std::string KernelCache::default_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return (fs::path(cache) / "camshaft" / "kernels").string();
  if (const char* home = std::getenv("HOME"); home && *home)
    return (fs::path(home) / ".cache" / "camshaft" / "kernels").string();
  return "";
}

}  // namespace camshaft::cuda
