#include "onnx/proto_decoder.h"

#include <fmt/format.h>

#include "onnx/proto_reader.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

Decoder::Nesting::Nesting(Decoder& decoder, const WireReader& reader) : decoder_(decoder) {
  if (++decoder_.depth_ > kMaxNesting)
    reader.fail(fmt::format("graphs or types are nested deeper than {} levels", kMaxNesting));
}

void Decoder::attribute(WireReader reader, AttributeProto& out) {
  using Type = AttributeType;
  // The single forms are kept apart until the declared type is known: it may come last.
  std::vector<TensorProto> one_tensor;
  std::vector<GraphProto> one_graph;
  std::vector<SparseTensorProto> one_sparse_tensor;
  std::vector<TypeProto> one_type;
  int32_t declared = 0;
  uint32_t present = 0;  // bit t: a field for attribute type t was there
  Type last = Type::undefined;
  const auto has = [&](Type t) {
    last = t;
    present |= 1U << static_cast<uint32_t>(t);
  };
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.name = reader.string();
        break;
      case 2:
        has(Type::float_);
        out.f = reader.float32();
        break;
      case 3:
        has(Type::int_);
        out.i = reader.int64();
        break;
      case 4:
        has(Type::string);
        out.s = reader.string();
        break;
      case 5:
        has(Type::tensor);
        one_tensor.resize(1);
        tensor(reader.message("TensorProto"), one_tensor[0]);
        break;
      case 6:
        has(Type::graph);
        one_graph.resize(1);
        graph(reader.message("GraphProto"), one_graph[0]);
        break;
      case 7:
        has(Type::floats);
        reader.append(out.floats);
        break;
      case 8:
        has(Type::ints);
        reader.append(out.ints);
        break;
      case 9:
        has(Type::strings);
        out.strings.push_back(reader.string());
        break;
      case 10:
        has(Type::tensors);
        tensor(reader.message("TensorProto"), out.tensors.emplace_back());
        break;
      case 11:
        has(Type::graphs);
        graph(reader.message("GraphProto"), out.graphs.emplace_back());
        break;
      case 14:
        has(Type::type_proto);
        one_type.resize(1);
        type(reader.message("TypeProto"), one_type[0]);
        break;
      case 15:
        has(Type::type_protos);
        type(reader.message("TypeProto"), out.type_protos.emplace_back());
        break;
      case 20:
        declared = reader.int32();
        break;
      case 21:
        out.ref_attr_name = reader.string();
        break;
      case 22:
        has(Type::sparse_tensor);
        one_sparse_tensor.resize(1);
        sparse_tensor(reader.message("SparseTensorProto"), one_sparse_tensor[0]);
        break;
      case 23:
        has(Type::sparse_tensors);
        sparse_tensor(reader.message("SparseTensorProto"), out.sparse_tensors.emplace_back());
        break;
      default:
        reader.skip();
    }
  }
  if (out.name.empty()) reader.fail("an attribute has no name");
  if (declared < 0 || declared > static_cast<int32_t>(Type::type_protos))
    reader.fail(fmt::format("attribute {} has type {}, which ONNX does not define", quote(out.name), declared));
  out.type = static_cast<Type>(declared);
  if (!out.ref_attr_name.empty()) return;  // the value comes from the function's caller
  if (out.type == Type::undefined) {       // IR version 1 had no type field
    if (present == 0) reader.fail(fmt::format("attribute {} has neither a type nor a value", quote(out.name)));
    out.type = last;
  }
  // A declared scalar or list without its field is the default: 0, "" or empty, which some writers leave out.
  const bool has_declared = (present >> static_cast<uint32_t>(out.type) & 1U) != 0;
  const bool needs_field = out.type == Type::tensor || out.type == Type::graph || out.type == Type::sparse_tensor ||
                           out.type == Type::type_proto;
  if (!has_declared && (needs_field || present != 0))
    reader.fail(fmt::format("attribute {} is declared as type {} but its value {}", quote(out.name), declared,
                            present == 0 ? "is missing" : "is of another type"));
  if (out.type == Type::tensor) out.tensors = std::move(one_tensor);
  if (out.type == Type::graph) out.graphs = std::move(one_graph);
  if (out.type == Type::sparse_tensor) out.sparse_tensors = std::move(one_sparse_tensor);
  if (out.type == Type::type_proto) out.type_protos = std::move(one_type);
}

