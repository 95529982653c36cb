// Recurrent layers, for the converters of several groups.
#pragma once

#include "ir/ops/recurrent.h"
#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// The node's outputs: a layer with the node's attributes on inputs in the order of ONNX's LSTM, GRU and RNN.
Values recurrent_layer(ConvertContext& c, ops::CellKind cell, Values inputs);

}  // namespace camshaft::onnx
