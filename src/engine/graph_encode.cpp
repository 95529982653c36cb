#include <algorithm>

#include "engine/field_codec.h"
#include "engine/graph_codec.h"
#include "ir/ops/region.h"

namespace camshaft {

namespace {

// Below this, bytes lie in the graph section itself: a page-aligned home for a scalar is not worth an entry.
constexpr size_t inline_bytes = 256;

using Builder = flatbuffers::FlatBufferBuilder;

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<format::Type>>> encode_types(
    Builder& b, const std::vector<TensorType>& types) {
  if (types.empty()) return {};
  std::vector<flatbuffers::Offset<format::Type>> list;
  for (const TensorType& type : types) {
    const auto dims = encode_texts(b, dim_texts(type.shape));
    const auto elements = encode_types(b, type.elements);
    list.push_back(format::CreateType(b, static_cast<uint8_t>(type.dtype), dims, !type.ranked, elements));
  }
  return b.CreateVector(list);
}

flatbuffers::Offset<format::Value> encode_value(Builder& b, const Value& value, Keep keep, const StoreBytes& store,
                                                ProvenanceEncoder& provenances) {
  const auto name = b.CreateString(value.name);
  const auto dims = encode_texts(b, dim_texts(value.type.shape));
  const auto elements = encode_types(b, value.type.elements);
  auto storage = format::ConstantStorage::none;
  uint64_t offset = 0;
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> inlined;
  if (value.constant) {
    if (keep == Keep::nothing) {
      storage = format::ConstantStorage::stripped;
    } else if (keep == Keep::packed_only || value.constant->is_elided()) {
      storage = format::ConstantStorage::packed_only;
    } else if (value.constant->dtype() == DType::string || value.constant->bytes() <= inline_bytes) {
      storage = format::ConstantStorage::inlined;
      b.ForceVectorAlignment(value.constant->bytes(), sizeof(uint8_t), 16);
      inlined = b.CreateVector(element_bytes(*value.constant));
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
  if (value.constant && value.provenance) v.add_provenance(provenances.add(value.provenance));
  return v.Finish();
}

bool is_made_of(const Value& value, const std::set<std::string>& initializers) {
  if (initializers.empty() || !value.constant || !value.provenance) return false;
  const std::set<std::string> names = initializer_names(*value.provenance);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return initializers.contains(name); });
}

}  // namespace

flatbuffers::Offset<format::Graph> encode_graph(Builder& b, const Graph& graph,
                                                const std::vector<TacticChoice>* tactics, const std::vector<Keep>* keep,
                                                const StoreBytes& store, ProvenanceEncoder& provenances,
                                                const std::set<std::string>& left_out) {
  const auto keep_of = [&](size_t v) {
    if (keep) return v < keep->size() ? (*keep)[v] : Keep::bytes;
    return is_made_of(graph.values[v], left_out) ? Keep::nothing : Keep::bytes;
  };
  std::vector<flatbuffers::Offset<format::Value>> values;
  for (size_t v = 0; v < graph.values.size(); ++v)
    values.push_back(encode_value(b, graph.values[v], keep_of(v), store, provenances));
  std::vector<flatbuffers::Offset<format::Node>> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto fields = encode_fields(b, node.op.fields());
    std::vector<flatbuffers::Offset<format::Graph>> bodies;
    // Regions have numbers in their bodies that say how they are computed.
    const bool is_region = node.op.as<ops::Region>() != nullptr;
    for (const Graph& body : node.bodies)
      bodies.push_back(
          encode_graph(b, body, nullptr, nullptr, store, provenances, is_region ? std::set<std::string>() : left_out));
    const auto op = b.CreateString(std::string(node.op.name()));
    const TacticChoice tactic = tactics && n < tactics->size() ? (*tactics)[n] : TacticChoice();
    const auto first = b.CreateString(tactic.first);
    nodes.push_back(format::CreateNode(b, op, fields, b.CreateVector(node.inputs), b.CreateVector(node.outputs),
                                       b.CreateVector(bodies), encode_texts(b, node.sources), first,
                                       encode_texts(b, tactic.further)));
  }
  return format::CreateGraph(b, b.CreateString(graph.name), b.CreateVector(values), b.CreateVector(nodes),
                             b.CreateVector(graph.inputs), b.CreateVector(graph.outputs),
                             encode_texts(b, graph.output_names));
}

}  // namespace camshaft
