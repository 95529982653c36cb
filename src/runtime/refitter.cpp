#include "runtime/refitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/available_cores.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/similar_names.h"
#include "base/workers.h"
#include "onnx/lora_adapter.h"
#include "onnx/weights_file.h"
#include "runtime/adapters.h"
#include "runtime/engine_impl.h"
#include "runtime/refitted_graph.h"

namespace camshaft {

namespace {

const std::vector<InitializerRecord>& records_of(const Engine::Impl& engine) {
  if (!engine.initializers)
    throw Error(ErrorCode::invalid_argument,
                "the engine cannot be refitted: it was not built with the option refit (--refit)");
  return *engine.initializers;
}

std::string type_text(DType dtype, const Dims& dims) {
  return fmt::format("{}{}", to_string(dtype), to_string(dims));
}

// Of the constants that a node reads, those in its bodies among them.
void add_initializers(const Graph& graph, const Node& node, std::set<std::string>& names) {
  const auto add = [&](const Value& value) {
    if (value.constant && value.provenance) names.merge(initializer_names(*value.provenance));
  };
  for (const ValueId id : node.inputs)
    if (id != no_value) add(graph.value(id));
  for (const Graph& body : node.bodies) {
    for (const Value& value : body.values) add(value);
    for (const Node& inner : body.nodes)
      if (!inner.bodies.empty()) add_initializers(body, inner, names);
  }
}

// Those that the engine has matrices of for an adapter.
std::set<std::string> adapter_modules(const std::string& adapter, const std::vector<InitializerRecord>& records) {
  const std::string front = adapter_tensor(adapter, "", 'A'), prefix = adapter + "/";
  const std::string end = front.substr(prefix.size());
  std::set<std::string> modules;
  for (const InitializerRecord& record : records)
    if (record.name.starts_with(prefix) && record.name.ends_with(end) && record.name.size() > front.size())
      modules.insert(record.name.substr(prefix.size(), record.name.size() - front.size()));
  return modules;
}

}  // namespace

Refitter::Refitter(Engine engine) : engine_(std::move(engine)), records_(records_of(*engine_.impl())) {
  for (const InitializerRecord& record : records_) known_[record.name] = &record;
}

std::vector<EngineWeight> Refitter::weights() const {
  const std::shared_ptr<const Engine::Impl> now = engine_.impl();
  std::map<std::string, std::vector<std::string>> layers;
  for (const Node& node : now->graph.nodes) {
    std::set<std::string> names;
    add_initializers(now->graph, node, names);
    for (const std::string& name : names) layers[name].push_back(now->graph.value(node.outputs[0]).name);
  }
  std::vector<EngineWeight> list;
  for (const InitializerRecord& record : records_)
    list.push_back({record, layers[record.name], given_.contains(record.name)});
  return list;
}

void Refitter::check(const std::string& name, const Tensor& tensor) const {
  const auto it = known_.find(name);
  if (it == known_.end()) {
    std::vector<std::string> names;
    for (const InitializerRecord& record : records_) names.push_back(record.name);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the engine's model has no initializer '{}' that a node reads{}", name,
                            what_was_meant(name, names)));
  }
  const InitializerRecord& record = *it->second;
  if (!tensor.defined() || tensor.dtype() != record.dtype || tensor.dims() != record.dims)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the initializer '{}' is {}; {} is given", name, type_text(record.dtype, record.dims),
                            tensor.defined() ? type_text(tensor.dtype(), tensor.dims()) : "nothing"));
  if (!record.fixed_by.empty() && (holds_objects(record.dtype) || hash64(tensor.span()) != record.hash))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the initializer '{}' cannot be replaced by other numbers: the engine was built by what "
                            "they are ({}). Build the new model",
                            name, record.fixed_by));
  const auto is_bool = [](std::byte b) { return std::to_integer<int>(b) <= 1; };
  if (record.dtype == DType::boolean && !std::all_of(tensor.span().begin(), tensor.span().end(), is_bool))
    throw Error(ErrorCode::invalid_argument, fmt::format("the initializer '{}' is bool: its bytes are 0 or 1", name));
}

void Refitter::set(const std::string& name, Tensor tensor) {
  check(name, tensor);
  given_[name] = {std::move(tensor)};
}

void Refitter::set_file(const std::string& path) {
  const auto is_known = [&](const std::string& name) { return known_.contains(name); };
  std::map<std::string, onnx::WeightOfFile> read = onnx::read_weights(path, is_known);
  try {
    for (const auto& [name, weight] : read) check(name, weight.tensor);
    if (read.empty() && !known_.empty())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("it has none of the engine's {} initializers, such as '{}': it is of another model",
                              known_.size(), known_.begin()->first));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("'{}': {}", path, e.what()));
  }
  // A file of weights may have some of them; a model has all that it was exported with.
  std::vector<std::string> left;
  for (const InitializerRecord& record : records_)
    if (!read.contains(record.name) && record.fixed_by.empty()) left.push_back(record.name);
  if (!left.empty() && !onnx::has_tensors_alone(path))
    log_warning(fmt::format("'{}' has {} of the engine's initializers; {} stay as they are, '{}' among them", path,
                            read.size(), left.size(), left.front()));
  for (auto& [name, weight] : read) given_[name] = {std::move(weight.tensor), weight.is_mapped};
}

void Refitter::set_lora(const std::string& adapter, const std::string& path) {
  const std::vector<std::string> adapters = adapters_of(engine_.metadata());
  if (std::find(adapters.begin(), adapters.end(), adapter) == adapters.end())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the engine has no adapter '{}'{}", adapter, what_was_meant(adapter, adapters)));
  const onnx::LoraAdapter read = onnx::read_lora_adapter(adapter, path);
  std::set<std::string> modules = adapter_modules(adapter, records_);
  std::vector<std::string> updated;
  for (const auto& [module, update] : read.updates) updated.push_back(module);
  std::map<std::string, Tensor> tensors;
  const std::string who = fmt::format("the adapter '{}' ('{}')", adapter, path);
  for (const auto& [module, name] : onnx::match_modules(updated, modules, who)) {
    const onnx::LowRankUpdate& update = read.updates.at(module);
    for (const char matrix : {'A', 'B'}) {
      const std::string tensor = adapter_tensor(adapter, name, matrix);
      tensors[tensor] = padded_to_rank(matrix == 'A' ? update.a : update.b, known_.at(tensor)->dims, matrix, tensor);
    }
    modules.erase(name);
  }
  for (const std::string& module : modules)
    for (const char matrix : {'A', 'B'}) {
      const std::string tensor = adapter_tensor(adapter, module, matrix);
      tensors[tensor] = Tensor(DType::f32, known_.at(tensor)->dims);
    }
  for (auto& [name, tensor] : tensors) set(name, std::move(tensor));
}

std::vector<std::string> Refitter::missing() const {
  return RefittedGraph(*engine_.impl(), given_).missing();
}

void Refitter::refit(int threads) {
  threads = threads == 0 ? available_cores() : checked_threads(threads);
  const std::lock_guard lock(engine_.shared()->refit_mutex);
  const std::shared_ptr<const Engine::Impl> before = engine_.impl();
  if (before->stream)
    throw Error(
        ErrorCode::invalid_argument,
        "the engine's weights come in as layers read them (it has a weight budget), and new ones are in memory: "
        "take the budget away, refit, and set it again");
  std::shared_ptr<const Engine::Impl> after = name_out_of_memory(
      [] { return "out of memory while refitting"; }, [&] { return RefittedGraph(*before, given_).compiled(threads); });
  engine_.shared()->replace(before, std::move(after));
  given_.clear();
}

}  // namespace camshaft
