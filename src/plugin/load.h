// Operators from outside, for the whole process.
#pragma once

#include <string>
#include <vector>

#include "camshaft/camshaft_plugin.h"

namespace camshaft::plugin {

/// Loads operators, told apart by what `source` is: a shared library (docs/plugins.md), an ONNX model whose functions
/// are operators, or the text of one, "my::Scaled(x, alpha = 1) = alpha * tanh(x)". Loading the same thing again
/// changes nothing. Throws Error: io where there is no such file, invalid_argument for one that is no plugin, of
/// another interface, or with an operator that is known already; none of its operators is loaded then.
void load(const std::string& source);

/// One that is in the program: see camshaft_register_plugin. Throws as above.
void add(const camshaft_plugin_operator& given, const std::string& source, const std::string& hash);

}  // namespace camshaft::plugin
