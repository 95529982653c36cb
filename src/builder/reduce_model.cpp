#include "builder/reduce_model.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "onnx/importer.h"
#include "onnx/node_order.h"
#include "onnx/onnx_dtype.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

using NodeList = std::vector<size_t>;  // indices into the whole graph's nodes, ascending

onnx::ValueInfoProto describe(const std::string& name, const Tensor& value) {
  onnx::ValueInfoProto info;
  info.name = name;
  info.type.kind = onnx::TypeProto::Kind::tensor;
  info.type.elem_type = onnx::dtype_to_onnx(value.dtype());
  info.type.shape.emplace();
  for (const int64_t size : value.dims()) info.type.shape->push_back({size, {}});
  return info;
}

onnx::ValueInfoProto untyped(const std::string& name) {
  onnx::ValueInfoProto info;
  info.name = name;
  return info;
}

/// What every node of the graph computes, and the graph's inputs.
std::map<std::string, Tensor> all_values(const ModelOnInputs& whole, ThreadPool& pool) {
  onnx::ModelProto open = whole.model;
  std::set<std::string> outputs;
  for (const onnx::ValueInfoProto& output : open.graph.outputs) outputs.insert(output.name);
  for (const onnx::NodeProto& node : open.graph.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty() && outputs.insert(output).second) open.graph.outputs.push_back(untyped(output));
  const Graph graph = onnx::import_model(open).graph;
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) inputs.push_back(whole.inputs.at(graph.value(id).name));
  const std::vector<Tensor> results = evaluate(graph, inputs, pool);
  std::map<std::string, Tensor> values = whole.inputs;
  for (size_t o = 0; o < results.size(); ++o) values[graph.output_names[o]] = results[o];
  return values;
}

class Reducer {
 public:
  Reducer(const ModelOnInputs& whole, const std::function<bool(const ModelOnInputs&)>& fails, ThreadPool& pool)
      : whole_(whole), fails_(fails), values_(all_values(whole, pool)) {
    for (const onnx::ValueInfoProto& output : whole.model.graph.outputs) outputs_.insert(output.name);
    for (const onnx::TensorProto& tensor : whole.model.graph.initializers) initializers_.insert(tensor.name);
    for (const onnx::SparseTensorProto& tensor : whole.model.graph.sparse_initializers)
      initializers_.insert(tensor.values.name);
  }

  ModelOnInputs run() {
    NodeList kept(whole_.model.graph.nodes.size());
    std::iota(kept.begin(), kept.end(), size_t{0});
    for (size_t parts = 2; kept.size() >= 2;) {
      parts = std::min(parts, kept.size());
      if (auto one = failing_part(kept, parts)) {
        kept = std::move(*one);
        parts = 2;
      } else if (auto rest = failing_rest(kept, parts)) {
        kept = std::move(*rest);
        parts = std::max<size_t>(parts - 1, 2);
      } else if (parts == kept.size()) {
        break;
      } else {
        parts *= 2;
      }
    }
    return kept.size() == whole_.model.graph.nodes.size() ? whole_ : *part(kept);
  }

 private:
  static NodeList::const_iterator bound(const NodeList& kept, size_t part, size_t parts) {
    return kept.begin() + static_cast<std::ptrdiff_t>(kept.size() * part / parts);
  }

  /// One of equal parts of the list.
  std::optional<NodeList> failing_part(const NodeList& kept, size_t parts) const {
    for (size_t p = 0; p < parts; ++p)
      if (NodeList one(bound(kept, p, parts), bound(kept, p + 1, parts)); goes_wrong(one)) return one;
    return std::nullopt;
  }

  /// The list without one of equal parts of it.
  std::optional<NodeList> failing_rest(const NodeList& kept, size_t parts) const {
    for (size_t p = 0; p < parts && parts > 2; ++p) {
      NodeList rest(kept.begin(), bound(kept, p, parts));
      rest.insert(rest.end(), bound(kept, p + 1, parts), kept.end());
      if (goes_wrong(rest)) return rest;
    }
    return std::nullopt;
  }

  bool goes_wrong(const NodeList& kept) const {
    const auto candidate = part(kept);
    return candidate && fails_(*candidate);
  }

  /// Nothing when it needs a value that cannot be an input.
  std::optional<ModelOnInputs> part(const NodeList& kept) const {
    const onnx::GraphProto& graph = whole_.model.graph;
    ModelOnInputs out;
    out.model = whole_.model;
    onnx::GraphProto& smaller = out.model.graph;
    smaller = {};
    smaller.name = graph.name;
    std::set<std::string> computed, read;
    for (const size_t n : kept) {
      smaller.nodes.push_back(graph.nodes[n]);
      computed.insert(graph.nodes[n].outputs.begin(), graph.nodes[n].outputs.end());
      onnx::for_each_read(graph.nodes[n], [&](const std::string& name) { read.insert(name); });
    }
    for (const onnx::TensorProto& tensor : graph.initializers)
      if (read.contains(tensor.name)) smaller.initializers.push_back(tensor);
    for (const onnx::SparseTensorProto& tensor : graph.sparse_initializers)
      if (read.contains(tensor.values.name)) smaller.sparse_initializers.push_back(tensor);
    for (const std::string& name : read) {
      if (computed.contains(name) || initializers_.contains(name)) continue;
      const auto value = values_.find(name);
      if (value == values_.end()) return std::nullopt;
      smaller.inputs.push_back(describe(name, value->second));
      out.inputs[name] = value->second;
    }
    for (const size_t n : kept)
      for (const std::string& name : graph.nodes[n].outputs)
        if (const auto value = values_.find(name);
            value != values_.end() && (!read.contains(name) || outputs_.contains(name)))
          smaller.outputs.push_back(describe(name, value->second));
    if (smaller.outputs.empty()) return std::nullopt;
    return out;
  }

  const ModelOnInputs& whole_;
  const std::function<bool(const ModelOnInputs&)>& fails_;
  std::map<std::string, Tensor> values_;
  std::set<std::string> outputs_, initializers_;
};

}  // namespace

ModelOnInputs reduce_model(const ModelOnInputs& whole, const std::function<bool(const ModelOnInputs&)>& fails,
                           ThreadPool& pool) {
  return Reducer(whole, fails, pool).run();
}

}  // namespace camshaft
