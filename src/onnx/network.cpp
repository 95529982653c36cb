#include "onnx/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/similar_names.h"
#include "onnx/claimed_operators.h"
#include "onnx/converters.h"
#include "onnx/export/model_builder.h"
#include "onnx/onnx_dtype.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

std::string listed(const std::vector<OperatorParameter>& parameters) {
  using Count = OperatorParameter::Count;
  std::vector<std::string> words;
  for (const OperatorParameter& p : parameters)
    words.push_back(p.name + (p.count == Count::optional ? " (optional)"
                              : p.count == Count::any    ? " (any number)"
                                                         : ""));
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

std::string full_name(const NetworkNode& node) {
  return node.domain.empty() || node.domain == "ai.onnx" ? node.op_type : node.domain + "." + node.op_type;
}

void check_counts(const NetworkNode& node, const OperatorSchema& schema) {
  using Count = OperatorParameter::Count;
  const auto check_most = [&](size_t given, const std::vector<OperatorParameter>& of, const char* verb) {
    if (!of.empty() && of.back().count == Count::any) return;
    if (given > of.size())
      refuse(fmt::format("operator {} {} {}; {} are given", full_name(node), verb, listed(of), given));
  };
  check_most(node.inputs.size(), schema.inputs, "takes the inputs");
  check_most(node.outputs.size(), schema.outputs, "has the outputs");
  for (size_t i = 0; i < schema.inputs.size(); ++i)
    if (schema.inputs[i].count == Count::one && (i >= node.inputs.size() || node.inputs[i].empty()))
      refuse(fmt::format("operator {} needs its input {}: it takes {}", full_name(node), schema.inputs[i].name,
                         listed(schema.inputs)));
}

void check_attributes(const NetworkNode& node, const OperatorSchema& schema) {
  std::vector<std::string> names;
  for (const OperatorAttribute& a : schema.attributes) names.push_back(a.name);
  std::set<std::string> given;
  for (const AttributeProto& a : node.attributes) {
    const auto known = std::find_if(schema.attributes.begin(), schema.attributes.end(),
                                    [&](const OperatorAttribute& s) { return s.name == a.name; });
    if (known == schema.attributes.end() && !schema.is_open)
      refuse(fmt::format("operator {} has no attribute {}{}", full_name(node), quote(a.name),
                         names.empty() ? ": it has none" : what_was_meant(a.name, names)));
    if (known != schema.attributes.end() && known->type != a.type)
      refuse(fmt::format("attribute {} of operator {} is {}, not {}", quote(a.name), full_name(node),
                         attribute_type_name(known->type), attribute_type_name(a.type)));
    if (!given.insert(a.name).second)
      refuse(fmt::format("attribute {} of operator {} is given twice", quote(a.name), full_name(node)));
  }
  for (const OperatorAttribute& a : schema.attributes)
    if (a.is_required && !given.contains(a.name))
      refuse(fmt::format("operator {} needs its attribute {}, {}", full_name(node), quote(a.name),
                         attribute_type_name(a.type)));
}

/// "float" or "f32".
DType dtype_of_text(std::string_view text) {
  constexpr int32_t newest_data_type = 26;
  for (int32_t number = 1; number <= newest_data_type; ++number) {
    std::string name = data_type_name(number);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == text) return dtype_from_onnx(number, "the type");
  }
  const DType dtype = parse_dtype(text);
  if (is_container(dtype)) refuse(fmt::format("'{}' does not say what it holds: write it as seq(tensor(float))", text));
  return dtype;
}

/// "2, ?, n": numbers, and names, which say nothing of an element.
std::vector<DimensionProto> sizes_of_text(std::string_view text) {
  std::vector<DimensionProto> sizes;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, end);
    while (word.starts_with(' ')) word.remove_prefix(1);
    DimensionProto& size = sizes.emplace_back();
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && rest == word.data() + word.size()) {
      size.value = number;
    } else {
      size.param = word;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return sizes;
}

