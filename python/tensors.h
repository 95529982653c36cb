// Tensors between Python and the library.
#pragma once

#include <Python.h>

#include <string_view>

#include "camshaft/tensor.hpp"

namespace camshaft::python {

/// What an array is for, as errors say it: "input 'x'". Made into text for these alone, as it was 0.1 us of each call.
struct ArrayUse {
  std::string_view kind;
  std::string_view name;
};

/// What a DLPack capsule holds; valid as long as the capsule is. `writable`: it will be written to. Throws
/// Error(invalid_argument), which begins with `use`, for elements of a type that the library does not have, strides
/// that are not row-major without gaps, and devices other than the CPU and CUDA's.
Tensor view_of_capsule(PyObject* capsule, const ArrayUse& use, bool writable);

/// A DLPack capsule ("dltensor") of the tensor's memory, which keeps `owner` alive. Throws Error(invalid_argument) for
/// strings and containers. Null when Python has an error.
PyObject* capsule_of(const Tensor& tensor, PyObject* owner);

}  // namespace camshaft::python
