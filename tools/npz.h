// NumPy's archives of named arrays: a zip file with one .npy for each.
#pragma once

#include <string>

#include "camshaft/tensor.hpp"

namespace camshaft::tools {

/// The array of a .npy file. Throws Error(io), also for an archive.
Tensor read_npy(const std::string& path);

/// Writes an uncompressed archive, whole or not at all. Tensors of dtypes that NumPy lacks are written as to_numpy
/// makes them. Throws Error(io).
void write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace camshaft::tools
