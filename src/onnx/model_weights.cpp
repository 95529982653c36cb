#include "onnx/model_weights.h"

#include <algorithm>

#include "ir/provenance.h"

namespace camshaft::onnx {

namespace {

// TensorProto.DataType: those in which shapes, indices, masks and texts are written.
constexpr int32_t usually_no_weights[] = {4, 5, 6, 7, 8, 9, 12, 13};
constexpr double many = Provenance::most_literal_bytes / 8;

}  // namespace

const AttributeProto* weights_of(const NodeProto& node) {
  if (node.op_type != "Constant" || !(node.domain.empty() || node.domain == "ai.onnx")) return nullptr;
  if (node.outputs.size() != 1 || node.outputs[0].empty()) return nullptr;
  const AttributeProto* value = node.find_attribute("value");
  // A damaged one may be a reference to a function's attribute, which has no value.
  if (!value || value->type != AttributeType::tensor || value->tensors.empty()) return nullptr;
  const TensorProto& tensor = value->tensors[0];
  double elements = 1;
  for (const int64_t size : tensor.dims) elements *= static_cast<double>(size);
  const bool is_usually_one = std::find(std::begin(usually_no_weights), std::end(usually_no_weights),
                                        tensor.data_type) == std::end(usually_no_weights);
  return elements > (is_usually_one ? 1 : many) ? value : nullptr;
}

}  // namespace camshaft::onnx
