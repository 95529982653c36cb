#include "onnx/proto_writer.h"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "onnx/wire_reader.h"

namespace camshaft::onnx {
namespace {

// Appends fields to one string. A message's length stands before it and is known behind it: its bytes are moved up
// then, which costs less than a buffer for every message, and no second copy of the weights.
class WireWriter {
 public:
  void int64(uint32_t field, int64_t value) {
    key(field, WireType::varint);
    varint(static_cast<uint64_t>(value));
  }
  void float32(uint32_t field, float value) {
    key(field, WireType::fixed32);
    raw(&value, sizeof value);
  }
  void string(uint32_t field, std::string_view value) {
    key(field, WireType::length_delimited);
    varint(value.size());
    data_.append(value);
  }
  void string_unless_empty(uint32_t field, std::string_view value) {
    if (!value.empty()) string(field, value);
  }
  void strings(uint32_t field, const std::vector<std::string>& values) {
    for (const std::string& value : values) string(field, value);
  }
  void unpacked(uint32_t field, const std::vector<int64_t>& values) {
    for (const int64_t value : values) int64(field, value);
  }
  void unpacked(uint32_t field, const std::vector<float>& values) {
    for (const float value : values) float32(field, value);
  }
  template <class T>
  void packed(uint32_t field, const std::vector<T>& values) {
    if (values.empty()) return;
    if constexpr (std::is_floating_point_v<T>) {
      string(field, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
    } else {
      message(field, [&] {
        for (const T value : values) varint(static_cast<uint64_t>(value));  // signed ones sign-extended
      });
    }
  }
  template <class Body>
  void message(uint32_t field, Body&& body) {
    key(field, WireType::length_delimited);
    const size_t start = data_.size();
    body();
    const size_t end = data_.size();
    varint(end - start);
    std::rotate(data_.begin() + static_cast<ptrdiff_t>(start), data_.begin() + static_cast<ptrdiff_t>(end),
                data_.end());
  }
  std::string take() { return std::move(data_); }

 private:
  void key(uint32_t field, WireType type) { varint(uint64_t{field} << 3 | static_cast<uint64_t>(type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_.push_back(static_cast<char>(value | 0x80));
    data_.push_back(static_cast<char>(value));
  }
  void raw(const void* bytes, size_t size) { data_.append(static_cast<const char*>(bytes), size); }

  std::string data_;
};

// One function a message, as in Decoder; each writes the fields of a message whose frame the caller writes.
class Encoder {
 public:
  std::string model(const ModelProto& model) {
    out_.int64(1, model.ir_version);
    out_.string_unless_empty(2, model.producer_name);
    out_.string_unless_empty(3, model.producer_version);
    out_.string_unless_empty(4, model.domain);
    if (model.model_version != 0) out_.int64(5, model.model_version);
    out_.message(7, [&] { graph(model.graph); });
    opsets(8, model.opsets);
    metadata(14, model.metadata);
    for (const FunctionProto& f : model.functions) out_.message(25, [&] { function(f); });
    return out_.take();
  }

 private:
  void entry(uint32_t field, const std::string& key, const std::string& value) {
    out_.message(field, [&] {
      out_.string(1, key);
      out_.string(2, value);
    });
  }

  void metadata(uint32_t field, const Metadata& entries) {
    for (const auto& [key, value] : entries) entry(field, key, value);
  }

  void opsets(uint32_t field, const OpsetImports& imports) {
    for (const auto& [domain, version] : imports)
      out_.message(field, [&, &domain = domain, version = version] {
        out_.string(1, domain);
        out_.int64(2, version);
      });
  }

  void tensor(const TensorProto& tensor) {
    out_.unpacked(1, tensor.dims);
    out_.int64(2, tensor.data_type);
    if (tensor.segmented) out_.string(3, {});
    out_.packed(4, tensor.float_data);
    out_.packed(5, tensor.int32_data);
    out_.strings(6, tensor.string_data);
    out_.packed(7, tensor.int64_data);
    out_.string_unless_empty(8, tensor.name);
    if (!tensor.raw_data.empty())
      out_.string(9, {reinterpret_cast<const char*>(tensor.raw_data.data()), tensor.raw_data.size()});
    out_.packed(10, tensor.double_data);
    out_.packed(11, tensor.uint64_data);
    if (!tensor.external) return;
    entry(13, "location", tensor.external->location);
    if (tensor.external->offset != 0) entry(13, "offset", std::to_string(tensor.external->offset));
    if (tensor.external->length) entry(13, "length", std::to_string(*tensor.external->length));
    out_.int64(14, 1);
  }

  void tensors(uint32_t field, const std::vector<TensorProto>& list) {
    for (const TensorProto& t : list) out_.message(field, [&] { tensor(t); });
  }

  void sparse_tensors(uint32_t field, const std::vector<SparseTensorProto>& list) {
    for (const SparseTensorProto& sparse : list)
      out_.message(field, [&] {
        out_.message(1, [&] { tensor(sparse.values); });
        out_.message(2, [&] { tensor(sparse.indices); });
        out_.unpacked(3, sparse.dims);
      });
  }

  void tensor_type(const TypeProto& type) {
    out_.int64(1, type.elem_type);
    if (!type.shape) return;
    out_.message(2, [&] {
      for (const DimensionProto& dimension : *type.shape)
        out_.message(1, [&] {
          if (dimension.value) out_.int64(1, *dimension.value);
          if (!dimension.param.empty()) out_.string(2, dimension.param);
        });
    });
  }

  void type(const TypeProto& value) {
    using Kind = TypeProto::Kind;
    const auto element = [&](uint32_t field) {
      for (const TypeProto& inner : value.element) out_.message(field, [&] { type(inner); });
    };
    switch (value.kind) {
      case Kind::none:
        break;
      case Kind::tensor:
        out_.message(1, [&] { tensor_type(value); });
        break;
      case Kind::sequence:
        out_.message(4, [&] { element(1); });
        break;
      case Kind::map:
        out_.message(5, [&] {
          out_.int64(1, value.key_type);
          element(2);
        });
        break;
      case Kind::sparse_tensor:
        out_.message(8, [&] { tensor_type(value); });
        break;
      case Kind::optional:
        out_.message(9, [&] { element(1); });
        break;
    }
  }

  void value_infos(uint32_t field, const std::vector<ValueInfoProto>& list) {
    for (const ValueInfoProto& info : list)
      out_.message(field, [&] {
        out_.string(1, info.name);
        if (info.type.kind != TypeProto::Kind::none) out_.message(2, [&] { type(info.type); });
      });
  }

  void attribute(const AttributeProto& attribute) {
    using Type = AttributeType;
    const bool has_value = attribute.ref_attr_name.empty();
    out_.string(1, attribute.name);
    if (has_value && attribute.type == Type::float_) out_.float32(2, attribute.f);
    if (has_value && attribute.type == Type::int_) out_.int64(3, attribute.i);
    if (has_value && attribute.type == Type::string) out_.string(4, attribute.s);
    // The single forms are the only element of their list; the field tells which of the two the type means.
    tensors(attribute.type == Type::tensor ? 5 : 10, attribute.tensors);
    const uint32_t graph_field = attribute.type == Type::graph ? 6 : 11;
    if (graph_field == 6) graphs(graph_field, attribute.graphs);
    out_.unpacked(7, attribute.floats);
    out_.unpacked(8, attribute.ints);
    out_.strings(9, attribute.strings);
    if (graph_field == 11) graphs(graph_field, attribute.graphs);
    const uint32_t type_field = attribute.type == Type::type_proto ? 14 : 15;
    for (const TypeProto& t : attribute.type_protos) out_.message(type_field, [&] { type(t); });
    if (attribute.type != Type::undefined) out_.int64(20, static_cast<int64_t>(attribute.type));
    out_.string_unless_empty(21, attribute.ref_attr_name);
    sparse_tensors(attribute.type == Type::sparse_tensor ? 22 : 23, attribute.sparse_tensors);
  }

  void graphs(uint32_t field, const std::vector<GraphProto>& list) {
    for (const GraphProto& g : list) out_.message(field, [&] { graph(g); });
  }

  void nodes(uint32_t field, const std::vector<NodeProto>& list) {
    for (const NodeProto& node : list)
      out_.message(field, [&] {
        out_.strings(1, node.inputs);
        out_.strings(2, node.outputs);
        out_.string_unless_empty(3, node.name);
        out_.string(4, node.op_type);
        for (const AttributeProto& a : node.attributes) out_.message(5, [&] { attribute(a); });
        out_.string_unless_empty(7, node.domain);
        out_.string_unless_empty(8, node.overload);
      });
  }

  void graph(const GraphProto& graph) {
    nodes(1, graph.nodes);
    out_.string_unless_empty(2, graph.name);
    tensors(5, graph.initializers);
    value_infos(11, graph.inputs);
    value_infos(12, graph.outputs);
    value_infos(13, graph.value_infos);
    sparse_tensors(15, graph.sparse_initializers);
    metadata(16, graph.metadata);
  }

  void function(const FunctionProto& function) {
    out_.string(1, function.name);
    out_.strings(4, function.inputs);
    out_.strings(5, function.outputs);
    out_.strings(6, function.attributes);
    nodes(7, function.nodes);
    opsets(9, function.opsets);
    out_.string_unless_empty(10, function.domain);
    for (const AttributeProto& a : function.default_attributes) out_.message(11, [&] { attribute(a); });
    value_infos(12, function.value_infos);
    out_.string_unless_empty(13, function.overload);
    metadata(14, function.metadata);
  }

  WireWriter out_;
};

}  // namespace

std::string model_bytes(const ModelProto& model) {
  return Encoder().model(model);
}

}  // namespace camshaft::onnx
