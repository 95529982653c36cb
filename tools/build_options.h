// Options of the commands that build or verify: `build`, `verify`, `simplify` and `quantize`.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "camshaft/builder.hpp"
#include "tools/limit_options.h"
#include "tools/npz.h"
#include "tools/progress.h"
#include "tools/shapes_option.h"

namespace camshaft::tools {

struct BuildArguments {
  std::string device = "cpu", calibration, threads, tolerance, seed, verify_seconds;
  std::vector<std::string> inputs;
  LimitOptions limits;
  bool fp16 = false, bf16 = false, tf32 = false, int8 = false, fp8 = false, best = false, strongly_typed = false;
  std::string precision_constraints;
  std::vector<std::string> layer_precisions, layer_output_types;
  std::vector<std::string> shapes;

  /// Adds --device, --fp16, --bf16, --tf32, --int8, --fp8, --calibration, --best, --strongly-typed,
  /// --layer-output-types, and those of add_layer_precisions_to() and add_verification_to() to a command.
  void add_to(CLI::App& command, const char* shapes_help);
  /// Adds --layer-precisions and --precision-constraints.
  void add_layer_precisions_to(CLI::App& command, const char* help);
  /// Adds --threads, --tolerance, --seed, --verify-seconds, --max-operations, --max-memory, --inputs and --shapes.
  void add_verification_to(CLI::App& command, const char* shapes_help);
  /// With progress on the terminal and Ctrl-C wired up, without --inputs and --shapes. Throws Error(invalid_argument).
  BuildOptions options(Progress& progress) const;
  /// The arrays of --inputs.
  std::vector<NamedTensors> read_inputs() const;
  void set_inputs(BuildOptions& options) const;
};

}  // namespace camshaft::tools
