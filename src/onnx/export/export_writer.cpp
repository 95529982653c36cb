#include "onnx/export/export_writer.h"

#include <fmt/format.h>

#include "base/error.h"

namespace camshaft::onnx {

namespace {

// Constants from this size on lie in the model's own graph, so that bodies can share one. Smaller ones lie where they
// are read: the standard's shape inference does not look for an axis or a shape outside of a body.
constexpr size_t shared_bytes = 1024;

}  // namespace

void ExportWriter::add(const Operator& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                       Attributes attributes) {
  model.use(op);
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  NodeProto& node = graph.nodes.emplace_back();
  node.name = model.names.unique(node_name.empty() ? op.op_type : node_name);
  node.op_type = op.op_type;
  node.domain = op.domain;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes).take();
}

std::string ExportWriter::add(const Operator& op, std::vector<std::string> inputs, Attributes attributes) {
  std::string name = model.names.unique(fmt::format("{}/{}_output", node_name, op.op_type));
  add(op, std::move(inputs), {name}, std::move(attributes));
  return name;
}

const std::string* ExportWriter::find_constant(const std::string& key) const {
  const auto it = constants_.find(key);
  if (it != constants_.end()) return &it->second;
  return around_ ? around_->find_constant(key) : nullptr;
}

std::string ExportWriter::add_constant(const std::string& name, const Tensor& value, bool is_named) {
  if (value.is_elided())
    throw Error(ErrorCode::unsupported,
                fmt::format("the constant '{}' exists only as it is packed for kernels, and cannot be written as ONNX: "
                            "write the model before it is compiled",
                            name));
  std::string key = fmt::format("{}{} ", to_string(value.dtype()), to_string(value.dims()));
  const bool is_large = value.bytes() >= shared_bytes && value.dtype() != DType::string;
  if (is_large) {
    key += fmt::format("at {}", static_cast<const void*>(value.data()));
  } else if (value.dtype() == DType::string) {
    for (int64_t i = 0; i < value.size(); ++i)
      key += fmt::format("{}:{}", value.as<std::string>()[i].size(), value.as<std::string>()[i]);
  } else {
    key.append(reinterpret_cast<const char*>(value.data()), value.bytes());
  }
  if (is_large || !is_named)
    if (const std::string* known = find_constant(key)) return *known;
  std::string unique = model.names.unique(name);
  ExportWriter& writer = is_large ? root() : *this;
  writer.graph.initializers.push_back(model.tensor(unique, value));
  if (is_large || !is_named) writer.constants_.emplace(std::move(key), unique);
  return unique;
}

std::string ExportWriter::constant(const Tensor& value) {
  return add_constant(node_name + "/constant", value, false);
}

std::string ExportWriter::named_constant(const std::string& name, const Tensor& value) {
  return add_constant(name, value, true);
}

}  // namespace camshaft::onnx
