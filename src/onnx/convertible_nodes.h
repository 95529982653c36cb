// Which nodes of a model Camshaft can run, for those who run the others in another way.
#pragma once

#include <string>
#include <vector>

#include "onnx/proto.h"

namespace camshaft::onnx {

/// Why each node of the graph cannot be converted, in their order; "" for those that can. Nodes stand in the order in
/// which they can be computed. What a node computes that is refused counts as an input of the others, of the type that
/// value_infos or outputs declare; those that read it are refused where they do not. Throws what import_model() throws
/// for the model's inputs and initializers.
std::vector<std::string> refused_nodes(const ModelProto& model);

}  // namespace camshaft::onnx