void Decoder::node(WireReader reader, NodeProto& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.inputs.push_back(reader.string());
        break;
      case 2:
        out.outputs.push_back(reader.string());
        break;
      case 3:
        out.name = reader.string();
        break;
      case 4:
        out.op_type = reader.string();
        break;
      case 5:
        attribute(reader.message("AttributeProto"), out.attributes.emplace_back());
        break;
      case 7:
        out.domain = normal_domain(reader.string());
        break;
      case 8:
        out.overload = reader.string();
        break;
      default:
        reader.skip();
    }
  }
  if (out.op_type.empty()) reader.fail(fmt::format("node {} has no operator type", quote(out.name)));
}

void Decoder::graph(WireReader reader, GraphProto& out) {
  const Nesting nesting(*this, reader);
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        node(reader.message("NodeProto"), out.nodes.emplace_back());
        break;
      case 2:
        out.name = reader.string();
        break;
      case 5:
        tensor(reader.message("TensorProto"), out.initializers.emplace_back());
        if (out.initializers.back().name.empty()) reader.fail("an initializer has no name");
        break;
      case 11:
        value_info(reader.message("ValueInfoProto"), out.inputs.emplace_back());
        break;
      case 12:
        value_info(reader.message("ValueInfoProto"), out.outputs.emplace_back());
        break;
      case 13:
        value_info(reader.message("ValueInfoProto"), out.value_infos.emplace_back());
        break;
      case 15:
        sparse_tensor(reader.message("SparseTensorProto"), out.sparse_initializers.emplace_back());
        if (out.sparse_initializers.back().values.name.empty()) reader.fail("a sparse initializer has no name");
        break;
      case 16:
        metadata(reader.message("StringStringEntryProto"), out.metadata);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::function(WireReader reader, FunctionProto& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.name = reader.string();
        break;
      case 4:
        out.inputs.push_back(reader.string());
        break;
      case 5:
        out.outputs.push_back(reader.string());
        break;
      case 6:
        out.attributes.push_back(reader.string());
        break;
      case 7:
        node(reader.message("NodeProto"), out.nodes.emplace_back());
        break;
      case 9:
        opset(reader.message("OperatorSetIdProto"), out.opsets);
        break;
      case 10:
        out.domain = normal_domain(reader.string());
        break;
      case 11:
        attribute(reader.message("AttributeProto"), out.default_attributes.emplace_back());
        break;
      case 12:
        value_info(reader.message("ValueInfoProto"), out.value_infos.emplace_back());
        break;
      case 13:
        out.overload = reader.string();
        break;
      case 14:
        metadata(reader.message("StringStringEntryProto"), out.metadata);
        break;
      default:
        reader.skip();
    }
  }
  if (out.name.empty()) reader.fail("a function has no name");
}

void Decoder::model(ModelProto& out) {
  WireReader reader(source_, source_.bytes, "ModelProto");
  bool has_graph = false;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.ir_version = reader.int64();
        break;
      case 2:
        out.producer_name = reader.string();
        break;
      case 3:
        out.producer_version = reader.string();
        break;
      case 4:
        out.domain = reader.string();
        break;
      case 5:
        out.model_version = reader.int64();
        break;
      case 7:
        has_graph = true;
        graph(reader.message("GraphProto"), out.graph);
        break;
      case 8:
        opset(reader.message("OperatorSetIdProto"), out.opsets);
        break;
      case 14:
        metadata(reader.message("StringStringEntryProto"), out.metadata);
        break;
      case 25:
        function(reader.message("FunctionProto"), out.functions.emplace_back());
        break;
      default:
        reader.skip();
    }
  }
  if (!has_graph) reader.fail("not an ONNX model: it has no graph");
  if (out.ir_version < 1) reader.fail(fmt::format("not an ONNX model: its IR version is {}", out.ir_version));
  if (out.opsets.empty()) {
    if (out.ir_version >= 3) reader.fail("the model does not say which operator set it uses (opset_import is empty)");
    out.opsets.emplace("", 1);  // IR versions 1 and 2 had only this one
  }
}

}  // namespace camshaft::onnx
