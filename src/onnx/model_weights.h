// Which tensors of a model are its weights.
#pragma once

#include <set>
#include <string>

#include "onnx/proto.h"

namespace camshaft::onnx {

/// The attribute of a Constant node that has weights, as some exporters write them (PaddlePaddle's all); null for other
/// nodes. Single numbers, and integers, masks and texts are a part of what the model computes, an ε or a shape, unless
/// they are many: those that the record of a constant's origin could not hold.
const AttributeProto* weights_of(const NodeProto& node);

/// Calls visit(name, tensor) for each initializer of the main graph, and for what its Constant nodes have as weights,
/// which have the names of their outputs. `Model`: a ModelProto, maybe const.
template <class Model, class Visit>
void for_each_weight(Model& model, const Visit& visit) {
  for (auto& tensor : model.graph.initializers) visit(tensor.name, tensor);
  for (auto& node : model.graph.nodes)
    if (const AttributeProto* const weights = weights_of(node))
      for (auto& attribute : node.attributes)  // by their address: of damaged nodes several may have its name
        if (&attribute == weights) visit(node.outputs[0], attribute.tensors[0]);
}

/// The weights of integers that nothing reads but as weights: the bias of a quantised convolution, codes and zero
/// points of few bits, what is dequantised. Others of so few elements may be sizes.
std::set<std::string> integer_weights(const ModelProto& model);

}  // namespace camshaft::onnx
