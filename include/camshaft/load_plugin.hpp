// Operators from outside.
#pragma once

#include <string>

#include "camshaft/camshaft_plugin.h"
#include "camshaft/error.hpp"
#include "camshaft/record.hpp"

namespace camshaft {
inline namespace v1 {

/// Loads operators for the whole process: of a shared library (plugin.hpp says how one is made), of an ONNX model whose
/// functions are operators, or of one written as text, "my::Scaled(x, alpha = 1) = alpha * tanh(x)". Loading the same
/// thing again changes nothing. Throws Error: io, or invalid_argument for what is no plugin, is one for another version
/// of the interface, or brings an operator that is known already.
inline void load_plugin(const std::string& source) {
  detail::check(camshaft_load_plugin(source.c_str()));
}

/// Loads the operators of a library that was made for ONNX Runtime, by its RegisterCustomOps, for the whole process.
/// Loading the same library again changes nothing. Throws Error: io, or invalid_argument for what is no such library.
inline void load_ort_custom_ops(const std::string& library) {
  detail::check(camshaft_load_ort_custom_ops(library.c_str()));
}

/// Takes an operator, "my::Op", out of what models mean: another one of its name may be registered then. Engines keep
/// it. Throws Error(invalid_argument) where a plugin of that name is not loaded.
inline void unregister_plugin(const std::string& name) {
  detail::check(camshaft_unregister_plugin(name.c_str()));
}

/// What is loaded: [{name ("my::Op"), kind ("plugin", "text" or "function"), version, file, hash}].
inline Record plugins() {
  return detail::record_of([](camshaft_record** plugins) { return camshaft_list_plugins(plugins); });
}

/// How plugins are checked from now on: see CAMSHAFT_PLUGIN_GUARDS and CAMSHAFT_PLUGIN_VERIFY.
inline void set_plugin_checks(bool guards, bool verify) {
  detail::check(
      camshaft_set_plugin_checks((guards ? CAMSHAFT_PLUGIN_GUARDS : 0) | (verify ? CAMSHAFT_PLUGIN_VERIFY : 0)));
}

}  // namespace v1
}  // namespace camshaft
