// Models that a program makes node by node, without an ONNX file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/record.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft {
inline namespace v1 {

/// A value of a network. `dims` are -1 where a size has no number; `dim_names` the same as text: numbers, names
/// ("batch") or expressions of them. `type` is all in one: "f32[batch, 3]".
struct NetworkValue {
  std::string name = {};
  DType dtype = DType::f32;
  Dims dims = {};
  std::vector<std::string> dim_names = {};
  std::string type = {};
};

class Network;

/// The value of an attribute. A type (of Optional) is text, "seq(tensor(float))".
struct Attribute {
  struct Type {
    std::string text;
  };
  using Value = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                             std::vector<std::string>, Tensor, const Network*, Type>;
  Attribute(std::string attribute_name, int value) : Attribute(std::move(attribute_name), Value(int64_t{value})) {}
  Attribute(std::string attribute_name, const char* value)
      : Attribute(std::move(attribute_name), Value(std::string(value))) {}
  Attribute(std::string attribute_name, double value)
      : Attribute(std::move(attribute_name), Value(static_cast<float>(value))) {}
  Attribute(std::string attribute_name, Value attribute_value)
      : name(std::move(attribute_name)), value(std::move(attribute_value)) {}

  std::string name;
  Value value;
};

/// A size of an input: a number, a name (the same name is the same size), or neither ("").
using NetworkDim = std::variant<int64_t, std::string>;

/// The graph of a model, or a body in it, under construction. Nodes are ONNX's, under their standard names. Every call
/// checks its arguments at once and throws Error(invalid_argument), which names the operator, the argument and what
/// would be taken, or Error(unsupported); then the network is as it was. Copies share it.
class Network {
 public:
  /// `opset`: the version of ONNX's operator set that operators are read by; 0: the newest.
  explicit Network(const std::string& name = "network", int64_t opset = 0) {
    camshaft_network* made = nullptr;
    detail::check(camshaft_network_create(name.c_str(), opset, &made));
    hold(made);
  }
  /// The body of an If, a Loop or a Scan, to be given to that node of this network as an attribute. It has inputs and
  /// outputs of its own and sees the values of the networks around it.
  Network subgraph(const std::string& name) {
    camshaft_network* made = nullptr;
    detail::check(camshaft_network_create_subgraph(handle(), name.c_str(), &made));
    Network body(nullptr);
    body.hold(made);
    return body;
  }

  NetworkValue input(const std::string& name, DType dtype, const std::vector<NetworkDim>& sizes) {
    Dims dims;
    std::vector<const char*> names;
    for (const NetworkDim& size : sizes) {
      const auto* symbol = std::get_if<std::string>(&size);
      dims.push_back(symbol == nullptr ? std::get<int64_t>(size) : -1);
      names.push_back(symbol == nullptr || symbol->empty() ? nullptr : symbol->c_str());
    }
    return value_of(detail::record_of([&](camshaft_record** r) {
      return camshaft_network_add_input(handle(), name.c_str(), camshaft_dtype_name(static_cast<camshaft_dtype>(dtype)),
                                        dims.size(), dims.data(), names.data(), r);
    }));
  }
  /// A sequence, an optional or a map, as ONNX's schemas write types: "seq(tensor(float))".
  NetworkValue input(const std::string& name, const std::string& type) {
    return value_of(detail::record_of([&](camshaft_record** r) {
      return camshaft_network_add_input(handle(), name.c_str(), type.c_str(), 0, nullptr, nullptr, r);
    }));
  }
  /// The tensor is shared, not copied. What Tensor::view() shows must outlive the network and engines made of it.
  NetworkValue constant(const Tensor& tensor, const std::string& name = {}) {
    auto kept = std::make_unique<Tensor>(tensor);
    const auto release = [](void* user) { delete static_cast<Tensor*>(user); };
    return value_of(detail::record_of([&](camshaft_record** r) {
      return camshaft_network_add_constant(handle(), name.empty() ? nullptr : name.c_str(), tensor.handle(), release,
                                           kept.release(), r);
    }));
  }
  /// Adds a node: its results. An input of a default-constructed NetworkValue is left out. `outputs` is how many
  /// results there are to be.
  std::vector<NetworkValue> add(const std::string& op_type, const std::vector<NetworkValue>& inputs,
                                const std::vector<Attribute>& attributes = {}, size_t outputs = 1,
                                const std::string& domain = {}, const std::string& name = {}) {
    std::vector<const char*> names;
    for (const NetworkValue& input : inputs) names.push_back(input.name.c_str());
    std::vector<Given> given;
    given.reserve(attributes.size());  // they point into themselves
    std::vector<camshaft_attribute> listed;
    for (const Attribute& attribute : attributes) listed.push_back(given.emplace_back(attribute).attribute);
    return detail::record_of([&](camshaft_record** r) {
             return camshaft_network_add_node(handle(), op_type.c_str(), domain.c_str(),
                                              name.empty() ? nullptr : name.c_str(), names.data(), names.size(),
                                              listed.data(), listed.size(), nullptr, outputs, r);
           })
        .list([](const Record& value) { return value_of(value); });
  }
  /// The same of the usual operator with one result.
  NetworkValue operator()(const std::string& op_type, const std::vector<NetworkValue>& inputs,
                          const std::vector<Attribute>& attributes = {}, const std::string& domain = {}) {
    return add(op_type, inputs, attributes, 1, domain).at(0);
  }
  /// One more output, in the order of the calls, under the name if there is one.
  void output(const NetworkValue& value, const std::string& name = {}) {
    detail::check(camshaft_network_mark_output(handle(), value.name.c_str(), name.empty() ? nullptr : name.c_str()));
  }

  /// The bytes of an ONNX file. Throws Error(unsupported) beyond 2 GiB.
  std::vector<std::byte> to_onnx() const {
    void* data = nullptr;
    size_t bytes = 0;
    detail::check(camshaft_network_save_memory(handle(), &data, &bytes));
    const std::unique_ptr<void, void (*)(void*)> held(data, camshaft_free);
    const auto* begin = static_cast<const std::byte*>(data);
    return {begin, begin + bytes};
  }
  /// Writes an ONNX file. `external_data` puts large tensors into "<path>.data" beside it, where they are too if one
  /// file would be larger than 2 GiB. Throws Error(io).
  void save(const std::string& path, bool external_data = false) const {
    detail::check(camshaft_network_save_file(handle(), path.c_str(), external_data ? 1 : 0));
  }

  camshaft_network* handle() const { return held_.get(); }

 private:
  explicit Network(std::nullptr_t) {}
  void hold(camshaft_network* made) { held_ = std::shared_ptr<camshaft_network>(made, camshaft_network_free); }

  static NetworkValue value_of(const Record& record) {
    NetworkValue value{record["name"].text(), DType::f32, record["dims"].integers(), record["dim_names"].texts(),
                       record["type"].text()};
    camshaft_dtype dtype = 0;
    detail::check(camshaft_dtype_parse(record["dtype"].text().c_str(), &dtype));
    value.dtype = static_cast<DType>(dtype);
    return value;
  }

  /// An attribute as the C interface takes it, and what it points to.
  struct Given {
    explicit Given(const Attribute& from) {
      attribute.name = from.name.c_str();
      std::visit([&](const auto& value) { show(value); }, from.value);
    }
    Given(const Given&) = delete;
    Given& operator=(const Given&) = delete;
    Given(Given&&) = default;

    void show(const int64_t& value) { set(CAMSHAFT_ATTRIBUTE_INTEGER, 1).integers = &value; }
    void show(const float& value) { set(CAMSHAFT_ATTRIBUTE_FLOAT, 1).floats = &value; }
    void show(const std::vector<int64_t>& list) {
      set(CAMSHAFT_ATTRIBUTE_INTEGERS, list.size()).integers = list.data();
    }
    void show(const std::vector<float>& list) { set(CAMSHAFT_ATTRIBUTE_FLOATS, list.size()).floats = list.data(); }
    void show(const std::string& text) { show_texts(CAMSHAFT_ATTRIBUTE_TEXT, {text.c_str()}); }
    void show(const Attribute::Type& type) { show_texts(CAMSHAFT_ATTRIBUTE_TYPE, {type.text.c_str()}); }
    void show(const std::vector<std::string>& list) {
      std::vector<const char*> words;
      for (const std::string& word : list) words.push_back(word.c_str());
      show_texts(CAMSHAFT_ATTRIBUTE_TEXTS, std::move(words));
    }
    void show(const Tensor& value) {
      tensor = std::make_unique<const camshaft_tensor*>(value.handle());
      set(CAMSHAFT_ATTRIBUTE_TENSOR, 1).tensors = tensor.get();
    }
    void show(const Network* value) {
      graph = std::make_unique<const camshaft_network*>(value->handle());
      set(CAMSHAFT_ATTRIBUTE_GRAPH, 1).graphs = graph.get();
    }
    void show_texts(int32_t type, std::vector<const char*> words) {
      texts = std::move(words);
      set(type, texts.size()).texts = texts.data();
    }
    camshaft_attribute& set(int32_t type, size_t count) {
      attribute.type = type;
      attribute.count = count;
      return attribute;
    }

    camshaft_attribute attribute = {};
    std::vector<const char*> texts;
    std::unique_ptr<const camshaft_tensor*> tensor;
    std::unique_ptr<const camshaft_network*> graph;
  };

  std::shared_ptr<camshaft_network> held_;
};

}  // namespace v1
}  // namespace camshaft
