#include "builder/refittable_build.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "onnx/model_weights.h"
#include "onnx/proto_writer.h"

namespace camshaft {

bool refits(const BuildOptions& options) {
  return options.refit || options.strip_weights;
}

void check_refit_options(const BuildOptions& options, const Backend& backend) {
  if (!refits(options)) return;
  const auto refuse = [&](std::string_view what, std::string_view way_out) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("an engine that can be refitted is not built in {}{}: which numbers that holds depends on "
                            "the weights. {}",
                            what, options.best ? ", which 'best' allows" : "", way_out));
  };
  if (options.int8 && !options.calibration.empty() && backend.gains_from(DType::i8))
    refuse("int8 by a calibration", "Build without int8, or quantise the model (camshaft quantize)");
  if (options.fp8 && !options.calibration.empty())
    refuse("fp8 by a calibration", "Build without fp8, or quantise the model");
}

std::string bytes_without_weights(const onnx::ModelProto& model) {
  onnx::ModelProto bare = model;
  onnx::for_each_weight(bare, [](const std::string&, onnx::TensorProto& tensor) {
    onnx::TensorProto described;
    described.name = std::move(tensor.name);
    described.dims = std::move(tensor.dims);
    described.data_type = tensor.data_type;
    tensor = std::move(described);
  });
  return onnx::model_bytes(bare);
}

std::unique_ptr<Replaceable> replaceable_of(const onnx::ModelProto& model, std::set<std::string> names) {
  onnx::for_each_weight(model, [&](const std::string& name, const onnx::TensorProto&) { names.insert(name); });
  std::map<std::string, std::vector<InitializerUse>> uses;
  for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
    const onnx::NodeProto& node = model.graph.nodes[n];
    const std::string name = node.name.empty() ? fmt::format("{}_{}", node.op_type, n) : node.name;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (names.contains(node.inputs[i]))
        uses[node.inputs[i]].push_back({name, node.op_type, static_cast<uint32_t>(i)});
  }
  auto replaceable = std::make_unique<Replaceable>(std::move(names));
  replaceable->set_uses(std::move(uses));
  replaceable->set_integer_weights(onnx::integer_weights(model));
  return replaceable;
}

void report_refit(const Replaceable& replaceable, BuildReport& report) {
  report.not_refittable.clear();
  report.refit_costs.clear();
  report.refittable = 0;
  for (const InitializerRecord& record : replaceable.records()) {
    if (record.fixed_by.empty()) {
      ++report.refittable;
    } else {
      report.not_refittable.push_back(fmt::format("'{}': {}", record.name, record.fixed_by));
    }
  }
  for (const auto& [name, what] : replaceable.notes())
    report.refit_costs.push_back(fmt::format("'{}': {}", name, what));
}

}  // namespace camshaft
