// ONNX Runtime as a second opinion, in a Python process of its own.
#pragma once

#include <string>
#include <vector>

#include "camshaft/cancellation.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft::tools {

/// The model's outputs for these inputs, both by the names given. `custom_ops` are libraries of operators that it loads
/// before. The interpreter is $CAMSHAFT_PYTHON, else python3 on
/// the PATH; tensors are exchanged as .npz files in a temporary folder. Throws Error(invalid_argument) when there is no
/// such interpreter or it cannot import numpy and onnxruntime, Error(unsupported) when ONNX Runtime refuses the model,
/// Error(cancelled).
std::vector<Tensor> run_onnxruntime(const std::string& model, const NamedTensors& inputs,
                                    const std::vector<std::string>& output_names,
                                    const std::vector<std::string>& custom_ops, int threads,
                                    const Cancellation& cancellation);

}  // namespace camshaft::tools
