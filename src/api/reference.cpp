// What is right by the reference evaluation, and the part of a model that is not.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "api/describe.h"
#include "api/engine.h"
#include "api/options.h"
#include "api/record.h"
#include "api/status.h"
#include "api/tensor.h"
#include "base/available_cores.h"
#include "base/thread_pool.h"
#include "builder/build_inputs.h"
#include "builder/reduce_model.h"
#include "builder/tensor_errors.h"
#include "builder/verification.h"
#include "builder/verification_sample.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "onnx/proto_writer.h"
#include "onnx/tensor_data.h"
#include "reference/evaluate.h"
#include "runtime/tensor_view.h"

namespace camshaft::api {

namespace {

/// Brings tensors in files of their own into the model, so that parts of it can be written elsewhere.
void embed_external(onnx::ModelProto& model) {
  onnx::TensorReader reader(model);
  std::vector<std::shared_ptr<const void>> owners{model.storage};
  for (onnx::TensorProto& tensor : model.graph.initializers) {
    if (!tensor.external) continue;
    const onnx::TensorData data = reader.read(tensor);
    owners.push_back(data.owner);
    tensor.raw_data = data.bytes;
    tensor.external.reset();
  }
  model.storage = std::make_shared<std::vector<std::shared_ptr<const void>>>(std::move(owners));
}

/// The model on the inputs that verification takes.
ModelOnInputs with_inputs(const std::string& path, const BuildOptions& options, ThreadPool& pool) {
  ModelOnInputs whole{onnx::read_model(path), {}};
  embed_external(whole.model);
  const Graph graph = onnx::import_model(whole.model).graph;
  SampleOptions wanted;
  wanted.seed = options.seed;
  wanted.cancellation = options.cancellation;
  for (const auto& [name, view] : options.verification_inputs) wanted.inputs[name] = copy_of(view);
  if (!options.profiles.empty())
    for (const auto& [name, range] : options.profiles[0].inputs) wanted.shapes[name] = range.opt;
  const auto sample = find_sample(graph, wanted, pool);
  if (const auto* refusal = std::get_if<std::string>(&sample))
    throw Error(ErrorCode::invalid_argument, fmt::format("'{}' cannot run on made-up inputs: {}", path, *refusal));
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    whole.inputs[graph.value(graph.inputs[i]).name] = std::get<VerificationSample>(sample).inputs[i];
  return whole;
}

camshaft_tensors named(const std::map<std::string, Tensor>& tensors) {
  camshaft_tensors list;
  for (const auto& [name, tensor] : tensors) list.items.emplace_back(name, handle_of(tensor));
  return list;
}

/// In the order of the graph's inputs.
std::vector<Tensor> inputs_of(const Graph& graph, const camshaft_tensors& given) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    const std::string& name = graph.value(id).name;
    const auto it =
        std::find_if(given.items.begin(), given.items.end(), [&](const auto& item) { return item.first == name; });
    if (it == given.items.end())
      throw Error(ErrorCode::invalid_argument, fmt::format("input '{}' of the model is not given", name));
    inputs.push_back(tensor_of(it->second, fmt::format("input '{}'", name)));
  }
  return inputs;
}

int threads_of(int32_t threads) {
  if (threads < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} threads; give 1 or more, or 0 for one for each core", threads));
  return threads > 0 ? threads : available_cores();
}

}  // namespace

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_evaluate_file(const char* path, const camshaft_tensors* inputs, int32_t threads, double noise,
                                       uint64_t noise_seed, camshaft_tensors** outputs) {
  return guarded([&] {
    given(outputs, "outputs");
    const Graph graph = onnx::import_model(std::filesystem::path(given(path, "path"))).graph;
    ThreadPool pool(threads_of(threads));
    EvaluateOptions options;
    options.noise.of_results = options.noise_of_bodies.of_results = noise;
    options.noise_seed = noise_seed;
    const std::vector<Tensor> results = evaluate(graph, inputs_of(graph, *given(inputs, "inputs")), pool, options);
    auto list = std::make_unique<camshaft_tensors>();
    for (size_t i = 0; i < results.size(); ++i)
      list->items.emplace_back(graph.output_names[i], handle_of(results[i].owned()));
    *outputs = list.release();
  });
}

