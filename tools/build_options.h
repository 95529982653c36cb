// Options of the commands that build: `build` and `verify`.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "camshaft/builder.hpp"
#include "tools/npz.h"
#include "tools/progress.h"
#include "tools/shapes_option.h"

namespace camshaft::tools {

struct BuildArguments {
  std::string device = "cpu", threads, tolerance, seed, verify_seconds, inputs;
  bool fp16 = false, bf16 = false, tf32 = false;
  std::vector<std::string> shapes;

  /// Adds --device, --fp16, --bf16, --tf32, --threads, --tolerance, --seed, --verify-seconds, --inputs and
  /// --shapes to a command.
  void add_to(CLI::App& command, const char* shapes_help);
  /// With progress on the terminal and Ctrl-C wired up, without --inputs and --shapes. Throws Error(invalid_argument).
  BuildOptions options(Progress& progress) const;
  /// The arrays of --inputs.
  NamedTensors read_inputs() const;
};

}  // namespace camshaft::tools
