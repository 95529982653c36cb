// Who says whether an engine's results are right.
#pragma once

#include <string>
#include <vector>

#include "camshaft/builder.hpp"
#include "camshaft/tensor.hpp"
#include "tools/progress.h"

namespace camshaft::tools {

struct Verdict {
  std::vector<OutputError> errors;
  std::string failure;              ///< of the builder, which names the layer; or that the reference evaluation refuses
  std::vector<std::string> passes;  ///< of the optimiser, as BuildReport::passes
  std::string layers;               ///< what the layers said where the outputs cannot tell; empty: the outputs can
  bool passed() const;
};

/// The two judges: the reference evaluation, and ONNX Runtime (see onnxruntime_process.h).
enum class Judge { reference, onnxruntime };

/// What the options have as well, as ONNX Runtime needs it.
struct JudgedInputs {
  NamedTensors inputs;                       ///< those given; others are made from the seed
  Progress* progress = nullptr;              ///< nobody is told
  std::vector<std::string> custom_ops = {};  ///< libraries of operators that it loads
};

/// Builds the model and compares the engine's results with the judge's. Options say on what inputs. Throws Error; a
/// difference is a verdict, not an error.
Verdict judge(const std::string& model, Judge who, const BuildOptions& options, const JudgedInputs& given);

}  // namespace camshaft::tools
