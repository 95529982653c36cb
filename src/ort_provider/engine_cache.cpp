#include "ort_provider/engine_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/cache_folder.h"
#include "base/hash.h"
#include "onnx/hoist_weights.h"
#include "onnx/model_weights.h"
#include "onnx/proto_writer.h"
#include "onnx/tensor_data.h"
#include "onnx/to_tensor.h"
#include "runtime/backends.h"
#include "runtime/refitter.h"

namespace camshaft::ort_provider {

namespace {

constexpr const char* key_note = "camshaft.ort_provider.key";

void give_weights(const Engine& engine, const onnx::ModelProto& model, int threads) {
  Refitter refitter(engine);
  std::set<std::string> wanted;
  for (const EngineWeight& weight : refitter.weights()) wanted.insert(weight.initializer.name);
  onnx::ModelProto hoisted = model;
  onnx::hoist_weights(hoisted);
  onnx::TensorReader reader(hoisted);
  onnx::for_each_weight(hoisted, [&](const std::string& name, const onnx::TensorProto& tensor) {
    if (wanted.contains(name)) refitter.set(name, to_tensor(reader.read(tensor, "initializer")));
  });
  refitter.refit(threads);
}

}  // namespace

std::string engine_key(const onnx::ModelProto& model, const ProviderOptions& options) {
  Hasher hasher;
  onnx::ModelProto bare = model;
  onnx::hoist_weights(bare);  // weights in the bodies of branches and loops are as others are
  onnx::for_each_weight(bare, [&](const std::string& name, onnx::TensorProto& tensor) {
    if (!options.cache_is_weightless) hasher.add(fmt::format("{} {}\n", name, to_hex(hash128(tensor.raw_data))));
    tensor.raw_data = {};
    tensor.owner = nullptr;
  });
  hasher.add(onnx::model_bytes(bare));
  hasher.add(build_key(options));
  const DeviceInfo& device = find_backend(options.settings.build.device)->device();
  hasher.add(fmt::format("{} {} {} {} {}\n", device.kind, device.name, device.isa, device.cores, device.code));
  return to_hex(hasher.hash128());
}

void note_key(onnx::ModelProto& model, const std::string& key) {
  model.metadata[key_note] = key;
}

std::string EngineCache::path_of(const std::string& key) const {
  return (std::filesystem::path(options_.cache_folder) / fmt::format("{}_{}.engine", options_.cache_prefix, key))
      .string();
}

std::optional<Engine> EngineCache::load(const std::string& key, const onnx::ModelProto& model) const {
  if (options_.cache_folder.empty()) return std::nullopt;
  const std::string path = path_of(key);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    Engine engine = Engine::load(path, {.device = options_.settings.build.device});
    const auto& metadata = engine.metadata();
    const auto it = metadata.find(std::string("model.") + key_note);
    if (it != metadata.end() && it->second == key) {
      if (options_.cache_is_weightless) give_weights(engine, model, options_.settings.build.threads);
      note_use(path);
      log_.info(fmt::format("Camshaft: the engine is in the cache: {}", path));
      return engine;
    }
    log_.warning(fmt::format("Camshaft: '{}' is of another model than its name says: the engine is built again", path));
  } catch (const Error& e) {
    log_.warning(fmt::format("Camshaft: an engine in the cache cannot be used, and is built again: {}", e.what()));
  }
  return std::nullopt;
}

Engine EngineCache::keep(const std::string& key, Engine engine, const onnx::ModelProto& model) const {
  try {
    std::error_code failed;
    std::filesystem::create_directories(options_.cache_folder, failed);
    const std::string path = path_of(key);
    engine.save(path);
    note_use(path);
    if (options_.cache_bytes > 0)
      trim_cache(options_.cache_folder, options_.cache_prefix + "_", ".engine", options_.cache_bytes);
  } catch (const Error& e) {
    log_.warning(fmt::format("Camshaft: the engine is not kept in the cache: {}", e.what()));
  }
  if (!options_.cache_is_weightless) return load(key, model).value_or(engine);
  give_weights(engine, model, options_.settings.build.threads);  // or context nodes of it would have none
  return engine;
}

}  // namespace camshaft::ort_provider
