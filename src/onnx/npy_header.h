// The header of a .npy file: a Python dictionary of three entries.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ir/tensor.h"

namespace camshaft::onnx {

struct NpyHeader {
  std::string descr;  ///< e.g. "<f4"
  bool fortran_order = false;
  Dims dims;
  size_t size = 0;  ///< bytes of the file before the elements
};

/// Throws Error(io) that starts with `name`.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name);

}  // namespace camshaft::onnx
