// Types of sequences, optionals and maps, and of what they hold.
#pragma once

#include <string>

#include "ir/op.h"

namespace camshaft {

/// A size that says nothing: in the types of elements only. Printed "?".
const Dim& unknown_dim();

/// What `type` is as the type of an element: sizes that only running tells become unknown, for nothing would bind them
/// where the element is taken out again.
TensorType element_type(const TensorType& type);
/// A type of elements of which nothing but the dtype is known.
TensorType any_tensor(DType dtype);

/// `element` as element_type() gives it.
TensorType sequence_of(TensorType element, Dim length);
TensorType optional_of(TensorType element);
TensorType map_of(DType keys, DType values);

/// The type of elements that are of either type. Throws Error(invalid_argument) when no type is: the dtypes differ.
TensorType join_elements(const TensorType& a, const TensorType& b);
/// Whether all elements of type `given` are of type `wanted`, as far as types tell.
bool accepts_element(const TensorType& wanted, const TensorType& given);

/// What is wrong with the type of a value, or of an element: wrong rank of a container, unknown sizes outside of
/// elements, and so on. Empty when it is well-formed.
std::string malformed(const TensorType& type);
std::string malformed_element(const TensorType& type);

/// Throws Error(invalid_argument), naming `what`, unless the elements of a container have the dtypes, ranks and fixed
/// sizes that `type` says. For data from outside. Does nothing for plain tensors.
void check_elements(const Tensor& tensor, const TensorType& type, const std::string& what);

}  // namespace camshaft
