// NumPy's array format (numpy.lib.format, versions 1.0 to 3.0).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "camshaft/tensor.hpp"

namespace camshaft::tools {

/// The header of a .npy file, version 1.0, padded so that the elements behind it start at a multiple of 64. `dtype`
/// must be one that NumPy has (see to_numpy); `string_length` is the longest string's number of code points.
std::string npy_header(DType dtype, const Dims& dims, size_t string_length = 0);

/// The elements of a tensor as they stand behind that header: the tensor's own bytes, or `storage` filled with UTF-32
/// for strings.
struct NpyContent {
  std::string header;
  std::span<const std::byte> elements;
  std::u32string storage;
};
NpyContent npy_content(const Tensor& tensor);

/// A tensor with a dtype that NumPy has, equal to `tensor` in every element: bf16 and the 8- and 4-bit floats become
/// f32, 4-bit integers become 8-bit ones.
Tensor to_numpy(const Tensor& tensor);
/// The inverse: `array` (as read_npz gives it) as a tensor of dtype `wanted`, whose dtype it must have, or the one that
/// to_numpy gives for it. Throws Error(invalid_argument) that starts with `name`, with both dtypes.
Tensor from_numpy(const Tensor& array, DType wanted, const std::string& name);

}  // namespace camshaft::tools
