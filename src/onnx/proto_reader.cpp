#include "onnx/proto_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <new>
#include <utility>

#include "base/mapped_file.h"
#include "camshaft/error.h"
#include "onnx/quote.h"
#include "onnx/wire_reader.h"

namespace camshaft::onnx {
namespace {

/// "ai.onnx" is the long name of the default domain.
std::string normal_domain(std::string domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

/// One function a message; `depth` counts graphs and types around the current one. Messages met twice where one is
/// expected are merged, as protobuf prescribes.
class Decoder {
 public:
  explicit Decoder(const WireSource& source) : source_(source) {}

  void model(ModelProto& out);

 private:
  class Nesting;

  void graph(WireReader reader, GraphProto& out);
  void function(WireReader reader, FunctionProto& out);
  void node(WireReader reader, NodeProto& out);
  void attribute(WireReader reader, AttributeProto& out);
  void tensor(WireReader reader, TensorProto& out);
  void sparse_tensor(WireReader reader, SparseTensorProto& out);
  void value_info(WireReader reader, ValueInfoProto& out);
  void type(WireReader reader, TypeProto& out);
  void element_type(WireReader reader, TypeProto& out);
  void map_type(WireReader reader, TypeProto& out);
  void tensor_type(WireReader reader, TypeProto& out);
  void shape(WireReader reader, std::vector<DimensionProto>& out);
  void opset(WireReader reader, OpsetImports& out);
  std::pair<std::string, std::string> entry(WireReader reader);
  void metadata(WireReader reader, Metadata& out) {
    auto [key, value] = entry(reader);
    out.insert_or_assign(std::move(key), std::move(value));
  }

  const WireSource& source_;
  int depth_ = 0;
};

class Decoder::Nesting {
 public:
  Nesting(Decoder& decoder, const WireReader& reader) : decoder_(decoder) {
    if (++decoder_.depth_ > kMaxNesting)
      reader.fail(fmt::format("graphs or types are nested deeper than {} levels", kMaxNesting));
  }
  ~Nesting() { --decoder_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Decoder& decoder_;
};

std::pair<std::string, std::string> Decoder::entry(WireReader reader) {
  std::pair<std::string, std::string> out;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.first = reader.string();
        break;
      case 2:
        out.second = reader.string();
        break;
      default:
        reader.skip();
    }
  }
  return out;
}

void Decoder::opset(WireReader reader, OpsetImports& out) {
  std::string domain;
  int64_t version = 0;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        domain = normal_domain(reader.string());
        break;
      case 2:
        version = reader.int64();
        break;
      default:
        reader.skip();
    }
  }
  if (version < 1) reader.fail(fmt::format("operator set {} has version {}", quote(domain), version));
  const auto [known, added] = out.emplace(domain, version);
  if (!added && known->second != version)
    reader.fail(
        fmt::format("operator set {} is imported twice, as version {} and {}", quote(domain), known->second, version));
}

uint64_t parse_size(const WireReader& reader, const std::string& key, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    reader.fail(fmt::format("external data: {} is {}, which is no count of bytes", key, quote(text)));
  return value;
}

void Decoder::tensor(WireReader reader, TensorProto& out) {
  bool is_external = false;
  std::vector<std::pair<std::string, std::string>> external;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        reader.append(out.dims);
        break;
      case 2:
        out.data_type = reader.int32();
        break;
      case 3:
        out.segmented = true;
        reader.skip();
        break;
      case 4:
        reader.append(out.float_data);
        break;
      case 5:
        reader.append(out.int32_data);
        break;
      case 6:
        out.string_data.push_back(reader.string());
        break;
      case 7:
        reader.append(out.int64_data);
        break;
      case 8:
        out.name = reader.string();
        break;
      case 9:
        out.raw_data = reader.bytes();
        out.has_raw_data = true;
        break;
      case 10:
        reader.append(out.double_data);
        break;
      case 11:
        reader.append(out.uint64_data);
        break;
      case 13:
        external.push_back(entry(reader.message("StringStringEntryProto")));
        break;
      case 14:
        is_external = reader.int32() == 1;
        break;
      default:
        reader.skip();
    }
  }
  if (!is_external) return;
  out.external.emplace();
  for (const auto& [key, value] : external) {
    if (key == "location") out.external->location = value;
    if (key == "offset") out.external->offset = parse_size(reader, key, value);
    if (key == "length") out.external->length = parse_size(reader, key, value);
  }
  if (out.external->location.empty())
    reader.fail(fmt::format("tensor {} has external data without a location", quote(out.name)));
}

