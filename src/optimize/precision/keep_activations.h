#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Drops RoundBlocks: what it rounds is taken as it is. For backends without products of weights of few bits by bytes,
/// and for models that are written as ONNX: the rounding is allowed (MatMulNBits' accuracy_level), not asked for.
void keep_activations(Graph& graph, const PassContext& context);
inline constexpr Pass keep_activations_pass = {
    .name = "keep_activations", .run = keep_activations, .before = {Fact::regions}};

}  // namespace camshaft
