#include "engine/graph_codec.h"

namespace camshaft {

namespace {

// Below this, bytes lie in the graph section itself: a page-aligned home for a scalar is not worth an entry.
constexpr size_t inline_bytes = 256;

using Builder = flatbuffers::FlatBufferBuilder;

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> strings(
    Builder& b, const std::vector<std::string>& list) {
  return b.CreateVectorOfStrings(list);
}

std::vector<std::string> texts(const Shape& shape) {
  std::vector<std::string> list;
  for (const Dim& d : shape) list.push_back(d.str());
  return list;
}

flatbuffers::Offset<format::Field> encode_field(Builder& b, const std::string& name, const FieldValue& value) {
  const auto name_offset = b.CreateString(name);
  flatbuffers::Offset<flatbuffers::String> text;
  flatbuffers::Offset<flatbuffers::Vector<int64_t>> integers;
  flatbuffers::Offset<flatbuffers::Vector<double>> numbers;
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> list;
  if (const auto* v = std::get_if<std::string>(&value)) text = b.CreateString(*v);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) integers = b.CreateVector(*v);
  if (const auto* v = std::get_if<std::vector<double>>(&value)) numbers = b.CreateVector(*v);
  if (const auto* v = std::get_if<std::vector<std::string>>(&value)) list = strings(b, *v);
  if (const auto* v = std::get_if<Dim>(&value)) text = b.CreateString(v->str());
  if (const auto* v = std::get_if<Shape>(&value)) list = strings(b, texts(*v));
  format::FieldBuilder field(b);
  field.add_name(name_offset);
  field.add_type(static_cast<format::FieldType>(value.index()));
  if (const auto* v = std::get_if<int64_t>(&value)) field.add_integer(*v);
  if (const auto* v = std::get_if<bool>(&value)) field.add_integer(*v ? 1 : 0);
  if (const auto* v = std::get_if<double>(&value)) field.add_number(*v);
  if (!text.IsNull()) field.add_text(text);
  if (!integers.IsNull()) field.add_integers(integers);
  if (!numbers.IsNull()) field.add_numbers(numbers);
  if (!list.IsNull()) field.add_texts(list);
  return field.Finish();
}
// The variant's order is the schema's.
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format::FieldType::number), FieldValue>, double>);
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format::FieldType::flag), FieldValue>, bool>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format::FieldType::texts), FieldValue>,
                             std::vector<std::string>>);
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format::FieldType::shape), FieldValue>, Shape>);

std::vector<uint8_t> inlined_bytes(const Tensor& tensor) {
  std::vector<uint8_t> bytes;
  if (is_container(tensor.dtype())) throw Error(ErrorCode::internal, "a container cannot be a constant");
  if (tensor.dtype() != DType::string) {
    const auto* data = reinterpret_cast<const uint8_t*>(tensor.data());
    if (tensor.bytes() > 0) bytes.assign(data, data + tensor.bytes());
    return bytes;
  }
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const std::string& s = tensor.as<std::string>()[i];
    for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<uint8_t>(uint64_t{s.size()} >> shift));
    bytes.insert(bytes.end(), s.begin(), s.end());
  }
  return bytes;
}

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<format::Type>>> encode_types(
    Builder& b, const std::vector<TensorType>& types) {
  if (types.empty()) return {};
  std::vector<flatbuffers::Offset<format::Type>> list;
  for (const TensorType& type : types) {
    const auto dims = strings(b, texts(type.shape));
    const auto elements = encode_types(b, type.elements);
    list.push_back(format::CreateType(b, static_cast<uint8_t>(type.dtype), dims, !type.ranked, elements));
  }
  return b.CreateVector(list);
}

flatbuffers::Offset<format::Value> encode_value(Builder& b, const Value& value, bool elide, const StoreBytes& store) {
  const auto name = b.CreateString(value.name);
  const auto dims = strings(b, texts(value.type.shape));
  const auto elements = encode_types(b, value.type.elements);
  auto storage = format::ConstantStorage::none;
  uint64_t offset = 0;
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> inlined;
  if (value.constant) {
    if (elide || value.constant->is_elided()) {
      storage = format::ConstantStorage::packed_only;
    } else if (value.constant->dtype() == DType::string || value.constant->bytes() <= inline_bytes) {
      storage = format::ConstantStorage::inlined;
      b.ForceVectorAlignment(value.constant->bytes(), sizeof(uint8_t), 16);
      inlined = b.CreateVector(inlined_bytes(*value.constant));
    } else {
      storage = format::ConstantStorage::weights;
      offset = store(*value.constant);
    }
  }
  format::ValueBuilder v(b);
  v.add_name(name);
  v.add_dtype(static_cast<uint8_t>(value.type.dtype));
  v.add_dims(dims);
  v.add_constant(storage);
  v.add_offset(offset);
  if (!inlined.IsNull()) v.add_inlined(inlined);
  if (!elements.IsNull()) v.add_elements(elements);
  return v.Finish();
}

}  // namespace

flatbuffers::Offset<format::Graph> encode_graph(Builder& b, const Graph& graph, const std::vector<std::string>* tactics,
                                                const std::vector<bool>* elide, const StoreBytes& store) {
  std::vector<flatbuffers::Offset<format::Value>> values;
  for (size_t v = 0; v < graph.values.size(); ++v)
    values.push_back(encode_value(b, graph.values[v], elide && v < elide->size() && (*elide)[v], store));
  std::vector<flatbuffers::Offset<format::Node>> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::vector<flatbuffers::Offset<format::Field>> fields;
    for (const auto& [name, value] : node.op.fields()) fields.push_back(encode_field(b, name, value));
    std::vector<flatbuffers::Offset<format::Graph>> bodies;
    for (const Graph& body : node.bodies) bodies.push_back(encode_graph(b, body, nullptr, nullptr, store));
    const auto op = b.CreateString(std::string(node.op.name()));
    const auto tactic = b.CreateString(tactics && n < tactics->size() ? (*tactics)[n] : "");
    nodes.push_back(format::CreateNode(b, op, b.CreateVector(fields), b.CreateVector(node.inputs),
                                       b.CreateVector(node.outputs), b.CreateVector(bodies), strings(b, node.sources),
                                       tactic));
  }
  return format::CreateGraph(b, b.CreateString(graph.name), b.CreateVector(values), b.CreateVector(nodes),
                             b.CreateVector(graph.inputs), b.CreateVector(graph.outputs),
                             strings(b, graph.output_names));
}

}  // namespace camshaft
