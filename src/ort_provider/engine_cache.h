// Engines that are kept on disk from session to session.
#pragma once

#include <optional>
#include <string>

#include "onnx/proto.h"
#include "ort_provider/host.h"
#include "ort_provider/options.h"
#include "runtime/engine.h"

namespace camshaft::ort_provider {

/// Everything that an engine follows from: the model with its weights, options, the library's version, and the machine.
/// Where the cache keeps engines without weights, only the types and shapes of these.
std::string engine_key(const onnx::ModelProto& model, const ProviderOptions& options);

/// A note in the metadata of a model, which its engines have too: what they were built from.
void note_key(onnx::ModelProto& model, const std::string& key);

class EngineCache {
 public:
  EngineCache(const ProviderOptions& options, const Log& log) : options_(options), log_(log) {}

  /// The engine of that key, with the model's weights where it is kept without. Nothing where there is no file, or one
  /// that is damaged, of another key, or built by what other weights were, which is told to the log.
  std::optional<Engine> load(const std::string& key, const onnx::ModelProto& model) const;
  /// Keeps an engine that was built of the model, and gives the one to use: that of the file, whose weights processes
  /// share, or, where files have none, the same with its weights. Written through a temporary name, so that other
  /// processes see all of the file or none; what was used the longest ago makes room for it. A failure to write is told
  /// to the log alone.
  Engine keep(const std::string& key, Engine engine, const onnx::ModelProto& model) const;

 private:
  std::string path_of(const std::string& key) const;

  const ProviderOptions& options_;
  const Log& log_;
};

}  // namespace camshaft::ort_provider
