#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Where the context says so, marks matrix products and convolutions of f32, those in regions too: their operands may
/// be rounded to TF32. Backends without such kernels, and the reference evaluation, take them as they are.
void allow_tf32(Graph& graph, const PassContext& context);

}  // namespace camshaft
