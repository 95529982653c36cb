// Replacing weights, as trtexec does.
#pragma once

#include <string>

#include "camshaft/engine.hpp"

namespace camshaft::tools::trtexec {

/// Replaces the engine's weights by those of a model, and says how long it took. Throws what Refitter throws.
void refit(const Engine& engine, const std::string& model);
/// Prints what can be replaced, and the layers that read it. Throws Error(invalid_argument) for an engine that cannot
/// be refitted.
void print_refittable(const Engine& engine);

}  // namespace camshaft::tools::trtexec
