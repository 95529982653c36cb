#include "server/core/engine_cache.h"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "camshaft/builder.hpp"
#include "camshaft/system.hpp"
#include "server/core/log.h"
#include "server/core/private_copy.h"
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

fs::path kept_engine(const EngineRecipe& recipe, const fs::path& folder) {
  return folder / (recipe_key(recipe) + ".engine");
}

// Nothing: it is not there, or damaged.
std::optional<Engine> load_kept(const fs::path& kept, const std::string& device) {
  std::error_code error;
  if (!fs::exists(kept, error)) return std::nullopt;
  try {
    const Engine engine = Engine::load(kept.string(), device);
    note_engine_use(kept);
    return engine;
  } catch (const Error& damaged) {
    log(LogKind::warning, "the kept engine " + kept.string() + " is built again: " + damaged.what());
    return std::nullopt;
  }
}

Engine build_and_keep(const EngineRecipe& recipe, const fs::path& kept, uint64_t most_bytes) {
  const Engine engine = build_engine(recipe);
  std::error_code error;
  fs::create_directories(kept.parent_path(), error);
  try {
    engine.save(kept.string());
    note_engine_use(kept);
    trim_engines({kept.parent_path(), most_bytes});
    // Mapped from its file, an engine's weights are in memory once for all that load it.
    return Engine::load(kept.string(), recipe.device);
  } catch (const Error& failed) {
    log(LogKind::warning, "the engine of " + recipe.file.string() + " is not kept: " + failed.what());
    return engine;
  }
}

// Errors name the model's files, not their copies.
template <class Make>
Engine with_names(const Make& make, const std::string& copy, const std::string& original) {
  try {
    return make();
  } catch (const Error& error) {
    std::string text = error.what();
    for (size_t at = text.find(copy); at != text.npos; at = text.find(copy, at + original.size()))
      text.replace(at, copy.size(), original);
    throw Error(error.code(), text);
  }
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

Engine open_engine(const EngineRecipe& recipe, const EngineCache& cache) {
  const fs::path folder = cache.folder.empty() ? default_engine_cache() : cache.folder;
  // While it is loaded its weights are mapped, and files of a repository are overwritten in place.
  if (Engine::is_engine_file(recipe.file.string())) {
    const PrivateFile copy(recipe.file, folder);
    return with_names([&] { return Engine::load(copy.path(), recipe.device); }, copy.path(), recipe.file.string());
  }
  const fs::path kept = kept_engine(recipe, folder);
  if (auto engine = load_kept(kept, recipe.device)) return std::move(*engine);
  std::optional<PrivateFolder> copy;
  try {
    copy.emplace(recipe.file.parent_path(), folder);
  } catch (const ServerError& full) {
    log(LogKind::warning, std::string(full.what()) + ": the model is read where it is");
    return build_and_keep(recipe, kept, cache.most_bytes);
  }
  // Built of the copy, and named by the copy's bytes: the model may be overwritten meanwhile.
  EngineRecipe copied = recipe;
  copied.file = copy->path() / recipe.file.filename();
  const fs::path kept_of_copy = kept_engine(copied, folder);
  if (kept_of_copy != kept)
    if (auto engine = load_kept(kept_of_copy, recipe.device)) return std::move(*engine);
  return with_names([&] { return build_and_keep(copied, kept_of_copy, cache.most_bytes); }, copy->path().string(),
                    recipe.file.parent_path().string());
}

}  // namespace camshaft::server
