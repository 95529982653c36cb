#include <fmt/format.h>

#include <cstring>
#include <unordered_set>

#include "engine/graph_codec.h"
#include "ir/container_type.h"
#include "ir/ops/operators.h"

namespace camshaft {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::corrupt_engine, what);
}

std::string text(const flatbuffers::String* stored, CopyBudget& budget) {
  if (!stored) return {};
  budget.take(stored->size());
  return stored->str();
}

template <class List>
std::vector<std::string> strings(const List* list, CopyBudget& budget) {
  std::vector<std::string> out;
  if (!list) return out;
  budget.take(list->size() * sizeof(flatbuffers::uoffset_t));
  for (const auto* s : *list) out.push_back(text(s, budget));
  return out;
}

template <class List>
Shape parse_shape(const List* list, CopyBudget& budget) {
  Shape shape;
  for (const std::string& dim : strings(list, budget)) shape.push_back(Dim::parse(dim));
  return shape;
}

FieldValue decode_field(const format::Field& field, CopyBudget& budget) {
  switch (field.type()) {
    case format::FieldType::integer:
      return field.integer();
    case format::FieldType::number:
      return field.number();
    case format::FieldType::flag:
      return field.integer() != 0;
    case format::FieldType::text:
      return text(field.text(), budget);
    case format::FieldType::integers:
      return copy_numbers<int64_t>(field.integers(), budget);
    case format::FieldType::numbers:
      return copy_numbers<double>(field.numbers(), budget);
    case format::FieldType::texts:
      return strings(field.texts(), budget);
    case format::FieldType::dim:
      return Dim::parse(field.text() ? text(field.text(), budget) : "0");
    case format::FieldType::shape:
      return parse_shape(field.texts(), budget);
  }
  fail(fmt::format("field '{}' has an unknown type", field.name()->string_view()));
}

constexpr int max_type_nesting = 16;

template <class Stored>
TensorType decode_type(const Stored& stored, CopyBudget& budget, int nesting = 0) {
  if (stored.dtype() >= dtype_count) fail(fmt::format("there is no dtype {}", stored.dtype()));
  if (nesting > max_type_nesting) fail("a type is nested too deep");
  TensorType type{static_cast<DType>(stored.dtype()), parse_shape(stored.dims(), budget)};
  if constexpr (std::is_same_v<Stored, format::Type>) type.ranked = !stored.any_rank();
  if (stored.elements()) {
    budget.take(stored.elements()->size() * sizeof(TensorType));
    for (const format::Type* element : *stored.elements())
      type.elements.push_back(decode_type(*element, budget, nesting + 1));
  }
  return type;
}

Tensor decode_strings(Dims dims, const flatbuffers::Vector<uint8_t>* bytes) {
  const int64_t count = element_count(dims);
  const size_t size = bytes ? bytes->size() : 0;
  if (count > static_cast<int64_t>(size / 8)) fail("a string constant is cut short");  // 8 bytes of length each
  std::vector<std::string> values;
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (size - at < 8) fail("a string constant is cut short");
    for (int shift = 0; shift < 64; shift += 8)
      length |= uint64_t{bytes->Get(static_cast<flatbuffers::uoffset_t>(at++))} << shift;
    if (length > size - at) fail("a string constant is cut short");
    values.emplace_back(reinterpret_cast<const char*>(bytes->data()) + at, length);
    at += length;
  }
  return Tensor::of(DType::string, std::move(dims), values);
}

std::shared_ptr<const Tensor> decode_constant(const format::Value& value, DType dtype, const Shape& shape,
                                              const WeightBytes& weights, CopyBudget& budget) {
  if (value.constant() == format::ConstantStorage::none) return nullptr;
  Dims dims;
  for (const Dim& d : shape) dims.push_back(d.value());
  const int64_t count = element_count(dims);
  switch (value.constant()) {
    case format::ConstantStorage::inlined: {
      budget.take(value.inlined() ? value.inlined()->size() : 0);
      if (dtype == DType::string) return std::make_shared<const Tensor>(decode_strings(dims, value.inlined()));
      const size_t bytes = byte_size(dtype, count);
      if ((value.inlined() ? value.inlined()->size() : 0) != bytes)
        fail(fmt::format("constant '{}' has the wrong size", value.name()->string_view()));
      Tensor tensor(dtype, dims);
      if (bytes > 0) std::memcpy(tensor.mutable_data(), value.inlined()->data(), bytes);
      return std::make_shared<const Tensor>(std::move(tensor));
    }
    case format::ConstantStorage::weights: {
      const size_t bytes = byte_size(dtype, count);
      if (value.offset() % 64 != 0 || value.offset() > weights.bytes.size() ||
          bytes > weights.bytes.size() - value.offset())
        fail(fmt::format("constant '{}' lies outside the weights", value.name()->string_view()));
      return std::make_shared<const Tensor>(dtype, dims, weights.bytes.subspan(value.offset(), bytes), weights.owner);
    }
    case format::ConstantStorage::packed_only: {
      if (dtype == DType::string)
        fail(fmt::format("constant '{}' is of strings, which are never packed", value.name()->string_view()));
      return std::make_shared<const Tensor>(Tensor::elided(dtype, dims));
    }
    default:
      fail(fmt::format("constant '{}' is stored in an unknown way", value.name()->string_view()));
  }
}

}  // namespace

