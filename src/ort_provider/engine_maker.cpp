#include "ort_provider/engine_maker.h"

#include <fmt/format.h>

#include <algorithm>

#include "builder/builder.h"
#include "ort_provider/engine_cache.h"
#include "ort_provider/values.h"

namespace camshaft::ort_provider {

namespace {

/// Of the profiles what they say of this model's inputs: others are within the session's graph, or of another group.
std::vector<Profile> profiles_of(const std::vector<Profile>& given, const onnx::ModelProto& model) {
  std::vector<Profile> profiles;
  for (const Profile& profile : given) {
    Profile own;
    for (const onnx::ValueInfoProto& input : model.graph.inputs)
      if (const auto it = profile.inputs.find(input.name); it != profile.inputs.end()) own.inputs.insert(*it);
    if (!own.inputs.empty()) profiles.push_back(std::move(own));
  }
  return profiles;
}

}  // namespace

std::optional<Engine> make_engine(onnx::ModelProto model, const ProviderOptions& options, const Log& log) {
  const EngineCache cache(options, log);
  std::string key;
  if (!options.cache_folder.empty()) {
    key = engine_key(model, options);
    if (std::optional<Engine> known = cache.load(key, model)) return known;
    note_key(model, key);
  }
  for (onnx::TensorProto& tensor : model.graph.initializers) own_bytes(tensor);
  BuildOptions build = options.settings.build;
  build.profiles = profiles_of(build.profiles, model);
  std::string unverified;
  for (;;) {
    try {
      Engine engine = Builder(build).build(model);
      if (!unverified.empty()) log.warning("Camshaft: " + unverified + "; it is used unverified");
      return key.empty() ? engine : cache.keep(key, std::move(engine), model);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled || e.code() == ErrorCode::out_of_memory) throw;
      // What is wrong with the options is wrong without verification, too.
      if (e.code() == ErrorCode::invalid_argument && build.verify) {
        build.verify = false;
        unverified = e.what();
        continue;
      }
      if (e.code() == ErrorCode::invalid_argument) throw;
      log.warning(
          fmt::format("Camshaft: {} nodes are left to other providers: {}", model.graph.nodes.size(), e.what()));
      return std::nullopt;
    }
  }
}

}  // namespace camshaft::ort_provider
