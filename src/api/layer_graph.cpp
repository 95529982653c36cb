#include "api/layer_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/layer_cost.h"
#include "ir/ops/region.h"
#include "onnx/export/attributes.h"
#include "onnx/export/model_builder.h"
#include "onnx/proto_writer.h"
#include "runtime/engine_impl.h"

namespace camshaft::api {

namespace {

using onnx::Attributes;

constexpr const char* domain = "camshaft";

class LayerGraph {
 public:
  explicit LayerGraph(const Engine& engine)
      : engine_(engine),
        impl_(engine.impl()),
        plan_(impl_->plan),
        names_(plan_.values.size()),
        writers_(plan_.values.size()),
        costs_(layer_costs(engine, impl_->optimum)) {}

  onnx::ModelProto made() && {
    add_inputs();
    name_results();
    const std::vector<LayerInfo> layers = engine_.layers();
    for (size_t s = 0; s < layers.size(); ++s) add_layer(s, layers[s]);
    for (size_t o = 0; o < plan_.outputs.size(); ++o) add_output(o);
    onnx::ModelProto model;
    model.file = "the layers of an engine";
    model.ir_version = builder_.ir_version();
    model.producer_name = domain;
    model.opsets = builder_.opsets();
    model.metadata = engine_.metadata();
    model.graph = std::move(graph_);
    return model;
  }

 private:
  const PlanValue& value(int32_t id) const { return plan_.values[static_cast<size_t>(id)]; }
  std::string& name_of(int32_t id) { return names_[static_cast<size_t>(id)]; }

  void add_inputs() {
    graph_.name = "layers";
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      name_of(plan_.inputs[i]) = builder_.names.unique(plan_.input_names[i]);
      graph_.inputs.push_back({name_of(plan_.inputs[i]), onnx::type_proto(value(plan_.inputs[i]).type)});
    }
    for (const std::string& name : plan_.output_names) output_names_.push_back(builder_.names.unique(name));
  }

  /// A layer's result that is an output has that one's name.
  void name_results() {
    for (size_t o = 0; o < plan_.outputs.size(); ++o)
      if (std::string& name = name_of(plan_.outputs[o]); name.empty() && is_written(plan_.outputs[o]))
        name = output_names_[o];
    for (const PlanStep& step : plan_.steps)
      for (const int32_t id : step.outputs) {
        if (id < 0) continue;
        if (name_of(id).empty()) {
          name_of(id) = builder_.names.unique(value(id).name);
          graph_.value_infos.push_back({name_of(id), onnx::type_proto(value(id).type)});
        }
        writers_[static_cast<size_t>(plan_.root(id))].push_back(id);
      }
  }

  bool is_written(int32_t id) const {
    return std::any_of(plan_.steps.begin(), plan_.steps.end(), [&](const PlanStep& step) {
      return std::find(step.outputs.begin(), step.outputs.end(), id) != step.outputs.end();
    });
  }

  /// The values with names that this one is seen in: itself, what it is a view of, or the parts that layers wrote.
  std::vector<std::string> seen(int32_t id) const {
    for (;;) {
      if (const std::string& name = names_[static_cast<size_t>(id)]; !name.empty()) return {name};
      const PlanValue& v = value(id);
      if (v.storage != Storage::alias && v.storage != Storage::slice) break;
      id = v.index;
    }
    std::vector<std::string> parts;
    for (const int32_t part : writers_[static_cast<size_t>(id)]) parts.push_back(names_[static_cast<size_t>(part)]);
    return parts;
  }

  void add_layer(size_t s, const LayerInfo& layer) {
    const PlanStep& step = plan_.steps[s];
    std::vector<std::string> inputs, outputs, constants;
    for (const int32_t id : step.inputs) {
      if (id < 0) continue;
      std::vector<std::string> read = seen(id);
      if (read.empty()) constants.push_back(fmt::format("{}: {}", value(id).name, to_string(value(id).type)));
      inputs.insert(inputs.end(), read.begin(), read.end());
    }
    for (const int32_t id : step.outputs) outputs.push_back(id < 0 ? "" : name_of(id));
    Attributes attributes;
    if (!layer.tactic.empty()) attributes.text("tactic", layer.tactic);
    for (const TacticTrial& trial : layer.tried) {
      if (trial.tactic != layer.tactic) continue;
      attributes.number("estimated_us", static_cast<double>(trial.estimated_ns) * 1e-3);
      if (trial.measured_ns >= 0) attributes.number("measured_us", static_cast<double>(trial.measured_ns) * 1e-3);
      break;
    }
    if (!step.outputs.empty() && step.outputs[0] >= 0)
      attributes.text("precision", to_string(value(step.outputs[0]).type.dtype));
    attributes.text("device", to_string(step.device)).texts("sources", layer.sources).texts("fused", fused(step));
    if (!layer.description.empty()) attributes.text("computes", layer.description);
    attributes.texts("constants", constants).texts("apart", layer.notes).flag("at_binding", layer.at_binding);
    if (const auto& cost = costs_[s])
      attributes.integer("flops", static_cast<int64_t>(cost->flops))
          .integer("constant_bytes", static_cast<int64_t>(cost->constant_bytes))
          .integer("activation_bytes", static_cast<int64_t>(cost->activation_bytes));
    add_node(layer.name, layer.op, std::move(inputs), std::move(outputs), std::move(attributes));
  }

  /// The operators that run as one layer, in their order.
  std::vector<std::string> fused(const PlanStep& step) const {
    if (step.node < 0) return {};
    const Node& node = impl_->graph.nodes[static_cast<size_t>(step.node)];
    std::vector<std::string> operators;
    if (node.op.as<ops::Region>())
      for (const Node& inside : node.bodies[0].nodes) operators.emplace_back(inside.op.name());
    return operators;
  }

  void add_output(size_t o) {
    const int32_t id = plan_.outputs[o];
    const std::string& name = output_names_[o];
    if (name_of(id) != name) {
      std::vector<std::string> inputs = seen(id);
      Attributes attributes;
      if (inputs.empty())
        attributes.texts("constants", {fmt::format("{}: {}", value(id).name, to_string(value(id).type))});
      add_node(name, "view", std::move(inputs), {name}, std::move(attributes));
    }
    graph_.outputs.push_back({name, onnx::type_proto(value(id).type)});
  }

  void add_node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                std::vector<std::string> outputs, Attributes attributes) {
    builder_.use(onnx::Operator(op.c_str(), 1, domain));
    onnx::NodeProto& node = graph_.nodes.emplace_back();
    node.name = node_names_.unique(name);
    node.op_type = op;
    node.domain = domain;
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    node.attributes = std::move(attributes).take();
    // Of an empty list nobody can tell what it would be of.
    std::erase_if(node.attributes, [](const onnx::AttributeProto& a) {
      return a.type == onnx::AttributeType::strings && a.strings.empty();
    });
  }

  const Engine& engine_;
  const std::shared_ptr<const Engine::Impl> impl_;
  const Plan& plan_;
  std::vector<std::string> names_;               // of each plan value that is an input or that a layer writes
  std::vector<std::vector<int32_t>> writers_;    // of each root: it, or the parts of it, that layers write
  std::vector<std::optional<ops::Cost>> costs_;  // at the shapes that tactics were chosen for
  std::vector<std::string> output_names_;
  onnx::ModelBuilder builder_;
  onnx::Names node_names_;
  onnx::GraphProto graph_;
};

}  // namespace

std::string layer_graph(const Engine& engine) {
  return onnx::model_bytes(LayerGraph(engine).made());
}

}  // namespace camshaft::api
