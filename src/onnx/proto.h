// What an .onnx file says, as plain values: onnx.proto3 (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3)
// without doc strings, training information and device placement. Nothing here is interpreted; the importer does that.
//
// Tensor bytes are not copied: TensorProto::raw_data points into ModelProto::storage, which must outlive it, or has an
// owner of its own. Everything else is owned, so nodes, attributes and function bodies may be copied and edited freely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace camshaft::onnx {

/// Operator sets by domain. The default domain is "" (a file may also spell it "ai.onnx").
using OpsetImports = std::map<std::string, int64_t>;
using Metadata = std::map<std::string, std::string>;

/// TensorProto.data_location = EXTERNAL: the bytes are in a file beside the model.
struct ExternalData {
  std::string location;            ///< relative to the model's folder, as written in the file
  uint64_t offset = 0;             ///< bytes from the start of that file
  std::optional<uint64_t> length;  ///< bytes; absent: what dims and data type need
};

/// At most one of the data fields is in use; tensor_data.h turns any of them into bytes.
struct TensorProto {
  std::string name;
  std::vector<int64_t> dims;
  int32_t data_type = 0;   ///< TensorProto.DataType; dtype_from_onnx() maps it
  bool segmented = false;  ///< uses TensorProto.segment, which no producer does
  std::span<const std::byte> raw_data;
  std::shared_ptr<const void> owner;  ///< of raw_data, where it is not ModelProto::storage
  std::vector<float> float_data;
  std::vector<double> double_data;
  std::vector<int32_t> int32_data;
  std::vector<int64_t> int64_data;
  std::vector<uint64_t> uint64_data;
  std::vector<std::string> string_data;
  std::optional<ExternalData> external;
};

/// Coordinates (`indices`, i64 [nnz] linear or [nnz, rank]) and their `values` [nnz] in a tensor of shape `dims`.
struct SparseTensorProto {
  TensorProto values;
  TensorProto indices;
  std::vector<int64_t> dims;
};

/// A value (>= 0), a name, or neither: unknown. Files that say -1 or "" mean unknown and are read so.
struct DimensionProto {
  std::optional<int64_t> value;
  std::string param;
};

struct TypeProto {
  enum class Kind : uint8_t { none, tensor, sparse_tensor, sequence, optional, map };
  Kind kind = Kind::none;
  int32_t elem_type = 0;                             ///< tensor, sparse_tensor: TensorProto.DataType
  std::optional<std::vector<DimensionProto>> shape;  ///< tensor, sparse_tensor; absent: rank unknown
  int32_t key_type = 0;                              ///< map: TensorProto.DataType of the keys
  std::vector<TypeProto> element;                    ///< sequence, optional, map's values: the one element type
};

struct ValueInfoProto {
  std::string name;
  TypeProto type;
};

struct GraphProto;

/// The numeric values are those of AttributeProto.AttributeType.
enum class AttributeType : uint8_t {
  undefined = 0,
  float_ = 1,
  int_ = 2,
  string = 3,
  tensor = 4,
  graph = 5,
  floats = 6,
  ints = 7,
  strings = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,
  sparse_tensors = 12,
  type_proto = 13,
  type_protos = 14,
};

/// `type` says which member holds the value. A single tensor, graph, sparse tensor or type is the only element of its
/// list: the reader guarantees that it is there.
struct AttributeProto {
  std::string name;
  AttributeType type = AttributeType::undefined;
  std::string ref_attr_name;  ///< in a function body: the function's attribute to take the value from
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<TensorProto> tensors;
  std::vector<GraphProto> graphs;
  std::vector<SparseTensorProto> sparse_tensors;
  std::vector<TypeProto> type_protos;
};

struct NodeProto {
  std::string name;
  std::string op_type;               ///< never empty
  std::string domain;                ///< "" for the default one
  std::string overload;              ///< selects among functions of one name
  std::vector<std::string> inputs;   ///< "" for an optional input left out
  std::vector<std::string> outputs;  ///< "" for an output nobody uses
  std::vector<AttributeProto> attributes;

  /// Null when the node has none of that name.
  const AttributeProto* find_attribute(std::string_view attribute_name) const;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<SparseTensorProto> sparse_initializers;  ///< named by values.name
  std::vector<ValueInfoProto> inputs;                  ///< up to IR version 3 these list the initializers too
  std::vector<ValueInfoProto> outputs;
  std::vector<ValueInfoProto> value_infos;  ///< declared types of inner values
  Metadata metadata;
};

/// A function of the model: an operator (domain, name, overload) given by its body.
struct FunctionProto {
  std::string name;
  std::string domain;
  std::string overload;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes;             ///< names of attributes without a default
  std::vector<AttributeProto> default_attributes;  ///< attributes with their defaults
  std::vector<NodeProto> nodes;
  std::vector<ValueInfoProto> value_infos;
  OpsetImports opsets;
  Metadata metadata;
};

struct ModelProto {
  std::string file;              ///< for messages: the path as given, or the name given for a buffer
  std::filesystem::path folder;  ///< where external data is looked for; empty: external data is refused
  std::shared_ptr<const void> storage;

  int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  OpsetImports opsets;
  Metadata metadata;
  GraphProto graph;
  std::vector<FunctionProto> functions;
};

/// The functions of a model by their names. The model must outlive it.
class FunctionTable {
 public:
  explicit FunctionTable(const ModelProto& model);
  /// The function that a node calls; null when it is an operator.
  const FunctionProto* find(const NodeProto& node) const;

 private:
  std::unordered_map<std::string, const FunctionProto*> by_name_;
};

}  // namespace camshaft::onnx