TensorType type_of_input(const std::string& name, const TypeProto& type) {
  const std::string where = fmt::format("input {}", quote(name));
  if (type.kind != TypeProto::Kind::tensor) return container_type_from(type, name, where);
  if (!type.shape) refuse(where + " needs sizes: a number, a name, or neither, for each of its axes");
  check_axes(type.shape->size(), where);
  TensorType out{dtype_from_onnx(type.elem_type, where), {}};
  for (size_t axis = 0; axis < type.shape->size(); ++axis) {
    const DimensionProto& d = (*type.shape)[axis];
    if (d.value && *d.value < 1)
      refuse(fmt::format("size {} of {} is {}: give 1 or more, a name, or neither", axis, where, *d.value));
    if (!is_size_name(d.param) && !d.param.empty())
      refuse(fmt::format("{} cannot be the name of a size (of {})", quote(d.param), where));
    out.shape.push_back(d.value           ? Dim(*d.value)
                        : d.param.empty() ? Dim::symbol(fmt::format("{}.{}", symbol_base(name), axis))
                                          : Dim::symbol(d.param));
  }
  if (const std::string wrong = too_large(out); !wrong.empty()) refuse(fmt::format("{} {}", where, wrong));
  return out;
}

}  // namespace

/// Of the network and all its sub-graphs.
struct Network::Shared {
  explicit Shared(ModelProto made) : model(std::move(made)), tensors(model), named(model.graph), importer(model) {}

  ModelProto model;  ///< all but the graph
  std::shared_ptr<std::vector<std::shared_ptr<const void>>> owners;
  TensorReader tensors;
  onnx::NamedTensors named;
  NodeImporter importer;
  std::set<std::string> values;  ///< names: each stands for one value in all graphs
  std::set<std::string> nodes;
};

std::shared_ptr<Network> Network::create(const std::string& name, int64_t opset) {
  if (opset == 0) opset = newest_opset;
  if (opset < 1 || opset > newest_opset)
    refuse(fmt::format("there is no operator set {}: give one from 1 to {}", opset, newest_opset));
  auto owners = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  ModelProto model;
  model.file = fmt::format("network {}", quote(name));
  model.storage = owners;
  model.producer_name = "camshaft";
  model.opsets[""] = opset;
  auto shared = std::make_shared<Shared>(std::move(model));
  shared->owners = std::move(owners);
  return std::shared_ptr<Network>(new Network(std::move(shared), nullptr, name));
}

Network::Network(std::shared_ptr<Shared> shared, std::shared_ptr<Network> outer, const std::string& name)
    : shared_(std::move(shared)),
      outer_(std::move(outer)),
      target_(shared_->tensors, shared_->named),
      scope_(shared_->model.opsets, target_) {
  graph_.name = name;
  target_.graph.name = name;
  if (outer_) scope_.outer = &outer_->scope_;
}

std::shared_ptr<Network> Network::create_subgraph(const std::string& name) {
  return std::shared_ptr<Network>(new Network(shared_, shared_from_this(), name));
}

int64_t Network::version(const std::string& domain) const {
  const auto it = shared_->model.opsets.find(domain == "ai.onnx" ? "" : domain);
  return it == shared_->model.opsets.end() ? newest_version(domain) : it->second;
}

void Network::check_free(const std::string& name) const {
  if (name.empty()) refuse("a value of a network needs a name");
  if (shared_->values.contains(name))
    refuse(fmt::format("the network {} has a value {} already", quote(graph_.name), quote(name)));
}

std::string Network::unique(const std::string& base) const {
  std::string name = base;
  for (int number = 1; shared_->values.contains(name) || shared_->nodes.contains(name); ++number)
    name = fmt::format("{}_{}", base, number);
  return name;
}

void Network::add_input(const std::string& name, const TypeProto& type) {
  check_free(name);
  scope_.values[name] = target_.graph.add_input(name, type_of_input(name, type));
  graph_.inputs.push_back({name, type});
  shared_->values.insert(name);
}

TensorProto Network::keep(const std::string& name, const Tensor& tensor) {
  if (is_container(tensor.dtype())) refuse("a constant is a tensor, no sequence, optional or map");
  TensorProto proto;
  proto.name = name;
  proto.dims = tensor.dims();
  proto.data_type = dtype_to_onnx(tensor.dtype());
  if (tensor.dtype() == DType::string) {
    proto.string_data.assign(tensor.as<std::string>(), tensor.as<std::string>() + tensor.size());
  } else {
    proto.raw_data = tensor.span();
    shared_->owners->push_back(tensor.owner());
  }
  return proto;
}

