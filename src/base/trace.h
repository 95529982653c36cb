// What the environment variable CAMSHAFT_TRACE asks to see: words with commas between them.
#pragma once

#include <string_view>

namespace camshaft {

/// Whether it names `what`: "passes" (each pass of the optimiser), "layers" (no recordings, so that a profiler can tell
/// which kernels a layer launched).
bool is_traced(std::string_view what);

}  // namespace camshaft
