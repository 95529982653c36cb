// Networks that a program makes node by node.
#include "api/network.h"

#include <memory>

#include "api/describe.h"
#include "api/engine.h"
#include "api/options.h"
#include "api/record.h"
#include "api/status.h"
#include "api/tensor.h"
#include "onnx/export/model_file.h"
#include "onnx/proto_writer.h"

namespace camshaft::api {

namespace {

using nlohmann::json;
using onnx::AttributeProto;
using onnx::AttributeType;
using onnx::Network;

std::string words(const char* text) {
  return text == nullptr ? "" : text;
}

Network& of(camshaft_network* network) {
  return *given(network, "network")->network;
}

json described(Network& network, const std::string& name) {
  const TensorType& type = network.type(name);
  json dims = json::array(), names = json::array();
  for (const Dim& size : type.shape) {
    dims.push_back(size.is_constant() ? size.value() : -1);
    names.push_back(size.str());
  }
  return {{"name", name},       {"dtype", to_string(type.dtype)}, {"dims", dims},
          {"dim_names", names}, {"ranked", type.ranked},          {"type", to_string(type)}};
}

/// Gives the description of a value that was just added.
void tell(Network& network, const std::string& name, camshaft_record** value) {
  if (value != nullptr) *value = new_record(described(network, name));
}

AttributeProto attribute_of(const camshaft_attribute& from, Network& around) {
  AttributeProto to;
  to.name = given(from.name, "attribute's name");
  if (from.type < CAMSHAFT_ATTRIBUTE_FLOAT || from.type > CAMSHAFT_ATTRIBUTE_TYPE)
    throw Error(ErrorCode::invalid_argument,
                "attribute '" + to.name + "' is of a type " + std::to_string(from.type) + ", which there is not");
  to.type = static_cast<AttributeType>(from.type);
  const auto one = [&](const auto* values) { return given(values, to.name.c_str())[0]; };
  const auto all = [&](const auto* values, auto& list) {
    for (size_t i = 0; i < from.count; ++i) list.push_back(given(values, to.name.c_str())[i]);
  };
  switch (to.type) {
    case AttributeType::float_:
      to.f = one(from.floats);
      break;
    case AttributeType::int_:
      to.i = one(from.integers);
      break;
    case AttributeType::string:
      to.s = given(one(from.texts), to.name.c_str());
      break;
    case AttributeType::floats:
      all(from.floats, to.floats);
      break;
    case AttributeType::ints:
      all(from.integers, to.ints);
      break;
    case AttributeType::strings:
      all(from.texts, to.strings);
      break;
    case AttributeType::tensor:
      to.tensors.push_back(
          around.keep("", tensor_of(*given(one(from.tensors), to.name.c_str()), "the attribute").owned()));
      break;
    case AttributeType::graph:
      to.graphs.push_back(onnx::body_of(*given(one(from.graphs), to.name.c_str())->network, around));
      break;
    case AttributeType::type_proto:
      to.type_protos.push_back(onnx::parse_type(given(one(from.texts), to.name.c_str())));
      break;
    default:
      throw Error(ErrorCode::invalid_argument, "attribute '" + to.name + "' is " +
                                                   std::string(onnx::attribute_type_name(to.type)) +
                                                   ", which no operator takes here");
  }
  return to;
}

json described(const onnx::OperatorParameter& p) {
  static constexpr const char* counts[] = {"one", "optional", "any"};
  return {{"name", p.name}, {"type", p.type}, {"count", counts[static_cast<size_t>(p.count)]}};
}

json described(const onnx::OperatorSchema& schema) {
  json inputs = json::array(), outputs = json::array(), attributes = json::array();
  for (const auto& p : schema.inputs) inputs.push_back(described(p));
  for (const auto& p : schema.outputs) outputs.push_back(described(p));
  for (const auto& a : schema.attributes)
    attributes.push_back({{"name", a.name},
                          {"type", static_cast<int>(a.type)},
                          {"type_name", onnx::attribute_type_name(a.type)},
                          {"required", a.is_required}});
  return {{"domain", schema.domain}, {"operator", schema.op_type}, {"since", schema.since}, {"inputs", inputs},
          {"outputs", outputs},      {"attributes", attributes},   {"open", schema.is_open}};
}

}  // namespace

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_network_create(const char* name, int64_t opset, camshaft_network** network) {
  return guarded([&] {
    give(network, "network", [&] { return new camshaft_network{onnx::Network::create(given(name, "name"), opset)}; });
  });
}

camshaft_status camshaft_network_create_subgraph(camshaft_network* network, const char* name,
                                                 camshaft_network** subgraph) {
  return guarded([&] {
    give(subgraph, "subgraph", [&] { return new camshaft_network{of(network).create_subgraph(given(name, "name"))}; });
  });
}

void camshaft_network_free(camshaft_network* network) {
  delete network;
}

camshaft_status camshaft_network_add_input(camshaft_network* network, const char* name, const char* type, size_t rank,
                                           const int64_t* dims, const char* const* dim_names, camshaft_record** value) {
  return guarded([&] {
    std::vector<onnx::DimensionProto> sizes;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t size = given(dims, "dims")[i];
      const std::string symbol = dim_names == nullptr ? "" : words(dim_names[i]);
      sizes.push_back({size == -1 ? std::nullopt : std::optional(size), size == -1 ? symbol : ""});
    }
    of(network).add_input(given(name, "name"), onnx::parse_type(given(type, "type"), sizes));
    tell(of(network), name, value);
  });
}

