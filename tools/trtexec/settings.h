// What a run of trtexec is to do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "camshaft/options.hpp"
#include "tools/shapes_option.h"
#include "tools/trtexec/flags.h"

namespace camshaft::tools::trtexec {

struct BuildSettings {
  std::string model, calibration, timing_cache, constraints;
  std::vector<Profile> profiles;
  std::vector<std::string> layer_precisions, layer_output_types;
  std::vector<std::string> debug_tensors;
  std::vector<std::string> input_types, output_types;  ///< as they are wanted, of the first ones
  bool fp16 = false, bf16 = false, int8 = false, fp8 = false, best = false, tf32 = true, strongly_typed = false,
       measures = true;
  bool refit = false, strips_weights = false;
};

struct InferenceSettings {
  NamedShapes shapes;
  std::map<std::string, std::string> inputs;  ///< files by name
  int64_t iterations = 10;
  double warmup_ms = 200, duration_s = 3, sleep_ms = 0, idle_ms = 0;  ///< a duration below 0 never ends
  int streams = 1;
  bool data_transfers = true;
};

struct ReportSettings {
  int64_t average_runs = 10;
  std::vector<double> percentiles{90, 95, 99};
  bool verbose = false, output = false, raw_bindings = false, profile = false, layers = false, profiles = false,
       refittable = false;
  std::string export_times, export_output, export_profile, export_layers;
};

struct DebugSettings {
  std::map<std::string, std::string> files;  ///< of raw elements, by tensor
  std::vector<std::string> formats;          ///< of all debug tensors: "summary", "numpy", "string", "raw"
};

struct Settings {
  BuildSettings build;
  InferenceSettings inference;
  ReportSettings report;
  DebugSettings debug;
  std::string weight_budget;         ///< of a load; empty: none
  std::vector<std::string> plugins;  ///< libraries
  std::string refit_from;            ///< a model with new weights; empty: none
  std::string load, save, device;    ///< "cpu", "cuda:0", …; empty: a GPU where there is one
  bool skips_inference = false, times_loading = false, times_refit = false, version_only = false, help = false;
};

/// Throws Error(invalid_argument) for values that cannot be read, and for flags that do not go together.
Settings read_settings(const GivenFlags& flags);

}  // namespace camshaft::tools::trtexec
