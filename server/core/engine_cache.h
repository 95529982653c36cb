// Engines of model files: engine files as they are, ONNX models built and kept.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "camshaft/engine.hpp"
#include "server/core/kept_engines.h"

namespace camshaft::server {

/// What an engine of an ONNX file is built with.
struct EngineRecipe {
  std::filesystem::path file;
  std::string device;                          ///< "cpu", "cuda:1"; empty: of an engine file its own, else "cpu"
  std::map<std::string, std::string> options;  ///< of a build, by name
};

/// Loads an engine file; of an ONNX file builds an engine, or takes the one that was built of the same bytes, with the
/// same options, by the same version, out of `cache`. The file may be overwritten and cut short from then on, and while
/// it is loaded: it is copied first. Throws Error, and ServerError for a file that cannot be copied.
Engine open_engine(const EngineRecipe& recipe, const EngineCache& cache);

/// Beside the user's other caches: $XDG_CACHE_HOME/camshaft/server, ~/.cache/camshaft/server.
std::filesystem::path default_engine_cache();

}  // namespace camshaft::server
