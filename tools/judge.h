// Who says whether an engine's results are right.
#pragma once

#include <string>
#include <vector>

#include "camshaft/builder.h"
#include "ir/tensor.h"

namespace camshaft {

struct Verdict {
  std::vector<OutputError> errors;
  std::string failure;              ///< of the builder, which names the layer; or that the reference evaluation refuses
  std::vector<std::string> passes;  ///< of the optimiser, as BuildReport::passes
  std::string layers;               ///< what the layers said where the outputs cannot tell; empty: the outputs can
  bool passed() const;
};

/// The two judges: the reference evaluation, and ONNX Runtime (see onnxruntime_process.h).
enum class Judge { reference, onnxruntime };

/// Builds the model and compares the engine's results with the judge's. Options say on what inputs. Throws Error; a
/// difference is a verdict, not an error.
Verdict judge(const std::string& model, Judge who, BuildOptions options);

}  // namespace camshaft