void CopyBudget::take(size_t bytes) {
  if (bytes > left_) fail("it refers to the same bytes over and over");
  left_ -= bytes;
}

Graph decode_graph(const format::Graph& stored, const WeightBytes& weights, CopyBudget& budget,
                   std::vector<std::string>* tactics) {
  Graph graph;
  graph.name = text(stored.name(), budget);
  std::unordered_set<std::string> names;
  std::vector<bool> defined;
  std::vector<TensorType> recorded;
  if (stored.values()) {
    for (const format::Value* v : *stored.values()) {
      const TensorType type = decode_type(*v, budget);
      if (const std::string wrong = malformed(type); !wrong.empty())
        fail(fmt::format("value '{}' is {}: {}", v->name()->string_view(), to_string(type), wrong));
      if (is_container(type.dtype) && v->constant() != format::ConstantStorage::none)
        fail(fmt::format("value '{}' is a container and a constant", v->name()->string_view()));
      for (const Dim& d : type.shape)
        if (d.is_constant() && d.value() < 0)
          fail(fmt::format("value '{}' has a negative size: {}", v->name()->string_view(), to_string(type)));
      if (const std::string what = too_large(type); !what.empty())
        fail(fmt::format("value '{}' is {}", v->name()->string_view(), what));
      Value value;
      value.name = text(v->name(), budget);
      if (!names.insert(value.name).second) fail(fmt::format("two values are named '{}'", value.name));
      value.constant = decode_constant(*v, type.dtype, type.shape, weights, budget);
      // Packed forms are found by the names of the outermost graph's constants.
      if (!tactics && value.constant && value.constant->is_elided())
        fail(fmt::format("constant '{}' of a body exists in packed form only", value.name));
      defined.push_back(value.constant != nullptr);
      if (value.constant) {
        value.type = type;
        if (!value.constant->is_elided()) value.content = constant_content(*value.constant);
      }
      recorded.push_back(type);
      graph.values.push_back(std::move(value));
    }
  }
  const auto check = [&](ValueId id) {
    if (id < 0 || static_cast<size_t>(id) >= graph.values.size()) fail(fmt::format("there is no value {}", id));
    return static_cast<size_t>(id);
  };
  const auto define = [&](ValueId id) {
    const size_t v = check(id);
    if (defined[v]) fail(fmt::format("value '{}' is defined twice", graph.values[v].name));
    defined[v] = true;
    return v;
  };
  const auto use = [&](ValueId id) {
    if (!defined[check(id)]) fail(fmt::format("value '{}' is read before it is computed", graph.value(id).name));
  };
  graph.inputs = copy_numbers<ValueId>(stored.inputs(), budget);
  for (const ValueId id : graph.inputs) {
    const size_t v = define(id);
    graph.values[v].type = recorded[v];
  }
  if (stored.nodes()) {
    for (const format::Node* n : *stored.nodes()) {
      Fields fields;
      if (n->fields())
        for (const format::Field* field : *n->fields())
          fields.emplace_back(text(field->name(), budget), decode_field(*field, budget));
      Node node{operators().make(text(n->op(), budget), fields),
                copy_numbers<ValueId>(n->inputs(), budget),
                copy_numbers<ValueId>(n->outputs(), budget),
                {},
                strings(n->sources(), budget)};
      if (n->bodies())
        for (const format::Graph* body : *n->bodies())
          node.bodies.push_back(decode_graph(*body, weights, budget, nullptr));
      for (const ValueId id : node.inputs)
        if (id != no_value) use(id);
      if (node.outputs.empty()) fail("a node has no outputs");
      for (const ValueId id : node.outputs) define(id);
      std::vector<Inferred> inferred = infer(graph, node);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const auto v = static_cast<size_t>(node.outputs[o]);
        if (inferred[o].type != recorded[v])
          fail(fmt::format("value '{}' is {}, recorded as {}", graph.values[v].name, to_string(inferred[o].type),
                           to_string(recorded[v])));
        graph.values[v].type = std::move(inferred[o].type);
        graph.values[v].content = std::move(inferred[o].content);
      }
      graph.nodes.push_back(std::move(node));
      if (tactics) tactics->push_back(text(n->tactic(), budget));
    }
  }
  graph.outputs = copy_numbers<ValueId>(stored.outputs(), budget);
  for (const ValueId id : graph.outputs) use(id);
  graph.output_names = strings(stored.output_names(), budget);
  if (graph.output_names.size() != graph.outputs.size()) fail("outputs and their names differ in number");
  // Of bodies the position counts, and a loop may well carry one value twice.
  if (tactics && std::unordered_set<std::string>(graph.output_names.begin(), graph.output_names.end()).size() !=
                     graph.output_names.size())
    fail("two outputs have one name");
  return graph;
}

}  // namespace camshaft
