// What the options of a build say of the model's inputs, as the importer and the verification take it.
#pragma once

#include "builder/builder.h"
#include "builder/verification_sample.h"
#include "onnx/importer.h"

namespace camshaft {

/// The shapes of all profiles.
onnx::ImportOptions import_options(const std::vector<Profile>& profiles);

/// Copies of what a caller has given.
std::map<std::string, Tensor> copies_of(const std::map<std::string, TensorView>& inputs);

/// Seed and given inputs of a build's verification; the inputs are copies.
SampleOptions sample_options(const BuildOptions& options);

}  // namespace camshaft
