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

/// Texts as bytes, in row-major order. Throws Error(invalid_argument) for another number of them than the dims say.
Tensor tensor_of_texts(PyObject* texts, const Dims& dims);

/// What an input is given as: a DLPack capsule, which view_of_capsule() sees; ("string", dims, texts as bytes); or
/// ("seq", "opt" or "map", list of the same), of which the tensor is a copy.
Tensor tensor_of(PyObject* given, const ArrayUse& use);

/// The same form of a tensor. Its DLPack capsules keep the tensor, whose memory they are of.
PyObject* value_of(const Tensor& tensor);

/// A DLPack capsule ("dltensor") of the tensor's memory, which keeps `owner` alive. Throws Error(invalid_argument) for
/// strings and containers. Null when Python has an error.
PyObject* capsule_of(const Tensor& tensor, PyObject* owner);

}  // namespace camshaft::python
