// Tensors between Python and the library.
#pragma once

#include <Python.h>

#include "camshaft/tensor.h"

namespace camshaft::python {

/// What a DLPack capsule holds; valid as long as the capsule is. `writable`: it will be written to. Throws
/// Error(invalid_argument), which begins with `what`, for elements of a type that the library does not have, strides
/// that are not row-major without gaps, and devices other than the CPU and CUDA's.
TensorView view_of_capsule(PyObject* capsule, const std::string& what, bool writable);

/// A DLPack capsule ("dltensor") of the view's memory, which keeps `owner` alive. Throws Error(invalid_argument) for
/// strings and containers. Null when Python has an error.
PyObject* capsule_of(const TensorView& view, PyObject* owner);

}  // namespace camshaft::python
