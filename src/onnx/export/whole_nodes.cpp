#include "onnx/export/whole_nodes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "onnx/node_order.h"
#include "onnx/operator_schema.h"

namespace camshaft::onnx {

namespace {

constexpr std::string_view machine_learning = "ai.onnx.ml";

int64_t version_of(const OpsetImports& opsets, const std::string& domain) {
  const auto found = opsets.find(domain);
  return found == opsets.end() ? 1 : found->second;
}

struct Form {
  std::string_view op_type;
  int64_t since;
};

/// Of ONNX itself those that the graph spells out, and since when each has the inputs, outputs and attributes that it
/// has to this day: later versions added types, and attributes whose defaults are what was before.
constexpr Form forms[] = {{"AffineGrid", 20},
                          {"BatchNormalization", 14},
                          {"BlackmanWindow", 17},
                          {"Celu", 12},
                          {"CenterCropPad", 18},
                          {"Clip", 11},
                          {"ConvTranspose", 11},
                          {"GroupNormalization", 21},
                          {"HammingWindow", 17},
                          {"HannWindow", 17},
                          {"Hardmax", 13},
                          {"InstanceNormalization", 6},
                          {"IsInf", 10},
                          {"LRN", 1},
                          {"LayerNormalization", 17},
                          {"LpNormalization", 1},
                          {"LpPool", 11},
                          {"MatMulInteger", 10},
                          {"Max", 8},
                          {"MaxUnpool", 11},
                          {"Mean", 8},
                          {"MeanVarianceNormalization", 9},
                          {"Min", 8},
                          {"Mish", 18},
                          {"NegativeLogLikelihoodLoss", 12},
                          {"QLinearConv", 10},
                          {"QLinearMatMul", 10},
                          {"RMSNormalization", 23},
                          {"ReduceL1", 18},
                          {"ReduceL2", 18},
                          {"ReduceLogSum", 18},
                          {"ReduceLogSumExp", 18},
                          {"ReduceSumSquare", 18},
                          {"RotaryEmbedding", 23},
                          {"Selu", 6},
                          {"Shrink", 9},
                          {"SoftmaxCrossEntropyLoss", 12},
                          {"Softsign", 1},
                          {"Sum", 8},
                          {"Swish", 24},
                          {"TfIdfVectorizer", 9},
                          {"ThresholdedRelu", 10},
                          {"Trilu", 14}};

/// Of ai.onnx.ml all have one form, but LabelEncoder (joined_lookups.h).
bool is_taken_apart(const NodeProto& node, const OpsetImports& opsets) {
  if (node.domain == machine_learning) return node.op_type != "LabelEncoder";
  const auto* form = std::find_if(std::begin(forms), std::end(forms),
                                  [&](const Form& known) { return known.op_type == node.op_type; });
  return node.domain.empty() && form != std::end(forms) && version_of(opsets, "") >= form->since;
}

/// Whether the operator has attributes of these names: a newer one may have more.
bool has_all(const OperatorSchema& schema, const std::vector<AttributeProto>& attributes) {
  return std::all_of(attributes.begin(), attributes.end(), [&](const AttributeProto& given) {
    return std::any_of(schema.attributes.begin(), schema.attributes.end(),
                       [&](const OperatorAttribute& known) { return known.name == given.name; });
  });
}

class WholeNodes {
 public:
  WholeNodes(const Graph& graph, const OriginalModel& original) : graph_(graph), original_(original), uses_(graph) {
    for (size_t i = 0; i < original.graph.values.size(); ++i) {
      const auto [at, is_new] = values_.emplace(original.graph.values[i].name, static_cast<ValueId>(i));
      if (!is_new) at->second = no_value;  // it stands for two
    }
  }

  std::vector<JoinedNodes> find() const {
    std::unordered_map<std::string, const NodeProto*> nodes;
    std::vector<std::string> order;
    for (const NodeProto& node : original_.model.graph.nodes) {
      const std::string name = shortened(display_name(node));
      const bool is_wanted = is_taken_apart(node, original_.model.opsets);
      const auto [at, is_new] = nodes.emplace(name, is_wanted ? &node : nullptr);
      if (!is_new) at->second = nullptr;  // two nodes of one name
      if (is_new && is_wanted) order.push_back(name);
    }
    std::unordered_map<std::string, std::vector<size_t>> groups;
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (graph_.nodes[n].sources.size() == 1) groups[graph_.nodes[n].sources[0]].push_back(n);
    std::vector<JoinedNodes> found;
    for (const std::string& name : order) {
      const auto group = groups.find(name);
      const NodeProto* node = nodes.at(name);
      if (group == groups.end() || node == nullptr || group->second.size() < 2) continue;
      if (auto whole = joined(*node, group->second)) found.push_back(*std::move(whole));
    }
    return found;
  }

