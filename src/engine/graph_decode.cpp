#include <fmt/format.h>

#include <cstring>
#include <unordered_set>

#include "engine/damaged.h"
#include "engine/field_codec.h"
#include "engine/graph_codec.h"
#include "ir/container_type.h"
#include "ir/limits.h"
#include "ir/ops/operators.h"

namespace camshaft {

namespace {

template <class Stored>
TensorType decode_type(const Stored& stored, CopyBudget& budget, int nesting = 0) {
  if (stored.dtype() >= dtype_count) fail_corrupt(fmt::format("there is no dtype {}", stored.dtype()));
  if (nesting > most_nested_containers) fail_corrupt("a type is nested too deep");
  TensorType type{static_cast<DType>(stored.dtype()), decode_shape(stored.dims(), budget)};
  if constexpr (std::is_same_v<Stored, format::Type>) type.ranked = !stored.any_rank();
  if (stored.elements()) {
    budget.take(stored.elements()->size() * sizeof(flatbuffers::uoffset_t));
    for (const format::Type* element : *stored.elements())
      type.elements.push_back(decode_type(*element, budget, nesting + 1));
  }
  return type;
}

std::shared_ptr<const Tensor> decode_constant(const format::Value& value, DType dtype, const Shape& shape,
                                              const WeightBytes& weights, CopyBudget& budget) {
  if (value.constant() == format::ConstantStorage::none) return nullptr;
  Dims dims;
  for (const Dim& d : shape) dims.push_back(d.value());
  const int64_t count = element_count(dims);
  switch (value.constant()) {
    case format::ConstantStorage::inlined: {
      return std::make_shared<const Tensor>(
          decode_elements(dtype, dims, value.inlined(), value.name()->string_view(), budget));
    }
    case format::ConstantStorage::weights: {
      const size_t bytes = byte_size(dtype, count);
      if (value.offset() % 64 != 0 || value.offset() > weights.bytes.size() ||
          bytes > weights.bytes.size() - value.offset())
        fail_corrupt(fmt::format("constant '{}' lies outside the weights", value.name()->string_view()));
      return std::make_shared<const Tensor>(dtype, dims, weights.bytes.subspan(value.offset(), bytes), weights.owner);
    }
    case format::ConstantStorage::stripped:
    case format::ConstantStorage::packed_only: {
      if (dtype == DType::string)
        fail_corrupt(fmt::format("constant '{}' is of strings, which are never packed", value.name()->string_view()));
      return std::make_shared<const Tensor>(Tensor::elided(dtype, dims));
    }
    default:
      fail_corrupt(fmt::format("constant '{}' is stored in an unknown way", value.name()->string_view()));
  }
}

Provenance::Pointer find_provenance(const format::Value& value, const Tensor* constant,
                                    const ProvenanceList& provenances) {
  if (value.provenance() == -1) return nullptr;
  const auto name = value.name()->string_view();
  if (value.provenance() < 0 || static_cast<size_t>(value.provenance()) >= provenances.size())
    fail_corrupt(fmt::format("constant '{}' has no record {} of where it comes from", name, value.provenance()));
  if (!constant) fail_corrupt(fmt::format("value '{}' is no constant and comes from initializers", name));
  const Provenance::Pointer& found = provenances[static_cast<size_t>(value.provenance())];
  const auto* initializer = found->as<Provenance::Initializer>();
  if (initializer && (initializer->dtype != constant->dtype() || initializer->dims != constant->dims()))
    fail_corrupt(fmt::format("constant '{}' is recorded as an initializer of another type", name));
  return found;
}

}  // namespace

void CopyBudget::take(size_t bytes) {
  if (bytes > left_) fail_corrupt("it refers to the same bytes over and over");
  left_ -= bytes;
}

Graph decode_graph(const format::Graph& stored, const WeightBytes& weights, const ProvenanceList& provenances,
                   CopyBudget& budget, std::vector<TacticChoice>* tactics) {
  Graph graph;
  graph.name = decode_text(stored.name(), budget);
  std::unordered_set<std::string> names;
  std::vector<bool> defined;
  std::vector<TensorType> recorded;
  if (stored.values()) {
    for (const format::Value* v : *stored.values()) {
      const TensorType type = decode_type(*v, budget);
      if (const std::string wrong = malformed(type); !wrong.empty())
        fail_corrupt(fmt::format("value '{}' is {}: {}", v->name()->string_view(), to_string(type), wrong));
      if (is_container(type.dtype) && v->constant() != format::ConstantStorage::none)
        fail_corrupt(fmt::format("value '{}' is a container and a constant", v->name()->string_view()));
      for (const Dim& d : type.shape)
        if (d.is_constant() && d.value() < 0)
          fail_corrupt(fmt::format("value '{}' has a negative size: {}", v->name()->string_view(), to_string(type)));
      if (const std::string what = too_large(type); !what.empty())
        fail_corrupt(fmt::format("value '{}' is {}", v->name()->string_view(), what));
      Value value;
      value.name = decode_text(v->name(), budget);
      if (!names.insert(value.name).second) fail_corrupt(fmt::format("two values are named '{}'", value.name));
      value.constant = decode_constant(*v, type.dtype, type.shape, weights, budget);
      // Packed forms are found by the names of the outermost graph's constants.
      if (!tactics && v->constant() == format::ConstantStorage::packed_only)
        fail_corrupt(fmt::format("constant '{}' of a body exists in packed form only", value.name));
      value.provenance = find_provenance(*v, value.constant.get(), provenances);
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
    if (id < 0 || static_cast<size_t>(id) >= graph.values.size()) fail_corrupt(fmt::format("there is no value {}", id));
    return static_cast<size_t>(id);
  };
  const auto define = [&](ValueId id) {
    const size_t v = check(id);
    if (defined[v]) fail_corrupt(fmt::format("value '{}' is defined twice", graph.values[v].name));
    defined[v] = true;
    return v;
  };
  const auto use = [&](ValueId id) {
    if (!defined[check(id)])
      fail_corrupt(fmt::format("value '{}' is read before it is computed", graph.value(id).name));
  };
  graph.inputs = copy_numbers<ValueId>(stored.inputs(), budget);
  for (const ValueId id : graph.inputs) {
    const size_t v = define(id);
    graph.values[v].type = recorded[v];
  }
  if (stored.nodes()) {
    for (const format::Node* n : *stored.nodes()) {
      Node node{operators().make(decode_text(n->op(), budget), decode_fields(n->fields(), budget)),
                copy_numbers<ValueId>(n->inputs(), budget),
                copy_numbers<ValueId>(n->outputs(), budget),
                {},
                decode_texts(n->sources(), budget)};
      if (n->bodies())
        for (const format::Graph* body : *n->bodies())
          node.bodies.push_back(decode_graph(*body, weights, provenances, budget, nullptr));
      for (const ValueId id : node.inputs)
        if (id != no_value) use(id);
      if (node.outputs.empty()) fail_corrupt("a node has no outputs");
      for (const ValueId id : node.outputs) define(id);
      std::vector<Inferred> inferred = infer(graph, node);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const auto v = static_cast<size_t>(node.outputs[o]);
        if (inferred[o].type != recorded[v])
          fail_corrupt(fmt::format("value '{}' is {}, recorded as {}", graph.values[v].name,
                                   to_string(inferred[o].type), to_string(recorded[v])));
        graph.values[v].type = std::move(inferred[o].type);
        graph.values[v].content = std::move(inferred[o].content);
      }
      graph.nodes.push_back(std::move(node));
      if (tactics) tactics->push_back({decode_text(n->tactic(), budget), decode_texts(n->further_tactics(), budget)});
    }
  }
  graph.outputs = copy_numbers<ValueId>(stored.outputs(), budget);
  for (const ValueId id : graph.outputs) use(id);
  graph.output_names = decode_texts(stored.output_names(), budget);
  if (graph.output_names.size() != graph.outputs.size()) fail_corrupt("outputs and their names differ in number");
  // Of bodies the position counts, and a loop may well carry one value twice.
  if (tactics && std::unordered_set<std::string>(graph.output_names.begin(), graph.output_names.end()).size() !=
                     graph.output_names.size())
    fail_corrupt("two outputs have one name");
  return graph;
}

}  // namespace camshaft
