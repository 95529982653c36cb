// Writes models back as ONNX and holds the result against the original, by the reference evaluation: what
// tests/export/test_*.py runs.
//
//   export_models < REQUESTS > ANSWERS
//
// A request is a line of JSON: {"model": file, "out": file, "canonicalize": bool, "shapes": {input: [sizes]},
// "inputs": [files of one value each], "compare": bool, "external_from": bytes}. The answer is a line, too: {"status":
// "same" | "differs" | "refused" | "fails", "message", "nodes", "opset"}. Each request runs in a process of its own.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "builder/sample_inputs.h"
#include "onnx/export/export_model.h"
#include "onnx/export/model_file.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "onnx/value_file.h"
#include "optimize/canonicalize/canonicalization.h"
#include "optimize/pipeline.h"
#include "reference/evaluate.h"

namespace camshaft {
namespace {

using nlohmann::json;

constexpr unsigned seconds_per_model = 300;

std::vector<Tensor> make_inputs(const Graph& graph, const onnx::ModelProto& model, const json& request) {
  if (!request.contains("inputs")) {
    std::map<std::string, Dims> shapes;
    if (request.contains("shapes")) shapes = request["shapes"].get<std::map<std::string, Dims>>();
    return sample_inputs(graph, choose_input_shapes(graph, shapes, {}, 32), 1);
  }
  const auto files = request["inputs"].get<std::vector<std::string>>();
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs)
    for (size_t i = 0, real = 0; i < model.graph.inputs.size(); ++i) {
      bool is_initializer = false;
      for (const onnx::TensorProto& t : model.graph.initializers)
        is_initializer = is_initializer || t.name == model.graph.inputs[i].name;
      if (is_initializer) continue;
      if (model.graph.inputs[i].name == graph.value(id).name)
        inputs.push_back(onnx::read_value(files.at(real), model.graph.inputs[i].type));
      ++real;
    }
  return inputs;
}

size_t count_nodes(const onnx::GraphProto& graph) {
  size_t count = graph.nodes.size();
  for (const onnx::NodeProto& node : graph.nodes)
    for (const onnx::AttributeProto& attribute : node.attributes)
      for (const onnx::GraphProto& body : attribute.graphs) count += count_nodes(body);
  return count;
}

json run(const json& request) {
  const onnx::ModelProto model = onnx::read_model(request["model"].get<std::string>());
  onnx::ImportOptions import_options;
  onnx::ImportedModel original = onnx::import_model(model, import_options);
  ThreadPool pool(1);
  Graph graph = original.graph;
  if (request.value("canonicalize", false)) run_passes_with_branches(graph, {canonicalization()}, {.pool = pool});
  onnx::ModelProto written;
  try {
    written = onnx::export_model(graph, {.producer_version = "test", .metadata = original.metadata});
  } catch (const Error& e) {
    return {{"status", e.code() == ErrorCode::unsupported ? "refused" : "fails"}, {"message", e.what()}};
  }
  const std::string out = request["out"];
  onnx::ModelFileOptions options;
  if (request.contains("external_from")) options.external_from = request["external_from"].get<uint64_t>();
  onnx::write_model(written, out, options);
  json answer{
      {"status", "same"}, {"message", ""}, {"nodes", count_nodes(written.graph)}, {"opset", written.opsets.at("")}};
  Graph again = onnx::import_model(out).graph;
  if (!request.value("compare", true)) return answer;
  const std::vector<Tensor> inputs = make_inputs(graph, model, request);
  const std::vector<Tensor> expected = evaluate(graph, inputs, pool), actual = evaluate(again, inputs, pool);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual.at(i)) continue;
    std::string what =
        fmt::format("output {}: {} {} instead of {} {}", graph.output_names[i], to_string(actual[i].dtype()),
                    to_string(actual[i].dims()), to_string(expected[i].dtype()), to_string(expected[i].dims()));
    if (!holds_objects(expected[i].dtype()) && actual[i].dims() == expected[i].dims() &&
        actual[i].dtype() == expected[i].dtype()) {
      const auto a = actual[i].to_doubles(), e = expected[i].to_doubles();
      for (size_t k = 0; k < e.size(); ++k)
        if (a[k] != e[k] && !(a[k] != a[k] && e[k] != e[k])) {
          what += fmt::format(", element {} is {} instead of {}", k, a[k], e[k]);
          break;
        }
    }
    answer["status"] = "differs";
    answer["message"] = what;
    break;
  }
  return answer;
}

json guarded(const std::string& line) {
  try {
    return run(json::parse(line));
  } catch (const std::exception& e) {
    return {{"status", "fails"}, {"message", e.what()}};
  }
}

json in_child(const std::string& line) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    close(ends[0]);
    alarm(seconds_per_model);
    const std::string answer = guarded(line).dump(-1, ' ', true, json::error_handler_t::replace);
    for (size_t at = 0; at < answer.size();) {
      const ssize_t written = write(ends[1], answer.data() + at, answer.size() - at);
      if (written <= 0) _exit(1);
      at += static_cast<size_t>(written);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    answer.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) return {{"status", "fails"}, {"message", fmt::format("signal {}", WTERMSIG(status))}};
  return json::parse(answer);
}

}  // namespace
}  // namespace camshaft

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << camshaft::in_child(line) << std::endl;
}
