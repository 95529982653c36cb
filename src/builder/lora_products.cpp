#include "builder/lora_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ir/ops/contract.h"
#include "onnx/quote.h"

namespace camshaft {

namespace {

using onnx::quote;

// Which values are made of constants alone, and of which.
class ConstantRoots {
 public:
  explicit ConstantRoots(const Graph& graph) : graph_(graph), producer_(graph.values.size(), -1) {
    is_constant_.resize(graph.values.size());
    for (size_t i = 0; i < graph.values.size(); ++i) is_constant_[i] = graph.is_constant(static_cast<ValueId>(i));
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      const bool made_of_constants = node.bodies.empty() && !node.inputs.empty() &&
                                     std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                                       return id == no_value || is_constant_[static_cast<size_t>(id)];
                                     });
      for (const ValueId id : node.outputs) {
        is_constant_[static_cast<size_t>(id)] = made_of_constants;
        producer_[static_cast<size_t>(id)] = static_cast<int64_t>(n);
      }
    }
  }

  bool is_constant(ValueId id) const { return is_constant_[static_cast<size_t>(id)]; }

  std::vector<ValueId> of(ValueId id) const {
    std::set<ValueId> seen, roots;
    std::vector<ValueId> open{id};
    while (!open.empty()) {
      const ValueId next = open.back();
      open.pop_back();
      if (next == no_value || !seen.insert(next).second) continue;
      const int64_t producer = producer_[static_cast<size_t>(next)];
      if (producer < 0) {
        roots.insert(next);
      } else {
        const std::vector<ValueId>& inputs = graph_.nodes[static_cast<size_t>(producer)].inputs;
        open.insert(open.end(), inputs.begin(), inputs.end());
      }
    }
    return {roots.begin(), roots.end()};
  }

 private:
  const Graph& graph_;
  std::vector<int64_t> producer_;
  std::vector<bool> is_constant_;
};

// "/encoder/layer.0/query/MatMul" -> "encoder.layer.0.query"; empty for a name without folders.
std::string module_of_node(std::string name) {
  const size_t end = name.rfind('/');
  if (end == std::string::npos || end == 0) return "";
  name = name.substr(name[0] == '/' ? 1 : 0, name[0] == '/' ? end - 1 : end);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

// "encoder.query.weight", also with "_quantized" or "_transposed" behind -> "encoder.query"; empty for other names.
std::string module_of_weights(const std::string& name) {
  constexpr std::string_view weight = ".weight";
  const size_t at = name.rfind(weight);
  if (at == std::string::npos || at == 0) return "";
  const size_t end = at + weight.size();
  return end == name.size() || name[end] == '_' ? name.substr(0, at) : "";
}

std::string who(const onnx::LoraAdapter& adapter) {
  return fmt::format("the adapter '{}' ('{}')", adapter.name, adapter.file);
}

}  // namespace

LoraProducts::LoraProducts(const Graph& graph) : graph_(graph) {
  const ConstantRoots roots(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto* product = node.op.as<ops::MatMul>();
    if (!product || roots.is_constant(node.inputs[0]) || !roots.is_constant(node.inputs[1])) continue;
    const Shape& shape = graph.shape(node.inputs[1]);
    if (shape.size() != 2 || !is_floating(graph.type(node.outputs[0]).dtype)) continue;
    const auto rows = shape[0].as_constant(), columns = shape[1].as_constant();
    if (!rows || !columns) continue;
    const size_t index = products_.size();
    Product made{n, *rows, *columns, roots.of(node.inputs[1])};
    if (product->transpose_b) std::swap(made.in, made.out);
    const auto name = [&](std::map<std::string, std::vector<size_t>>& names, const std::string& text) {
      if (text.empty()) return;
      if (std::vector<size_t>& of = names[text]; of.empty() || of.back() != index) of.push_back(index);
      names_.insert(text);
    };
    for (const std::string& source : node.sources) {
      name(by_node_, source);
      name(by_node_, module_of_node(source));
    }
    for (const ValueId root : made.roots) {
      const auto& provenance = graph.value(root).provenance;
      const auto* initializer = provenance ? provenance->as<Provenance::Initializer>() : nullptr;
      if (!initializer) continue;
      name(by_weights_, initializer->name);
      name(by_weights_, module_of_weights(initializer->name));
    }
    products_.push_back(std::move(made));
  }
}

std::string LoraProducts::node_name(size_t product) const {
  const Node& node = graph_.nodes[products_[product].node];
  return quote(node.sources.empty() ? graph_.value(node.outputs[0]).name : node.sources.front());
}

std::vector<size_t> LoraProducts::find(const std::string& name) const {
  // Exporters store equal weights of several modules once: the node says more.
  if (const auto it = by_node_.find(name); it != by_node_.end()) return it->second;
  return by_weights_.at(name);
}

void LoraProducts::check_one_weight(const onnx::LoraAdapter& adapter, const std::string& module,
                                    const std::vector<size_t>& found) const {
  const Product& first = products_[found[0]];
  for (const size_t other : found)
    if (products_[other].roots != first.roots)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} updates {}, which may be the product of node {} or of node {}: they have different "
                              "weights",
                              who(adapter), quote(module), node_name(found[0]), node_name(other)));
  const onnx::LowRankUpdate& update = adapter.updates.at(module);
  for (const size_t other : found) {
    const Product& product = products_[other];
    if (update.a.dims()[1] != product.in || update.b.dims()[0] != product.out)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} updates {} from {} to {} channels; the product of node {} is from {} to {}",
                              who(adapter), quote(module), update.a.dims()[1], update.b.dims()[0], node_name(other),
                              product.in, product.out));
  }
}

std::map<size_t, std::string> LoraProducts::match(const onnx::LoraAdapter& adapter) const {
  std::vector<std::string> modules;
  for (const auto& [module, update] : adapter.updates) modules.push_back(module);
  std::map<size_t, std::string> matched;
  for (const auto& [module, name] : onnx::match_modules(modules, names_, who(adapter))) {
    const std::vector<size_t> found = find(name);
    check_one_weight(adapter, module, found);
    for (const size_t product : found)
      if (const auto [it, is_new] = matched.emplace(product, module); !is_new)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} updates the product of node {} twice: as {} and as {}", who(adapter),
                                node_name(product), quote(it->second), quote(module)));
  }
  return matched;
}

}  // namespace camshaft
