// Tensors between Python and the library.
#pragma once

#include <Python.h>

#include "camshaft/tensor.hpp"

namespace camshaft::python {

/// What a DLPack capsule holds; valid as long as the capsule is. `writable`: it will be written to. Throws
/// Error(invalid_argument), which begins with `what`, for elements of a type that the library does not have, strides
/// that are not row-major without gaps, and devices other than the CPU and CUDA's.
Tensor view_of_capsule(PyObject* capsule, const std::string& what, bool writable);

/// A DLPack capsule ("dltensor") of the tensor's memory, which keeps `owner` alive. Throws Error(invalid_argument) for
/// strings and containers. Null when Python has an error.
PyObject* capsule_of(const Tensor& tensor, PyObject* owner);

}  // namespace camshaft::python
