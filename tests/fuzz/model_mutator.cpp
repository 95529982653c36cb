#include "fuzz/model_mutator.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "onnx/converters.h"

namespace camshaft::onnx {
namespace {

// What attributes and strings of many operators say; the dictionary of scripts/fuzz.sh is made of ONNX's own schemas.
constexpr std::string_view words[] = {"axis",
                                      "axes",
                                      "keepdims",
                                      "perm",
                                      "to",
                                      "value",
                                      "value_ints",
                                      "pads",
                                      "strides",
                                      "dilations",
                                      "group",
                                      "kernel_shape",
                                      "auto_pad",
                                      "mode",
                                      "alpha",
                                      "beta",
                                      "epsilon",
                                      "scales",
                                      "sizes",
                                      "equation",
                                      "ceil_mode",
                                      "k",
                                      "largest",
                                      "sorted",
                                      "exclusive",
                                      "reverse",
                                      "batch_dims",
                                      "reduction",
                                      "split",
                                      "num_outputs",
                                      "transA",
                                      "transB",
                                      "noop_with_empty_axes",
                                      "start",
                                      "end",
                                      "starts",
                                      "ends",
                                      "steps",
                                      "body",
                                      "then_branch",
                                      "else_branch",
                                      "hidden_size",
                                      "direction",
                                      "activations",
                                      "layout",
                                      "linear_before_reset",
                                      "block_size",
                                      "blocksize",
                                      "num_heads",
                                      "q_num_heads",
                                      "kv_num_heads",
                                      "scale",
                                      "softcap",
                                      "is_causal",
                                      "output_shape",
                                      "output_padding",
                                      "coordinate_transformation_mode",
                                      "nearest_mode",
                                      "cubic_coeff_a",
                                      "antialias",
                                      "keep_aspect_ratio_policy",
                                      "exclude_outside",
                                      "SAME_UPPER",
                                      "SAME_LOWER",
                                      "VALID",
                                      "NOTSET",
                                      "linear",
                                      "nearest",
                                      "cubic",
                                      "bilinear",
                                      "bicubic",
                                      "align_corners",
                                      "asymmetric",
                                      "half_pixel",
                                      "tf_crop_and_resize",
                                      "reflect",
                                      "edge",
                                      "wrap",
                                      "constant",
                                      "add",
                                      "mul",
                                      "max",
                                      "min",
                                      "bidirectional",
                                      "forward",
                                      "Relu",
                                      "Tanh",
                                      "Sigmoid",
                                      "DCR",
                                      "CRD",
                                      "ij,jk->ik",
                                      "...ij->...ji",
                                      "ii->i",
                                      "a",
                                      "",
                                      "border",
                                      "zeros",
                                      "round_prefer_floor",
                                      "not_larger",
                                      "not_smaller",
                                      "stretch",
                                      "floor",
                                      "ceil",
                                      "saturate",
                                      "round_mode",
                                      "seed",
                                      "dtype",
                                      "high",
                                      "low",
                                      "mean",
                                      "shape",
                                      "sample_size",
                                      "upper",
                                      "fmod",
                                      "detect_negative",
                                      "detect_positive",
                                      "count_include_pad",
                                      "storage_order",
                                      "p",
                                      "lambd",
                                      "bias",
                                      "num_scan_inputs",
                                      "scan_input_axes",
                                      "scan_output_axes",
                                      "scan_input_directions",
                                      "onesided",
                                      "time_axis"};

constexpr std::string_view more_operators[] = {"If",
                                               "Loop",
                                               "Scan",
                                               "SequenceConstruct",
                                               "SequenceAt",
                                               "SequenceInsert",
                                               "SequenceMap",
                                               "SplitToSequence",
                                               "ConcatFromSequence",
                                               "Optional",
                                               "OptionalGetElement",
                                               "OptionalHasElement",
                                               "Constant"};

// Sizes at and beyond every border that arithmetic on sizes has.
constexpr int64_t integers[] = {0,
                                1,
                                2,
                                3,
                                4,
                                5,
                                7,
                                8,
                                9,
                                16,
                                17,
                                63,
                                64,
                                65,
                                100,
                                127,
                                128,
                                255,
                                256,
                                1000,
                                4096,
                                65535,
                                65536,
                                1000000,
                                INT32_MAX,
                                int64_t{INT32_MAX} + 1,
                                UINT32_MAX,
                                int64_t{1} << 32,
                                1000000000000,
                                int64_t{1} << 40,
                                int64_t{1} << 61,
                                int64_t{1} << 62,
                                INT64_MAX - 1,
                                INT64_MAX};

size_t element_bytes(int32_t data_type) {
  switch (data_type) {
    case 1:   // float
    case 6:   // int32
    case 12:  // uint32
      return 4;
    case 7:   // int64
    case 11:  // double
    case 13:  // uint64
    case 14:  // complex64
      return 8;
    case 4:   // uint16
    case 5:   // int16
    case 10:  // float16
    case 16:  // bfloat16
      return 2;
    default:
      return 1;
  }
}

// The bytes that a tensor needs, or nothing where that is much.
size_t small_size(const TensorProto& tensor) {
  int64_t count = 1;
  for (const int64_t d : tensor.dims) {
    if (d < 0 || d > 4096) return 0;
    count *= d;
    if (count > 4096) return 0;
  }
  return static_cast<size_t>(count) * element_bytes(tensor.data_type);
}

}  // namespace

ModelMutator::ModelMutator(ModelProto& model, uint32_t seed) : model_(model), random_(seed) {}

int64_t ModelMutator::integer() {
  if (one_in(3)) return static_cast<int64_t>(below(5)) - 2;
  const int64_t value = any(integers);
  return one_in(3) ? -value : value;
}

float ModelMutator::real() {
  constexpr float reals[] = {0,     -0.0F,  1,     -1,
                             0.5F,  2,      1e-8F, 1e9F,
                             3e38F, 1e-40F, 2.5F,  std::numeric_limits<float>::quiet_NaN(),
                             1e19F, -1e10F, 255,   std::numeric_limits<float>::infinity()};
  return one_in(3) ? static_cast<float>(below(2000)) / 100 - 10 : any(reals);
}

std::string ModelMutator::word() {
  return std::string(any(words));
}

std::string ModelMutator::text() {
  if (!one_in(4)) return word();
  std::string out;
  for (uint32_t n = below(8); n > 0; --n) out += "ijkab.,->()= 0:\xc3\n"[below(17)];
  return out;
}

std::string ModelMutator::bytes(size_t size) {
  std::string out(size, '\0');
  const uint32_t kind = below(4);
  for (char& c : out) c = kind == 0 ? '\0' : kind == 1 ? static_cast<char>(random_()) : static_cast<char>(below(3));
  return out;
}

void ModelMutator::collect() {
  bodies_.clear();
  attributes_.clear();
  collect(model_.graph, {});
  for (FunctionProto& f : model_.functions) collect(f.nodes, nullptr, f.inputs);
}

void ModelMutator::collect(GraphProto& graph, std::vector<std::string> names) {
  for (const ValueInfoProto& input : graph.inputs) names.push_back(input.name);
  for (const TensorProto& tensor : graph.initializers) names.push_back(tensor.name);
  for (const SparseTensorProto& tensor : graph.sparse_initializers) names.push_back(tensor.values.name);
  collect(graph.nodes, &graph, std::move(names));
}

void ModelMutator::collect(std::vector<NodeProto>& nodes, GraphProto* graph, std::vector<std::string> names) {
  for (const NodeProto& node : nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty()) names.push_back(output);
  for (NodeProto& node : nodes)
    for (AttributeProto& attribute : node.attributes) {
      if (attribute.graphs.empty()) attributes_.push_back(attribute);
      for (GraphProto& inner : attribute.graphs) collect(inner, names);
    }
  bodies_.push_back({&nodes, graph, std::move(names)});
}

void ModelMutator::become_other_operator(NodeProto& node) {
  static const auto operators = known_operators();
  if (one_in(12)) {
    node.op_type = std::string(any(more_operators));
    node.domain.clear();
    return;
  }
  const KnownOperator& other = any(operators);
  node.domain = other.domain;
  node.op_type = other.op_type;
  if (!node.domain.empty() && !one_in(8)) model_.opsets.emplace(node.domain, 1);
}

AttributeProto ModelMutator::new_attribute() {
  if (!attributes_.empty() && one_in(3)) return any(attributes_);
  AttributeProto attribute;
  do attribute.name = word();
  while (attribute.name.empty());
  const AttributeType types[] = {AttributeType::int_,   AttributeType::ints,   AttributeType::float_,
                                 AttributeType::floats, AttributeType::string, AttributeType::strings,
                                 AttributeType::tensor};
  attribute.type = any(types);
  attribute.i = integer();
  attribute.f = real();
  attribute.s = text();
  for (uint32_t n = attribute.type == AttributeType::ints ? below(5) : 0; n > 0; --n)
    attribute.ints.push_back(integer());
  for (uint32_t n = attribute.type == AttributeType::floats ? below(5) : 0; n > 0; --n)
    attribute.floats.push_back(real());
  for (uint32_t n = attribute.type == AttributeType::strings ? below(5) : 0; n > 0; --n)
    attribute.strings.push_back(text());
  if (attribute.type == AttributeType::tensor) mutate_tensor(attribute.tensors.emplace_back());
  return attribute;
}

void ModelMutator::mutate_attribute(AttributeProto& attribute) {
  const auto change_list = [&](auto& list, auto make) {
    if (list.empty() || one_in(4)) {
      list.insert(list.begin() + below(static_cast<uint32_t>(list.size()) + 1), make());
    } else if (one_in(4)) {
      list.erase(list.begin() + below(static_cast<uint32_t>(list.size())));
    } else {
      any(list) = make();
    }
  };
  if (one_in(20)) attribute.name = word() + (one_in(8) ? "x" : "");
  if (attribute.name.empty()) attribute.name = "axis";
  switch (attribute.type) {
    case AttributeType::int_:
      // Wraps, where a signed sum would overflow.
      attribute.i = one_in(3) ? static_cast<int64_t>(static_cast<uint64_t>(attribute.i) + below(3) - 1) : integer();
      break;
    case AttributeType::float_:
      attribute.f = real();
      break;
    case AttributeType::string:
      attribute.s = text();
      break;
    case AttributeType::ints:
      change_list(attribute.ints, [&] { return integer(); });
      break;
    case AttributeType::floats:
      change_list(attribute.floats, [&] { return real(); });
      break;
    case AttributeType::strings:
      change_list(attribute.strings, [&] { return text(); });
      break;
    case AttributeType::tensor:
    case AttributeType::tensors:
      if (!attribute.tensors.empty()) mutate_tensor(any(attribute.tensors));
      break;
    case AttributeType::type_proto:
    case AttributeType::type_protos:
      if (!attribute.type_protos.empty()) mutate_type(any(attribute.type_protos));
      break;
    default:
      break;
  }
}

void ModelMutator::mutate_attributes(NodeProto& node) {
  std::vector<AttributeProto>& list = node.attributes;
  if (list.empty() || one_in(5)) {
    list.push_back(new_attribute());
  } else if (one_in(6)) {
    list.erase(list.begin() + below(static_cast<uint32_t>(list.size())));
  } else {
    mutate_attribute(any(list));
  }
}

void ModelMutator::mutate_edges(NodeProto& node, const Body& body) {
  const auto name = [&]() -> std::string {
    if (body.names.empty() || one_in(12)) return "";
    return any(body.names);
  };
  switch (below(8)) {
    case 0:
      node.inputs.push_back(name());
      break;
    case 1:
      if (!node.inputs.empty()) node.inputs.pop_back();
      break;
    case 2:
      node.outputs.push_back("o" + std::to_string(random_() % 100000));
      break;
    case 3:
      if (node.outputs.size() > 1) node.outputs.pop_back();
      break;
    case 4:
      if (!node.inputs.empty()) std::swap(any(node.inputs), any(node.inputs));
      break;
    default:
      if (!node.inputs.empty()) any(node.inputs) = name();
  }
}

void ModelMutator::mutate_node(Body& body) {
  if (body.nodes->empty()) return insert_node(body);
  NodeProto& node = any(*body.nodes);
  switch (below(8)) {
    case 0:
      become_other_operator(node);
      break;
    case 1:
    case 2:
    case 3:
      mutate_edges(node, body);
      break;
    default:
      mutate_attributes(node);
  }
}

void ModelMutator::insert_node(Body& body) {
  NodeProto node;
  if (!body.nodes->empty() && one_in(2))
    node = any(*body.nodes);
  else
    become_other_operator(node);
  if (node.inputs.empty() || one_in(3)) {
    node.inputs.clear();
    for (uint32_t n = 1 + below(3); n > 0 && !body.names.empty(); --n) node.inputs.push_back(any(body.names));
  } else if (!body.names.empty()) {
    any(node.inputs) = any(body.names);
  }
  const size_t outputs = std::max<size_t>(1, node.outputs.size());
  node.outputs.clear();
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back("n" + std::to_string(random_() % 100000));
  const std::string out = node.outputs[0];
  // Somebody must read it, or it is left out.
  if (body.graph && (one_in(2) || body.nodes->empty())) {
    ValueInfoProto info;
    info.name = out;
    body.graph->outputs.push_back(std::move(info));
  } else if (!body.nodes->empty()) {
    NodeProto& reader = any(*body.nodes);
    if (!reader.inputs.empty()) any(reader.inputs) = out;
  }
  body.nodes->insert(body.nodes->begin() + below(static_cast<uint32_t>(body.nodes->size()) + 1), std::move(node));
}

void ModelMutator::mutate_list(Body& body) {
  if (body.nodes->size() > 1 && one_in(3)) {
    body.nodes->erase(body.nodes->begin() + below(static_cast<uint32_t>(body.nodes->size())));
  } else if (body.nodes->size() > 1 && one_in(4)) {
    std::swap(any(*body.nodes), any(*body.nodes));
  } else {
    insert_node(body);
  }
}

void ModelMutator::fill(TensorProto& tensor) {
  const std::string name = tensor.name;
  const std::vector<int64_t> dims = tensor.dims;
  const int32_t data_type = tensor.data_type;
  tensor = TensorProto{};
  tensor.name = name;
  tensor.dims = dims;
  tensor.data_type = data_type;
  const size_t size = small_size(tensor);
  if (data_type == 8) {
    for (size_t i = 0; i < size; ++i) tensor.string_data.push_back(text());
    return;
  }
  if (data_type == 7 && size <= 64) {
    for (size_t i = 0; i < size / 8; ++i) tensor.int64_data.push_back(integer());
    return;
  }
  if (data_type == 1 && size <= 64) {
    for (size_t i = 0; i < size / 4; ++i) tensor.float_data.push_back(real());
    return;
  }
  storage.push_back(bytes(size));
  tensor.raw_data = std::as_bytes(std::span(storage.back()));
}

void ModelMutator::mutate_tensor(TensorProto& tensor) {
  switch (below(6)) {
    case 0:
      tensor.data_type = static_cast<int32_t>(below(27));
      if (!one_in(4)) fill(tensor);
      break;
    case 1:
      if (tensor.dims.empty() || one_in(3))
        tensor.dims.push_back(one_in(3) ? integer() : below(4));
      else if (one_in(3))
        tensor.dims.pop_back();
      else
        any(tensor.dims) = one_in(3) ? integer() : below(6);
      if (!one_in(4)) fill(tensor);
      break;
    case 2:
      fill(tensor);
      break;
    default: {  // one element
      if (!tensor.int64_data.empty()) {
        any(tensor.int64_data) = integer();
      } else if (!tensor.float_data.empty()) {
        any(tensor.float_data) = real();
      } else if (!tensor.int32_data.empty()) {
        any(tensor.int32_data) = static_cast<int32_t>(integer());
      } else if (!tensor.string_data.empty()) {
        any(tensor.string_data) = text();
      } else if (!tensor.raw_data.empty()) {
        std::string& copy =
            storage.emplace_back(reinterpret_cast<const char*>(tensor.raw_data.data()), tensor.raw_data.size());
        const size_t width = std::min(element_bytes(tensor.data_type), copy.size());
        const size_t at = below(static_cast<uint32_t>(copy.size() / width)) * width;
        const int64_t i = integer();
        const float f = real();
        std::memcpy(copy.data() + at, tensor.data_type == 1 ? static_cast<const void*>(&f) : &i, width);
        tensor.raw_data = std::as_bytes(std::span(copy));
      } else {
        fill(tensor);
      }
    }
  }
}

void ModelMutator::mutate_initializers(GraphProto& graph) {
  if (!graph.inputs.empty() && one_in(3)) {  // an input becomes a constant
    const auto at = graph.inputs.begin() + below(static_cast<uint32_t>(graph.inputs.size()));
    TensorProto tensor;
    tensor.name = at->name;
    tensor.data_type = at->type.elem_type;
    if (at->type.shape)
      for (const DimensionProto& d : *at->type.shape) tensor.dims.push_back(d.value.value_or(2));
    fill(tensor);
    graph.inputs.erase(at);
    graph.initializers.push_back(std::move(tensor));
  } else if (!graph.initializers.empty() && one_in(8)) {  // and a constant an input
    const auto at = graph.initializers.begin() + below(static_cast<uint32_t>(graph.initializers.size()));
    ValueInfoProto info;
    info.name = at->name;
    info.type.kind = TypeProto::Kind::tensor;
    info.type.elem_type = at->data_type;
    info.type.shape.emplace();
    for (const int64_t d : at->dims) info.type.shape->push_back({d, {}});
    graph.initializers.erase(at);
    graph.inputs.push_back(std::move(info));
  } else if (!graph.initializers.empty()) {
    mutate_tensor(any(graph.initializers));
  }
  for (TensorProto& tensor : graph.initializers)
    if (tensor.name.empty()) tensor.name = "w";
}

void ModelMutator::mutate_type(TypeProto& type) {
  if (type.kind != TypeProto::Kind::tensor) {
    if (!type.element.empty() && !one_in(5)) return mutate_type(type.element[0]);
    type = TypeProto{};
    type.kind = TypeProto::Kind::tensor;
    type.elem_type = 1;
    type.shape.emplace();
  }
  if (one_in(6)) {
    type.elem_type = static_cast<int32_t>(below(27));
  } else if (!type.shape || one_in(30)) {
    if (type.shape)
      type.shape.reset();
    else
      type.shape.emplace();
  } else if (type.shape->empty() || one_in(5)) {
    type.shape->push_back({below(4), {}});
  } else if (one_in(5)) {
    type.shape->pop_back();
  } else {
    DimensionProto& d = any(*type.shape);
    d = {};
    constexpr std::string_view names[] = {"n", "m", "?", "length", "n + 1", "-1", "@0"};
    if (one_in(3))
      d.param = std::string(any(names));
    else
      d.value = one_in(4) ? std::max<int64_t>(0, integer()) : int64_t{below(8)};
  }
  if (one_in(40)) {  // within something
    TypeProto inner = type;
    type = TypeProto{};
    type.kind = one_in(2) ? TypeProto::Kind::sequence : TypeProto::Kind::optional;
    type.element.push_back(std::move(inner));
  }
}

void ModelMutator::mutate_interface(GraphProto& graph) {
  switch (below(5)) {
    case 0:
      if (graph.outputs.size() > 1) graph.outputs.pop_back();
      break;
    case 1:
      for (const Body& body : bodies_)
        if (body.graph == &graph && !body.names.empty()) {
          ValueInfoProto info;
          info.name = any(body.names);
          graph.outputs.push_back(std::move(info));
        }
      break;
    default:
      if (!graph.inputs.empty()) mutate_type(any(graph.inputs).type);
  }
}

void ModelMutator::mutate_opsets() {
  constexpr std::string_view domains[] = {"", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview", "local"};
  if (!one_in(3)) {
    model_.opsets[""] = 6 + below(22);
  } else {
    model_.opsets[std::string(any(domains))] = 1 + below(28);
  }
}

// Nodes become a function and its call, or a function calls one more node.
void ModelMutator::mutate_functions(Body& body) {
  if (body.nodes->empty()) return;
  NodeProto& node = any(*body.nodes);
  FunctionProto function;
  function.name = "F" + std::to_string(below(3));
  function.domain = "local";
  function.inputs = node.inputs;
  function.outputs = node.outputs;
  std::sort(function.inputs.begin(), function.inputs.end());
  function.inputs.erase(std::unique(function.inputs.begin(), function.inputs.end()), function.inputs.end());
  std::erase(function.inputs, "");
  function.opsets = model_.opsets;
  function.nodes.push_back(node);
  if (one_in(2)) {
    for (AttributeProto& a : function.nodes[0].attributes) {
      if (!a.graphs.empty() || one_in(3)) continue;
      function.attributes.push_back(a.name);
      const std::string name = a.name;
      const AttributeType type = a.type;
      a = {};
      a.name = a.ref_attr_name = name;
      a.type = type;
    }
  } else {
    node.attributes.clear();
  }
  node.inputs = function.inputs;
  node.op_type = function.name;
  node.domain = function.domain;
  model_.opsets.emplace("local", 1);
  model_.functions.push_back(std::move(function));
}

void ModelMutator::mutate() {
  collect();
  Body& body = any(bodies_);
  GraphProto& graph = body.graph ? *body.graph : model_.graph;
  switch (below(16)) {
    case 0:
      mutate_opsets();
      break;
    case 1:
    case 2:
      mutate_interface(graph);
      break;
    case 3:
    case 4:
    case 5:
      mutate_initializers(graph);
      break;
    case 6:
    case 7:
      mutate_list(body);
      break;
    case 8:
      if (one_in(4)) mutate_functions(body);
      break;
    default:
      mutate_node(body);
  }
}

void ModelMutator::join(const ModelProto& other) {
  const auto renamed = [](const std::string& name) { return name.empty() ? name : "j." + name; };
  collect();
  std::vector<std::string> names = bodies_.back().names;
  for (const Body& body : bodies_)
    if (body.graph == &model_.graph) names = body.names;
  GraphProto& graph = model_.graph;
  for (const TensorProto& tensor : other.graph.initializers) {
    graph.initializers.push_back(tensor);
    graph.initializers.back().name = renamed(tensor.name);
  }
  std::vector<std::pair<std::string, std::string>> fed;
  for (const ValueInfoProto& input : other.graph.inputs) {
    if (!names.empty() && one_in(2)) {
      fed.emplace_back(input.name, any(names));
      continue;
    }
    graph.inputs.push_back(input);
    graph.inputs.back().name = renamed(input.name);
  }
  for (const NodeProto& node : other.graph.nodes) {
    NodeProto& copy = graph.nodes.emplace_back(node);
    for (std::string& input : copy.inputs) {
      const auto feed = std::find_if(fed.begin(), fed.end(), [&](const auto& f) { return f.first == input; });
      input = feed != fed.end() ? feed->second : renamed(input);
    }
    for (std::string& output : copy.outputs) output = renamed(output);
  }
  for (const ValueInfoProto& output : other.graph.outputs) {
    graph.outputs.push_back(output);
    graph.outputs.back().name = renamed(output.name);
  }
  for (const auto& [domain, version] : other.opsets) model_.opsets.emplace(domain, version);
  for (const FunctionProto& function : other.functions) model_.functions.push_back(function);
}

}  // namespace camshaft::onnx