void Decoder::sparse_tensor(WireReader reader, SparseTensorProto& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        tensor(reader.message("TensorProto"), out.values);
        break;
      case 2:
        tensor(reader.message("TensorProto"), out.indices);
        break;
      case 3:
        reader.append(out.dims);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::shape(WireReader reader, std::vector<DimensionProto>& out) {
  while (reader.next()) {
    if (reader.field() != 1) {
      reader.skip();
      continue;
    }
    DimensionProto& dimension = out.emplace_back();
    WireReader inner = reader.message("TensorShapeProto.Dimension");
    while (inner.next()) {
      switch (inner.field()) {
        case 1:
          dimension.value = inner.int64();
          dimension.param.clear();
          break;
        case 2:
          dimension.param = inner.string();
          dimension.value.reset();
          break;
        default:
          inner.skip();
      }
    }
    // Several exporters write -1 for "any".
    if (dimension.value && *dimension.value < 0) dimension.value.reset();
  }
}

void Decoder::tensor_type(WireReader reader, TypeProto& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.elem_type = reader.int32();
        break;
      case 2:
        if (!out.shape) out.shape.emplace();
        shape(reader.message("TensorShapeProto"), *out.shape);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::element_type(WireReader reader, TypeProto& out) {
  out.element.resize(1);
  while (reader.next()) {
    if (reader.field() == 1)
      type(reader.message("TypeProto"), out.element[0]);
    else
      reader.skip();
  }
}

void Decoder::map_type(WireReader reader, TypeProto& out) {
  out.element.resize(1);
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.key_type = reader.int32();
        break;
      case 2:
        type(reader.message("TypeProto"), out.element[0]);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::type(WireReader reader, TypeProto& out) {
  const Nesting nesting(*this, reader);
  using Kind = TypeProto::Kind;
  // A oneof: another kind replaces the one before.
  const auto become = [&](Kind kind) {
    if (out.kind != kind) out = TypeProto{};
    out.kind = kind;
  };
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        become(Kind::tensor);
        tensor_type(reader.message("TypeProto.Tensor"), out);
        break;
      case 4:
        become(Kind::sequence);
        element_type(reader.message("TypeProto.Sequence"), out);
        break;
      case 5:
        become(Kind::map);
        map_type(reader.message("TypeProto.Map"), out);
        break;
      case 8:
        become(Kind::sparse_tensor);
        tensor_type(reader.message("TypeProto.SparseTensor"), out);
        break;
      case 9:
        become(Kind::optional);
        element_type(reader.message("TypeProto.Optional"), out);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::value_info(WireReader reader, ValueInfoProto& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.name = reader.string();
        break;
      case 2:
        type(reader.message("TypeProto"), out.type);
        break;
      default:
        reader.skip();
    }
  }
  if (out.name.empty()) reader.fail("a declared value has no name");
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

/// Files often taken for models get a message that says what they are.
void refuse_other_formats(const WireSource& source) {
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::invalid_model, fmt::format("{}: not an ONNX file: {}", source.name, why));
  };
  const std::string_view text(reinterpret_cast<const char*>(source.bytes.data()), source.bytes.size());
  if (text.empty()) refuse("it is empty");
  if (text.starts_with("version https://git-lfs"))
    refuse("it is a Git LFS pointer; fetch the model itself with `git lfs pull`");
  if (text.starts_with("PK\x03\x04")) refuse("it is a zip archive (a PyTorch checkpoint?); export the model to ONNX");
  if (text.starts_with("\x89HDF")) refuse("it is an HDF5 file (a Keras model?); export the model to ONNX");
  // A model starts with a known field of ModelProto: 1-8, 14, 20, 25, 26 with wire type 0 (for 1 and 5) or 2.
  const auto key = static_cast<unsigned char>(text[0]);
  const unsigned first =
      key < 0x80 ? key : key - 0x80 + (text.size() > 1 ? static_cast<unsigned char>(text[1]) : 0) * 128;
  const unsigned field = first >> 3;
  const bool known = (field >= 1 && field <= 8) || field == 14 || field == 20 || field == 25 || field == 26;
  const unsigned type = field == 1 || field == 5 ? 0 : 2;
  if (!known || (first & 7) != type)
    refuse(fmt::format("its first field is {} with wire type {}", field, first & 7).c_str());
}

}  // namespace

ModelProto read_model(std::span<const std::byte> bytes, const std::string& name, std::shared_ptr<const void> owner,
                      const std::filesystem::path& folder) {
  ModelProto out;
  out.file = name;
  out.folder = folder;
  out.storage = std::move(owner);
  const WireSource source{name, bytes};
  refuse_other_formats(source);
  try {
    Decoder(source).model(out);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, fmt::format("{}: not enough memory to read the model's graph", name));
  }
  return out;
}

ModelProto read_model(const std::filesystem::path& file) {
  auto mapped = MappedFile::open(file.string());
  const auto bytes = mapped->bytes();
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  return read_model(bytes, file.string(), std::move(mapped), folder);
}

}  // namespace camshaft::onnx
