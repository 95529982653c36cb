// A model in memory, for tests that know the public headers alone.
#pragma once

#include <string>

namespace camshaft::api {

/// The bytes of an ONNX file: y = x + x of two floats.
std::string doubling_model();

}  // namespace camshaft::api
