// Options of `build` and `verify` that say how the kernel of each layer is chosen.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "camshaft/builder.hpp"

namespace camshaft::tools {

struct TuningArguments {
  std::string mode, timing_cache, lock, write_lock, seconds;

  /// Adds --tuning, --timing-cache, --tuning-seconds, --lock and --write-lock.
  void add_to(CLI::App& command);
  /// Throws Error(invalid_argument).
  void set(BuildOptions& options) const;
};

}  // namespace camshaft::tools