camshaft_status camshaft_compare(const char* name, const camshaft_tensor* expected, const camshaft_tensor* actual,
                                 double tolerance, camshaft_record** error) {
  return guarded([&] {
    const std::string output = given(name, "name");
    const std::vector<OutputError> errors =
        compare_outputs({output}, {tensor_of(*given(expected, "expected"), "the expected tensor")},
                        {tensor_of(*given(actual, "actual"), "the actual tensor")}, tolerance);
    give(error, "error", [&] { return new_record(describe(errors.at(0))); });
  });
}

camshaft_status camshaft_reduce_file(const char* path, const camshaft_options* options, camshaft_judge_function judge,
                                     void* user, void** model, size_t* bytes, camshaft_tensors** inputs,
                                     camshaft_record** counts) {
  return guarded([&] {
    given(reinterpret_cast<void*>(judge), "judge");
    given(model, "model");
    given(bytes, "bytes");
    given(inputs, "inputs");
    given(counts, "counts");
    const BuildOptions build = settings_of(options, CAMSHAFT_BUILD).settings.build;
    ThreadPool pool(threads_of(build.threads));
    const ModelOnInputs whole = with_inputs(given(path, "path"), build, pool);
    const auto is_wrong = [&](const ModelOnInputs& part) {
      const std::string file = onnx::model_bytes(part.model);
      const camshaft_tensors list = named(part.inputs);
      const int32_t verdict = judge(user, file.data(), file.size(), &list);
      if (verdict != 0 && verdict != 1) throw Error(ErrorCode::cancelled, "cancelled by the judge of a reduced model");
      return verdict == 1;
    };
    if (!is_wrong(whole))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("'{}' passes verification: there is nothing to reduce", path));
    size_t smallest = whole.model.graph.nodes.size();
    const ModelOnInputs small = reduce_model(
        whole,
        [&](const ModelOnInputs& part) {
          build.cancellation.check("reducing");
          const bool wrong = is_wrong(part);
          if (wrong) smallest = std::min(smallest, part.model.graph.nodes.size());
          if (build.progress) build.progress(fmt::format("reducing: {} nodes", smallest), 0);
          return wrong;
        },
        pool);
    const std::string file = onnx::model_bytes(small.model);
    auto list = std::make_unique<camshaft_tensors>(named(small.inputs));
    std::unique_ptr<camshaft_record, decltype(&camshaft_record_free)> record(
        new_record({{"nodes", small.model.graph.nodes.size()}, {"nodes_before", whole.model.graph.nodes.size()}}),
        camshaft_record_free);
    void* copy = std::malloc(std::max<size_t>(file.size(), 1));
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, file.data(), file.size());
    *model = copy;
    *bytes = file.size();
    *inputs = list.release();
    *counts = record.release();
  });
}

camshaft_status camshaft_engine_tensor_errors(const camshaft_engine* engine, const char* path,
                                              const camshaft_tensors* inputs, double tolerance, int32_t threads,
                                              const camshaft_cancellation* cancellation, camshaft_record** errors) {
  return guarded([&] {
    given(errors, "errors");
    const Engine& of = given(engine, "engine")->engine;
    const Graph model =
        onnx::import_model(std::filesystem::path(given(path, "path")), import_options(of.profiles())).graph;
    ThreadPool pool(threads_of(threads));
    nlohmann::json list = nlohmann::json::array();
    for (const TensorError& tensor :
         tensor_errors(model, of, inputs_of(model, *given(inputs, "inputs")), tolerance, pool,
                       cancellation == nullptr ? Cancellation() : cancellation->flag)) {
      list.push_back(describe(tensor.error));
      list.back()["layer"] = tensor.layer;
    }
    *errors = new_record(std::move(list));
  });
}
