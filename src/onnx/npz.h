// NumPy's archives of named arrays: a zip file with one .npy for each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/tensor.h"

namespace camshaft::onnx {

using NamedArrays = std::vector<std::pair<std::string, Tensor>>;

/// Whether a file is such an archive, by its name.
bool is_npz(const std::string& path);
/// All arrays of an archive, in the order of the file, stored or compressed; of a .npy file its one, without a name.
/// Throws Error(io) that names the file and the array: see parse_npy; also for a file that is no zip, is truncated, or
/// has a wrong checksum.
NamedArrays read_arrays(const std::string& path);

}  // namespace camshaft::onnx
