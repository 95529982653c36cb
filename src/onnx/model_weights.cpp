#include "onnx/model_weights.h"

#include <algorithm>

#include "ir/provenance.h"

namespace camshaft::onnx {

namespace {

// TensorProto.DataType: those in which shapes, indices, masks and texts are written.
constexpr int32_t usually_no_weights[] = {4, 5, 6, 7, 8, 9, 12, 13};
constexpr double many = Provenance::most_literal_bytes / 8;

}  // namespace

bool holds_weights(const NodeProto& node) {
  if (node.op_type != "Constant" || !(node.domain.empty() || node.domain == "ai.onnx")) return false;
  if (node.outputs.size() != 1 || node.outputs[0].empty()) return false;
  const AttributeProto* value = node.find_attribute("value");
  if (!value || value->type != AttributeType::tensor) return false;
  const TensorProto& tensor = value->tensors[0];
  double elements = 1;
  for (const int64_t size : tensor.dims) elements *= static_cast<double>(size);
  const bool is_usual = std::find(std::begin(usually_no_weights), std::end(usually_no_weights), tensor.data_type) ==
                        std::end(usually_no_weights);
  return elements > (is_usual ? 1 : many);
}

}  // namespace camshaft::onnx
