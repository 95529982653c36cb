#include "server/core/engine_cache.h"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "camshaft/builder.hpp"
#include "camshaft/system.hpp"
#include "server/core/log.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

namespace fs = std::filesystem;

struct HashState {
  HashState() : state(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state.get()); }
  void add(const void* data, size_t bytes) { XXH3_128bits_update(state.get(), data, bytes); }
  void add(const std::string& text) { add(text.c_str(), text.size() + 1); }
  void add_file(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw ServerError(StatusCode::internal, "cannot read " + file.string());
    std::vector<char> block(size_t{1} << 20);
    while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0)
      add(block.data(), static_cast<size_t>(in.gcount()));
  }
  std::string text() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
    std::array<char, 40> digits{};
    std::snprintf(digits.data(), digits.size(), "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return digits.data();
  }
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state;
};

// Of all files of the version's folder: weights of an ONNX model may lie beside it.
std::string recipe_key(const EngineRecipe& recipe) {
  HashState hash;
  hash.add(camshaft::version());
  hash.add(recipe.device);
  for (const auto& [name, value] : recipe.options) {
    hash.add(name);
    hash.add(value);
    if (name == "calibration") hash.add_file(value);
  }
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(recipe.file.parent_path()))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  hash.add(recipe.file.filename().string());
  for (const fs::path& file : files) {
    hash.add(file.lexically_relative(recipe.file.parent_path()).string());
    hash.add_file(file);
  }
  return hash.text();
}

Engine build_engine(const EngineRecipe& recipe) {
  BuildOptions options;
  if (!recipe.device.empty()) options.set("device", recipe.device);
  for (const auto& [name, value] : recipe.options) options.set(name, value);
  Builder builder(std::move(options));
  return builder.build(recipe.file.string());
}

// Where everybody may make a folder of that name first, and put engines into it.
fs::path own_temporary_folder() {
  fs::path folder = fs::temp_directory_path() / ("camshaft-server-" + std::to_string(getuid()));
  mkdir(folder.c_str(), S_IRWXU);
  struct stat state {};
  const bool is_own = lstat(folder.c_str(), &state) == 0 && S_ISDIR(state.st_mode) && state.st_uid == getuid() &&
                      (state.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!is_own)
    throw ServerError(StatusCode::internal, folder.string() + " is not this user's own folder: remove it, or name " +
                                                "another by --engine-cache");
  return folder;
}

}  // namespace

fs::path default_engine_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return fs::path(cache) / "camshaft" / "server";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return fs::path(home) / ".cache" / "camshaft" / "server";
  return own_temporary_folder();
}

Engine open_engine(const EngineRecipe& recipe, const fs::path& cache) {
  if (Engine::is_engine_file(recipe.file.string())) return Engine::load(recipe.file.string(), recipe.device);
  const fs::path folder = cache.empty() ? default_engine_cache() : cache;
  const fs::path kept = folder / (recipe_key(recipe) + ".engine");
  std::error_code error;
  if (fs::exists(kept, error)) {
    try {
      return Engine::load(kept.string(), recipe.device);
    } catch (const Error& damaged) {
      log(LogKind::warning, "the kept engine " + kept.string() + " is built again: " + damaged.what());
    }
  }
  const Engine engine = build_engine(recipe);
  fs::create_directories(folder, error);
  try {
    engine.save(kept.string());
    // Mapped from its file, an engine's weights are in memory once for all that load it.
    return Engine::load(kept.string(), recipe.device);
  } catch (const Error& failed) {
    log(LogKind::warning, "the engine of " + recipe.file.string() + " is not kept: " + failed.what());
    return engine;
  }
}

}  // namespace camshaft::server
