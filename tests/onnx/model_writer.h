// Writes ONNX models as bytes, for tests: what an exporter would write, and what none would.
//
//   const std::string bytes = ModelWriter()
//                                 .opset(17)
//                                 .graph(GraphWriter("main")
//                                            .input("x", DType::f32, {"batch", 3, any_dim})
//                                            .output("y", DType::f32, {"batch", 4})
//                                            .initializer(TensorWriter("w", {3, 4}, std::vector<float>(12, 0.5F)))
//                                            .node("Gemm", {"x", "w"}, {"y"}, {attr("alpha", 0.5F), attr("axes", {0,
//                                            1})}))
//                                 .bytes();
//
// Every writer appends protobuf fields to a string as its functions are called; order and repetition are kept, so that
// a test can write odd files too. `message()` gives that string, `raw()` appends any field.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "onnx/onnx_dtype.h"
#include "onnx/proto.h"

namespace camshaft::onnx::testing {

/// Appends protobuf fields; base of all writers, which return themselves from every function.
template <class Self>
class Writer {
 public:
  const std::string& message() const { return data_; }
  /// Any field: `value` is a bytes field's content.
  Self& raw(uint32_t field, const std::string& value) {
    return put([&](auto& w) { w.add_bytes(field, value); });
  }
  Self& raw(uint32_t field, int64_t value) {
    return put([&](auto& w) { w.add_int64(field, value); });
  }
  /// Bytes appended as they are.
  Self& append(const std::string& bytes) {
    data_ += bytes;
    return self();
  }

 protected:
  template <class F>
  Self& put(F&& f) {
    protozero::pbf_writer writer(data_);
    f(writer);
    return self();
  }
  Self& metadata_entry(uint32_t field, const std::string& key, const std::string& value) {
    std::string entry;
    protozero::pbf_writer writer(entry);
    writer.add_string(1, key);
    writer.add_string(2, value);
    return raw(field, entry);
  }
  Self& self() { return static_cast<Self&>(*this); }

 private:
  std::string data_;
};

/// One dim of a declared shape: a number, a name, or any_dim.
struct DimWriter {
  // NOLINTBEGIN(google-explicit-constructor): so that {"batch", 3, any_dim} is a shape.
  DimWriter(int64_t v) : value(v) {}
  DimWriter(int v) : value(v) {}
  DimWriter(const char* p) : param(p) {}
  // NOLINTEND(google-explicit-constructor)
  DimWriter() = default;
  std::optional<int64_t> value;
  std::string param;
};
inline const DimWriter any_dim{};
using ShapeWriter = std::vector<DimWriter>;

class TypeWriter : public Writer<TypeWriter> {
 public:
  /// Without a shape the rank is unknown; with {} the tensor is a scalar.
  static TypeWriter tensor(DType dtype) { return TypeWriter().raw(1, tensor_body(dtype, nullptr)); }
  static TypeWriter tensor(DType dtype, const ShapeWriter& shape) {
    return TypeWriter().raw(1, tensor_body(dtype, &shape));
  }
  static TypeWriter sparse_tensor(DType dtype, const ShapeWriter& shape) {
    return TypeWriter().raw(8, tensor_body(dtype, &shape));
  }
  static TypeWriter sequence(const TypeWriter& element) { return TypeWriter().raw(4, wrap(1, element)); }
  static TypeWriter optional(const TypeWriter& element) { return TypeWriter().raw(9, wrap(1, element)); }
  static TypeWriter map(DType key, const TypeWriter& value) {
    return TypeWriter().raw(5, TypeWriter().raw(1, int64_t{dtype_to_onnx(key)}).message() + wrap(2, value));
  }