 private:
  struct Input {
    ValueId id = no_value;  // and no constant: left out
    const Tensor* constant = nullptr;
  };

  /// Null where the name stands for no constant.
  const Tensor* original_constant(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end() || found->second == no_value) return nullptr;
    return original_.graph.value(found->second).constant.get();
  }

  /// Whether a value is what the original has under this name.
  bool is_original(ValueId id, const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end() || found->second == no_value || graph_.value(id).name != name) return false;
    const Value &now = graph_.value(id), &then = original_.graph.value(found->second);
    return now.type == then.type && now.constant == then.constant;
  }

  std::optional<JoinedNodes> joined(const NodeProto& node, std::vector<size_t> nodes) const {
    const std::unordered_set<size_t> members(nodes.begin(), nodes.end());
    const auto is_outside = [&](int32_t n) { return !members.contains(static_cast<size_t>(n)); };
    std::unordered_map<std::string, ValueId> operands, results;
    size_t ready = 0;  // the first place where all operands are there
    for (const size_t n : nodes) {
      if (!graph_.nodes[n].bodies.empty()) return std::nullopt;
      for (const ValueId id : graph_.nodes[n].inputs) {
        if (id == no_value) continue;
        const int32_t producer = uses_.producer[static_cast<size_t>(id)];
        if (producer >= 0 && !is_outside(producer)) continue;
        const std::string& name = graph_.value(id).name;
        const bool is_operand = std::find(node.inputs.begin(), node.inputs.end(), name) != node.inputs.end();
        if (!is_operand && graph_.is_constant(id)) continue;  // of the operator's attributes
        if (!is_operand || !is_original(id, name)) return std::nullopt;
        if (!operands.emplace(name, id).second && operands.at(name) != id) return std::nullopt;
        ready = std::max(ready, static_cast<size_t>(producer + 1));
      }
    }
    size_t first_reader = graph_.nodes.size();
    JoinedNodes whole{std::move(nodes), false, {}, {}};
    for (const size_t n : whole.nodes)
      for (const ValueId id : graph_.nodes[n].outputs) {
        bool is_read = uses_.is_output[static_cast<size_t>(id)];
        for (const int32_t reader : uses_.readers[static_cast<size_t>(id)]) {
          if (!is_outside(reader)) continue;
          is_read = true;
          first_reader = std::min(first_reader, static_cast<size_t>(reader));
        }
        if (!is_read) continue;
        const std::string& name = graph_.value(id).name;
        if (std::find(node.outputs.begin(), node.outputs.end(), name) == node.outputs.end() || !is_original(id, name) ||
            !results.emplace(name, id).second)
          return std::nullopt;
        whole.results.push_back(id);
      }
    if (whole.results.empty()) return std::nullopt;
    if (first_reader < whole.nodes.back()) {
      if (ready > whole.nodes.front()) return std::nullopt;
      whole.is_at_first = true;
    }
    std::vector<Input> inputs;
    for (const std::string& name : node.inputs) {
      const auto operand = operands.find(name);
      if (operand != operands.end()) {
        inputs.push_back({operand->second, nullptr});
      } else if (const Tensor* constant = name.empty() ? nullptr : original_constant(name)) {
        inputs.push_back({no_value, constant});  // another one was made of it
      } else if (name.empty()) {
        inputs.push_back({no_value, nullptr});
      } else {
        return std::nullopt;
      }
    }
    std::vector<ValueId> outputs;
    for (const std::string& name : node.outputs) {
      const auto result = results.find(name);
      outputs.push_back(result == results.end() ? no_value : result->second);
    }
    const auto schema = find_schema(node.domain, node.op_type, version_of(original_.model.opsets, node.domain));
    if (!schema || !has_all(*schema, node.attributes)) return std::nullopt;
    const Operator op(node.op_type.c_str(), schema->since, node.domain.c_str());
    whole.write = [&node, op, inputs, outputs](ExportContext& c) {
      std::vector<std::string> read, made;
      for (const Input& input : inputs)
        read.push_back(input.constant ? c.constant(*input.constant) : input.id == no_value ? "" : c.value(input.id));
      for (const ValueId id : outputs)
        made.push_back(id == no_value ? c.writer().model.names.unique(c.writer().node_name + "/unused") : c.value(id));
      c.add_named(op, std::move(read), std::move(made), Attributes::of(node.attributes));
    };
    return whole;
  }

  const Graph& graph_;
  const OriginalModel& original_;
  const Uses uses_;
  std::unordered_map<std::string, ValueId> values_;  // of the original graph
};

}  // namespace

std::vector<JoinedNodes> whole_nodes(const Graph& graph, const OriginalModel& original) {
  return WholeNodes(graph, original).find();
}

}  // namespace camshaft::onnx
