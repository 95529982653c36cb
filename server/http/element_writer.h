// Elements of tensors as JSON.
#pragma once

#include <string>

#include "server/core/tensor.h"

namespace camshaft::server {

/// Appends the elements, with commas between them. Numbers are the shortest that read as the same value; what is no
/// number or infinite is NaN, Infinity, -Infinity, as Triton's clients read them. Throws ServerError: unsupported for
/// FP16 and BF16, invalid_argument for texts that are not UTF-8; internal where elements and bytes differ.
void append_elements(std::string& out, const NamedTensor& tensor);

}  // namespace camshaft::server
