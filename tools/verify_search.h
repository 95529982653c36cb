// What of a model, or of the compiler, is to blame for a difference.
#pragma once

#include <string>

#include "tools/judge.h"

namespace camshaft::tools {

/// The optimiser pass after which the results differ for the first time, by building with ever more passes: a
/// sentence. For a model that passes, or that differs without any pass, it says that.
std::string bisect_passes(const std::string& model, Judge who, const BuildOptions& options, const JudgedInputs& given);

/// Where reduce() writes the inputs of the model `output`: beside it, with the ending .npz.
std::string reduced_inputs(const std::string& output);

/// What reduce() wrote.
struct Reduction {
  int64_t nodes = 0, nodes_before = 0;
  std::string model, inputs;  ///< files: .onnx, and .npz for --inputs
};

/// Writes the smallest part of the model that still differs to `output`, and its inputs to
/// reduced_inputs(output). Throws Error(invalid_argument) when the model does not differ.
Reduction reduce(const std::string& model, Judge who, const BuildOptions& options, const std::string& output);

}  // namespace camshaft::tools
