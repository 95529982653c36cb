#include "ort_provider/graph_reader.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/mapped_file.h"
#include "ort_provider/values.h"

namespace camshaft::ort_provider {

namespace {

using ort::slot;

std::string text_of(const char* text) {
  return text ? text : "";
}

/// A list that the host writes into memory of the caller's, after another function has told how long it is.
template <class Item, class Object>
std::vector<Item> list_of(const Host& host, size_t count_slot, size_t list_slot, const Object* object) {
  std::vector<Item> items(host.get<size_t>(count_slot, object));
  if (!items.empty()) host.ask(list_slot, object, items.data(), items.size());
  return items;
}

using Values = std::vector<const OrtValueInfo*>;

Values inputs_of(const Host& host, const OrtNode* node) {
  return list_of<const OrtValueInfo*>(host, slot("Node_GetNumInputs"), slot("Node_GetInputs"), node);
}
Values outputs_of(const Host& host, const OrtNode* node) {
  return list_of<const OrtValueInfo*>(host, slot("Node_GetNumOutputs"), slot("Node_GetOutputs"), node);
}
Values captured_of(const Host& host, const OrtNode* node) {
  return list_of<const OrtValueInfo*>(host, slot("Node_GetNumImplicitInputs"), slot("Node_GetImplicitInputs"), node);
}
std::vector<const OrtNode*> nodes_of(const Host& host, const OrtGraph* graph) {
  return list_of<const OrtNode*>(host, slot("Graph_GetNumNodes"), slot("Graph_GetNodes"), graph);
}

std::string name_of(const Host& host, const OrtValueInfo* value) {
  return value ? text_of(host.get<const char*>(slot("GetValueInfoName"), value)) : "";
}

std::vector<std::string> names_of(const Host& host, const Values& values) {
  std::vector<std::string> names;
  for (const OrtValueInfo* value : values) names.push_back(name_of(host, value));
  return names;
}

/// The bytes of an attribute. The first call only tells how many there are.
std::string bytes_of_attribute(const Host& host, const OrtOpAttr* attribute, ort::AttributeKind kind) {
  size_t size = 0;
  if (auto* too_small =
          host.call<OrtStatus*>(slot("ReadOpAttr"), attribute, kind, static_cast<void*>(nullptr), size_t{0}, &size))
    host.call<void>(slot("ReleaseStatus"), too_small);
  std::string bytes(size, 0);
  if (size > 0) host.ask(slot("ReadOpAttr"), attribute, kind, static_cast<void*>(bytes.data()), bytes.size(), &size);
  return bytes;
}

template <class Element>
std::vector<Element> elements_of_attribute(const Host& host, const OrtOpAttr* attribute, ort::AttributeKind kind) {
  const std::string bytes = bytes_of_attribute(host, attribute, kind);
  std::vector<Element> elements(bytes.size() / sizeof(Element));
  std::copy_n(bytes.data(), elements.size() * sizeof(Element), reinterpret_cast<char*>(elements.data()));
  return elements;
}

template <class Number>
Number number_of_attribute(const Host& host, const OrtOpAttr* attribute, ort::AttributeKind kind) {
  Number number = 0;
  size_t size = 0;
  host.ask(slot("ReadOpAttr"), attribute, kind, static_cast<void*>(&number), sizeof number, &size);
  return number;
}

class GraphReader {
 public:
  /// `folder`: of the model, with files of initializers.
  GraphReader(const Host& host, std::filesystem::path folder) : host_(host), folder_(std::move(folder)) {}

