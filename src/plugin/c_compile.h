// Kernels that a plugin behind the C interface compiles ahead of time.
#pragma once

#include <functional>
#include <string>

#include "camshaft/camshaft_plugin.h"
#include "ir/compiled_plugin.h"
#include "ir/plugin_notes.h"

namespace camshaft::plugin {

/// Of a node.
inline constexpr size_t most_tactics = 64;

/// A function of the table, called so that what it throws is an error.
using CompileCall = std::function<int32_t(camshaft_plugin_kernels*)>;

/// What `compile` says of a node's operands, with the results that `instance` infers; no tactics where it adds none.
/// `who`: "the plugin example::Gelu (libgelu.so)". Throws Error(invalid_argument).
CompiledPlugin compile_ahead(const std::string& who, const PluginInstance& instance, const PluginModelNode& node,
                             bool has_body, const CompileCall& compile);

}  // namespace camshaft::plugin
