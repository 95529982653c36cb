// Loads libraries of ONNX Runtime's custom operators.
#pragma once

#include <string>

namespace camshaft::ort {

/// Loads the operators that the library's RegisterCustomOps registers, for the whole process. Loading the same library
/// again changes nothing. Throws Error: io for no such file, else invalid_argument that names it and says what is
/// wrong: no library, no RegisterCustomOps, a version of the interface that is too new, a status or an exception.
void load_custom_ops(const std::string& library);

}  // namespace camshaft::ort