  /// Throws Error(unsupported) for an attribute that cannot be read.
  onnx::NodeProto node(const OrtNode* node) const {
    onnx::NodeProto out = header(node);
    for (const OrtOpAttr* attribute :
         list_of<const OrtOpAttr*>(host_, slot("Node_GetNumAttributes"), slot("Node_GetAttributes"), node))
      if (attribute) read_attribute(attribute, out);
    const auto count = host_.get<size_t>(slot("Node_GetNumSubgraphs"), node);
    std::vector<const OrtGraph*> graphs(count);
    std::vector<const char*> names(count);
    if (count > 0) host_.ask(slot("Node_GetSubgraphs"), node, graphs.data(), count, names.data());
    for (size_t i = 0; i < count; ++i) {
      onnx::AttributeProto& body = out.attributes.emplace_back();
      body.name = text_of(names[i]);
      body.type = onnx::AttributeType::graph;
      body.graphs.push_back(this->body(graphs[i]));
    }
    return out;
  }

  onnx::NodeProto header(const OrtNode* node) const {
    onnx::NodeProto out;
    out.name = text_of(host_.get<const char*>(slot("Node_GetName"), node));
    out.op_type = text_of(host_.get<const char*>(slot("Node_GetOperatorType"), node));
    out.domain = text_of(host_.get<const char*>(slot("Node_GetDomain"), node));
    out.inputs = input_names(host_, node);
    out.outputs = output_names(host_, node);
    return out;
  }

  std::optional<onnx::ValueInfoProto> value_info(const OrtValueInfo* value) const {
    auto type = type_of(host_, host_.get<const OrtTypeInfo*>(slot("GetValueInfoTypeInfo"), value));
    if (!type) return std::nullopt;
    return onnx::ValueInfoProto{name_of(host_, value), std::move(*type)};
  }

  bool is_constant(const OrtValueInfo* value) const {
    return host_.get<bool>(slot("ValueInfo_IsConstantInitializer"), value);
  }

  onnx::TensorProto initializer(const OrtValueInfo* value) const {
    auto* info = host_.get<OrtExternalInitializerInfo*>(slot("ValueInfo_GetExternalInitializerInfo"), value);
    if (info) {
      const std::unique_ptr<OrtExternalInitializerInfo, std::function<void(OrtExternalInitializerInfo*)>> held(
          info, [&](OrtExternalInitializerInfo* i) { host_.call<void>(slot("ReleaseExternalInitializerInfo"), i); });
      if (auto tensor = in_file(value, info)) return *tensor;
    }
    return tensor_proto(host_, name_of(host_, value),
                        host_.get<const OrtValue*>(slot("ValueInfo_GetInitializerValue"), value));
  }

 private:
  /// One whose bytes are in a file of their own, mapped here: they need not be copied. Nothing where it cannot be so.
  std::optional<onnx::TensorProto> in_file(const OrtValueInfo* value, const OrtExternalInitializerInfo* info) const {
    const auto type = value_info(value);
    const auto* name = host_.call<const char*>(slot("ExternalInitializerInfo_GetFilePath"), info);
    const auto offset = host_.call<int64_t>(slot("ExternalInitializerInfo_GetFileOffset"), info);
    const auto bytes = host_.call<size_t>(slot("ExternalInitializerInfo_GetByteSize"), info);
    if (!type || !type->type.shape || !name || offset < 0) return std::nullopt;
    const std::string path = (folder_ / name).string();
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
    auto& file = files_[path];
    if (!file) file = MappedFile::open(path);
    if (static_cast<size_t>(offset) > file->size() || bytes > file->size() - static_cast<size_t>(offset))
      return std::nullopt;
    onnx::TensorProto tensor;
    tensor.name = type->name;
    tensor.data_type = type->type.elem_type;
    for (const onnx::DimensionProto& dim : *type->type.shape) {
      if (!dim.value) return std::nullopt;
      tensor.dims.push_back(*dim.value);
    }
    tensor.raw_data = file->bytes().subspan(static_cast<size_t>(offset), bytes);
    tensor.owner = file;
    return tensor;
  }

