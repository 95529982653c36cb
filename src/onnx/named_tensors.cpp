#include "onnx/named_tensors.h"

#include <fmt/format.h>

#include "ir/replaceable.h"

namespace camshaft::onnx {

NamedTensors::NamedTensors(const GraphProto& main, std::map<std::string, Tensor>* all) : all_(all) {
  for (const TensorProto& tensor : main.initializers) main_.insert(tensor.name);
  for (const SparseTensorProto& tensor : main.sparse_initializers) main_.insert(tensor.values.name);
  for (const NodeProto& node : main.nodes)
    if (node.op_type == "Constant") main_.insert(node.outputs.begin(), node.outputs.end());
}

Constant NamedTensors::add(const std::string& prefix, const std::string& name, Tensor tensor) {
  if (name.empty()) return literal(std::move(tensor));
  const std::string known = prefix.empty() ? name : name_of(prefix + name, tensor);
  if (all_) all_->insert_or_assign(known, tensor);
  if (Replaceable* const replaceable = ReplaceableScope::current()) {
    if (prefix.empty() && replaceable->may_be_added(known)) {
      replaceable->add(known, tensor);
    } else if (tensor.bytes() <= Provenance::most_literal_bytes) {
      return literal(std::move(tensor));  // no refit could ask for it by that name
    }
  }
  auto provenance = Provenance::initializer(known, tensor);
  return {std::make_shared<const Tensor>(std::move(tensor)), std::move(provenance)};
}

// Loops convert their body several times, so that most names that are there already are of the same tensor.
std::string NamedTensors::name_of(const std::string& base, const Tensor& tensor) {
  std::string name = base;
  for (int number = 1;; ++number) {
    if (!main_.contains(name)) {
      const auto [it, is_new] = inner_.emplace(name, tensor);
      if (is_new || it->second == tensor) return name;
    }
    name = fmt::format("{}_{}", base, number);
  }
}

}  // namespace camshaft::onnx