 private:
  static std::string wrap(uint32_t field, const TypeWriter& inner) {
    return TypeWriter().raw(field, inner.message()).message();
  }
  static std::string tensor_body(DType dtype, const ShapeWriter* shape) {
    TypeWriter body;
    body.raw(1, int64_t{dtype_to_onnx(dtype)});
    if (shape == nullptr) return body.message();
    TypeWriter dims;
    for (const DimWriter& dim : *shape) {
      TypeWriter one;
      if (dim.value) one.raw(1, *dim.value);
      if (!dim.param.empty()) one.raw(2, dim.param);
      dims.raw(1, one.message());
    }
    return body.raw(2, dims.message()).message();
  }
};

/// TensorProto. The constructors with data write raw_data; typed(), strings() and external() the other forms.
class TensorWriter : public Writer<TensorWriter> {
 public:
  TensorWriter(const std::string& name, const std::vector<int64_t>& dims, int32_t data_type) {
    put([&](auto& w) {
      w.add_packed_int64(1, dims.begin(), dims.end());
      w.add_int32(2, data_type);
      if (!name.empty()) w.add_string(8, name);
    });
  }
  TensorWriter(const std::string& name, const std::vector<int64_t>& dims, DType dtype)
      : TensorWriter(name, dims, dtype_to_onnx(dtype)) {}
  TensorWriter(const std::string& name, const std::vector<int64_t>& dims, DType dtype, const std::string& raw_data)
      : TensorWriter(name, dims, dtype) {
    raw(9, raw_data);
  }
  /// The data type is that of T: float, double or an integer of any width.
  template <class T>
  TensorWriter(const std::string& name, const std::vector<int64_t>& dims, const std::vector<T>& values)
      : TensorWriter(name, dims, dtype_of<T>(),
                     std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))) {}

  TensorWriter& float_data(const std::vector<float>& v) {
    return put([&](auto& w) { w.add_packed_float(4, v.begin(), v.end()); });
  }
  TensorWriter& int32_data(const std::vector<int32_t>& v) {
    return put([&](auto& w) { w.add_packed_int32(5, v.begin(), v.end()); });
  }
  TensorWriter& int64_data(const std::vector<int64_t>& v) {
    return put([&](auto& w) { w.add_packed_int64(7, v.begin(), v.end()); });
  }
  TensorWriter& double_data(const std::vector<double>& v) {
    return put([&](auto& w) { w.add_packed_double(10, v.begin(), v.end()); });
  }
  TensorWriter& uint64_data(const std::vector<uint64_t>& v) {
    return put([&](auto& w) { w.add_packed_uint64(11, v.begin(), v.end()); });
  }
  TensorWriter& string_data(const std::vector<std::string>& v) {
    for (const std::string& s : v) raw(6, s);
    return *this;
  }
  /// `entries` are external_data's key-value pairs: {{"location", "w.bin"}, {"offset", "16"}}.
  TensorWriter& external(const std::vector<std::pair<std::string, std::string>>& entries) {
    for (const auto& [key, value] : entries) metadata_entry(13, key, value);
    return raw(14, int64_t{1});
  }

 private:
  template <class T>
  static DType dtype_of() {
    if constexpr (std::is_same_v<T, float>)
      return DType::f32;
    else if constexpr (std::is_same_v<T, double>)
      return DType::f64;
    else {
      static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
      constexpr DType of_signed[] = {DType::i8, DType::i16, DType::i32, DType::i64};
      constexpr DType of_unsigned[] = {DType::u8, DType::u16, DType::u32, DType::u64};
      return (std::is_signed_v<T> ? of_signed : of_unsigned)[std::countr_zero(sizeof(T))];
    }
  }
};

class SparseTensorWriter : public Writer<SparseTensorWriter> {
 public:
  SparseTensorWriter(const TensorWriter& values, const TensorWriter& indices, const std::vector<int64_t>& dims) {
    raw(1, values.message()).raw(2, indices.message());
    put([&](auto& w) { w.add_packed_int64(3, dims.begin(), dims.end()); });
  }
};