  void read_attribute(const OrtOpAttr* attribute, onnx::NodeProto& node) const {
    onnx::AttributeProto out;
    out.name = text_of(host_.get<const char*>(slot("OpAttr_GetName"), attribute));
    ort::AttributeKind kind = ort::no_attribute;
    // Types of values, and sparse tensors, have no kind of their own: the call fails.
    if (auto* unknown = host_.call<OrtStatus*>(slot("OpAttr_GetType"), attribute, &kind)) {
      host_.call<void>(slot("ReleaseStatus"), unknown);
      kind = ort::no_attribute;
    }
    switch (kind) {
      case ort::graph_attribute:
        return;  // with the sub-graphs
      case ort::int_attribute:
        out.type = onnx::AttributeType::int_;
        out.i = number_of_attribute<int64_t>(host_, attribute, kind);
        break;
      case ort::float_attribute:
        out.type = onnx::AttributeType::float_;
        out.f = number_of_attribute<float>(host_, attribute, kind);
        break;
      case ort::string_attribute:
        out.type = onnx::AttributeType::string;
        out.s = bytes_of_attribute(host_, attribute, kind);
        break;
      case ort::ints_attribute:
        out.type = onnx::AttributeType::ints;
        out.ints = elements_of_attribute<int64_t>(host_, attribute, kind);
        break;
      case ort::floats_attribute:
        out.type = onnx::AttributeType::floats;
        out.floats = elements_of_attribute<float>(host_, attribute, kind);
        break;
      case ort::strings_attribute: {
        out.type = onnx::AttributeType::strings;
        const std::string bytes = bytes_of_attribute(host_, attribute, kind);
        for (size_t begin = 0; begin < bytes.size(); begin += out.strings.back().size() + 1)
          out.strings.emplace_back(bytes.c_str() + begin);
        break;
      }
      case ort::tensor_attribute: {
        out.type = onnx::AttributeType::tensor;
        auto* value = host_.get<OrtValue*>(slot("OpAttr_GetTensorAttributeAsOrtValue"), attribute);
        const std::unique_ptr<OrtValue, std::function<void(OrtValue*)>> held(
            value, [&](OrtValue* v) { host_.call<void>(slot("ReleaseValue"), v); });
        out.tensors.push_back(tensor_proto(host_, "", value));
        own_bytes(out.tensors.back());
        break;
      }
      default:
        throw Error(ErrorCode::unsupported,
                    "its attribute '" + out.name + "' is of a type that ONNX Runtime does not show to providers");
    }
    node.attributes.push_back(std::move(out));
  }

  onnx::GraphProto body(const OrtGraph* graph) const {
    onnx::GraphProto out;
    out.name = text_of(host_.get<const char*>(slot("Graph_GetName"), graph));
    std::set<std::string> initializers;
    for (const OrtValueInfo* value :
         list_of<const OrtValueInfo*>(host_, slot("Graph_GetNumInitializers"), slot("Graph_GetInitializers"), graph)) {
      initializers.insert(name_of(host_, value));
      out.initializers.push_back(initializer(value));
      own_bytes(out.initializers.back());
    }
    const auto add = [&](const OrtValueInfo* value, std::vector<onnx::ValueInfoProto>& to) {
      auto info = value_info(value);
      to.push_back(info ? std::move(*info) : onnx::ValueInfoProto{name_of(host_, value), {}});
    };
    for (const OrtValueInfo* value :
         list_of<const OrtValueInfo*>(host_, slot("Graph_GetNumInputs"), slot("Graph_GetInputs"), graph))
      if (!initializers.contains(name_of(host_, value))) add(value, out.inputs);
    for (const OrtValueInfo* value :
         list_of<const OrtValueInfo*>(host_, slot("Graph_GetNumOutputs"), slot("Graph_GetOutputs"), graph))
      add(value, out.outputs);
    for (const OrtNode* inner : nodes_of(host_, graph)) out.nodes.push_back(node(inner));
    return out;
  }