std::string Network::add_constant(const std::string& given, const Tensor& given_tensor) {
  if (!given.empty()) check_free(given);
  const auto is_aligned = [&] {
    const auto alignment = static_cast<uintptr_t>(std::max(bit_width(given_tensor.dtype()) / 8, 1));
    return reinterpret_cast<uintptr_t>(given_tensor.data()) % alignment == 0;
  };
  const bool is_kept = holds_objects(given_tensor.dtype()) || is_aligned();
  const Tensor tensor = is_kept ? given_tensor.owned() : given_tensor.copy();
  const std::string name = given.empty() ? unique("constant") : given;
  graph_.initializers.push_back(keep(name, tensor));
  scope_.values[name] = target_.graph.add_constant(name, target_.named.add("", name, tensor));
  shared_->values.insert(name);
  return name;
}

OperatorSchema Network::schema(const std::string& domain, const std::string& op_type) const {
  if (auto claimed = claimed_schema(domain, op_type)) return *claimed;
  if (find_converter(domain, op_type, version(domain)))
    if (const auto schema = find_schema(domain, op_type, version(domain))) return *schema;
  std::vector<std::string> names;
  for (const KnownOperator& known : known_operators())
    if (known.domain == (domain == "ai.onnx" ? "" : domain)) names.emplace_back(known.op_type);
  const std::string set =
      domain.empty() ? fmt::format("operator set {}", version("")) : fmt::format("the domain {}", quote(domain));
  refuse(fmt::format("Camshaft has no operator {} in {}{}", quote(op_type), set, what_was_meant(op_type, names)));
}

void Network::check_arguments(const NetworkNode& node, const OperatorSchema& schema) {
  check_counts(node, schema);
  check_attributes(node, schema);
  for (const std::string& input : node.inputs)
    if (!input.empty()) type(input);
}

std::string Network::given_types(const NetworkNode& node, const std::optional<OperatorSchema>& schema) {
  std::vector<std::string> words;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty()) continue;
    const size_t p = schema && !schema->inputs.empty() ? std::min(i, schema->inputs.size() - 1) : 0;
    words.push_back(fmt::format("{}: {}", schema && p < schema->inputs.size() ? schema->inputs[p].name : node.inputs[i],
                                to_string(type(node.inputs[i]))));
  }
  return words.empty() ? "" : fmt::format(" (given {})", fmt::join(words, ", "));
}

std::vector<std::string> Network::add_node(NetworkNode given) {
  const OperatorSchema schema = this->schema(given.domain, given.op_type);
  check_arguments(given, schema);
  if (!given.name.empty() && shared_->nodes.contains(given.name))
    refuse(fmt::format("the network {} has a node {} already", quote(graph_.name), quote(given.name)));
  NodeProto node;
  node.name = given.name.empty() ? unique(given.op_type) : given.name;
  node.op_type = given.op_type;
  node.domain = given.domain == "ai.onnx" ? "" : given.domain;
  node.inputs = given.inputs;
  node.attributes = given.attributes;
  std::set<std::string> mine;
  for (size_t i = 0; i < given.outputs.size(); ++i) {
    std::string name;
    if (given.outputs[i]) {
      name = *given.outputs[i];
      if (!name.empty()) check_free(name);
    } else {
      const bool is_listed = i < schema.outputs.size() && schema.outputs[i].count != OperatorParameter::Count::any;
      name = unique(i == 0 ? node.name
                           : fmt::format("{}.{}", node.name, is_listed ? schema.outputs[i].name : std::to_string(i)));
    }
    if (!name.empty() && !mine.insert(name).second) refuse(fmt::format("two results are named {}", quote(name)));
    node.outputs.push_back(std::move(name));
  }
  const bool is_new_domain = shared_->model.opsets.try_emplace(node.domain, version(node.domain)).second;
  try {
    shared_->importer.add(node, scope_);
  } catch (const Error& e) {
    if (is_new_domain) shared_->model.opsets.erase(node.domain);
    const ErrorCode code = e.code() == ErrorCode::invalid_model ? ErrorCode::invalid_argument : e.code();
    throw Error(code, e.what() + given_types(given, schema));
  }
  shared_->nodes.insert(node.name);
  shared_->values.merge(mine);
  std::vector<std::string> outputs = node.outputs;
  for (const std::string& output : outputs) computed_.insert(output);
  graph_.nodes.push_back(std::move(node));
  return outputs;
}

