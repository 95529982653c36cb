// NumPy's array format (numpy.lib.format, versions 1.0 to 3.0).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ir/tensor.h"

namespace camshaft::onnx {

/// The array in the bytes of a .npy file. Reads little-endian booleans, integers and floats, strings ('S' as they are,
/// 'U' as UTF-8), bf16 as the two raw bytes ('V2') that ml_dtypes writes, and Fortran order, which is rearranged.
/// Throws Error(io) that starts with `name` for bytes that are no such array, for objects and records, and for
/// big-endian elements.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name);

}  // namespace camshaft::onnx