  const Host& host_;
  std::filesystem::path folder_;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace

bool is_body(const Host& host, const OrtGraph* graph) {
  auto* metadata = host.get<OrtModelMetadata*>(slot("Graph_GetModelMetadata"), graph);
  auto* allocator = host.get<ort::Allocator*>(slot("GetAllocatorWithDefaultOptions"));
  auto* main = host.get<char*>(slot("ModelMetadataGetGraphName"), std::as_const(metadata), allocator);
  const bool differs = text_of(host.get<const char*>(slot("Graph_GetName"), graph)) != text_of(main);
  allocator->free(allocator, main);
  host.call<void>(slot("ReleaseModelMetadata"), metadata);
  return differs;
}

std::vector<std::string> input_names(const Host& host, const OrtNode* node) {
  return names_of(host, inputs_of(host, node));
}
std::vector<std::string> output_names(const Host& host, const OrtNode* node) {
  return names_of(host, outputs_of(host, node));
}

std::string text_attribute(const Host& host, const OrtNode* node, const char* name) {
  const auto* attribute = host.get<const OrtOpAttr*>(slot("Node_GetAttributeByName"), node, name);
  return attribute ? bytes_of_attribute(host, attribute, ort::string_attribute) : "";
}

int64_t integer_attribute(const Host& host, const OrtNode* node, const char* name, int64_t otherwise) {
  const auto* attribute = host.get<const OrtOpAttr*>(slot("Node_GetAttributeByName"), node, name);
  return attribute ? number_of_attribute<int64_t>(host, attribute, ort::int_attribute) : otherwise;
}

GraphFacts read_graph(const Host& host, const OrtGraph* graph) {
  GraphFacts facts;
  facts.model_path = text_of(host.get<const char*>(slot("Graph_GetModelPath"), graph));
  const GraphReader reader(host, std::filesystem::path(facts.model_path).parent_path());
  onnx::ModelProto& model = facts.model;
  model.file = "the model";
  model.producer_name = "onnxruntime";
  model.graph.name = text_of(host.get<const char*>(slot("Graph_GetName"), graph));
  model.ir_version = host.get<int64_t>(slot("Graph_GetOnnxIRVersion"), graph);
  const auto count = host.get<size_t>(slot("Graph_GetNumOperatorSets"), graph);
  std::vector<const char*> domains(count);
  std::vector<int64_t> versions(count);
  if (count > 0) host.ask(slot("Graph_GetOperatorSets"), graph, domains.data(), versions.data(), count);
  for (size_t i = 0; i < count; ++i) {
    const std::string domain = text_of(domains[i]);
    model.opsets[domain == "ai.onnx" ? "" : domain] = versions[i];
  }

  std::set<std::string> seen;
  const auto note = [&](const OrtValueInfo* value) {
    if (!value || !seen.insert(name_of(host, value)).second) return;
    if (reader.is_constant(value)) {
      model.graph.initializers.push_back(reader.initializer(value));
    } else if (auto info = reader.value_info(value)) {
      model.graph.value_infos.push_back(std::move(*info));
    }
  };
  for (const OrtNode* node : nodes_of(host, graph)) {
    const Values captured = captured_of(host, node);
    std::string& unreadable = facts.unreadable.emplace_back();
    onnx::NodeProto& proto = model.graph.nodes.emplace_back();
    try {
      proto = reader.node(node);
    } catch (const Error& e) {
      unreadable = e.what();
      proto = reader.header(node);
    }
    for (const Values& values : {inputs_of(host, node), captured, outputs_of(host, node)})
      for (const OrtValueInfo* value : values) note(value);
    facts.nodes.push_back(node);
    facts.captured.push_back(names_of(host, captured));
    facts.is_taken.push_back(!text_of(host.get<const char*>(slot("Node_GetEpName"), node)).empty());
  }
  for (const OrtValueInfo* value :
       list_of<const OrtValueInfo*>(host, slot("Graph_GetNumOutputs"), slot("Graph_GetOutputs"), graph)) {
    note(value);
    model.graph.outputs.push_back({name_of(host, value), {}});
  }
  return facts;
}

}  // namespace camshaft::ort_provider
