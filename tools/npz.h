// NumPy's archives of named arrays: a zip file with one .npy for each.
#pragma once

#include <string>

#include "camshaft/tensor.hpp"

namespace camshaft::tools {

/// Reads all arrays of an archive, in the order of the file, stored or compressed. Throws Error(io) that names the file
/// and the array: see parse_npy; also for a file that is no zip, is truncated, or has a wrong checksum.
NamedTensors read_npz(const std::string& path);
/// Reads one .npy file.
Tensor read_npy(const std::string& path);

/// Writes an uncompressed archive, whole or not at all. Tensors of dtypes that NumPy lacks are written as to_numpy
/// makes them. Throws Error(io).
void write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace camshaft::tools