/// An AttributeProto; made by attr().
class AttributeWriter : public Writer<AttributeWriter> {
 public:
  AttributeWriter(const std::string& name, AttributeType type) {
    if (!name.empty()) raw(1, name);
    if (type != AttributeType::undefined) raw(20, static_cast<int64_t>(type));
  }
  AttributeWriter& float_(float v) {
    return put([&](auto& w) { w.add_float(2, v); });
  }
  AttributeWriter& floats(const std::vector<float>& v) {
    return put([&](auto& w) { w.add_packed_float(7, v.begin(), v.end()); });
  }
  /// Unpacked, as ONNX's own proto2 definition writes attribute lists.
  AttributeWriter& ints(const std::vector<int64_t>& v) {
    for (const int64_t i : v) raw(8, i);
    return *this;
  }
};

class GraphWriter;

template <class T>
requires std::is_arithmetic_v<T> AttributeWriter attr(const std::string& name, T value) {
  if constexpr (std::is_floating_point_v<T>)
    return AttributeWriter(name, AttributeType::float_).float_(static_cast<float>(value));
  else
    return AttributeWriter(name, AttributeType::int_).raw(3, static_cast<int64_t>(value));
}
inline AttributeWriter attr(const std::string& name, const std::string& value) {
  return AttributeWriter(name, AttributeType::string).raw(4, value);
}
inline AttributeWriter attr(const std::string& name, const char* value) {
  return attr(name, std::string(value));
}
inline AttributeWriter attr(const std::string& name, const std::vector<int64_t>& values) {
  return AttributeWriter(name, AttributeType::ints).ints(values);
}
inline AttributeWriter attr(const std::string& name, const std::vector<float>& values) {
  return AttributeWriter(name, AttributeType::floats).floats(values);
}
/// attr("axes", {0, 1}) is a list of integers, attr("scales", {1.0, 0.5}) of floats, attr("keys", {"a"}) of strings.
template <class T>
requires std::is_arithmetic_v<T> AttributeWriter attr(const std::string& name, std::initializer_list<T> values) {
  using Element = std::conditional_t<std::is_floating_point_v<T>, float, int64_t>;
  return attr(name, std::vector<Element>(values.begin(), values.end()));
}
inline AttributeWriter attr(const std::string& name, const std::vector<std::string>& values) {
  AttributeWriter out(name, AttributeType::strings);
  for (const std::string& value : values) out.raw(9, value);
  return out;
}
inline AttributeWriter attr(const std::string& name, std::initializer_list<const char*> values) {
  return attr(name, std::vector<std::string>(values.begin(), values.end()));
}
inline AttributeWriter attr(const std::string& name, const TensorWriter& value) {
  return AttributeWriter(name, AttributeType::tensor).raw(5, value.message());
}
inline AttributeWriter attr(const std::string& name, const SparseTensorWriter& value) {
  return AttributeWriter(name, AttributeType::sparse_tensor).raw(22, value.message());
}
inline AttributeWriter attr(const std::string& name, const TypeWriter& value) {
  return AttributeWriter(name, AttributeType::type_proto).raw(14, value.message());
}
AttributeWriter attr(const std::string& name, const GraphWriter& value);
/// In a function body: attribute `name` of the node takes the value of the function's attribute `ref`.
inline AttributeWriter attr_ref(const std::string& name, const std::string& ref, AttributeType type) {
  return AttributeWriter(name, type).raw(21, ref);
}

class NodeWriter : public Writer<NodeWriter> {
 public:
  NodeWriter(const std::string& op_type, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs, const std::vector<AttributeWriter>& attributes = {},
             const std::string& domain = {}, const std::string& name = {}) {
    for (const std::string& input : inputs) raw(1, input);
    for (const std::string& output : outputs) raw(2, output);
    if (!name.empty()) raw(3, name);
    if (!op_type.empty()) raw(4, op_type);
    for (const AttributeWriter& attribute : attributes) raw(5, attribute.message());
    if (!domain.empty()) raw(7, domain);
  }
};

