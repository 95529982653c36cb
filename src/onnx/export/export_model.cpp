#include "onnx/export/export_model.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/error.h"
#include "onnx/export/activations.h"
#include "onnx/export/export_operator.h"
#include "onnx/export/joined_nodes.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

class GraphExporter {
 public:
  GraphExporter(const Graph& graph, ExportWriter& writer, const OriginalModel* original = nullptr)
      : target_{graph, writer, std::vector<std::string>(graph.values.size())}, original_(original) {
    writer.graph.name = is_valid_name(graph.name) ? graph.name : "graph";
  }

  /// Value `id` of the graph is one of the graphs around.
  void set_capture(ValueId id, const std::string& name) { name_of(id) = name; }

  void add_input(ValueId id, const std::string& name) {
    name_of(id) = name;
    target_.writer.model.use(target_.graph.type(id));
    target_.writer.graph.inputs.push_back({name, type_proto(target_.graph.type(id))});
    target_.writer.add_symbols(name, target_.graph.type(id));
  }

  /// Appends all nodes. `output_names` are taken already.
  void run(const std::vector<std::string>& output_names) {
    const Graph& graph = target_.graph;
    ExportWriter& writer = target_.writer;
    // A value that is several outputs has the name of the first of them.
    std::unordered_map<ValueId, std::string> named_outputs;
    for (size_t o = 0; o < graph.outputs.size(); ++o) named_outputs.emplace(graph.outputs[o], output_names[o]);
    const Activations activations(graph);
    const JoinedNodesOf joined_nodes(
        graph, [&](size_t n) { return activations.is_inside(n) || activations.find(n) != nullptr; },
        original_ ? whole_nodes(graph, *original_) : std::vector<JoinedNodes>());
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const JoinedNodes* joined = joined_nodes.find(n);
      const size_t place = !joined ? n : joined->is_at_first ? joined->nodes.front() : joined->nodes.back();
      if (activations.is_inside(n) || n != place) continue;
      std::vector<ValueId> results;
      for (const size_t each : joined && joined->is_at_first ? joined->nodes : std::vector<size_t>{n})
        results.insert(results.end(), graph.nodes[each].outputs.begin(), graph.nodes[each].outputs.end());
      if (joined && !joined->results.empty()) results = joined->results;
      for (const ValueId id : results) {
        const auto named = named_outputs.find(id);
        name_of(id) = named != named_outputs.end() ? named->second : writer.model.names.unique(graph.value(id).name);
      }
      add_node(graph.nodes[n], activations.find(n), joined);
      for (const ValueId id : results) writer.model.use(graph.type(id));
      for (const ValueId id : results) {
        if (!named_outputs.contains(id)) writer.graph.value_infos.push_back({name_of(id), type_proto(graph.type(id))});
        writer.add_symbols(name_of(id), graph.type(id));
      }
    }
    add_outputs(output_names);
  }

 private:
  std::string& name_of(ValueId id) { return target_.names[static_cast<size_t>(id)]; }

  void add_node(const Node& node, const Activation* activation, const JoinedNodes* joined) {
    const Graph& graph = target_.graph;
    ExportWriter& writer = target_.writer;
    const std::string& name = node.sources.empty() ? graph.value(node.outputs[0]).name : node.sources.front();
    writer.node_name = name;
    static const BodyExporter body_exporter = export_body;
    ExportContext context(target_, node, body_exporter);
    try {
      if (activation) {
        std::vector<std::string> inputs;
        for (const ValueId id : activation->inputs) inputs.push_back(context.value(id));
        return context.result(activation->op, std::move(inputs), activation->attributes);
      }
      joined ? joined->write(context) : export_operator(context, node.op);
    } catch (const NamedNode&) {
      throw;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::unsupported) throw;
      throw NamedNode(e.code(), fmt::format("node {} (operator '{}') cannot be written as ONNX: {}", quote(name),
                                            node.op.name(), e.what()));
    }
    writer.node_name = name;
  }

  void add_outputs(const std::vector<std::string>& output_names) {
    const Graph& graph = target_.graph;
    ExportWriter& writer = target_.writer;
    for (size_t o = 0; o < graph.outputs.size(); ++o) {
      const ValueId id = graph.outputs[o];
      if (name_of(id).empty() && graph.is_constant(id)) {
        const Value& value = graph.value(id);
        name_of(id) = writer.named_constant(value.name + "/value", *value.constant);
      }
      writer.node_name = output_names[o];
      if (name_of(id) != output_names[o]) writer.add("Identity", {name_of(id)}, {output_names[o]});
      writer.graph.outputs.push_back({output_names[o], type_proto(graph.type(id))});
    }
  }

  /// An Error that names the node.
  class NamedNode : public Error {
   public:
    using Error::Error;
  };

  static GraphProto export_body(const Graph& body, size_t inputs, const std::vector<std::string>& captures,
                                ExportWriter& around) {
    ExportWriter writer(around.model, &around);
    GraphExporter exporter(body, writer);
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      if (i < inputs) {
        exporter.add_input(body.inputs[i], writer.model.names.unique(body.value(body.inputs[i]).name));
      } else {
        exporter.set_capture(body.inputs[i], captures.at(i - inputs));
      }
    }
    std::vector<std::string> outputs;
    for (const std::string& name : body.output_names) outputs.push_back(writer.model.names.unique(name));
    exporter.run(outputs);
    return std::move(writer.graph);
  }

  GraphUnderExport target_;
  const OriginalModel* original_;  // null in bodies
};

/// The name of an input or output of the model, which cannot be another one.
void take_interface_name(ModelBuilder& builder, const std::string& name, const char* what) {
  if (!is_valid_name(name))
    throw Error(ErrorCode::unsupported,
                fmt::format("the {} {} has no name that an ONNX model can have: names are UTF-8 and not empty", what,
                            quote(name)));
  if (!builder.names.take(name))
    throw Error(ErrorCode::unsupported, fmt::format("the name {} stands for two inputs or outputs of the graph, which "
                                                    "it cannot in an ONNX model",
                                                    quote(name)));
}

}  // namespace

ModelProto export_model(const Graph& graph, const ExportOptions& options) {
  ModelBuilder builder;
  ExportWriter writer(builder, nullptr);
  GraphExporter exporter(graph, writer, options.original);
  for (const ValueId id : graph.inputs) take_interface_name(builder, graph.value(id).name, "input");
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    // An input that is an output under its own name is so in ONNX, too.
    const std::string& name = graph.output_names[o];
    const Value& value = graph.value(graph.outputs[o]);
    bool is_input = false;
    for (const ValueId id : graph.inputs) is_input = is_input || (id == graph.outputs[o] && value.name == name);
    if (!is_input) take_interface_name(builder, name, "output");
  }
  for (const ValueId id : graph.inputs) exporter.add_input(id, graph.value(id).name);
  exporter.run(graph.output_names);

  ModelProto model;
  model.file = "the exported model";
  model.storage = builder.storage();
  model.ir_version = builder.ir_version();
  model.producer_name = "camshaft";
  model.producer_version = options.producer_version;
  model.opsets = builder.opsets();
  model.metadata = options.metadata;
  model.graph = std::move(writer.graph);
  return model;
}

}  // namespace camshaft::onnx
