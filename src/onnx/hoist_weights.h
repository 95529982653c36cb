// Weights in the bodies of branches and loops, as weights of the main graph.
#pragma once

#include "onnx/proto.h"

namespace camshaft::onnx {

/// Moves initializers of bodies, and what their Constant nodes have as weights (see weights_of()), into the main graph,
/// which bodies read from. One keeps its name where nothing else in the model has it; else it is
/// "<node>/<attribute>/<name>". Bodies of functions stay as they are.
void hoist_weights(ModelProto& model);

}  // namespace camshaft::onnx