std::string Network::mark_output(const std::string& value, const std::string& given) {
  const TensorType type = this->type(value);
  const bool is_listed = std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                                     [&](const ValueInfoProto& output) { return output.name == value; });
  std::string name = given.empty() ? value : given;
  // A result of the graph is what one of its nodes computes, once.
  if (name != value || is_listed || !computed_.contains(value)) {
    if (name == value) name = unique(value + ".output");
    NetworkNode copy{
        .op_type = "Identity", .domain = {}, .name = {}, .inputs = {value}, .outputs = {name}, .attributes = {}};
    add_node(std::move(copy));
  }
  graph_.outputs.push_back({name, type_proto(type)});
  return name;
}

const TensorType& Network::type(const std::string& value) {
  const auto id = shared_->importer.find(value, scope_);
  if (!id)
    refuse(fmt::format("the network {} has no value {}{}", quote(graph_.name), quote(value),
                       shared_->values.contains(value) ? " here: it is in a sub-graph" : ""));
  return target_.graph.type(*id);
}

ModelProto Network::model() const {
  if (outer_) refuse(fmt::format("{} is a sub-graph: the network around it is the model", quote(graph_.name)));
  if (graph_.outputs.empty()) refuse(fmt::format("the network {} has no outputs: mark some", quote(graph_.name)));
  ModelProto model = shared_->model;
  // What is being built or written must not see owners of constants that come later.
  model.storage = std::make_shared<std::vector<std::shared_ptr<const void>>>(*shared_->owners);
  model.ir_version = ir_version_of(model.opsets.at(""));
  model.graph = graph_;
  return model;
}

Network::~Network() {
  if (!outer_ || is_used_) return;  // a body that was given up leaves its names to others
  for (const ValueInfoProto& input : graph_.inputs) shared_->values.erase(input.name);
  for (const TensorProto& constant : graph_.initializers) shared_->values.erase(constant.name);
  for (const std::string& name : computed_) shared_->values.erase(name);
  for (const NodeProto& node : graph_.nodes) shared_->nodes.erase(node.name);
}

GraphProto body_of(const Network& body, const Network& around) {
  if (body.outer_.get() != &around)
    refuse(fmt::format("{} is no sub-graph that was made in {}", quote(body.graph_.name), quote(around.graph_.name)));
  if (body.graph_.outputs.empty()) refuse(fmt::format("the sub-graph {} has no outputs", quote(body.graph_.name)));
  body.is_used_ = true;
  return body.graph_;
}

TypeProto parse_type(std::string_view text, const std::optional<std::vector<DimensionProto>>& sizes) {
  TypeProto type;
  const auto inside = [&](std::string_view begin) -> std::optional<std::string_view> {
    if (!text.starts_with(begin) || !text.ends_with(')')) return std::nullopt;
    return text.substr(begin.size(), text.size() - begin.size() - 1);
  };
  if (const auto element = inside("seq(")) {
    type.kind = TypeProto::Kind::sequence;
    type.element.push_back(parse_type(*element));
  } else if (const auto held = inside("optional(")) {
    type.kind = TypeProto::Kind::optional;
    type.element.push_back(parse_type(*held));
  } else if (const auto map = inside("map("); map && map->find(',') != map->npos) {
    const size_t comma = map->find(',');
    type.kind = TypeProto::Kind::map;
    type.key_type = parse_type(map->substr(0, comma)).elem_type;
    type.element.push_back(parse_type(map->substr(comma + 1)));
  } else {
    type.kind = TypeProto::Kind::tensor;
    type.shape = sizes;
    if (const size_t bracket = text.find('['); bracket != text.npos && text.ends_with(']')) {
      type.shape = sizes_of_text(text.substr(bracket + 1, text.size() - bracket - 2));
      text = text.substr(0, bracket);
    }
    const auto tensor = inside("tensor(");
    type.elem_type = dtype_to_onnx(dtype_of_text(tensor ? *tensor : text));
  }
  return type;
}

}  // namespace camshaft::onnx
