// NumPy's archives of named arrays: a zip file with one .npy for each.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/tensor.h"
#include "ir/tensor.h"

namespace camshaft {

/// Tensors by name, in the order of the file.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Reads all arrays of an archive, stored or compressed. Throws Error(io) that names the file and the array: see
/// parse_npy; also for a file that is no zip, is truncated, or has a wrong checksum.
NamedTensors read_npz(const std::string& path);
/// Reads one .npy file.
Tensor read_npy(const std::string& path);

/// The tensors as views, for BuildOptions::verification_inputs; `tensors` must live as long as they are used.
std::map<std::string, TensorView> views(const NamedTensors& tensors);

/// Writes an uncompressed archive, whole or not at all. Tensors of dtypes that NumPy lacks are written as to_numpy
/// makes them. Throws Error(io).
void write_npz(const std::string& path, const NamedTensors& tensors);

}  // namespace camshaft
