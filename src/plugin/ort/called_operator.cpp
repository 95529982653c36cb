#include "plugin/ort/called_operator.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "onnx/converters.h"
#include "onnx/importer.h"
#include "onnx/onnx_dtype.h"
#include "plugin/ort/api.h"
#include "reference/evaluate.h"

namespace camshaft::ort {

namespace {

constexpr int64_t most_of_a_shape = 64;  // elements

bool may_be_a_shape(const Value& value) {
  return (value.dtype == DType::i64 || value.dtype == DType::i32) && value.dims.size() <= 1 &&
         element_count(value.dims) <= most_of_a_shape;
}

onnx::AttributeProto attribute_proto(const PluginAttribute& given) {
  onnx::AttributeProto made;
  made.name = given.name;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&given.value)) {
    made.type = given.single ? onnx::AttributeType::int_ : onnx::AttributeType::ints;
    made.ints = *integers;
    if (given.single) made.i = integers->at(0);
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&given.value)) {
    made.type = given.single ? onnx::AttributeType::float_ : onnx::AttributeType::floats;
    for (const double value : *numbers) made.floats.push_back(static_cast<float>(value));
    if (given.single) made.f = made.floats.at(0);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&given.value)) {
    made.type = given.single ? onnx::AttributeType::string : onnx::AttributeType::strings;
    made.strings = *texts;
    if (given.single) made.s = texts->at(0);
  } else {
    throw Error(ErrorCode::unsupported, fmt::format("its attribute '{}' is a tensor", given.name));
  }
  return made;
}

Tensor view_of(const Value& value) {
  return Tensor(value.dtype, value.dims, {value.data, value.bytes()}, nullptr);
}

}  // namespace

CalledOperator::CalledOperator(const std::string& name, const std::string& domain, int64_t version,
                               const std::vector<const OpAttribute*>& attributes, size_t inputs, size_t outputs)
    : version_(version) {
  if (!onnx::find_converter(domain, name, version))
    throw Error(ErrorCode::unsupported, fmt::format("there is no operator {}{}{} of version {}", domain,
                                                    domain.empty() ? "" : "::", name, version));
  node_.name = node_.op_type = name;
  node_.domain = domain == "ai.onnx" ? "" : domain;
  for (const OpAttribute* attribute : attributes) node_.attributes.push_back(attribute_proto(attribute->attribute));
  for (size_t i = 0; i < inputs; ++i) node_.inputs.push_back(fmt::format("i{}", i));
  for (size_t o = 0; o < outputs; ++o) node_.outputs.push_back(fmt::format("o{}", o));
}

Graph CalledOperator::graph_for(const std::vector<const Value*>& inputs) const {
  onnx::ModelProto model;
  model.file = "an operator that a custom operator calls";
  model.ir_version = 8;
  model.opsets = {{"", onnx::newest_opset}};
  model.opsets[node_.domain] = version_;
  onnx::NodeProto node = node_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) {
      node.inputs[i].clear();
      continue;
    }
    const Value& value = *inputs[i];
    if (may_be_a_shape(value)) {
      onnx::TensorProto constant;
      constant.name = node.inputs[i];
      constant.dims = value.dims;
      constant.data_type = onnx::dtype_to_onnx(value.dtype);
      constant.raw_data = {value.data, value.bytes()};
      model.graph.initializers.push_back(std::move(constant));
      continue;
    }
    onnx::ValueInfoProto info;
    info.name = node.inputs[i];
    info.type.kind = onnx::TypeProto::Kind::tensor;
    info.type.elem_type = onnx::dtype_to_onnx(value.dtype);
    info.type.shape.emplace();
    for (const int64_t d : value.dims) info.type.shape->push_back({d, ""});
    model.graph.inputs.push_back(std::move(info));
  }
  for (const std::string& name : node.outputs) {
    model.graph.outputs.emplace_back();
    model.graph.outputs.back().name = name;
  }
  model.graph.nodes.push_back(std::move(node));
  return std::move(onnx::import_model(model).graph);
}

void CalledOperator::run(const std::vector<const Value*>& inputs, const std::vector<Value*>& outputs,
                         ThreadPool& pool) const {
  if (inputs.size() != node_.inputs.size() || outputs.size() != node_.outputs.size())
    throw Error(ErrorCode::invalid_argument, fmt::format("{} was made with {} inputs and {} outputs", node_.op_type,
                                                         node_.inputs.size(), node_.outputs.size()));
  const Graph graph = graph_for(inputs);
  std::vector<Tensor> operands;
  for (const Value* input : inputs)
    if (input && !may_be_a_shape(*input)) operands.push_back(view_of(*input));
  const std::vector<Tensor> results = evaluate(graph, operands, pool);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o]) continue;
    if (outputs[o]->dtype != results[o].dtype() || outputs[o]->dims != results[o].dims())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("output {} of {} is {}[{}], and its tensor {}[{}]", o, node_.op_type,
                              to_string(results[o].dtype()), fmt::join(results[o].dims(), ", "),
                              to_string(outputs[o]->dtype), fmt::join(outputs[o]->dims, ", ")));
    if (results[o].bytes() > 0) std::memcpy(outputs[o]->data, results[o].data(), results[o].bytes());
  }
}

// ---- The functions of the table ----

namespace {

Status* create_operator(const KernelInfo*, const char* name, const char* domain, int version, const char**,
                        const ElementType*, int, const OpAttribute* const* attributes, int attribute_count, int inputs,
                        int outputs, CalledOperator** out) {
  return guarded([&]() -> Status* {
    if (attribute_count < 0 || inputs < 0 || outputs < 0) return failure(invalid_argument, "a count is negative");
    // Types follow from the operands.
    *out = new CalledOperator(name, domain ? domain : "", version, {attributes, attributes + attribute_count},
                              static_cast<size_t>(inputs), static_cast<size_t>(outputs));
    return nullptr;
  });
}
Status* call_operator(const KernelContext* context, const CalledOperator* op, const Value* const* inputs,
                      int input_count, Value* const* outputs, int output_count) {
  return guarded([&]() -> Status* {
    ThreadPool alone(1);
    op->run({inputs, inputs + input_count}, {outputs, outputs + output_count},
            context->call.pool ? *context->call.pool : alone);
    return nullptr;
  });
}
void release_operator(CalledOperator* op) {
  delete op;
}

}  // namespace

void add_operator_functions(Api& t) {
  put(t, slot("CreateOp"), create_operator);
  put(t, slot("InvokeOp"), call_operator);
  put(t, slot("ReleaseOp"), release_operator);
}

}  // namespace camshaft::ort
