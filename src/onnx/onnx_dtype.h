// ONNX's numbering of element types (TensorProto.DataType) and DType.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace camshaft::onnx {

/// "FLOAT16", as onnx.proto spells it; "data type 99" for numbers that ONNX does not define.
std::string data_type_name(int32_t data_type);

/// Throws Error(unsupported) for a type of ONNX that DType lacks (complex, f8 FNUZ, f8e8m0, 2-bit),
/// Error(invalid_model) for UNDEFINED and for numbers ONNX does not define. `where` begins the message: "model.onnx:
/// tensor 'w'".
DType dtype_from_onnx(int32_t data_type, std::string_view where);

/// The inverse; containers have no number: Error(internal).
int32_t dtype_to_onnx(DType dtype);

}  // namespace camshaft::onnx
