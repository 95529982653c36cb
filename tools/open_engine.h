// Commands take a model or an engine, told apart by the first bytes.
#pragma once

#include <string>

#include "camshaft/engine.hpp"
#include "tools/limit_options.h"
#include "tools/progress.h"
#include "tools/shapes_option.h"

namespace camshaft::tools {

struct OpenedEngine {
  Engine engine;
  bool from_model = false;
  double seconds = 0;  ///< loading the engine, or building it
};

/// Loads an engine; builds a model in memory, without verification, tuned for `shapes` and accepting those alone when
/// there are any, within the limits. For `device`, see Engine::load; empty: what the engine was built for, or the CPU.
/// `weight_budget`: the option weight-budget of a load. Cancelled by Ctrl-C. Throws Error.
OpenedEngine open_engine(const std::string& path, const std::string& device, int threads, const NamedShapes& shapes,
                         Progress& progress, const char* tuning = "heuristic", const LimitOptions& limits = {},
                         const std::string& weight_budget = "");

/// Throws Error(io) when a file could not be created at that path; leaves nothing there. Empty paths are skipped.
void check_writable(const std::string& path);

/// Throws Error(invalid_argument) when `output` is the file `input`, by whatever name. Empty paths are skipped.
void check_distinct(const std::string& input, const std::string& output);

/// Throws Error(invalid_argument) when two of these files are one. Empty paths are skipped.
void check_one_purpose(const std::vector<std::string>& written);

}  // namespace camshaft::tools