/// What graphs and functions share.
template <class Self, uint32_t kNodeField>
class BodyWriter : public Writer<Self> {
 public:
  Self& node(const NodeWriter& node) { return this->raw(kNodeField, node.message()); }
  Self& node(const std::string& op_type, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs, const std::vector<AttributeWriter>& attributes = {},
             const std::string& domain = {}, const std::string& name = {}) {
    return node(NodeWriter(op_type, inputs, outputs, attributes, domain, name));
  }
};

class GraphWriter : public BodyWriter<GraphWriter, 1> {
 public:
  explicit GraphWriter(const std::string& name = "graph") { raw(2, name); }

  GraphWriter& input(const std::string& name, const TypeWriter& type) { return value(11, name, type); }
  GraphWriter& input(const std::string& name, DType dtype, const ShapeWriter& shape) {
    return input(name, TypeWriter::tensor(dtype, shape));
  }
  GraphWriter& input(const std::string& name, DType dtype) { return input(name, TypeWriter::tensor(dtype)); }
  GraphWriter& output(const std::string& name, const TypeWriter& type) { return value(12, name, type); }
  GraphWriter& output(const std::string& name, DType dtype, const ShapeWriter& shape) {
    return output(name, TypeWriter::tensor(dtype, shape));
  }
  GraphWriter& output(const std::string& name, DType dtype) { return output(name, TypeWriter::tensor(dtype)); }
  GraphWriter& value_info(const std::string& name, const TypeWriter& type) { return value(13, name, type); }
  GraphWriter& value_info(const std::string& name, DType dtype, const ShapeWriter& shape) {
    return value_info(name, TypeWriter::tensor(dtype, shape));
  }
  GraphWriter& value_info(const std::string& name, DType dtype) { return value_info(name, TypeWriter::tensor(dtype)); }
  GraphWriter& initializer(const TensorWriter& tensor) { return raw(5, tensor.message()); }
  GraphWriter& sparse_initializer(const SparseTensorWriter& tensor) { return raw(15, tensor.message()); }
  GraphWriter& metadata(const std::string& key, const std::string& value) { return metadata_entry(16, key, value); }

 private:
  GraphWriter& value(uint32_t field, const std::string& name, const TypeWriter& type) {
    return raw(field, TypeWriter().raw(1, name).raw(2, type.message()).message());
  }
};

inline AttributeWriter attr(const std::string& name, const GraphWriter& value) {
  return AttributeWriter(name, AttributeType::graph).raw(6, value.message());
}

inline std::string opset_message(const std::string& domain, int64_t version) {
  return TypeWriter().raw(1, domain).raw(2, version).message();
}

class FunctionWriter : public BodyWriter<FunctionWriter, 7> {
 public:
  FunctionWriter(const std::string& domain, const std::string& name) { raw(1, name).raw(10, domain); }
  FunctionWriter& input(const std::string& name) { return raw(4, name); }
  FunctionWriter& output(const std::string& name) { return raw(5, name); }
  FunctionWriter& attribute(const std::string& name) { return raw(6, name); }
  FunctionWriter& default_attribute(const AttributeWriter& attribute) { return raw(11, attribute.message()); }
  FunctionWriter& opset(int64_t version, const std::string& domain = {}) {
    return raw(9, opset_message(domain, version));
  }
  FunctionWriter& overload(const std::string& name) { return raw(13, name); }
};

/// IR version 10; an operator set must be given.
class ModelWriter : public Writer<ModelWriter> {
 public:
  explicit ModelWriter(int64_t ir_version = 10) { raw(1, ir_version); }
  ModelWriter& opset(int64_t version, const std::string& domain = {}) { return raw(8, opset_message(domain, version)); }
  ModelWriter& producer(const std::string& name) { return raw(2, name); }
  ModelWriter& graph(const GraphWriter& graph) { return raw(7, graph.message()); }
  ModelWriter& function(const FunctionWriter& function) { return raw(25, function.message()); }
  ModelWriter& metadata(const std::string& key, const std::string& value) { return metadata_entry(14, key, value); }
  const std::string& bytes() const { return message(); }
};

}  // namespace camshaft::onnx::testing
