// camshaft inspect: what an engine consists of.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "camshaft/engine.hpp"
#include "tools/atomic_file.h"
#include "tools/commands.h"
#include "tools/device_option.h"
#include "tools/explain.h"
#include "tools/format_bytes.h"
#include "tools/inspection.h"
#include "tools/open_engine.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/tensor_text.h"
#include "tools/weight_budget_option.h"

namespace camshaft::tools {

namespace {

struct InspectArguments {
  std::string path, device, onnx, weight_budget;
  bool json = false, graph = false, explain = false, weights = false;
  LimitOptions limits;
};

std::string sizes_text(const std::vector<int64_t>& dims) {
  std::string out;
  for (const int64_t size : dims) out += fmt::format("{}{}", out.empty() ? "" : "x", size);
  return out;
}

void print_text(const std::string& path, const OpenedEngine& opened) {
  const Engine& engine = opened.engine;
  fmt::print("{}: {}\n", path, opened.from_model ? "an ONNX model, compiled for this inspection" : "an engine");
  for (const auto& [key, value] : engine.metadata()) {
    // Some models carry whole alphabets in their metadata; --json has all of it.
    const bool whole = value.size() <= 100 && value.find('\n') == std::string::npos;
    fmt::print("  {:20} {}\n", key, whole ? value : fmt::format("({} bytes)", value.size()));
  }
  fmt::print("memory\n  {}\n  weights: {}\n", format_memory(engine.memory()),
             format_streaming(engine.weight_streaming()));
  fmt::print("inputs\n");
  for (const TensorInfo& info : engine.inputs()) fmt::print("  {}\n", to_string(info));
  fmt::print("outputs\n");
  for (const TensorInfo& info : engine.outputs()) fmt::print("  {}\n", to_string(info));
  for (size_t i = 0; i < engine.profiles().size(); ++i) {
    fmt::print("profile {}\n", i);
    for (const auto& [name, range] : engine.profiles()[i].inputs)
      fmt::print("  {}: {} to {}, tuned for {}\n", name, sizes_text(range.min), sizes_text(range.max),
                 sizes_text(range.opt));
  }
  const std::vector<LayerInfo> layers = engine.layers();
  fmt::print("layers: {}\n", layers.size());
  std::vector<std::vector<std::string>> rows = {{"", "op", "tactic", "dtype", "computes", "nodes of the model"}};
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerInfo& layer = layers[i];
    rows.push_back({fmt::format("  {}", i), layer.op,
                    layer.at_binding ? fmt::format("{} (at binding)", layer.tactic) : layer.tactic, precision(layer),
                    layer.outputs.empty() ? layer.name : layer.outputs.front(), join(layer.sources)});
  }
  fmt::print("{}", format_table(rows, {0}));
}

// In the order in which a run needs them.
void print_weights(const Engine& engine) {
  fmt::print("weights   {}\n", format_streaming(engine.weight_streaming()));
  std::vector<std::vector<std::string>> rows = {{"layer", "needs", "bytes", "so far", "comes in", "from the file at"}};
  int64_t so_far = 0;
  const std::vector<LayerInfo> layers = engine.layers();
  for (size_t i = 0; i < layers.size(); ++i)
    for (size_t w = 0; w < layers[i].weights.size(); ++w) {
      const LayerWeight& weight = layers[i].weights[w];
      so_far += weight.bytes;
      rows.push_back({w == 0 ? fmt::format("{} {}", i, layers[i].name) : "",
                      weight.layout.empty() ? weight.name : fmt::format("{} [{}]", weight.name, weight.layout),
                      std::to_string(weight.bytes), format_bytes(static_cast<size_t>(so_far)),
                      w == 0 ? format_bytes(static_cast<size_t>(layers[i].streamed_bytes)) : "",
                      weight.offset < 0 ? "in memory" : std::to_string(weight.offset)});
    }
  fmt::print("{}", format_table(rows, {2, 3, 4, 5}));
}

void write_onnx(const std::string& path, const Engine& engine) {
  AtomicFile file(path);
  file.write(engine.layers_onnx());
  file.commit();
}

int inspect(const InspectArguments& arguments) {
  const bool writes = !arguments.onnx.empty();
  if (writes) {
    check_distinct(arguments.path, arguments.onnx);
    check_writable(arguments.onnx);
  }
  Progress progress;
  const OpenedEngine opened =
      open_engine(arguments.path, arguments.device, 0, {}, progress,
                  arguments.explain || writes ? "measure" : "heuristic", arguments.limits, arguments.weight_budget);
  if (writes) write_onnx(arguments.onnx, opened.engine);
  if (arguments.json) {
    nlohmann::json json = inspection(arguments.path, opened);
    if (arguments.graph) json["graph"] = opened.engine.graph();
    print_json(json);
  } else if (arguments.explain) {
    fmt::print("{}", explain(opened.engine));
  } else if (arguments.weights) {
    print_weights(opened.engine);
  } else if (arguments.graph) {
    fmt::print("{}", opened.engine.graph());
  } else if (writes) {
    fmt::print("onnx      {}: {} layers, without weights\n", arguments.onnx, opened.engine.layers().size());
  } else {
    print_text(arguments.path, opened);
  }
  return 0;
}

}  // namespace

Command add_inspect_command(CLI::App& app) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand("inspect", "Show inputs, outputs, memory and layers with their source nodes");
  command->add_option("PATH", arguments->path, "An engine, or an ONNX model, which is then compiled in memory")
      ->required();
  add_device_option(*command, arguments->device, run_device_help);
  command->add_flag("--json", arguments->json, "Print everything as JSON");
  command->add_flag(
      "--explain", arguments->explain,
      "For each layer: what was fused and why no more, the tactics tried with their times, and the choice");
  command->add_flag("--graph", arguments->graph, "Print the optimised graph in its text form");
  command->add_flag(
      "--weights", arguments->weights,
      "Print which weights each layer needs, in the order of a run, and how much of them comes in for it");
  add_weight_budget_option(*command, arguments->weight_budget);
  command
      ->add_option("--onnx", arguments->onnx,
                   "Write the layers as an ONNX file to look at, without weights: a node for each, with its tactic, "
                   "time,\nprecision and source nodes")
      ->type_name("OUT.onnx");
  arguments->limits.add_to(*command, "fold constants of a model and to measure kernels");
  command->footer(
      "Each layer is one step of the engine: the kernel family (op), how it is implemented (tactic), the tensor it\n"
      "computes, and the nodes of the ONNX model that went into it. Those at binding depend on no input: they run "
      "once\n"
      "for each set of input shapes, and what they compute is kept.\n\n"
      "Examples:\n"
      "  camshaft inspect model.engine\n"
      "  camshaft inspect model.engine --weights --weight-budget 40%\n"
      "  camshaft inspect model.engine --onnx layers.onnx            open layers.onnx in Netron");
  return {command, [arguments] { return inspect(*arguments); }};
}

}  // namespace camshaft::tools
