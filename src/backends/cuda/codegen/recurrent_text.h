// The kernels of recurrent layers as CUDA C++ text.
#pragma once

#include <string>

#include "ir/ops/recurrent.h"

namespace camshaft::cuda {

/// Threads of a block, and the rows of a batch that one of "advance" goes on with.
constexpr unsigned recurrent_threads = 256;
constexpr unsigned recurrent_batch_tile = 4;

/// Whether kernels have all that the layer asks for: its activations are sigmoid, tanh and relu, the same in both
/// directions, and a GRU resets after the product.
bool has_recurrent_text(const ops::Recurrent& op);

/// Kernels of device/recurrent.cuh with its functions' parameters: "begin", "project", "advance".
std::string recurrent_text(const ops::Recurrent& op, DType dtype, bool peepholes);

}  // namespace camshaft::cuda
