// Names from a file, made safe to print.
#pragma once

#include <string>
#include <string_view>

namespace camshaft::onnx {

/// 'text' with control characters as \xNN, cut after 80 bytes: a name out of a damaged file may be anything.
std::string quote(std::string_view text);

}  // namespace camshaft::onnx
