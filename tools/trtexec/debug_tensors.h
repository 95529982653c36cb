// Debug tensors: what a build keeps beside the outputs, and files of them.
#pragma once

#include <string>
#include <vector>

#include "camshaft/context.hpp"
#include "camshaft/engine.hpp"
#include "tools/trtexec/settings.h"

namespace camshaft::tools::trtexec {

/// The names of those outputs of an engine that were marked when it was built (--markDebug).
std::vector<std::string> debug_tensors_of(const Engine& engine);

/// Writes and prints those of the last run that are asked for. Throws Error(invalid_argument) for a name that was not
/// marked.
void save_debug_tensors(const Engine& engine, Context& context, const DebugSettings& settings);

}  // namespace camshaft::tools::trtexec
