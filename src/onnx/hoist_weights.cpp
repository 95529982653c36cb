#include "onnx/hoist_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "onnx/model_weights.h"
#include "onnx/node_order.h"

namespace camshaft::onnx {

namespace {

class Hoist {
 public:
  explicit Hoist(GraphProto& main) : main_(main) { count(main); }

  void bodies_of(GraphProto& graph, const std::string& path) {
    for (NodeProto& node : graph.nodes)
      for (AttributeProto& attribute : node.attributes)
        for (GraphProto& body : attribute.graphs)
          out_of(body, fmt::format("{}{}/{}/", path, shortened(display_name(node)), attribute.name));
  }

 private:
  void count(const GraphProto& graph) {
    for (const ValueInfoProto& input : graph.inputs) ++defined_[input.name];
    for (const TensorProto& tensor : graph.initializers) ++defined_[tensor.name];
    for (const SparseTensorProto& tensor : graph.sparse_initializers) ++defined_[tensor.values.name];
    for (const NodeProto& node : graph.nodes) {
      for (const std::string& output : node.outputs) ++defined_[output];
      for (const AttributeProto& attribute : node.attributes)
        for (const GraphProto& body : attribute.graphs) count(body);
    }
  }

  void out_of(GraphProto& body, const std::string& path) {
    std::map<std::string, int> here;  // what is there twice is wrong, and the importer says so
    std::set<std::string> results;
    for (const ValueInfoProto& input : body.inputs) ++here[input.name];
    for (const TensorProto& tensor : body.initializers) ++here[tensor.name];
    for (const ValueInfoProto& output : body.outputs) results.insert(output.name);
    std::vector<NodeProto> nodes;
    std::vector<TensorProto> stay;
    // What a body defines under a name that others have, or returns, goes on to be there by that name.
    const auto move = [&](TensorProto tensor, const std::string& name) {
      const bool is_moved_alone = defined_[name] == 1 && !results.contains(name);
      tensor.name = is_moved_alone ? name : unique(path + name);
      if (!is_moved_alone) {
        NodeProto identity;
        identity.op_type = "Identity";
        identity.inputs = {tensor.name};
        identity.outputs = {name};
        nodes.push_back(std::move(identity));
      }
      main_.initializers.push_back(std::move(tensor));
    };
    for (TensorProto& tensor : body.initializers) {
      const std::string name = tensor.name;
      if (name.empty() || here[name] > 1) {
        stay.push_back(std::move(tensor));
      } else {
        move(std::move(tensor), name);
      }
    }
    body.initializers = std::move(stay);
    for (NodeProto& node : body.nodes) {
      const AttributeProto* const weights = weights_of(node);
      if (!weights) {
        nodes.push_back(std::move(node));
      } else {
        move(weights->tensors[0], std::string(node.outputs[0]));
      }
    }
    body.nodes = std::move(nodes);
    bodies_of(body, path);
  }

  std::string unique(const std::string& base) {
    std::string name = base;
    for (int number = 1; ++defined_[name] > 1; ++number) name = fmt::format("{}_{}", base, number);
    return name;
  }

  GraphProto& main_;
  std::map<std::string, int> defined_;  // how often, in all graphs
};

}  // namespace

void hoist_weights(ModelProto& model) {
  // The main graph's list of initializers grows, not its nodes.
  Hoist(model.graph).bodies_of(model.graph, "");
}

}  // namespace camshaft::onnx
