// The layers of an engine as a graph to look at.
#pragma once

#include <string>

#include "runtime/engine.h"

namespace camshaft::api {

/// The bytes of an ONNX file that viewers (Netron) show: a node for each layer, of the domain "camshaft" and the
/// layer's op, with edges through the views between layers, and with what is known of the layer as attributes. It has
/// no weights, and nothing runs it: constants are named in attributes. An output that is a view of a layer's result, of
/// several layers' or of an input is a node "view".
std::string layer_graph(const Engine& engine);

}  // namespace camshaft::api
