// What the page of `camshaft report` shows, as data.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "camshaft/engine.hpp"
#include "tools/open_engine.h"

namespace camshaft::tools {

/// What is asked for beside the engine itself.
struct PageRequest {
  std::string path;          ///< of the engine, or of the model it was built of just now
  std::string model;         ///< the ONNX file that it was built of; empty: not known
  std::string build_report;  ///< what `camshaft build --json` printed; empty: not given
  bool measures = true;      ///< runs it, for as long as `seconds`
  double seconds = 1;
  double tolerance = 1e-4;  ///< of a tensor's error, as a part of its scale
  int threads = 0;
  LimitOptions limits = {};
};

/// {title, inspection, why, inputs, threads, device, measured, arena, model, errors, tolerance, build}; null is what is
/// not known: `measured` when nothing was, `model` and `errors` without the model, `build` without its report. Throws
/// Error.
nlohmann::json page_data(const PageRequest& request, const OpenedEngine& opened, const std::vector<Tensor>& inputs,
                         Progress& progress);

}  // namespace camshaft::tools
