// An operator behind the C interface of plugins.
#pragma once

#include <memory>
#include <string>

#include "camshaft/camshaft_plugin.h"
#include "ir/plugin.h"

namespace camshaft::plugin {

/// Checks the table and takes it; what it points to must live as long as the process. `file` and `hash` as in
/// PluginOperator. An operator that is an expression has none: nullptr, with `expression` filled in, "a::B(x) = x".
/// Throws Error(invalid_argument) that names the file and what is missing.
std::shared_ptr<const PluginOperator> make_operator(const camshaft_plugin_operator& given, const std::string& file,
                                                    const std::string& hash, std::string& expression);

}  // namespace camshaft::plugin
