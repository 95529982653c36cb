// Operators of ONNX Runtime's custom operator libraries as plugins' operators.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/plugin_notes.h"
#include "plugin/ort/abi.h"

namespace camshaft::ort {

/// One operator: all that a library registered under the same domain and name, which differ in types, in versions of
/// the operator set, or in what they run on. Those for the CPU are used. Throws Error(invalid_argument) for a table
/// that cannot be used, naming the operator. What `ops` point to must live as long as the process.
std::shared_ptr<const PluginOperator> make_custom_operator(const std::string& domain, std::vector<const CustomOp*> ops,
                                                           const std::string& file, const std::string& hash);

/// What a library calls its operator; throws Error(invalid_argument) for none, and for a table that is too new.
std::string name_of(const CustomOp& op);

}  // namespace camshaft::ort
