#include "doubling_model.h"

#include "onnx/proto_writer.h"

namespace camshaft::api {

std::string doubling_model() {
  onnx::ModelProto model;
  model.ir_version = 8;
  model.opsets[""] = 17;
  onnx::NodeProto add;
  add.op_type = "Add";
  add.inputs = {"x", "x"};
  add.outputs = {"y"};
  model.graph.nodes = {add};
  onnx::TypeProto pair;
  pair.kind = onnx::TypeProto::Kind::tensor;
  pair.elem_type = 1;  // FLOAT
  pair.shape = {{.value = 2, .param = ""}};
  model.graph.name = "doubling";
  model.graph.inputs = {{"x", pair}};
  model.graph.outputs = {{"y", pair}};
  return onnx::model_bytes(model);
}

}  // namespace camshaft::api