camshaft_status camshaft_network_add_constant(camshaft_network* network, const char* name,
                                              const camshaft_tensor* tensor, void (*release)(void* user), void* user,
                                              camshaft_record** value) {
  return guarded([&] {
    std::shared_ptr<const void> owner;
    if (release != nullptr)
      owner = std::shared_ptr<const void>(user, [release](const void* of) { release(const_cast<void*>(of)); });
    Tensor shown = tensor_of(*given(tensor, "tensor"), "the constant");
    if (owner && !shown.owner()) shown = Tensor(shown.dtype(), shown.dims(), shown.span(), owner);
    const std::string made = of(network).add_constant(words(name), shown);
    tell(of(network), made, value);
  });
}

camshaft_status camshaft_network_add_node(camshaft_network* network, const char* op_type, const char* domain,
                                          const char* name, const char* const* inputs, size_t input_count,
                                          const camshaft_attribute* attributes, size_t attribute_count,
                                          const char* const* outputs, size_t output_count, camshaft_record** values) {
  return guarded([&] {
    onnx::NetworkNode node{.op_type = given(op_type, "op_type"),
                           .domain = words(domain),
                           .name = words(name),
                           .inputs = {},
                           .outputs = {},
                           .attributes = {}};
    for (size_t i = 0; i < input_count; ++i) node.inputs.push_back(words(given(inputs, "inputs")[i]));
    for (size_t i = 0; i < attribute_count; ++i)
      node.attributes.push_back(attribute_of(given(attributes, "attributes")[i], of(network)));
    for (size_t i = 0; i < output_count; ++i)
      node.outputs.push_back(outputs == nullptr || outputs[i] == nullptr ? std::nullopt
                                                                         : std::optional<std::string>(outputs[i]));
    json list = json::array();
    for (const std::string& result : of(network).add_node(std::move(node)))
      list.push_back(result.empty() ? json() : described(of(network), result));
    if (values != nullptr) *values = new_record(std::move(list));
  });
}

camshaft_status camshaft_network_mark_output(camshaft_network* network, const char* value, const char* name) {
  return guarded([&] { of(network).mark_output(given(value, "value"), words(name)); });
}

camshaft_status camshaft_network_value(camshaft_network* network, const char* name, camshaft_record** value) {
  return guarded(
      [&] { give(value, "value", [&] { return new_record(described(of(network), given(name, "name"))); }); });
}

camshaft_status camshaft_network_operator(camshaft_network* network, const char* domain, const char* op_type,
                                          camshaft_record** schema) {
  return guarded([&] {
    give(schema, "schema",
         [&] { return new_record(described(of(network).schema(words(domain), given(op_type, "op_type")))); });
  });
}

camshaft_status camshaft_network_save_file(camshaft_network* network, const char* path, int32_t external_data) {
  return guarded([&] {
    onnx::ModelFileOptions options;
    if (external_data != 0) options.external_from = 1024;
    onnx::write_model(of(network).model(), given(path, "path"), options);
  });
}

camshaft_status camshaft_network_save_memory(camshaft_network* network, void** data, size_t* bytes) {
  return guarded([&] {
    const std::string file = onnx::model_bytes(of(network).model());
    constexpr size_t most = (size_t{1} << 31) - 1;
    if (file.size() > most)
      throw Error(ErrorCode::unsupported,
                  "the network has more than the 2 GiB that an ONNX model in one piece can "
                  "have: write it to a file with external data");
    give_bytes(std::as_bytes(std::span(file)), data, bytes);
  });
}
