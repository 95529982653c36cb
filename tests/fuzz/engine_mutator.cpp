#include "fuzz/engine_mutator.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "engine/container.h"
#include "ir/ops/operators.h"

namespace camshaft {
namespace {

constexpr int64_t integers[] = {0,
                                1,
                                2,
                                3,
                                4,
                                5,
                                7,
                                8,
                                16,
                                17,
                                63,
                                64,
                                65,
                                127,
                                128,
                                255,
                                256,
                                1000,
                                4096,
                                65536,
                                1 << 20,
                                INT32_MAX,
                                int64_t{INT32_MAX} + 1,
                                UINT32_MAX,
                                int64_t{1} << 40,
                                int64_t{1} << 62,
                                INT64_MAX};

}  // namespace

int64_t EngineMutator::integer() {
  if (one_in(2)) return static_cast<int64_t>(below(7)) - 2;
  const int64_t value = any(integers);
  return one_in(3) ? -value : value;
}

double EngineMutator::real() {
  constexpr double reals[] = {0,
                              -0.0,
                              1,
                              -1,
                              0.5,
                              1e-9,
                              1e30,
                              1e300,
                              std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()};
  return any(reals);
}

Dim EngineMutator::dim() {
  constexpr std::string_view names[] = {"n", "m", "@0", "batch"};
  switch (below(6)) {
    case 0:
      return Dim::symbol(std::string(any(names)));
    case 1:
      return Dim::symbol(std::string(any(names))) * integer() + integer();
    default:
      return integer();
  }
}

Graph& EngineMutator::graph() {
  Graph* graph = &engine_.graph;
  while (one_in(2)) {
    std::vector<Graph*> inner;
    for (Node& node : graph->nodes)
      for (Graph& body : node.bodies) inner.push_back(&body);
    if (inner.empty()) break;
    graph = any(inner);
  }
  return *graph;
}

void EngineMutator::mutate_field(FieldValue& value) {
  const auto change_list = [&](auto& list, auto make) {
    if (list.empty() || one_in(5))
      list.insert(list.begin() + below(list.size() + 1), make());
    else if (one_in(5))
      list.erase(list.begin() + below(list.size()));
    else
      any(list) = make();
  };
  if (auto* i = std::get_if<int64_t>(&value)) *i = integer();
  if (auto* d = std::get_if<double>(&value)) *d = real();
  if (auto* b = std::get_if<bool>(&value)) *b = !*b;
  if (auto* list = std::get_if<std::vector<int64_t>>(&value)) change_list(*list, [&] { return integer(); });
  if (auto* list = std::get_if<std::vector<double>>(&value)) change_list(*list, [&] { return real(); });
  if (auto* d = std::get_if<Dim>(&value)) *d = dim();
  if (auto* list = std::get_if<Shape>(&value)) change_list(*list, [&] { return dim(); });
  if (auto* text = std::get_if<std::string>(&value)) {
    // Names of enumerations: those of the other operators are as good as any.
    constexpr std::string_view names[] = {"f32",     "i64",     "f16",  "string",    "i4",      "add",   "mul",
                                          "pow",     "max",     "mean", "sum",       "linear",  "cubic", "average",
                                          "nearest", "reflect", "edge", "less",      "where",   "exp",   "cast",
                                          "bool",    "u8",      "and",  "pointwise", "contract"};
    *text = std::string(any(names));
  }
}

void EngineMutator::mutate_operator(Node& node) {
  static const std::vector<std::string> names = operators().names();
  Fields fields = node.op.fields();
  std::string name(node.op.name());
  if (fields.empty() || one_in(8)) {
    name = any(names);
    if (one_in(2)) fields.clear();
  } else {
    mutate_field(any(fields).second);
  }
  try {
    node.op = operators().make(name, fields);
  } catch (const Error&) {
    return;  // the decoder would say the same
  }
}

void EngineMutator::mutate_edges(Graph& graph) {
  const auto id = [&] { return static_cast<ValueId>(one_in(10) ? integer() : below(graph.values.size())); };
  const auto change = [&](std::vector<ValueId>& list) {
    if (list.empty() || one_in(4))
      list.push_back(id());
    else if (one_in(4))
      list.pop_back();
    else
      any(list) = id();
  };
  if (graph.nodes.empty() || one_in(6)) {
    change(one_in(2) ? graph.inputs : graph.outputs);
    if (one_in(2)) graph.output_names.resize(graph.outputs.size(), "extra");
  } else {
    Node& node = any(graph.nodes);
    change(one_in(4) ? node.outputs : node.inputs);
  }
}

void EngineMutator::mutate_value(Value& value) {
  if (value.constant && value.constant->defined() && !value.constant->is_elided() && one_in(2)) {
    if (value.constant->dtype() == DType::string || value.constant->bytes() == 0) return;
    Tensor copy(value.constant->dtype(), value.constant->dims());
    std::memcpy(copy.mutable_data(), value.constant->data(), copy.bytes());
    const size_t width = std::max<size_t>(1, std::min(copy.bytes(), byte_size(copy.dtype(), 1)));
    const int64_t i = integer();
    std::memcpy(copy.mutable_data() + below(copy.bytes() / width) * width, &i, width);
    value.constant = std::make_shared<const Tensor>(std::move(copy));
    return;
  }
  switch (below(4)) {
    case 0:
      value.type.dtype = static_cast<DType>(below(24));
      break;
    case 1:
      value.name = one_in(2) ? "" : "x";
      break;
    default:
      if (value.type.shape.empty() || one_in(5))
        value.type.shape.push_back(dim());
      else if (one_in(5))
        value.type.shape.pop_back();
      else
        any(value.type.shape) = dim();
  }
}

void EngineMutator::mutate_nodes(Graph& graph) {
  if (graph.nodes.empty()) return;
  Node& node = any(graph.nodes);
  switch (below(5)) {
    case 0:
      std::swap(node, any(graph.nodes));
      break;
    case 1:
      graph.nodes.erase(graph.nodes.begin() + below(graph.nodes.size()));
      break;
    case 2: {
      Graph copy = engine_.graph;  // a body within a body, or where none belongs
      if (copy.nodes.size() < 20) node.bodies.push_back(std::move(copy));
      break;
    }
    case 3:
      if (!node.bodies.empty()) node.bodies.pop_back();
      break;
    default:
      node.bodies = any(graph.nodes).bodies;
  }
}

void EngineMutator::mutate_tables() {
  switch (below(4)) {
    case 0:
      if (!engine_.tactics.empty()) {
        const std::string tactic = one_in(3) ? "reference" : any(engine_.tactics).first;
        if (one_in(2))
          any(engine_.tactics).first = tactic;
        else
          any(engine_.tactics).further.push_back(tactic);
      }
      break;
    case 1:
      engine_.optimum[one_in(2) ? "n" : "batch"] = integer();
      break;
    case 2: {
      ShapeRange range;
      for (uint32_t axes = below(4); axes > 0; --axes) {
        range.min.push_back(integer());
        range.opt.push_back(one_in(2) ? range.min.back() : integer());
        range.max.push_back(one_in(2) ? range.opt.back() : integer());
      }
      Profile profile;
      const std::vector<ValueId>& inputs = engine_.graph.inputs;
      const auto id = inputs.empty() ? size_t{0} : static_cast<size_t>(any(inputs));
      profile.inputs[id < engine_.graph.values.size() ? engine_.graph.values[id].name : "x"] = range;
      engine_.profiles.push_back(profile);
      break;
    }
    default: {
      if (!engine_.packed) break;
      const auto all = engine_.packed->all();
      if (all.empty()) break;
      auto packed = std::make_shared<PackedConstants>();
      const uint32_t chosen = below(all.size());
      for (size_t i = 0; i < all.size(); ++i) {
        PackedConstant copy = *all[i];
        if (i == chosen) {
          if (one_in(3)) copy.layout += "0";
          if (one_in(3) && !engine_.graph.values.empty()) copy.constant = any(engine_.graph.values).name;
          if (one_in(3)) copy.bytes = copy.bytes.first(below(copy.bytes.size() + 1));
          if (one_in(3) && !copy.layout.empty()) any(copy.layout) = "0123456789x:,"[below(13)];
        }
        packed->add(std::move(copy));
      }
      engine_.packed = packed;
    }
  }
}

void EngineMutator::mutate() {
  Graph& g = graph();
  switch (below(8)) {
    case 0:
    case 1:
    case 2:
      if (!g.nodes.empty()) mutate_operator(any(g.nodes));
      break;
    case 3:
      mutate_edges(g);
      break;
    case 4:
    case 5:
      if (!g.values.empty()) mutate_value(any(g.values));
      break;
    case 6:
      mutate_nodes(g);
      break;
    default:
      mutate_tables();
  }
}

std::vector<std::byte> reseal(std::span<const std::byte> file, uint32_t seed,
                              size_t (*change)(uint8_t* data, size_t size, size_t max_size)) {
  std::mt19937 random(seed);
  try {
    const Container container = open_container(file, "engine");
    std::vector<std::vector<std::byte>> contents;
    for (const Container::Section& section : container.sections())
      contents.emplace_back(section.bytes.begin(), section.bytes.end());
    if (contents.empty()) return {};
    std::vector<std::byte>& chosen = contents[random() % 4 == 0 ? random() % contents.size() : 0];
    if (random() % 2 == 0 && chosen.size() >= 4) {  // an offset, a length or an index of FlatBuffers
      const size_t at = random() % (chosen.size() / 4) * 4;
      uint32_t word;
      std::memcpy(&word, chosen.data() + at, 4);
      const uint32_t others[] = {0,         1, word + 1, word - 1, word + 4, word - 4, word ^ (1U << random() % 32),
                                 UINT32_MAX};
      word = others[random() % std::size(others)];
      std::memcpy(chosen.data() + at, &word, 4);
    } else {
      const size_t size = chosen.size(), room = size + 64;
      chosen.resize(room);
      chosen.resize(change(reinterpret_cast<uint8_t*>(chosen.data()), size, room));
    }
    std::vector<SectionSource> sections;
    for (size_t i = 0; i < contents.size(); ++i) sections.emplace_back(container.sections()[i].kind, contents[i]);
    return container_bytes(sections);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace camshaft
